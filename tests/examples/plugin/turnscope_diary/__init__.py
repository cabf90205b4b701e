"""Extends Turnscope by a format, a rule and a policy. `pyproject.toml` names them."""
