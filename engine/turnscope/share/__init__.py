"""A session to hand on: with what is private taken out of it first, as one file that opens anywhere."""
