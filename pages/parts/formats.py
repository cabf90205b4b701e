"""Numbers and texts as the pages write them. Plain text; `esc` is the one way of session text into HTML."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from itertools import chain, count
from typing import Literal, TypeVar

from turnscope.views.phrases import format_usd as format_usd  # noqa: PLC0414 - pages find it with the others

K = TypeVar("K")


def escape(text: object) -> str:
    """Text for the inside of an HTML element or a quoted attribute."""
    return html.escape(str(text), quote=True)


def escape_markdown(text: str) -> str:
    """Text for a widget's label, which is read as Markdown."""
    return re.sub(r"([\\`*_\[\]<>$:~#|!])", r"\\\1", text)


def format_tokens(tokens: float) -> str:
    """Tokens in three or four characters: 812, 9.7k, 105k, 1.2M."""
    size = abs(tokens)
    if size < 1_000:
        return f"{tokens:,.0f}"
    if size < 999_500:
        return f"{tokens / 1_000:.1f}k" if size < 99_950 else f"{tokens / 1_000:.0f}k"
    return f"{tokens / 1_000_000:.1f}M"


def format_cost(amount: Decimal | None, unpriced: int, *, simulated: bool) -> str:
    """What requests cost together, whether that was billed or is simulated, and how many have no price.

    Args:
        amount: USD; None = no request has a price.
        unpriced: requests without a price.
        simulated: whether it is simulated, else billed.
    """
    left_out = f", {unpriced:,} without a price" if unpriced and amount is not None else ""
    return f"{'simulated ' if simulated else ''}{format_usd(amount)}{left_out}"


def format_factor(factor: float) -> str:
    """What a replay costs as a factor of what the record cost."""
    return f"×{factor:.2f}"


def format_percent(share: float) -> str:
    """A share as a percentage, without pretending that little is nothing."""
    return "<1%" if 0 < abs(share) < 0.005 else f"{share:.0%}".replace("-", "−")


def to_datetime(seconds: float | None) -> datetime | None:
    """A time for a table, by this machine's clock and without a time zone: a table shows it as it is. None = it is unknown."""
    with suppress(ValueError, OverflowError, OSError):  # a time that is no date in this time zone
        return None if seconds is None else datetime.fromtimestamp(seconds)  # noqa: DTZ006 - that of this machine is wanted
    return None


def get_today() -> date:
    """The day by this machine's clock."""
    return datetime.now().astimezone().date()


def shorten(text: str, most: int, side: Literal["head", "tail"] = "head") -> str:
    """One line of at most `most` characters.

    Args:
        text: the text.
        most: characters of the line.
        side: the end of the text that is kept.
    """
    line = " ".join(text[: 4 * most].split()) if side == "head" else " ".join(text.split())
    if len(line) <= most:
        return line
    return line[: most - 1] + "…" if side == "head" else "…" + line[1 - most :]


def make_unique(labels: Mapping[K, str]) -> dict[K, str]:
    """Labels of a choice, each made different from those before it: the browser says which one was chosen by its label."""
    used: set[str] = set()
    found: dict[K, str] = {}
    for key, label in labels.items():
        candidates = chain([label], (f"{label} ({n})" for n in count(2)))
        found[key] = next(candidate for candidate in candidates if candidate not in used)
        used.add(found[key])
    return found


def format_signed(tokens: int) -> str:
    """Tokens with a true minus sign."""
    return f"{tokens:,}".replace("-", "−")
