"""What importers share: sources, recorded calls and their dialects, bodies laid along each other. Knows no single tool."""
