"""Chatting through the same assembler, against a provider or the built-in model; what happens is told as events."""
