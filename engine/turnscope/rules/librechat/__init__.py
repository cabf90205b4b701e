"""Rules of LibreChat: of its legacy clients and of its agents."""
