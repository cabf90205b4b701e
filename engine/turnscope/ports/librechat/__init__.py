"""LibreChat: its legacy clients and its agents, as pure functions; the rules of the same name act on them."""
