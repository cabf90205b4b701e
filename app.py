"""The app: its server, its page configuration and navigation. Start it with `turnscope` or `streamlit run app.py`."""

from __future__ import annotations

if __name__ == "__main__":  # as the script of a page, on each run
    from pages.parts import shell

    shell.run()
else:  # as the server's application, once: behind layers that keep other sites' pages and late messages out
    from pathlib import Path

    from starlette.middleware import Middleware
    from streamlit.starlette import App
    from turnscope.skipped_imports import skip_pandas

    from pages.parts.deep_links import DeepLinks
    from pages.parts.local_web import LocalWeb, open_browser
    from pages.parts.message_order import MessageOrder

    skip_pandas()
    layers = [Middleware(layer) for layer in (LocalWeb, DeepLinks, MessageOrder)]
    app = App(Path(__file__), lifespan=open_browser, middleware=layers)
