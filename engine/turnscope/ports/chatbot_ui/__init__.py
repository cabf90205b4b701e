"""Chatbot UI's message building, as pure functions for its rules."""
