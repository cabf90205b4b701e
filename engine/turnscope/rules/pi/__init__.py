"""Rules of pi: its compaction."""
