"""Rules of Cline's SDK."""
