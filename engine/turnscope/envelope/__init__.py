"""The model timeline: what a request carries, what changed it, and what a rule is."""
