"""Jan: what it counts, trims and summarises, and how its messages are put together: pure functions that its rules act on."""
