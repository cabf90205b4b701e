"""Gemini CLI's chat compression, as pure functions for its rule."""
