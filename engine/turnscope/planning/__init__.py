"""Policies, the plan of each request, traces of sessions, the request body, and what a provider would reject of it."""
