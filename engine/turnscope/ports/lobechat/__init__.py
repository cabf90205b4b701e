"""LobeChat: windows, summaries and the shape of messages, as pure functions; the rules of the same name act on them."""
