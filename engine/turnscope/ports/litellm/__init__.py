"""LiteLLM's message trimming, as pure functions; the rules of the same name act on them."""
