"""Parts of the page Cost heatmap."""
