"""LobeHub's system message: the texts that are added to the prompt. Pure functions; lines of facts are as the app writes them.

Written from what is documented of its providers (lobehub 2.2.10). The frame of a summary is in our wording, at the
original's length.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from turnscope.ports.lobechat import messages as classic

HEAD, TAIL = classic.HEAD, classic.TAIL.rstrip("\n")


def format_date(at: float | None, timezone: str) -> str:
    """Return the day of a request in a time zone.

    Args:
        at: The time in seconds since the epoch; None = no text.
        timezone: The name of the time zone; UTC if it is not known.
    """
    if at is None:
        return ""
    day, name = datetime.fromtimestamp(at, UTC), "UTC"
    with suppress(OSError, ValueError):
        day, name = day.astimezone(ZoneInfo(timezone)), timezone
    return f"Current date: {day:%Y-%m-%d} ({name})"


def format_model(name: str, id: str, cutoff: str) -> str:
    """Return the model's name and what it knows, as far as that is known.

    Args:
        name: The name of the model.
        id: Its id.
        cutoff: The end of its training data.
    """
    called = f"Current model: {name}{f' ({id})' if id and id != name else ''}" if name else ""
    return "\n".join(filter(None, (called, f"Model knowledge cutoff: {cutoff}" if cutoff else "")))


def format_summary(summary: str) -> str:
    """Return a stored summary as it is written into the system message; "" if there is none."""
    return f"{HEAD}{summary}{TAIL}" if summary else ""


def parse_variables(pairs: Iterable[str]) -> dict[str, str]:
    """Return the texts for `{{name}}` from a setting of the form `name=text`."""
    return {name.strip(): text for name, _, text in (one.partition("=") for one in pairs)}
