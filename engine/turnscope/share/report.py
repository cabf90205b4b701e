"""One HTML file of a session, to hand on: headline, what filled each request, what it cost, decisions, policies, audit.

It opens anywhere and asks nothing of any network: no script, no font, no picture from elsewhere. It is made of a session that
was redacted before (`redact`), and not given out where anything that was taken out stands in it all the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape

from turnscope.errors import TurnscopeError
from turnscope.library import opening
from turnscope.library.opening import AS_RECORDED, begun, named, own_prices
from turnscope.palette import PALETTES
from turnscope.planning.trace import Trace, trace
from turnscope.pricing.prices import Prices
from turnscope.session.model import Session
from turnscope.share import drawing
from turnscope.share.redact import LEVELS, OUT, Level, Redacted, redacted
from turnscope.views import decision_log
from turnscope.views.audit import CHECKLIST, Point, audit
from turnscope.views.cache_breaks import breaks
from turnscope.views.comparison import Row, Shared, row
from turnscope.views.findings import findings, headline, markers
from turnscope.views.overview import LABELS, Overview, overview

POLICIES = ("keep-everything", "last-20-messages", "clear-tool-results", "condense-oldest")
DECISIONS = 2_000  # listed; a report of more says so
SAID = 600  # characters of a block that a transcript shows
TRANSCRIPT = 4_000  # blocks
TELLING = 24  # characters from which on a text of the session must not stand in a report without content


class Unredacted(TurnscopeError):
    """Something that was to be taken out stands in what was made. Nothing is given out."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report, and what has been taken out of it, by kind."""

    html: str
    markdown: str
    level: Level
    removed: tuple[tuple[str, int], ...]


def report(session: Session, level: Level, policies: Sequence[str] = POLICIES) -> Report:
    """The report of a session's main path, and its summary as Markdown. Unredacted: it would tell what it must not.

    `policies` are compared on the session as it is told, so that nothing is told by way of them.
    """
    known = opening.replay(session)
    given = redacted(session, known.ledger, level)
    made = _made(given, own_prices().add_proofs(session), policies)
    html, text = "".join(_page(made)), _summary(made)
    for out in (html, text):
        _hold(out, session, given)
    return Report(html, text, level, tuple(given.found.most_common()))


@dataclass(frozen=True, slots=True)
class _Made:
    """What a report tells, all of it made of the redacted session."""

    given: Redacted
    record: Trace
    view: Overview
    told: tuple[str, ...]
    rows: tuple[Row, ...]
    points: tuple[Point, ...]
    marks: tuple[tuple[int, str, str], ...]


def _made(given: Redacted, prices: Prices, policies: Sequence[str]) -> _Made:
    record = trace(given.session, named(AS_RECORDED), given.ledger, prices)
    view, broken = overview(record), breaks(record)
    shared = Shared.of(record)
    replays = [row(record, shared)]
    for policy in policies:
        whole, plans = begun(record, named(policy))
        replays.append(row(replace(whole, plans=tuple(plans)), shared))
    found = findings(record, view, broken)
    marks = tuple((mark.request, mark.kind, mark.what) for mark in (*view.markers, *markers(broken)))
    return _Made(given, record, view, tuple(one.text for one in found), tuple(replays), audit(record, view), marks)


def _hold(out: str, session: Session, given: Redacted) -> None:
    """Fail closed: look for what was taken out in what was made."""
    if given.level == "full":
        return
    if given.level == "masked":
        wrong = next((value for value in given.values if len(value) >= 6 and value in out), "")
    else:
        plain = drawing.plain(out)
        wrong = next((text for block in session.blocks for text in _lines(block.text) if text in plain), "")
    if wrong:
        hint = "Nothing was written. Choose a level that tells less, and report this: it is a defect."
        raise Unredacted("the report would tell something that was to be taken out", hint=hint)


def _lines(text: str) -> Iterator[str]:
    return (line.strip()[:80] for line in text.splitlines() if len(line.strip()) >= TELLING and OUT not in line)


def _page(made: _Made) -> Iterator[str]:
    title = made.view.title if made.given.level in ("masked", "full") and made.view.title else "A session"
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield f"<title>{escape(title)} · Turnscope</title><style>{_style()}</style></head><body><main>"
    yield f"<h1>{escape(title)}</h1><p class=chips>{''.join(f'<span>{escape(chip)}</span>' for chip in _chips(made.view))}</p>"
    yield "".join(f"<p class=found>{escape(text)}</p>" for text in made.told)
    yield "<h2>What filled the window</h2>"
    yield f"<p>{escape(headline(made.view, int(made.view.prompts.argmax())))}</p>" if len(made.view) else ""
    yield drawing.legend(LABELS, made.view.cells)
    yield drawing.filled(made.view.cells, made.view.windows, made.marks)
    yield "<h2>Cost heatmap</h2><p>A row per request, a column per bucket: the darker, the more of it was paid for.</p>"
    yield drawing.heatmap(made.view)
    yield "<h2>Audit</h2>" + _audit(made.points)
    yield "<h2>The same session under other policies</h2>" + _compared(made)
    yield "<h2>Decisions</h2>" + _decisions(made.record)
    if made.given.level in ("masked", "full"):
        yield "<h2>What was said</h2>" + _transcript(made.record.session)
    yield f"<footer>{escape(_footer(made.given))}</footer></main></body></html>"


