"""Inspect's compaction strategies, as pure functions for its rule."""
