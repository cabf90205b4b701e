"""A report of a session as one HTML file: headline, fill of each request, cost, decisions, other policies, audit.

It opens anywhere and loads nothing from a network: no script, no font, no picture. It is made of a redacted session (`redact`).
If anything that was removed is in it all the same, no report is returned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape

from turnscope.errors import TurnscopeError
from turnscope.library import opening
from turnscope.library.opening import AS_RECORDED, begin_replay, load_policy, load_prices
from turnscope.palette import PALETTES
from turnscope.planning.trace import Trace, trace
from turnscope.pricing.prices import Prices
from turnscope.session.model import Session
from turnscope.share import html_charts
from turnscope.share.redact import LEVELS, PLACEHOLDER, Level, RedactedSession, redact
from turnscope.views import decision_log
from turnscope.views.audit import CHECKLIST, Point, audit
from turnscope.views.cache_breaks import find_breaks
from turnscope.views.comparison import Row, SharedFacts, build_row
from turnscope.views.findings import format_headline, mark_breaks, rank_findings
from turnscope.views.overview import LABELS, Overview, build_overview
from turnscope.views.total_cost import freeze_estimates

POLICIES = ("keep-everything", "last-20-messages", "clear-tool-results", "condense-oldest")
MAX_DECISIONS = 2_000  # decisions that are listed; a report of more says so
MAX_TEXT = 600  # characters of a block that the transcript shows
MAX_BLOCKS = 4_000  # blocks of the transcript
MIN_TELLTALE = 24  # characters of a line that must not be in a report without content


class RedactionError(TurnscopeError):
    """The report holds something that redaction removed, so no report is returned."""


@dataclass(frozen=True, slots=True)
class Report:
    """A report, and what was removed from it, by kind."""

    html: str
    markdown: str
    level: Level
    removed: tuple[tuple[str, int], ...]


def build_report(session: Session, level: Level, policies: Sequence[str] = POLICIES) -> Report:
    """Build the report of a session's main path, and its summary as Markdown.

    Args:
        session: the session.
        level: how much of it the report shows.
        policies: names of policies that are compared on the redacted session.

    Raises:
        RedactionError: the report would show something that was removed.
    """
    known = opening.replay(session)
    session = freeze_estimates(known)  # what is counted of an answer's text is counted before it is taken out
    given = redact(session, known.ledger, level)
    made = _collect_data(given, load_prices().add_evidence(session), policies)
    html, text = "".join(_render_page(made)), _render_summary(made)
    for out in (html, text):
        _check_leaks(out, session, given)
    return Report(html, text, level, tuple(given.found.most_common()))


@dataclass(frozen=True, slots=True)
class _ReportData:
    """The contents of a report, all of them made of the redacted session."""

    given: RedactedSession
    record: Trace
    view: Overview
    findings: tuple[str, ...]
    rows: tuple[Row, ...]
    points: tuple[Point, ...]
    marks: tuple[tuple[int, str, str], ...]


def _collect_data(given: RedactedSession, prices: Prices, policies: Sequence[str]) -> _ReportData:
    record = trace(given.session, load_policy(AS_RECORDED), given.ledger, prices)
    view, broken = build_overview(record), find_breaks(record)
    shared = SharedFacts.from_trace(record)
    replays = [build_row(record, shared)]
    for policy in policies:
        whole, plans = begin_replay(record, load_policy(policy))
        replays.append(build_row(replace(whole, plans=tuple(plans)), shared))
    found = rank_findings(record, view, broken)
    marks = tuple((mark.request, mark.kind, mark.what) for mark in (*view.markers, *mark_breaks(broken)))
    return _ReportData(
        given=given,
        record=record,
        view=view,
        findings=tuple(one.text for one in found),
        rows=tuple(replays),
        points=audit(record, view),
        marks=marks,
    )


def _check_leaks(out: str, session: Session, given: RedactedSession) -> None:
    """Search a result for what was removed. RedactionError if anything is found."""
    if given.level == "full":
        return
    if given.level == "masked":
        wrong = next((value for value in given.values if len(value) >= 6 and value in out), "")
    else:
        plain = html_charts.strip_tags(out)
        wrong = next((text for block in session.blocks for text in _iter_telltale_lines(block.text) if text in plain), "")
    if wrong:
        hint = "Nothing was written. Choose a level that tells less, and report this: it is a defect."
        raise RedactionError("the report would show something that was to be removed", hint=hint)


def _iter_telltale_lines(text: str) -> Iterator[str]:
    return (line.strip()[:80] for line in text.splitlines() if len(line.strip()) >= MIN_TELLTALE and PLACEHOLDER not in line)


def _render_page(made: _ReportData) -> Iterator[str]:
    title = made.view.title if made.given.level in ("masked", "full") and made.view.title else "A session"
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield f"<title>{escape(title)} · Turnscope</title><style>{_render_style()}</style></head><body><main>"
    chips = "".join(f"<span>{escape(chip)}</span>" for chip in _list_chips(made.view))
    yield f"<h1>{escape(title)}</h1><p class=chips>{chips}</p>"
    yield "".join(f"<p class=found>{escape(text)}</p>" for text in made.findings)
    yield "<h2>What filled the window</h2>"
    yield f"<p>{escape(format_headline(made.view, int(made.view.prompts.argmax())))}</p>" if len(made.view) else ""
    yield html_charts.draw_legend(LABELS, made.view.cells)
    yield html_charts.draw_fill(made.view.cells, made.view.windows, made.marks)
    yield "<h2>Cost heatmap</h2><p>A row per request, a column per bucket: the darker, the more of it was paid for.</p>"
    yield html_charts.draw_heatmap(made.view)
    yield "<h2>Audit</h2>" + _render_audit(made.points)
    yield "<h2>The same session under other policies</h2>" + _render_comparison(made)
    yield "<h2>Decisions</h2>" + _render_decisions(made.record)
    if made.given.level in ("masked", "full"):
        yield "<h2>What was said</h2>" + _render_transcript(made.record.session)
    yield f"<footer>{escape(_render_footer(made.given))}</footer></main></body></html>"


def _render_style() -> str:
    themes = (PALETTES["light"], PALETTES["dark"])
    light, dark = ("".join(f"--{name.replace('_', '-')}:{held};" for name, held in theme.items()) for theme in themes)
    return f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}{html_charts.STYLE}"


def _list_chips(view: Overview) -> Iterator[str]:
    yield view.source
    yield ", ".join(dict.fromkeys(model for model in view.models if model)) or "model unknown"
    yield f"{len(view):,} requests"
    if view.total is not None:
        yield f"${view.total:,.2f}"
    if len(view) and view.windows.any():
        yield f"peak {float((view.prompts / view.windows.clip(min=1)).max()):.0%}"


def _render_audit(points: Sequence[Point]) -> str:
    rows = [
        (f'<b class="{point.verdict}">{point.verdict}</b>', escape(point.title), escape(point.requirement), escape(point.found))
        for point in points
    ]
    head = ("", "Point", "What it asks", "What the session shows")
    return (
        html_charts.draw_table(head, rows[:CHECKLIST])
        + "<h3>Anti-patterns</h3>"
        + html_charts.draw_table(head, rows[CHECKLIST:])
    )


def _render_comparison(made: _ReportData) -> str:
    has_texts = made.given.level in ("masked", "full")
    rows = []
    for one in made.rows:
        fill, at = one.peak
        usd = f"{one.usd:,.2f}" if one.usd is not None else "unknown"
        lost = f"{len(one.losses.hits):,}" if has_texts else "not counted: texts are left out"
        changed = f"{len(one.changed):,}"
        rows.append((escape(one.title or one.policy), usd, f"{fill:.0%} at {at}", f"{one.kept_share:.0%}", changed, lost))
    note = "<p>USD with the prompt cache simulated; answers are taken as recorded.</p>"
    return note + html_charts.draw_table(
        ("Policy", "USD", "Peak fill", "Tokens kept", "Requests changed", "References lost"), rows
    )


def _render_decisions(record: Trace) -> str:
    rows = []
    for plan in record.plans:
        for by, decision in decision_log.iter_decisions(plan):
            before, after = decision_log.count_tokens(record, decision)
            what = (escape(decision.action), escape(decision.edit.because), f"{before:,}", f"{after:,}", by)
            rows.append((f"{plan.request.n:,}", *what))
    more = f"<p>The first {MAX_DECISIONS:,} of {len(rows):,}.</p>" if len(rows) > MAX_DECISIONS else ""
    head = ("Request", "Did", "Because", "Tokens before", "after", "By")
    return more + (
        html_charts.draw_table(head, rows[:MAX_DECISIONS]) if rows else "<p>Nothing was taken out of any request.</p>"
    )


def _render_transcript(session: Session) -> str:
    rows = []
    for block in session.blocks[:MAX_BLOCKS]:
        text = block.text
        cut = f"{text[:MAX_TEXT]}… ({len(text):,} characters)" if len(text) > MAX_TEXT else text
        rows.append((f"{block.at:,}", escape(block.role), escape(block.name or block.kind), f"<pre>{escape(cut)}</pre>"))
    whole = len(session.blocks)
    more = f"<p>The first {MAX_BLOCKS:,} of {whole:,} blocks.</p>" if whole > MAX_BLOCKS else ""
    return more + html_charts.draw_table(("Block", "Role", "What", f"Its first {MAX_TEXT} characters"), rows)


def _render_footer(given: RedactedSession) -> str:
    taken = ", ".join(f"{count:,} × {kind}" for kind, count in given.found.most_common())
    out = f" Taken out, each wherever it stood: {taken}." if taken else ""
    return f"Made with Turnscope. Level: {given.level}. {LEVELS[given.level]}{out}"


def _render_summary(made: _ReportData) -> str:
    """The summary for an issue tracker, as Markdown whose values are code or escaped."""
    lines = [f"**{_escape(' · '.join(_list_chips(made.view)))}**", ""]
    lines += [f"- {_escape(text)}" for text in made.findings] or ["- Nothing stands out."]
    lines += ["", "| | Point | What the session shows |", "| --- | --- | --- |"]
    lines += [f"| {point.verdict} | {point.title} | {_escape(point.found)} |" for point in made.points]
    return "\n".join([*lines, "", _escape(_render_footer(made.given)), ""])


def _escape(text: str) -> str:
    """A text on one line that Markdown and HTML show as it is."""
    return re.sub(r"([\\`*_{}\[\]()#!|<>@&~])", r"\\\1", " ".join(text.split())).replace("\\<", "&lt;").replace("\\&", "&amp;")
