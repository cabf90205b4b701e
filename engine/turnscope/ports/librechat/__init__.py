"""LibreChat: its legacy clients and its agents, as pure functions for its rules."""
