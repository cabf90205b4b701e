"""From a path to its conversations: sources, the choice of an importer, contents, and what importers share.

Knows no single tool.
"""
