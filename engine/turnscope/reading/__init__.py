"""From a path to its conversations: sources, the choice of an importer, contents. And what importers share."""
