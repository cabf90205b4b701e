"""Numbers in words: tokens, money, counts, durations and times of day. Holds no sentences and no markup."""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, whose import would cost the status line a fifth of its time
if TYPE_CHECKING:
    from decimal import Decimal

WORDS = "no one two three four five six seven eight nine ten eleven twelve".split()


def format_tokens(count: int) -> str:
    """A number of tokens, shortened from ten thousand on: 9,412, 38k, 1.2M.

    >>> [format_tokens(count) for count in (9_412, 38_000, 1_200_000)]
    ['9,412', '38k', '1.2M']
    """
    if count >= 1_000_000:
        return f"{count / 1e6:.1f}M"
    return f"{count / 1000:.0f}k" if count >= 10_000 else f"{count:,}"


def format_usd(amount: Decimal | float | None) -> str:
    """Money with as many digits as it needs.

    >>> [format_usd(amount) for amount in (9.58, 0.25, 0.0081, -0.0081, 0.00001, None)]
    ['$9.58', '$0.250', '$0.0081', '-$0.0081', '<$0.0001', 'no price']
    """
    if amount is None:
        return "no price"
    sign, size = ("-", -amount) if amount < 0 else ("", amount)
    if 0 < size < 0.00005:
        return "<$0.0001"
    return f"{sign}${size:,.2f}" if size >= 1 or not size else f"{sign}${size:,.{3 if size >= 0.1 else 4}f}"


def spell_count(count: int) -> str:
    """A small count as a word."""
    return WORDS[count] if count < len(WORDS) else f"{count:,}"


def spell_times(count: int) -> str:
    """How often: once, twice, three times.

    >>> [spell_times(count) for count in (1, 2, 3)]
    ['once', 'twice', 'three times']
    """
    return {1: "once", 2: "twice"}.get(count, f"{spell_count(count)} times")


def format_duration(seconds: float) -> str:
    """A duration in a suitable unit: 31 s, 5.4 minutes, 12 minutes, 9 hours.

    >>> [format_duration(seconds) for seconds in (31, 324, 720, 32_400)]
    ['31 s', '5.4 minutes', '12 minutes', '9 hours']
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 7_200:
        return f"{seconds / 60:.1f} minutes".replace(".0 ", " ") if seconds < 600 else f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:,.0f} hours"


def format_time(moment: float, dated: bool) -> str:
    """The time of day in UTC.

    Args:
        moment: seconds since the epoch.
        dated: whether the date is added.
    """
    from datetime import UTC, datetime  # the status line needs none of it

    at = datetime.fromtimestamp(moment, UTC)
    return f"{at:%H:%M} UTC" + (f" on {at:%Y-%m-%d}" if dated else "")
