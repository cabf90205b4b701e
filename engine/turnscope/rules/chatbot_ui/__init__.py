"""The rule of Chatbot UI's message building."""
