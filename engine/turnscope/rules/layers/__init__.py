"""The layers of a hierarchical context, one rule each, over `envelope.layers`."""
