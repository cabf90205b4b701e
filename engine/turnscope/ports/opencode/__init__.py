"""opencode's compaction and pruning, as pure functions; the rules of the same name act on them."""
