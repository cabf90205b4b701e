"""SWE-agent's history processors, as pure functions; the rules of the same name act on them."""
