"""The tables and cards of the page as HTML. What a session says is escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import PurePath

from turnscope.numbering import format_request
from turnscope.views.cache_misses import CAUSES, CacheMisses, MissRow, WarmRow
from turnscope.views.phrases import format_duration, format_usd
from turnscope.views.usage import NAMES, TOKENS, Usage, UsageLine

from pages.parts.formats import escape, format_percent, format_tokens, shorten

MOST = 60  # lines of a table; the file has all
MOST_MISSES = 20
HEADS = ("input", "write 5m", "write 1h", "read", "output")


def render_usage_cards(total: UsageLine) -> str:
    """The sum in cards: dollars, and tokens by kind.

    Args:
        total: all of it together.
    """
    prompt = sum(total.tokens[:-1])
    read = total.tokens[TOKENS.index("cache_read")]
    written = total.tokens[1] + total.tokens[2]
    unpriced = f" · {total.unpriced:,} without a known price" if total.unpriced else ""
    cards = (
        ("Cost", format_usd(total.usd), f"{total.requests:,} {'request' if total.requests == 1 else 'requests'}{unpriced}"),
        ("Prompt tokens", format_tokens(prompt), f"{format_tokens(total.tokens[0])} neither read nor written"),
        ("Read from cache", format_tokens(read), f"{format_percent(read / prompt)} of prompts" if prompt else ""),
        ("Written to cache", format_tokens(written), f"{format_tokens(total.tokens[2])} of it for an hour"),
        ("Output tokens", format_tokens(total.tokens[-1]), ""),
    )
    return _render_cards("Total", cards)


def render_usage(found: Usage) -> str:
    """A line per day, project ...; of dated ones the newest first.

    Args:
        found: the usage.
    """
    lines = [*reversed(found.lines)] if found.period in ("daily", "weekly", "monthly") else [*found.lines]
    heads = (NAMES[found.period], "requests", *HEADS, "USD", "share")
    rows = [_list_usage(line, found.total.usd or 0.0) for line in lines[:MOST]]
    if len(lines) > MOST:
        rows.append([f"{len(lines) - MOST:,} more in the file", *[""] * (len(heads) - 1)])
    rows.append(["all", *_list_usage(found.total, 0.0)[1:]])
    return _render_table(heads, rows, "usage-table")


def _list_usage(line: UsageLine, whole: float) -> list[str]:
    """The cells of a line, with its share of the USD of all lines as a bar; 0 = without."""
    share = 100 * (line.usd or 0.0) / whole if whole else 0.0
    bar = f'<span class="usage-bar" title="{share:.0f} %"><i style="width:{share:.1f}%"></i></span>' if whole else ""
    usd = format_usd(line.usd) + ("+" if line.unpriced and line.usd is not None else "")
    name = shorten(" ".join(line.name.split()), 70, "head" if line.path else "tail")  # of a project the end says which it is
    shown = f'<span title="{escape(line.path or line.name)}">{escape(name)}</span>'
    return [shown, f"{line.requests:,}", *(f"{count:,}" for count in line.tokens), escape(usd), bar]


def render_cache_cards(found: CacheMisses) -> str:
    """How many misses there were and what they cost, and how many sessions are warm.

    Args:
        found: the misses.
    """
    whole = found.total
    share = f"{format_percent(whole.usd / found.spent)} of {format_usd(found.spent)}" if found.spent else ""
    cards = (
        ("Cache misses", f"{whole.misses:,}", f"{format_tokens(whole.tokens)} tokens billed again"),
        ("Cost beyond reading", format_usd(whole.usd), share),
        ("Idle misses", format_usd(whole.idle_usd), f"{sum(row.cause == 'idle' for row in found.rows):,} after a pause"),
        ("Warm now", f"{len(found.warm):,}", "sessions"),
    )
    return _render_cards("Cache misses", cards)


def render_causes(found: CacheMisses) -> str:
    """A line per cause, with what would have avoided it.

    Args:
        found: the misses, by cause.
    """
    heads = ("cause", "misses", "tokens", "USD", "what would have avoided it")
    rows = [
        [CAUSES[group.name][0], f"{group.misses:,}", f"{group.tokens:,}", escape(format_usd(group.usd)), CAUSES[group.name][1]]
        for group in found.groups
    ]
    return _render_table(heads, rows, "usage-causes")


def select_most_expensive(misses: Sequence[MissRow]) -> list[MissRow]:
    """The misses that are shown one by one.

    Args:
        misses: all of them.
    """
    return sorted(misses, key=lambda row: (-(row.pico or 0), -row.tokens))[:MOST_MISSES]


def render_misses(misses: Sequence[MissRow], links: Mapping[MissRow, str]) -> str:
    """The most expensive misses one by one, with the provider's own diagnosis where the log has one.

    Args:
        misses: all of them.
        links: addresses of those that can be opened.
    """
    rows = []
    for row in select_most_expensive(misses):
        part = f", {shorten(row.part_name, 50)}" if row.part else ""
        name = f"{shorten(row.title or PurePath(row.path).name, 50)}{part}, request {format_request(row.request)}"
        shown = f'<a href="{escape(links[row])}" target="_self">{escape(name)}</a>' if row in links else escape(name)
        pause = format_duration(row.idle) if row.idle else ""
        cause = CAUSES[row.cause if row.cause in CAUSES else "unknown"][0]
        why = escape(f"{cause}: {shorten(row.evidence, 160)}" if row.evidence else cause)
        rows.append([shown, _format_moment(row.at), pause, f"{row.tokens:,}", escape(format_usd(row.usd)), why])
    head = (
        f'<h2 class="ts-section">Most expensive <small class="ts-small ts-faint">{len(rows):,} of {len(misses):,}</small></h2>'
    )
    return head + _render_table(("request", "time", "pause", "tokens", "USD", "why"), rows, "usage-misses")


def render_warm(warm: Sequence[WarmRow], now: float, links: Mapping[str, str]) -> str:
    """The sessions that the provider still holds in its cache.

    Args:
        warm: the sessions.
        now: the present time in seconds since the Unix epoch.
        links: addresses of those that can be opened, by path.
    """
    rows = []
    for row in warm[:MOST]:
        name = escape(shorten(row.title or PurePath(row.path).name, 60))
        shown = f'<a href="{escape(links[row.path])}" target="_self">{name}</a>' if row.path in links else name
        until = datetime.fromtimestamp(row.until).astimezone().strftime("%H:%M:%S")
        project = escape(shorten(row.project, 40, "tail"))
        rows.append([shown, project, f"{row.tokens:,}", until, format_duration(row.until - now)])
    head = '<h2 class="ts-section">Warm now</h2>'
    return head + _render_table(("session", "project", "tokens", "until", "left"), rows, "usage-warm")


def _format_moment(at: float | None) -> str:
    return "" if at is None else datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")


def _render_cards(title: str, cards: Sequence[tuple[str, str, str]]) -> str:
    made = "".join(
        f'<div class="ts-card"><h3>{escape(name)}</h3><div class="value">{escape(value)}</div><p>{escape(more)}</p></div>'
        for name, value, more in cards
    )
    return f'<h2 class="ts-section">{title}</h2><div class="ts-cards">{made}</div>'


def _render_table(heads: Sequence[str], rows: Sequence[Sequence[str]], name: str) -> str:
    """A table that scrolls by itself where the window is narrow. Cells are HTML."""
    head = "".join(f"<th>{each}</th>" for each in heads)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="usage-scroll" tabindex="0" role="region" aria-label="Table by {escape(heads[0])}">'
        f'<table class="ts-table {name}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )
