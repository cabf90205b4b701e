"""Checks that sessions stay within a context budget under a policy: for CI, from a shell or in a test.

A file is checked by its main conversation, replayed under the policy; `as-recorded` checks what was really sent. Prints
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from turnscope.errors import TurnscopeError
from turnscope.library.comparing import compare
from turnscope.library.loading import entries, load
from turnscope.library.opening import AS_RECORDED, overview, replay
from turnscope.numbering import format_request
from turnscope.planning.policy import Policy
from turnscope.planning.trace import Trace
from turnscope.session.content import dumps
from turnscope.session.model import Session
from turnscope.views.comparison import Row
from turnscope.views.detail import build_detail
from turnscope.views.exactness import Exactness, sum_exactness
from turnscope.views.overview import build_overview
from turnscope.views.request_contents import build_contents, list_contents
from turnscope.views.text_tables import clean_line, format_csv

COLUMNS = (
    *("path", "outcome", "requests", "peak_fill", "peak_request", "window", "window_evidence", "usd", "broken", "error"),
    "exactness",
)
MAX_TOOLS = 1_000  # definitions of a run; the rest is one
_INVALID_XML = re.compile("[^\t\n\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a session; None = not checked.

    Attributes:
        max_fill: percent of the window at the fullest request.
        max_usd: USD of all requests, as billed, else simulated.
        no_reject: no request that is refused, over the window, or rejected by the provider.
    """

    max_fill: float | None = None
    max_usd: float | None = None
    no_reject: bool = False
    exact: bool = False


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one file. `violations`: the limits that it exceeds, in words; `error`: why it could not be read, "" = it
    was.
    """

    path: str
    row: Row | None = None
    violations: tuple[str, ...] = ()
    error: str = ""
    exactness: Exactness | None = None  # None = not asked for
    window_evidence: str = ""  # how the window of the fullest request is known
    usd: Decimal | None = None  # of the whole session, with its branches and subagents; None without a known price
    tools: Mapping[str, int] = field(default_factory=dict)  # tokens of definitions in the last request, if they were asked for

    @property
    def ok(self) -> bool:
        """Whether it was read and stays within every limit."""
        return not self.violations and not self.error

    @property
    def summary(self) -> str:
        """Its figures in a line; "" where it could not be read."""
        if self.row is None:
            return ""
        usd = self.usd
        priced = "no known price" if usd is None else f"{usd:,.2f} USD"
        known = f"; {self.exactness.sentence}" if self.exactness else ""
        window = f"; {self.window_evidence}" if self.window_evidence else ""
        return f"{len(self.row.sizes):,} requests, fills {self.row.peak[0]:.1%} at most, {priced}{known}{window}"


@dataclass(frozen=True, slots=True, repr=False)
class CheckResults:
    """The results of a check, in the order of its paths."""

    results: tuple[CheckResult, ...]

    def __repr__(self) -> str:
        """Lines for a terminal: each session, and below it what is wrong with it."""
        return "\n".join(line for each in self.results for line in _describe(each))

    def to_csv(self) -> str:
        """A line per session as CSV."""
        return format_csv(COLUMNS, map(_make_row, self.results))

    def to_json(self) -> str:
        """The results as JSON; the violations are a list."""
        listed = [dict(zip(COLUMNS, _make_row(each), strict=True)) | {"broken": each.violations} for each in self.results]
        return dumps({"sessions": listed}) + "\n"


def _describe(outcome: CheckResult) -> Iterable[str]:
    yield f"{'ok' if outcome.ok else 'FAILED'} {clean_line(outcome.path)}{f': {outcome.summary}' if outcome.summary else ''}"
    yield from (f"    {clean_line(what)}" for what in (outcome.error, *outcome.violations) if what)


def _make_row(outcome: CheckResult) -> tuple[Any, ...]:
    """The values of a result in the order of `COLUMNS`."""
    verdict = "unreadable" if outcome.error else "ok" if outcome.ok else "failed"
    if (row := outcome.row) is None:
        return (outcome.path, verdict, None, None, None, None, "", None, "", outcome.error, "")
    fill, at = row.peak
    money = None if outcome.usd is None else round(float(outcome.usd), 6)
    window = (row.windows[at] if at >= 0 else None, outcome.window_evidence)
    known = outcome.exactness.sentence if outcome.exactness else ""
    return (outcome.path, verdict, len(row.sizes), round(fill, 4), at, *window, money, "; ".join(outcome.violations), "", known)


def list_entries(path: Path) -> tuple[str, ...]:
    """List what can be checked at a path: the ids of a folder's sessions; of anything else "", the main one."""
    return tuple(sorted(entry.id for entry in entries(path))) or ("",) if path.is_dir() else ("",)


