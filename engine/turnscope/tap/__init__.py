"""A gateway between an agent and its provider that records what passes, and changes nothing of it."""
