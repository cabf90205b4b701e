"""Parts of the page What was lost."""
