"""What Letta computes for its compaction."""
