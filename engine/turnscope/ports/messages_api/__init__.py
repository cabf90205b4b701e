"""What Anthropic's Messages API does to a prompt on its server, as pure functions."""
