"""Continue: what its IDE extensions and its CLI leave out of a request, as pure functions for its rules."""
