"""Rules of goose: its compaction."""
