"""Cline's SDK (4.1 and later): its budget, its projection, its two kinds of compaction, and its stored state."""
