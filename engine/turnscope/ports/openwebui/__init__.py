"""Open WebUI: how a saved chat becomes a request, as pure functions; the rules of the same name act on them."""
