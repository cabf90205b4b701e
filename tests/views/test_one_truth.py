"""What is shown of a request is the same wherever it is shown: one prefix, one scale, one body."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import turnscope
from conftest import ROOT, SHARED
from msgspec.structs import replace as replace_struct
from turnscope import figures
from turnscope.counting.reconciliation import TOOL_INSTRUCTIONS
from turnscope.planning.policy import Step, load
from turnscope.planning.rule_registry import find_rule
from turnscope.planning.trace import Cursor, Trace
from turnscope.session.builder import Builder
from turnscope.session.model import CHAT, EXACT_REQUESTS, SHAPE
from turnscope.session.usage import parse_usage
from turnscope.views import closeup, decision_log, next_request, request_summary, tables
from turnscope.views.detail import build_detail
from turnscope.views.exact_body import build_exact_body, format_exact_body
from turnscope.views.overview import CELLS, LABELS, Overview, build_overview
from turnscope.views.stepper import build_steps

from tests.wire import open_run

REAL = (
    "claude-code/entire-cd95-3compactions.jsonl",
    "claude-code/entire-d599-microcompact.jsonl",
    "claude-code/entire-b029-2compactions-apierrors.jsonl",
    "claude-code/obra-long-conversation.jsonl",
    "claude-code/worktrees/ef958aa1-0e93-49f0-bb71-150f63befcd1.jsonl",
    "anthropic-api/vcr-anthropic-compaction.yaml",
    "roo-cline/ac8aa7b4/ui_messages.json",
)
FILES = [*sorted((ROOT / "sample_sessions").glob("*.jsonl")), *(SHARED / "data" / "open" / name for name in REAL)]
EXACT = SHARED / "data" / "wire" / "claude" / "A"  # a recorded run whose log holds whole requests
POLICIES = ("as-recorded", "balanced", "cline-classic", "keep-everything")
MARKED = re.compile(r"system prompt and tools are about ([\d,]+) tokens together")


@pytest.fixture(scope="module", params=[*FILES, EXACT], ids=lambda path: path.stem)
def recorded(request: pytest.FixtureRequest) -> tuple[Trace, Overview]:
    path: Path = request.param
    if not path.exists():
        pytest.skip(f"{path.name} is not beside the project")
    if path == EXACT:
        with open_run(path) as run:
            session = turnscope.load(next(run.transcripts.rglob("*.jsonl")))
    else:
        session = turnscope.load(path)
    trace = turnscope.replay(session)
    return trace, build_overview(trace)


def select_requests(trace: Trace) -> list[int]:
    """Requests to look at: both ends, each change of the fit, each cut, and some in between."""
    count = len(trace.plans)
    cuts = [n for n, plan in enumerate(trace.plans) if any(d.splice for d in plan.decisions)]
    edges = [n for fit in trace.fits for n in (fit.start - 1, fit.start)]
    return sorted({n for n in (0, count - 1, *edges, *cuts[:6], *range(0, count, max(1, count // 8))) if 0 <= n < count})


def is_logged(trace: Trace) -> bool:
    """Whether the log holds system prompt or tools: what is hidden beside those is the provider's own, and in no body."""
    return any(block.bucket in ("system", "tools") for block in trace.session.blocks)


def get_marked(trace: Trace, n: int) -> int:
    """The prefix that the exact body names; 0 where it names none."""
    found = MARKED.search(format_exact_body(trace, n))
    return int(found[1].replace(",", "")) if found else 0


