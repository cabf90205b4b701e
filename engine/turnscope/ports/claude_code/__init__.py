"""What Claude Code computes, as far as it is known: its source is not public."""
