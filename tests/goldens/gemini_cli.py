"""Where Gemini CLI splits a history, and what it takes parts to be."""

from __future__ import annotations

from typing import Any

from turnscope.ports.gemini_cli import compression

SYSTEM = "gemini-cli"


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the functions that the rule `summarise_oldest_characters` calls give for one case."""
    given = case["input"]
    if case["kind"] == "estimate":
        return {"tokens": compression.estimate_tokens(given["parts"])}
    contents = given["contents"]
    begins = [compression.can_begin(content) for content in contents]
    ends_open = compression.is_open(contents[-1]) if contents else True
    try:
        return {"index": compression.find_split_point([c["chars"] for c in contents], begins, ends_open, given["fraction"])}
    except ValueError as error:
        return {"error": str(error)}
