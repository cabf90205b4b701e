"""The rules of Open WebUI's message building."""
