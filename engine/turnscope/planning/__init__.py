"""The fold: policies as data, the plan of each request under them, and what a request looks like on the wire."""
