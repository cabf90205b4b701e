"""Blocks, messages, requests and sessions as values, and how they are built. Nothing here judges them."""
