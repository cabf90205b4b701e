"""LobeChat: windows, summaries, and how messages are prepared. Pure functions for its rules."""
