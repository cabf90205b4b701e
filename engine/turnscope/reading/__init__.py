"""From a path to its conversations: sources, importers, contents. And what importers share; nothing here knows a single tool."""
