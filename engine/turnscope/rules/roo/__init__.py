"""Rules of Roo Code, over its stored history."""
