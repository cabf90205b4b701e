"""Chatbot UI's message building, as pure functions; the rules of the same name act on them."""
