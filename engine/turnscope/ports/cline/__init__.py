"""Cline's classic context manager, as pure functions for its rule."""
