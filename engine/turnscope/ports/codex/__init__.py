"""What Codex computes for its compaction."""
