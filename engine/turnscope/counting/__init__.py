"""Token counts: counters, counts as prefix sums, and the reconciliation of what was counted with what was billed. No prices."""
