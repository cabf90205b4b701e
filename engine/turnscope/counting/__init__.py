"""How many tokens: counters, counts as prefix sums, and what was billed reconciled with what was counted. Knows no price."""
