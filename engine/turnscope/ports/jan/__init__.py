"""Jan: its counts, its trimming, its summaries, and how it builds messages. Pure functions for its rules."""
