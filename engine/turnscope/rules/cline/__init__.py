"""The rule of Cline's classic context manager."""
