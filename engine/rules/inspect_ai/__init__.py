"""Rules of Inspect."""
