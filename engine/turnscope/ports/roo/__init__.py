"""Roo Code's context management, as pure functions; the rules of the same name act on them."""
