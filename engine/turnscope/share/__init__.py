"""A session to hand on: redacted first, then one file that opens anywhere."""
