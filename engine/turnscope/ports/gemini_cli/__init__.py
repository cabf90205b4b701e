"""Gemini CLI's chat compression, as pure functions; the rule of the same name acts on them."""
