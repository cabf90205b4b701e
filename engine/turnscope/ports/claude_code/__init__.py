"""What Claude Code computes, as far as it is known: its program is not public."""
