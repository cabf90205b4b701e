"""Thin scripts, one per page of the app. What they share is in `parts`."""
