"""Rules of SWE-agent: its history processors."""