@pytest.mark.thorough(every=6)
def test_every_page_shows_the_same_prefix_of_what_was_really_sent(recorded: tuple[Trace, Overview]) -> None:
    trace, view = recorded
    stepper = json.loads(build_steps(trace).data)["requests"]
    table = list(csv.DictReader(io.StringIO(tables.overview_to_csv(view), newline="")))
    heat = next(
        (t for t in figures.draw_heatmap(view, measure="tokens").data if t.type == "heatmap" and t.name == LABELS["prefix"]),
        None,
    )
    for n in range(len(view)):
        shown = next(s.tokens for s in request_summary.summarize_request(view, trace, n).segments if s.name == "prefix")
        assert (
            shown
            == trace.get_terms(n).prefix
            == view.cells[n, CELLS.index("prefix")]
            == stepper["prefix"][n]
            == int(table[n]["prefix"])
        )
    for n in select_requests(trace):
        assert get_marked(trace, n) == (0 if is_logged(trace) else trace.get_terms(n).prefix)
    if heat is not None and len(view) <= figures.MAX_COLUMNS:
        assert [int(fact[2]) for fact in heat.customdata[0]] == [fit.prefix for fit in map(trace.get_terms, range(len(view)))]


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("policy", POLICIES)
def test_another_policy_changes_neither_prefix_nor_scale(recorded: tuple[Trace, Overview], policy: str) -> None:
    trace, _ = recorded
    other = turnscope.replay(trace.session, policy, trace.ledger)
    assert other.fits == trace.fits
    made = build_steps(other)
    stepper = json.loads(made.data)["requests"]
    whole = [fit for fit in trace.fits for _ in range(fit.start, fit.stop)]
    if policy != "as-recorded":  # what the tool cut or put back, and its log does not hold, is the record's alone
        assert [other.get_terms(n) for n in range(len(whole))] == [
            fit.get_policy_terms(other.plans[n].static_tokens) for n, fit in enumerate(whole)
        ]
        assert [other.get_terms(n).scale for n in range(len(whole))] == [fit.scale for fit in whole]
        assert not any(other.get_terms(n).reinjected or other.get_terms(n).cut for n in range(len(whole)))
    for name in ("prefix", "earlier", "reinjected", "scale", "unattributed"):
        assert stepper[name] == [getattr(other.get_terms(n), name) for n in range(len(whole))]
    for n, fit in enumerate(whole):  # the prefix gives way where a recorded prompt is smaller
        assert stepper["prefix"][n] == (fit.prefix if policy != "as-recorded" else min(fit.prefix, trace.count_tokens(n)))
    assert made.sent_tokens == sum(other.count_tokens(n) for n in range(len(other.plans)))
    for n in select_requests(other):
        assert get_marked(other, n) in (0, other.get_terms(n).prefix)
    for row in decision_log.iter_rows(other):
        terms = other.get_terms(row["request"])
        summed = row["action"] == "condense" and "summary" in row["facts"]
        assert row["tokens_after"] == (other.count_tokens(row["request"]) if summed else terms.predict(row["counted_after"]))


def compute_drawn(stepper: dict[str, Any], decisions: dict[str, Any], n: int) -> float:
    """What the debugger draws of a request behind its last decision, computed from its columns as its script does."""
    first = stepper["first"][n - 1] if n else 0
    deltas = decisions.get("delta", [])[5 * first : 5 * stepper["first"][n]]
    gone = stepper["left"][5 * n : 5 * n + 5]
    counts = [stepper["before"][5 * n + b] + sum(deltas[b::5]) - gone[b] for b in range(5)]
    scales = [stepper["static"][n]] * 2 + [stepper["scale"][n]] * 3
    beside = sum(stepper[name][n] for name in ("prefix", "earlier", "reinjected", "unattributed"))
    return beside + sum(count * scale for count, scale in zip(counts, scales, strict=True))


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_request_has_one_total_wherever_it_is_shown(recorded: tuple[Trace, Overview], policy: str) -> None:
    trace, view = recorded
    other = turnscope.replay(trace.session, policy, trace.ledger)
    made = json.loads(build_steps(other).data)
    sizes = [other.count_tokens(n) for n in range(len(other.plans))]
    drawn = [compute_drawn(made["requests"], made["decisions"], n) for n in range(len(sizes))]
    assert drawn == pytest.approx(sizes, abs=1.01)  # each of two scales is rounded by itself
    for row in decision_log.iter_rows(other):
        terms, n = other.get_terms(row["request"]), row["request"]
        last = other.plans[n].server or other.plans[n].decisions
        if row["by"] == ("server" if other.plans[n].server else "policy") and row["decision"] == last[-1].seq:
            assert row["tokens_after"] == terms.predict(row["counted_after"]) == sizes[n]
    for n in select_requests(other):
        terms, counts = other.get_terms(n), other.plans[n].seen.counts
        parts = terms.hidden_tokens + terms.unattributed
        assert sizes[n] == pytest.approx(parts + terms.convert(counts), abs=1.01)
        assert (terms.error == 0.0) == (policy == "as-recorded" and view.recorded[n] >= 0), "an estimate says that it is one"


