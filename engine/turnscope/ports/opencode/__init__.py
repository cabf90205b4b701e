"""opencode's compaction and pruning, as pure functions for its rules."""
