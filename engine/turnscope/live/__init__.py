"""Live chats: the same planning as in a replay, then a provider or the built-in model. Events say what happens in a turn."""
