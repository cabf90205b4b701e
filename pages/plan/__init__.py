"""Parts of the page Plan ahead."""
