"""`turnscope context`: what fills the window of a request, part by part, in the terminal."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from turnscope.cli import options
from turnscope.cli.output import is_terminal, note, write
from turnscope.errors import TurnscopeError
from turnscope.numbering import format_request
from turnscope.palette import PALETTES
from turnscope.views.phrases import format_tokens, format_usd
from turnscope.views.text_tables import clean_line, format_csv

if TYPE_CHECKING:
    from turnscope.planning.trace import Trace
    from turnscope.views.overview import Overview
    from turnscope.views.request_contents import ContentGroup, ContentPart
    from turnscope.views.request_summary import RequestSummary

WIDEST = 1_000  # characters of a line that no terminal shows
MORE = 32  # characters behind the tokens of a part, for which its name is shortened
BAR = 72  # characters of the bar at most
POLL = 1.0  # seconds between two looks at a session that is followed
CLEAR = "\033[2J\033[H"
COLOURS = PALETTES["dark"]  # bright enough for both backgrounds, and each part is named as well


@click.command()
@click.argument("path", required=False, type=click.Path())
@click.option("--request", "number", type=click.IntRange(1), metavar="N", help="The request, from 1; default: the last one.")
@options.conversation
@click.option("--items", type=click.IntRange(0), default=6, show_default=True, metavar="N", help="Parts of each group.")
@click.option("--watch", is_flag=True, help="Follow a session that is being written; Ctrl-C ends it.")
@options.rows
def command(
    path: str | None, number: int | None, conversation: str, items: int, watch: bool, as_json: bool, as_csv: bool
) -> int:
    """Say what fills the window of a request.

    A bar, the buckets, and the largest parts of each: tools and MCP servers, memory files and reminders, results of tools.
    Without PATH it is the session of this machine that was written last.
    """
    from turnscope.library.session_follower import SessionFollower  # these load every importer
    from turnscope.reading.containers import open_source
    from turnscope.reading.contents import list_entries

    file = Path(path) if path else _find_newest()
    follower = SessionFollower(file, conversation or next(entry.id for entry in list_entries(open_source(file))))
    if not watch:
        opened = follower.open()
        shown = _Shown(opened.trace, opened.overview, number, items)
        write(shown.to_json() if as_json else shown.to_csv() if as_csv or not is_terminal() else shown.to_text())
        return 0
    last = None
    with suppress(KeyboardInterrupt):  # with which one ends it
        while True:
            opened = follower.open()
            now = (opened.key, shutil.get_terminal_size())
            if now != last:
                last = now
                write(CLEAR + _Shown(opened.trace, opened.overview, number, items).to_text())
            wait()
    return 0


def wait() -> None:
    """Wait before the next look at a session that is followed."""
    time.sleep(POLL)


def _find_newest() -> Path:
    """The session that was written last, of all that tools keep on this machine."""
    from turnscope.library.loading import find_places

    found = [(path.stat().st_mtime, path) for _, place in find_places() for path in place.paths() if path.exists()]
    if not found:
        raise TurnscopeError("no session was found on this machine", hint="Name a file: `turnscope context FILE`.")
    newest = max(found)[1]
    note(f"this is {newest}")
    return newest


class _Shown:
    """One request in every form."""

    def __init__(self, trace: Trace, view: Overview, number: int | None, items: int) -> None:
        from turnscope.views.detail import build_detail
        from turnscope.views.request_contents import build_contents, list_contents
        from turnscope.views.request_summary import summarize_request
        from turnscope.views.side_requests import describe_side_requests

        if not len(view):
            raise TurnscopeError("the session has no request yet", hint="Its first answer makes the first one.")
        n = len(view) - 1 if number is None else number - 1
        if n >= len(view):
            raise TurnscopeError(f"there is no request {number:,}", hint=f"The session has {len(view):,}.")
        self.view = view
        self.side = describe_side_requests(view.bill, trace.session)
        self.now: RequestSummary = summarize_request(view, trace, n)
        found = build_detail(trace, view, n)
        self.groups: Sequence[ContentGroup] = list_contents(build_contents(trace, view), n, found.items, most=max(items, 1))
        self.items = items
        self.room = shutil.get_terminal_size().columns if is_terminal() else WIDEST  # characters of a line

    def to_text(self) -> str:
        """Return it for a terminal, in the colours of its buckets."""
        return "\n".join((*self._list_head(), "", self._draw_bar(), "", *self._list_segments(), *self._list_groups())) + "\n"

    def to_csv(self) -> str:
        """Return a line per part."""
        head = ("group", "part", "tokens", "usd", "session_usd", "requests", "note")
        return format_csv(head, ([row[name] for name in head] for row in self._list_parts()))

    def to_json(self) -> str:
        """Return the request's numbers, its buckets and its parts."""
        now = self.now
        made = {
            "session": self.view.title,
            "tool": self.view.source,
            "request": now.n + 1,
            "requests": len(self.view),
            "turn": now.turn + 1,
            "model": now.model,
            "prompt_tokens": now.prompt,
            "measured": now.recorded,
            "window": now.window or None,
            "usd": None if now.total is None else float(now.total),
            "buckets": [{"name": each.name, "tokens": each.tokens, "mark": each.mark} for each in now.segments if each.tokens],
            "side_requests": self.side,
            "side_usd": None if self.view.bill.side_total.usd is None else float(self.view.bill.side_total.usd),
            "events": [text for _, text in now.events],
            "notes": list(now.notes),
            "parts": [*self._list_parts()],
        }
        return json.dumps(made, indent=2) + "\n"

    def _list_head(self) -> Iterator[str]:
        now = self.now
        model = clean_line(now.model) or "unknown model"
        yield _paint(_cut(clean_line(self.view.title), min(self.room, 100)), bold=True)
        yield f"request {format_request(now.n)} of {len(self.view):,}, turn {now.turn + 1}, {model}"
        window = f" of {now.window:,} ({now.fill:.0%})" if now.window else ", window unknown"
        yield f"{now.prompt:,} tokens{window}, {'measured' if now.recorded else 'estimated'}, {format_usd(now.total)}"
        yield clean_line(now.sentence)
        if self.side:
            yield f"beside the conversation: {self.side}"
        yield from (clean_line(text) for _, text in now.events)

    def _draw_bar(self) -> str:
        """The prompt by bucket against the window; against itself where that is unknown."""
        wide = min(BAR, self.room)
        whole, ends, sent = max(self.now.window, self.now.prompt, 1), [0], 0
        for segment in self.now.segments:
            sent += segment.tokens
            ends.append(round(wide * sent / whole))
        parts = (
            _paint("█" * (stop - start), fg=_read_colour(segment.name))
            for segment, start, stop in zip(self.now.segments, ends, ends[1:], strict=False)
        )
        return "".join(parts) + "·" * (wide - ends[-1])

    def _list_segments(self) -> Iterator[str]:
        from turnscope.views.overview import LABELS

        whole, wide = max(self.now.window, self.now.prompt, 1), max(8, min(36, self.room - 19))
        for segment in self.now.segments:
            if segment.tokens:
                square = _paint("█", fg=_read_colour(segment.name))
                mark = "" if segment.mark == "measured" else f"  {segment.mark}"
                label = _cut(LABELS[segment.name], wide)
                line = f"{label:<{wide}}{segment.tokens:>11,}  {segment.tokens / whole:>4.0%}"
                yield f"{square} {line}{mark if 2 + len(line) + len(mark) <= self.room else ''}"
        if self.now.free:
            yield f"· {'Free':<{wide}}{self.now.free:>11,}  {self.now.free / whole:>4.0%}"

    def _list_groups(self) -> Iterator[str]:
        for group in self.groups if self.items else ():
            more = [_list_more(part) for part in group.parts]
            needed = max((sum(map(len, texts)) for texts in more), default=0)
            wide = max(16, min(54, self.room - 9 - min(needed, MORE)))
            yield f"\n{_paint(group.title, bold=True)}  {format_tokens(group.tokens)}"
            for part, texts in zip(group.parts, more, strict=True):
                line = f"  {_shorten(clean_line(part.label), wide - 2):<{wide}}{format_tokens(part.tokens):>7}"
                for text in texts:
                    line += text if len(line) + len(text) <= self.room else ""
                yield line

    def _list_parts(self) -> Iterator[dict[str, Any]]:
        for group in self.groups:
            for part in group.parts:
                yield {
                    "group": group.name,
                    "part": part.label,
                    "tokens": part.tokens,
                    "usd": part.usd,
                    "session_usd": part.session_usd,
                    "requests": part.requests,
                    "note": part.note,
                }


def _paint(text: str, **style: Any) -> str:
    """A text in a style, where standard output shows it and NO_COLOR is not set."""
    shown = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    return click.style(text, **style) if shown and text else text


def _list_more(part: ContentPart) -> list[str]:
    """What stands behind the tokens of a part."""
    over = f"  {format_usd(part.session_usd)} in the session" if part.session_usd else ""
    return [over, f"  {clean_line(part.note)}" if part.note else ""]


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _shorten(label: str, most: int) -> str:
    """A label that is too long without its middle, so that a path keeps its name."""
    if len(label) <= most:
        return label
    end = most * 2 // 3
    return f"{label[: most - end - 1]}…{label[-end:]}"


def _read_colour(name: str) -> tuple[int, int, int]:
    code = COLOURS.get(name, COLOURS["unattributed"]).lstrip("#")
    return int(code[:2], 16), int(code[2:4], 16), int(code[4:6], 16)
