"""OpenHands' condensers, of 0.62 (`legacy`) and of its agent SDK (`sdk`), as pure functions over events."""
