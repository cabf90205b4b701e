"""The Help page: the documentation that comes with the package."""
