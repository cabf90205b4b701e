"""Rules of opencode: its compaction and its pruning."""
