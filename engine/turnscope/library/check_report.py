"""What a check found, as a comment for a pull request: each run against the same run before the change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from turnscope.library.checking import CheckResult
from turnscope.views.phrases import format_usd
from turnscope.views.text_tables import clean_line

MARK = "<!-- turnscope check -->"
"""The comment begins with this line, so that whoever posts it finds the one of before."""

MAX_ROWS = 50  # runs, and tools, in a table
_UNSAFE = str.maketrans("`|", "  ")


def to_markdown(after: Mapping[str, CheckResult], before: Mapping[str, CheckResult], policy: str) -> str:
    """Write results as Markdown. Names, and what is wrong, come from files: they stand in code, where nothing is a link.

    Args:
        after: the results by name.
        before: those of the runs with the same names before the change; none = there is nothing to compare with.
        policy: name of the policy.
    """
    failed = sum(not each.ok for each in after.values())
    verdict = f"{failed:,} of {len(after):,} runs break it" if failed else f"All {len(after):,} runs keep to it"
    lines = [MARK, "### Context budget", "", f"{verdict}; policy `{_clean(policy)}`.", "", *_list_runs(after, before)]
    lines += _list_gone(after, before)
    lines += _list_tools(_sum_tools(after), _sum_tools({name: before[name] for name in after if name in before}))
    return "\n".join(lines) + "\n"


def _list_runs(after: Mapping[str, CheckResult], before: Mapping[str, CheckResult]) -> Iterator[str]:
    yield "| run | fullest request | cost | from the cache | prompt tokens | |"
    yield "| --- | ---: | ---: | ---: | ---: | --- |"
    for name, each in [*after.items()][:MAX_ROWS]:
        old = before.get(name)
        wrong = "; ".join(f"`{_clean(what)}`" for what in (each.error, *each.violations) if what)
        fresh = bool(before) and old is None
        verdict = f"**failed**: {wrong}" if wrong else "new" if fresh else "ok"
        yield f"| `{_clean(name)}` | {' | '.join(_describe(each, old if old and old.row else None))} | {verdict} |"
    if len(after) > MAX_ROWS:
        yield f"\nand {len(after) - MAX_ROWS:,} more runs"


def _describe(now: CheckResult, old: CheckResult | None) -> tuple[str, str, str, str]:
    """Fill, cost, share from the cache and prompt tokens, each with its change."""
    if now.row is None:
        return ("", "", "", "")
    fill, share, tokens = now.row.peak[0], now.row.cost.cache_share, sum(now.row.sizes)
    if old is None or old.row is None:
        return (f"{fill:.1%}", format_usd(now.usd), f"{share:.1%}", f"{tokens:,}")
    return (
        f"{fill:.1%}{_change(100 * (fill - old.row.peak[0]), '.1f', ' points')}",
        f"{format_usd(now.usd)}{_change_usd(now.usd, old.usd)}",
        f"{share:.1%}{_change(100 * (share - old.row.cost.cache_share), '.1f', ' points')}",
        f"{tokens:,}{_change(tokens - sum(old.row.sizes), ',', '')}",
    )


def _change(by: float, form: str, unit: str) -> str:
    """A change in brackets; nothing where it rounds to none."""
    text = format(by, f"+{form}")
    return "" if not text.strip("+-0.,") else f" ({text}{unit})"


def _change_usd(now: Decimal | None, old: Decimal | None) -> str:
    if now is None or old is None or round(now - old, 4) == 0:
        return ""
    return f" ({'+' if now > old else '-'}{format_usd(abs(now - old))})"


def _list_gone(after: Mapping[str, CheckResult], before: Mapping[str, CheckResult]) -> list[str]:
    gone = [f"`{_clean(name)}`" for name in before if name not in after]
    return ["", f"No longer there: {', '.join(gone[:MAX_ROWS])}."] if gone else []


def _sum_tools(results: Mapping[str, CheckResult]) -> dict[str, int]:
    """The tokens of each tool's definition, in the run where it has most."""
    found: dict[str, int] = {}
    for each in results.values():
        for name, tokens in each.tools.items():
            found[name] = max(tokens, found.get(name, 0))
    return found


def _list_tools(now: Mapping[str, int], old: Mapping[str, int]) -> list[str]:
    """Definitions that changed; all of them, the largest first, where there is nothing to compare with."""
    names: Sequence[str] = sorted({*now, *old}, key=lambda name: (-abs(now.get(name, 0) - old.get(name, 0)), name))
    changed = [name for name in names if now.get(name, 0) != old.get(name, 0)]
    if not changed:
        return ["", "No tool's definition changed."] if old else []
    rows = [
        f"| `{_clean(name)}` | {old.get(name, 0):,} | {now.get(name, 0):,} | {now.get(name, 0) - old.get(name, 0):+,} |"
        for name in changed[:MAX_ROWS]
    ]
    total = f"| all | {sum(old.values()):,} | {sum(now.values()):,} | {sum(now.values()) - sum(old.values()):+,} |"
    return ["", "| tool definition, tokens | before | now | change |", "| --- | ---: | ---: | ---: |", *rows, total]


def _clean(text: str) -> str:
    """A text for a cell: on one line, without what ends a cell or a span of code."""
    flat = clean_line(text.encode("utf-8", "replace").decode().translate(_UNSAFE)) or "?"  # code that is empty is no code
    return flat if len(flat) <= 200 else f"{flat[:199]}…"
