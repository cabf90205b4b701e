"""Rules of Roo Code, which work on its stored history."""
