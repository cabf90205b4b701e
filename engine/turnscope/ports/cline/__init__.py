"""Cline's classic context manager, as pure functions; the rules of the same name act on them."""