def test_envelope_heatmap_and_exports_give_the_totals_of_the_debugger(recorded: tuple[Trace, Overview]) -> None:
    trace, view = recorded
    sizes = [trace.count_tokens(n) for n in range(len(view))]
    assert sizes == view.prompts.tolist() == view.cells.sum(axis=1).tolist()
    assert all(told in (-1, size) for size, told in zip(sizes, view.recorded.tolist(), strict=True))
    assert sum(sizes) == build_steps(trace).sent_tokens
    for n in select_requests(trace):
        now = request_summary.summarize_request(view, trace, n)
        assert now.prompt == sum(segment.tokens for segment in now.segments) == sizes[n]
    table = list(csv.DictReader(io.StringIO(tables.overview_to_csv(view), newline="")))
    assert [sum(int(row[cell]) for cell in CELLS) for row in table] == [int(row["prompt"]) for row in table] == sizes
    if len(view) <= figures.MAX_COLUMNS:
        chart = figures.draw_heatmap(view, measure="tokens").data
        heat = [t for t in chart if t.type == "heatmap"]
        rest = view.cells[:, CELLS.index("unattributed")]
        assert [sum(int(row.customdata[0][n][2]) for row in heat) + rest[n] for n in range(len(view))] == sizes
        areas = [area.y for area in chart if area.type == "scatter" and area.stackgroup]
        assert sum(areas).tolist() == sizes


def test_a_block_weighs_the_same_on_every_page(recorded: tuple[Trace, Overview]) -> None:
    trace, view = recorded
    for n in select_requests(trace)[::3]:
        for item in [i for i in build_detail(trace, view, n).items if i.state == "verbatim"][:40]:
            close = closeup.build_closeup(trace, Cursor(n, len(trace.plans[n].decisions)), item.at)
            assert close is not None
            assert (close.tokens, close.after_tokens) == (item.tokens, item.tokens)


def test_a_chats_next_request_has_the_prefix_that_it_is_shown_with_once_it_is_sent(recorded: tuple[Trace, Overview]) -> None:
    session = recorded[0].session
    about = {name: value for name, value in session.about.items() if name != EXACT_REQUESTS}  # of no chat
    trace = turnscope.replay(replace_struct(session, source=CHAT, about=about))
    sizes = [plan.seen.tokens for plan in trace.plans]
    assert next_request.fit_requests(trace.session, sizes) == trace.fits
    for n in (0, len(sizes) - 1):
        plan, fork = trace.plans[n], trace.fork(n)
        fits = next_request.fit_requests(fork, sizes[:n], plan)
        fit = next_request.get_terms(fits, n)
        parts = next_request.split_tokens(plan, fit)
        assert fits[-1].stop == n + 1
        assert parts.get("prefix", 0) == min(fit.prefix, plan.expected_tokens)
        assert abs(sum(parts.values()) - plan.expected_tokens) <= 3


def test_a_log_that_holds_system_prompt_or_tools_has_no_prefix_but_what_its_provider_says_of_tools(
    recorded: tuple[Trace, Overview],
) -> None:
    trace, _ = recorded
    if is_logged(trace):
        tools = any(block.bucket == "tools" for block in trace.session.blocks)
        assert all(0 <= fit.prefix <= (TOOL_INSTRUCTIONS if tools else 0) for fit in trace.fits)


