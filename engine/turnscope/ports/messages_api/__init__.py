"""What the server of Anthropic's Messages API does to a prompt, as pure functions."""
