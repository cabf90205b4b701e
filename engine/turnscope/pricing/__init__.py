"""What a model is and what tokens cost, as dated data: windows, rates, and the overlays over them."""
