"""The address of the page in the folder `fleet`. Streamlit runs this file; nothing imports it."""

from pages.parts import shell

shell.ensure_app()

from pages.fleet import page  # noqa: E402

page.draw()
