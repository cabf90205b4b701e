"""Models and prices as dated data: windows, rates, and overlays over them."""
