"""Parts of the page Search."""
