"""Rules of Letta: its compaction."""
