"""Roo Code's context management, as pure functions for its rules."""
