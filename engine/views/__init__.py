"""What pages, notebooks and reports show, as data: pure functions of a trace. No Plotly, no Streamlit, no HTML."""
