"""Parts of the page Fleet."""
