"""Cline's SDK (4.1 and later): its budget, its projection, its two ways to compact, and its stored state, as pure functions."""
