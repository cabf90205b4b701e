"""The app: page configuration and navigation, nothing else. Start it with `streamlit run app.py` or `turnscope`."""

from pages.parts import shell

shell.run()