def test_what_a_provider_says_of_tools_is_no_remainder() -> None:
    """Its few hundred tokens were half of the first prompt, "unattributed", and bent the scale of all that follow."""
    view = turnscope.overview(turnscope.load(ROOT / "sample_sessions" / "thinking-grows.jsonl"))
    assert 300 < view.fits[0].prefix < 400
    assert (view.cells[:, CELLS.index("unattributed")] <= 0.005 * view.recorded).all()
    assert view.fits[0].error is not None
    assert view.fits[0].error < 0.01


def test_an_estimate_says_what_the_tool_had_cut_unrecorded(recorded: tuple[Trace, Overview]) -> None:
    """A replay holds what only the record lacks; with that taken off, it is as near the record as it says."""
    trace, view = recorded
    other = turnscope.replay(trace.session, "keep-everything", trace.ledger)
    made = json.loads(build_steps(other).data)["requests"]["uncut"]
    fits = [fit for fit in trace.fits for _ in range(fit.start, fit.stop)]
    assert made == [fit.cut for fit in fits]
    for n in select_requests(other):
        said = " ".join(request_summary.list_notes(other, n))
        assert (f"{fits[n].cut:,} tokens here that its log does not name" in said) == bool(fits[n].cut)
    assert not any(trace.get_terms(n).max_overestimate for n in range(len(view)))


def session_with_a_shape() -> Any:
    """Two turns of an API log whose second request was recorded with string contents and a mark on its last message."""
    builder = Builder("shape", "test")
    billed = parse_usage({"input_tokens": 50, "output_tokens": 5})
    builder.add_message("user", "one", origin="prompt")
    builder.set_request(
        builder.add_message("assistant", [{"type": "text", "text": "first"}]), model="claude-opus-4-5", usage=billed
    )
    builder.add_message("user", [{"type": "text", "text": "two"}], origin="prompt")
    shape = {"bare": [2], "cache": [[["messages", 1, "content", 0], {"type": "ephemeral"}]]}
    settings = {"max_tokens": 100_000, "model": "claude-opus-4-5", SHAPE: shape}
    builder.set_request(builder.add_message("assistant", "second"), model="claude-opus-4-5", usage=billed, settings=settings)
    return builder.build()


def test_a_body_has_the_recorded_form_only_where_it_is_what_was_recorded() -> None:
    session = session_with_a_shape()
    sent = build_exact_body(turnscope.replay(session), 1)
    assert sent["messages"][2]["content"] == "two"
    assert sent["messages"][1]["content"][0]["cache_control"] == {"type": "ephemeral"}
    other = build_exact_body(turnscope.replay(session, "last-5-pairs"), 1)
    assert other["messages"][2]["content"] == [{"type": "text", "text": "two"}]
    assert "cache_control" not in json.dumps(other)
    newest = find_rule("keep_last_messages")
    shorter = replace(load("keep-everything"), name="newest", rules=(Step(newest, newest.params(keep=1)),))
    assert len(build_exact_body(turnscope.replay(session, shorter), 1)["messages"]) < 3


def test_a_body_asks_for_no_longer_an_answer_than_the_budget_has_room_for() -> None:
    session = session_with_a_shape()
    assert build_exact_body(turnscope.replay(session), 1)["max_tokens"] == 100_000
    assert build_exact_body(turnscope.replay(session, "balanced"), 1)["max_tokens"] == load("balanced").budget.output


def test_the_text_of_a_body_can_be_written_whatever_the_log_holds() -> None:
    builder = Builder("odd", "test")
    builder.add_message("user", "half a pair: \ud83d", origin="prompt")
    builder.set_request(builder.add_message("assistant", "yes"), model="m")
    text = format_exact_body(turnscope.replay(builder.build()), 0)
    assert json.loads(text.encode())["messages"][0]["content"] == "half a pair: \ud83d"
