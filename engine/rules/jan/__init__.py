"""The rules of Jan."""
