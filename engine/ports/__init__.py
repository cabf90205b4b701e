"""What ported tools compute, as pure functions: one module or two per tool, imported by the rules that act on it."""