def _style() -> str:
    themes = (PALETTES["light"], PALETTES["dark"])
    light, dark = ("".join(f"--{name.replace('_', '-')}:{held};" for name, held in theme.items()) for theme in themes)
    return f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}{drawing.STYLE}"


def _chips(view: Overview) -> Iterator[str]:
    yield view.source
    yield ", ".join(dict.fromkeys(model for model in view.models if model)) or "model unknown"
    yield f"{len(view):,} requests"
    if view.total is not None:
        yield f"${view.total:,.2f}"
    if len(view) and view.windows.any():
        yield f"peak {float((view.prompts / view.windows.clip(min=1)).max()):.0%}"


def _audit(points: Sequence[Point]) -> str:
    rows = [
        (f'<b class="{point.verdict}">{point.verdict}</b>', escape(point.title), escape(point.asks), escape(point.found))
        for point in points
    ]
    head = ("", "Point", "What it asks", "What the session shows")
    return drawing.table(head, rows[:CHECKLIST]) + "<h3>Anti-patterns</h3>" + drawing.table(head, rows[CHECKLIST:])


def _compared(made: _Made) -> str:
    told = made.given.level in ("masked", "full")
    rows = []
    for one in made.rows:
        fill, at = one.peak
        usd = f"{one.usd:,.2f}" if one.usd is not None else "unknown"
        lost = f"{len(one.losses.hits):,}" if told else "not counted: texts are left out"
        changed = f"{len(one.changed):,}"
        rows.append((escape(one.title or one.policy), usd, f"{fill:.0%} at {at}", f"{one.kept:.0%}", changed, lost))
    note = "<p>USD with the prompt cache simulated; answers are taken as recorded.</p>"
    return note + drawing.table(("Policy", "USD", "Peak fill", "Tokens kept", "Requests changed", "References lost"), rows)


def _decisions(record: Trace) -> str:
    rows = []
    for plan in record.plans:
        for by, decision in decision_log.made(plan):
            before, after = decision_log.tokens(record, decision)
            what = (escape(decision.action), escape(decision.edit.because), f"{before:,}", f"{after:,}", by)
            rows.append((f"{plan.request.n:,}", *what))
    more = f"<p>The first {DECISIONS:,} of {len(rows):,}.</p>" if len(rows) > DECISIONS else ""
    head = ("Request", "Did", "Because", "Tokens before", "after", "By")
    return more + (drawing.table(head, rows[:DECISIONS]) if rows else "<p>Nothing was taken out of any request.</p>")


def _transcript(session: Session) -> str:
    rows = []
    for block in session.blocks[:TRANSCRIPT]:
        text = block.text
        cut = f"{text[:SAID]}… ({len(text):,} characters)" if len(text) > SAID else text
        rows.append((f"{block.at:,}", escape(block.role), escape(block.name or block.kind), f"<pre>{escape(cut)}</pre>"))
    whole = len(session.blocks)
    more = f"<p>The first {TRANSCRIPT:,} of {whole:,} blocks.</p>" if whole > TRANSCRIPT else ""
    return more + drawing.table(("Block", "Role", "What", f"Its first {SAID} characters"), rows)


def _footer(given: Redacted) -> str:
    taken = ", ".join(f"{count:,} × {kind}" for kind, count in given.found.most_common())
    out = f" Taken out, each wherever it stood: {taken}." if taken else ""
    return f"Made with Turnscope. Level: {given.level}. {LEVELS[given.level]}{out}"


def _summary(made: _Made) -> str:
    """The summary for an issue tracker, as Markdown whose values are code or escaped."""
    lines = [f"**{_plain(' · '.join(_chips(made.view)))}**", ""]
    lines += [f"- {_plain(text)}" for text in made.told] or ["- Nothing stands out."]
    lines += ["", "| | Point | What the session shows |", "| --- | --- | --- |"]
    lines += [f"| {point.verdict} | {point.title} | {_plain(point.found)} |" for point in made.points]
    return "\n".join([*lines, "", _plain(_footer(made.given)), ""])


def _plain(text: str) -> str:
    """A text that Markdown and HTML take for nothing but a text, on one line."""
    return re.sub(r"([\\`*_{}\[\]()#!|<>@&~])", r"\\\1", " ".join(text.split())).replace("\\<", "&lt;").replace("\\&", "&amp;")