def check(
    path: Path | str, limits: Limits, policy: Policy | str = AS_RECORDED, entry: str = "", *, tools: bool = False
) -> CheckResult:
    """Check a file. A file that cannot be read gives a result with an error.

    Args:
        path: a file, or a folder with several sessions.
        limits: the limits.
        policy: the policy, or its name.
        entry: id of one session in the path; "" = the main one.
        tools: whether the tokens of each tool's definition are listed.

    Raises:
        PolicyError: there is no such policy.

    >>> made = check("sample_sessions/cache-goes-cold.jsonl", Limits(max_fill=50))
    >>> made.ok, made.violations
    (False, ('request 63 fills 64.3% of its window, more than 50 %',))
    """
    name = str(Path(path, entry))
    try:
        session = load(path, entry)
    except (TurnscopeError, OSError) as error:
        return CheckResult(name, error=f"{error}. {getattr(error, 'short_hint', '')}".strip())
    compared = compare(session, [policy])
    (row,), (replayed,) = compared.rows, compared.traces
    exactness = sum_exactness(session) if limits.exact else None
    usd = _sum_cost(session, row)
    violations = (*_find_violations(row, usd, limits), *_find_inexact(exactness))
    window = _describe_window(replayed, row)
    listed = _list_tools(session) if tools else {}
    return CheckResult(name, row, violations, exactness=exactness, window_evidence=window, usd=usd, tools=listed)


def _list_tools(session: Session) -> dict[str, int]:
    """Tokens of each tool's definition in the last request as recorded; an MCP server's are one."""
    recorded = replay(session)
    view, last = build_overview(recorded), len(recorded.plans) - 1
    if last < 0:
        return {}
    groups = list_contents(build_contents(recorded, view), last, build_detail(recorded, view, last).items, most=MAX_TOOLS)
    return {part.label: part.tokens for group in groups if group.name == "tools" for part in group.parts if part.tokens}


def _describe_window(replayed: Trace, row: Row) -> str:
    """How the window of the fullest request is known; "" where the session shows nothing of that, or the policy names it."""
    at = row.peak[1]
    if at < 0:
        return ""
    plan = replayed.plans[at]
    found = replayed.prices.find_evidence(plan.model, plan.request.n)
    return found.sentence if found and found.window == plan.budget.window else ""


def _find_inexact(exactness: Exactness | None) -> Iterable[str]:
    if exactness is not None and exactness.unproven:
        yield f"{exactness.unproven:,} of {exactness.requests:,} requests are not proven: {exactness.sentence}"


def _find_violations(row: Row, usd: Decimal | None, limits: Limits) -> Iterable[str]:
    fill, at = row.peak
    if limits.max_fill is not None and 100 * fill > limits.max_fill:
        yield f"request {format_request(at)} fills {fill:.1%} of its window, more than {limits.max_fill:g} %"
    if limits.max_usd is not None:
        if usd is None and row.sizes:
            yield "no request has a known price, so its cost cannot be held to a limit"
        elif usd is not None and usd > Decimal(str(limits.max_usd)):
            yield f"it costs {usd:,.2f} USD, more than {limits.max_usd:g}"
    if limits.no_reject:
        counts = (
            (
                len(row.rejected),
                f"would be rejected by the provider, first request {format_request(next(iter(row.rejected), -1))}",
            ),
            (row.over_window, "do not fit the model's window"),
            (row.refusals, "are refused by the policy"),
        )
        yield from (f"{many:,} requests {what}" for many, what in counts if many)


def _sum_cost(session: Session, row: Row) -> Decimal | None:
    """What a session cost under a policy: its path; all else as billed, whatever the policy."""
    parts = [usd for usd in (row.usd, overview(session).bill.off_path.usd) if usd is not None]
    return sum(parts, Decimal(0)) if parts else None


def to_junit(outcomes: Iterable[CheckResult], policy: str) -> str:
    """Write results as JUnit XML: a test case per file.

    Args:
        outcomes: the results.
        policy: name of the policy.
    """
    made = list(outcomes)
    failed, errors = sum(bool(each.violations) for each in made), sum(bool(each.error) for each in made)
    counts = {"tests": str(len(made)), "failures": str(failed), "errors": str(errors)}
    suites = ET.Element("testsuites", counts)
    suite = ET.SubElement(suites, "testsuite", {"name": _replace_invalid(f"turnscope check: {policy}")} | counts)
    for each in made:
        case = ET.SubElement(suite, "testcase", {"classname": "turnscope", "name": _replace_invalid(each.path)})
        if each.error:
            ET.SubElement(case, "error", {"message": _replace_invalid(each.error)})
        elif each.violations:
            ET.SubElement(case, "failure", {"message": _replace_invalid("; ".join(each.violations))}).text = _replace_invalid(
                "\n".join(each.violations)
            )
    return ET.tostring(suites, encoding="unicode", xml_declaration=True)


def _replace_invalid(text: str) -> str:
    """Replace the characters that XML cannot hold."""
    return _INVALID_XML.sub("\ufffd", text)
