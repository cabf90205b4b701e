"""Parts of the page Live chat."""
