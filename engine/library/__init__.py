"""Sessions opened: from a file to a trace and its overview, and what is remembered of them."""
