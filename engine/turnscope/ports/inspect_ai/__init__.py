"""Inspect's compaction strategies, as pure functions; the rule of the same name acts on them."""
