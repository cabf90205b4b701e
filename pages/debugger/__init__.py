"""Parts of the page Debugger."""
