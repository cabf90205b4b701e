"""SWE-agent's history processors, as pure functions for its rules."""
