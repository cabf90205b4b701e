"""Parts of the page Library."""
