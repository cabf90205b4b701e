"""The rules of Continue."""
