"""LiteLLM's message trimming, as pure functions for its rule."""
