"""Layered context: the conversations of a session, each in three forms, and the texts that layers are made of."""
