"""LobeHub's system message: the texts that are added to the prompt. Pure functions; lines of facts are as the app writes them.

Written from what is documented of its providers (lobehub 2.2.10). The frame of a summary is ours, at the original's length.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from turnscope.ports.lobechat import messages as classic

HEAD, TAIL = classic.HEAD, classic.TAIL.rstrip("\n")


def format_date(at: float | None, timezone: str) -> str:
    """The day of a request (seconds since the epoch) in a time zone, UTC where that is not known; "" without a time."""
    if at is None:
        return ""
    day, name = datetime.fromtimestamp(at, UTC), "UTC"
    with suppress(OSError, ValueError):
        day, name = day.astimezone(ZoneInfo(timezone)), timezone
    return f"Current date: {day:%Y-%m-%d} ({name})"


def format_model(name: str, id: str, cutoff: str) -> str:
    """What the model is called and what it knows, as far as that is known."""
    called = f"Current model: {name}{f' ({id})' if id and id != name else ''}" if name else ""
    return "\n".join(filter(None, (called, f"Model knowledge cutoff: {cutoff}" if cutoff else "")))


def format_summary(summary: str) -> str:
    """A stored summary as it stands in the system message; "" without one."""
    return f"{HEAD}{summary}{TAIL}" if summary else ""


def parse_variables(given: Iterable[str]) -> dict[str, str]:
    """What stands for `{{name}}`, from a setting's `name=text`."""
    return {name.strip(): text for name, _, text in (one.partition("=") for one in given)}
