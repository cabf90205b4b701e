"""Parts of the page Envelope."""
