"""Conversation layers: headers, summaries, references and retrieval of earlier conversations in a session."""
