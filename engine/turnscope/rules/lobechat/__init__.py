"""The rules of LobeChat."""
