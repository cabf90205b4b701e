"""Open WebUI: how a stored chat becomes a request, as pure functions for its rules."""
