"""A report of a session as one HTML file: fill, dearest requests, cuts, cost heatmap, other policies, audit.

A few screens; every request, every decision and the conversation are folded below.

It opens anywhere and loads nothing from a network: no script, no font, no picture. It is made of a redacted session (`redact`).
If anything that was removed is in it all the same, no report is returned.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from turnscope.library import opening
from turnscope.library.opening import AS_RECORDED, load_policy, load_prices, replay_record
from turnscope.numbering import format_request
from turnscope.palette import PALETTES
from turnscope.planning.trace import Trace, trace
from turnscope.pricing.prices import Prices
from turnscope.session.content import replace_surrogates
from turnscope.session.model import Session
from turnscope.share import html_charts
from turnscope.share.doubtful import Doubt, find_doubtful
from turnscope.share.redact import LEVELS, PLACEHOLDER, Level, RedactedSession, RedactionError, check_masked, redact
from turnscope.views import decision_log
from turnscope.views.audit import Point, audit
from turnscope.views.comparison import Row, SharedFacts, build_row
from turnscope.views.events import EVENTS
from turnscope.views.expensive_requests import ExpensiveRequest, find_expensive_requests, sum_share
from turnscope.views.findings import format_headline
from turnscope.views.overview import Overview, build_overview
from turnscope.views.phrases import format_usd
from turnscope.views.recommendation import recommend
from turnscope.views.request_summary import annotate, find_cuts
from turnscope.views.total_cost import freeze_estimates

POLICIES = ("keep-everything", "last-20-messages", "clear-tool-results", "condense-oldest")
MAX_CUTS = 5  # cuts of the window that are shown, the largest
MAX_DECISIONS = 2_000  # decisions that are listed; a report of more says so
MAX_TEXT = 600  # characters of a block that the transcript shows
MAX_BLOCKS = 4_000  # blocks of the transcript
MIN_TELLTALE = 24  # characters of a line that must not be in a report without content


@dataclass(frozen=True, slots=True)
class Report:
    """A report, what was removed from it, by kind, and what looks doubtful in it where texts are masked."""

    html: str
    markdown: str
    level: Level
    removed: tuple[tuple[str, int], ...]
    doubtful: tuple[Doubt, ...] = ()


def build_report(session: Session, level: Level, policies: Sequence[str] = POLICIES, words: Sequence[str] = ()) -> Report:
    """Build the report of a session's main path, and its summary as Markdown.

    Args:
        session: the session.
        level: how much of it the report shows.
        policies: names of policies that are compared.
        words: further words to take out where texts stay.

    Raises:
        RedactionError: the report would show something that was removed.
    """
    known = opening.replay(session)
    session = freeze_estimates(known)  # what is counted of an answer's text is counted before it is taken out
    redacted = redact(session, known.ledger, level, words)
    made = _collect_data(redacted, load_prices().add_evidence(session), _compare_policies(known, policies))
    html, text = "".join(_render_page(made)), _render_summary(made)
    for out in (html, text):
        _check_leaks(out, session, redacted)
    shown = redacted.session
    texts = (shown.title, *(block.text[:MAX_TEXT] for block in shown.blocks[:MAX_BLOCKS])) if level == "masked" else ()
    removed = tuple(redacted.found.most_common())
    return Report(replace_surrogates(html), replace_surrogates(text), level, removed, find_doubtful(texts))


@dataclass(frozen=True, slots=True)
class _ReportData:
    """The contents of a report, made of the redacted session; but `rows`, which are numbers and titles of policies alone."""

    redacted: RedactedSession
    record: Trace
    view: Overview
    findings: tuple[str, ...]
    rows: tuple[Row, ...]
    points: tuple[Point, ...]
    dearest: tuple[ExpensiveRequest, ...]


def _compare_policies(known: Trace, policies: Sequence[str]) -> tuple[Row, ...]:
    """The record and other policies, in numbers: those that the app shows. Without its texts a session is planned otherwise."""
    shared = SharedFacts.from_trace(known)
    replays = (known, *(replay_record(known, load_policy(policy)) for policy in policies))
    return tuple(build_row(each, shared) for each in replays)


def _collect_data(redacted: RedactedSession, prices: Prices, rows: tuple[Row, ...]) -> _ReportData:
    record = trace(redacted.session, load_policy(AS_RECORDED), redacted.ledger, prices)
    view, found = annotate(record, build_overview(record))
    return _ReportData(
        redacted=redacted,
        record=record,
        view=view,
        findings=tuple(one.text for one in found),
        rows=rows,
        points=audit(record, view),
        dearest=find_expensive_requests(record, view),
    )


def _check_leaks(out: str, session: Session, redacted: RedactedSession) -> None:
    """Search a result for what was removed. RedactionError if anything is found."""
    check_masked(out, redacted)
    if redacted.level in ("full", "masked"):
        return
    plain = html_charts.strip_tags(out)
    if any(text in plain for block in session.blocks for text in _iter_telltale_lines(block.text)):
        raise RedactionError


def _iter_telltale_lines(text: str) -> Iterator[str]:
    return (line.strip()[:80] for line in text.splitlines() if len(line.strip()) >= MIN_TELLTALE and PLACEHOLDER not in line)


def _render_page(made: _ReportData) -> Iterator[str]:
    title = made.view.title if made.redacted.level in ("masked", "full") and made.view.title else "A session"
    yield '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield f"<title>{escape(title)} · Turnscope</title><style>{_render_style()}</style></head><body><main>"
    chips = "".join(f"<span>{escape(chip)}</span>" for chip in _list_chips(made.view))
    yield f"<h1>{escape(title)}</h1><p class=chips>{chips}</p>"
    yield "".join(f"<p class=found>{escape(text)}</p>" for text in made.findings)
    yield "<h2>What filled the window</h2>"
    yield f"<p>{escape(format_headline(made.view, int(made.view.prompts.argmax())))}</p>" if len(made.view) else ""
    yield html_charts.draw_fill(made.view) + html_charts.draw_legend(made.view)
    yield from _render_dearest(made)
    yield from _render_cuts(made.view)
    yield "<h2>Cost heatmap</h2>" + html_charts.draw_heatmap(made.view) + html_charts.draw_legend(made.view, heat=True)
    yield "<p class=note>The stronger a cell, the more it cost; each row has a scale of its own.</p>"
    yield "<h2>The same session under other policies</h2>" + _render_comparison(made)
    yield "<h2>Audit</h2>" + _render_audit(made.points)
    yield "<section class=more><h2>Everything</h2>"
    yield html_charts.fold("Every request in numbers", f"{len(made.view):,} requests", html_charts.draw_numbers(made.view))
    yield _render_decisions(made.record)
    if made.redacted.level in ("masked", "full"):
        yield _render_transcript(made.record.session)
    yield "</section>"
    yield f"<footer>{escape(_render_footer(made.redacted))}</footer></main></body></html>"


def _render_style() -> str:
    themes = (PALETTES["light"], PALETTES["dark"])
    light, dark = ("".join(f"--{name.replace('_', '-')}:{value};" for name, value in theme.items()) for theme in themes)
    return f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}{html_charts.STYLE}"


def _list_chips(view: Overview) -> Iterator[str]:
    yield view.source
    yield ", ".join(dict.fromkeys(model for model in view.models if model)) or "model unknown"
    yield f"{len(view):,} requests"
    if view.total is not None:
        yield f"${view.total:,.2f}"
    if len(view) and view.windows.any():
        yield f"peak {float((view.prompts / view.windows.clip(min=1)).max()):.0%}"


def _render_dearest(made: _ReportData) -> Iterator[str]:
    """The requests that cost most, each with its cause; nothing where no request has a price."""
    if not made.dearest:
        return
    whole = f"{sum_share(made.view, made.dearest):.0%} of {format_usd(made.view.path_total)}"
    rows = [
        (format_request(one.request), escape(format_usd(one.usd)), escape(one.cause), escape(one.detail))
        for one in made.dearest
    ]
    yield f"<h2>Most expensive requests</h2><p class=note>Together {whole}.</p>"
    yield html_charts.draw_table(("Request", "Cost", "Cause", "Tokens"), rows)


def _render_cuts(view: Overview) -> Iterator[str]:
    """The largest cuts of the window; nothing where there was none."""
    cuts = find_cuts(view)
    largest = sorted(cuts, key=lambda cut: cut.after - cut.before)[:MAX_CUTS]
    if not largest:
        return
    yield "<h2>What was cut from the window</h2>"
    if len(cuts) > MAX_CUTS:
        yield f"<p class=note>The {MAX_CUTS} largest of {len(cuts):,}; all stand among the decisions below.</p>"
    rows = [
        (format_request(cut.request), escape(EVENTS[cut.kind].word), escape(cut.what), f"{cut.before:,}", f"{cut.after:,}")
        for cut in largest
    ]
    yield html_charts.draw_table(("Request", "What", "Because", "Prompt before", "after"), rows)


def _render_audit(points: Sequence[Point]) -> str:
    """How many points passed; those that did not, and the others folded."""
    counts = ", ".join(f"{many} {word}" for word, many in Counter(point.verdict for point in points).items())
    head = ("Verdict", "Point", "What it asks", "What the session shows")
    wrong, rest = (
        [
            (
                f'<b class="{point.verdict}">{point.verdict}</b>',
                escape(point.title),
                escape(point.requirement),
                escape(point.found),
            )
            for point in points
            if (point.verdict in ("fail", "warning")) == bad
        ]
        for bad in (True, False)
    )
    shown = html_charts.draw_table(head, wrong) if wrong else "<p>Nothing failed.</p>"
    folded = html_charts.fold("Points that passed or could not be judged", str(len(rest)), html_charts.draw_table(head, rest))
    return f"<p class=note>{len(points)} points: {counts}.</p>{shown}{folded if rest else ''}"


def _render_comparison(made: _ReportData) -> str:
    rows = []
    for one in made.rows:
        usd = (
            "unknown"
            if one.usd is None
            else escape(format_usd(one.usd)) + ("" if one.factor is None else f" (×{one.factor:.2f})")
        )
        lost = f"{len(one.losses.hits):,}"
        changed = f"{len(one.changed):,}"
        rows.append((escape(one.title or one.policy), usd, one.peak_label, f"{one.kept_share:.0%}", changed, lost))
    found = recommend(made.rows)
    answer = f"<p class=found>{escape(f'{found.text} {found.more}'.rstrip())}</p>" if found else ""
    note = "<p class=note>Cost of the bill, and as a factor of it: the prompt cache is simulated, answers are as recorded.</p>"
    head = ("Policy", "Cost", "Peak fill", "Tokens kept", "Requests changed", "References lost")
    return answer + html_charts.draw_table(head, rows) + note


def _render_decisions(record: Trace) -> str:
    rows = []
    for plan in record.plans:
        for by, decision in decision_log.iter_decisions(plan):
            before, after = decision_log.count_tokens(record, decision)
            what = (escape(decision.action), escape(decision.edit.because), f"{before:,}", f"{after:,}", by)
            rows.append((format_request(plan.request.n), *what))
    more = f"<p>The first {MAX_DECISIONS:,} of {len(rows):,}.</p>" if len(rows) > MAX_DECISIONS else ""
    head = ("Request", "Did", "Because", "Tokens before", "after", "By")
    if not rows:
        return "<p>Nothing was taken out of any request.</p>"
    table = html_charts.draw_table(head, rows[:MAX_DECISIONS], "Decisions")
    return html_charts.fold("Every decision", f"{len(rows):,} decisions", more + table)


def _render_transcript(session: Session) -> str:
    rows = []
    for block in session.blocks[:MAX_BLOCKS]:
        text = block.text
        cut = f"{text[:MAX_TEXT]}… ({len(text):,} characters)" if len(text) > MAX_TEXT else text
        rows.append((f"{block.at:,}", escape(block.role), escape(block.name or block.kind), f"<pre>{escape(cut)}</pre>"))
    whole = len(session.blocks)
    more = f"<p>The first {MAX_BLOCKS:,} of {whole:,} blocks.</p>" if whole > MAX_BLOCKS else ""
    table = html_charts.draw_table(("Block", "Role", "What", f"Its first {MAX_TEXT} characters"), rows, "Conversation")
    return html_charts.fold("Conversation", f"{whole:,} blocks", more + table)


def _render_footer(redacted: RedactedSession) -> str:
    taken = ", ".join(f"{count:,} × {kind}" for kind, count in redacted.found.most_common())
    out = f" Taken out, each wherever it stood: {taken}." if taken else ""
    return f"Made with Turnscope. Level: {redacted.level}. {LEVELS[redacted.level]}{out}"


def _render_summary(made: _ReportData) -> str:
    """The summary for an issue tracker, as Markdown whose values are code or escaped."""
    lines = [f"**{_escape(' · '.join(_list_chips(made.view)))}**", ""]
    lines += [f"- {_escape(text)}" for text in made.findings] or ["- Nothing stands out."]
    lines += ["", "| | Point | What the session shows |", "| --- | --- | --- |"]
    lines += [f"| {point.verdict} | {point.title} | {_escape(point.found)} |" for point in made.points]
    return "\n".join([*lines, "", _escape(_render_footer(made.redacted)), ""])


def _escape(text: str) -> str:
    """A text on one line that Markdown and HTML show as it is."""
    return re.sub(r"([\\`*_{}\[\]()#!|<>@&~])", r"\\\1", " ".join(text.split())).replace("\\<", "&lt;").replace("\\&", "&amp;")
