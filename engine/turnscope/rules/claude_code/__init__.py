"""Rules of Claude Code: its compaction and its microcompaction."""
