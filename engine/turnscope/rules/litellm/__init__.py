"""The rule of LiteLLM's message trimming."""
