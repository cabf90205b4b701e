"""What ported tools compute, as pure functions: one folder per tool, imported by the rules that act on it."""
