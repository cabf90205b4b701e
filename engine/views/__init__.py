"""What pages, notebooks and reports show, as data: pure functions of a trace (`knobs` alone also keeps a file). No Plotly, no
Streamlit, no HTML."""
