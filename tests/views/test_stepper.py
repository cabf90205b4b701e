"""The data of the stepper: read as the browser reads them, they give what the trace itself says, at every place."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
import turnscope
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from law_sessions import ledger_of, make, sessions
from msgspec import structs
from turnscope.envelope import difference
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, NoParams, Rule
from turnscope.planning.policy import Policy, Step, load
from turnscope.planning.trace import Cursor, Trace
from turnscope.planning.trace import trace as replayed
from turnscope.session.model import Answer, Ask, Edit, Part, RecordedFacts, Session, Span
from turnscope.views import summary_quality
from turnscope.views.stepper import CHANGE, EVENT, KINDS, LOOK, STATES, Steps, build_steps
from turnscope.views.summary_quality import score_rule_summary

NOTHING = (0, -1)


def _drop_old(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
    starts = [at for at in ctx.index.messages if at < ctx.request.cut]
    if len(starts) > 4:
        for span in ctx.index.find_conversation_spans(0, starts[-4]):
            yield Edit("drop", f"{len(starts)} messages stand, 4 are kept", span, facts={"messages": len(starts)})


def _clear_results(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
    for at in ctx.index.results:
        if at < ctx.request.cut - 3 and envelope.find_piece(at).body is None:
            yield Edit("clear", "old result", Span(at, at + 1), (Part("user", "tool_result", "cleared"),))


def _condense(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit | Ask]:
    """Sums up all but the newest three messages, the older summary included, every third request."""
    starts = [at for at in ctx.index.messages if at < ctx.request.cut]
    if ctx.request.n % 3 == 2 and len(starts) > 3 and not ctx.index.static:
        answer: Answer = yield Ask("summary", f"k{ctx.request.n}", "Sum up.", f"user: what next at {ctx.request.n}?", 60)
        yield Edit("condense", f"{len(starts)} messages", Span(0, starts[-3]), (Part(text=answer.text, kind="summary"),))


def _remind(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
    if ctx.request.n % 4 == 3:
        yield Edit("insert", "no reminder now", Span(0, 0), (), slot="reminder")
    elif ctx.request.n:
        yield Edit("insert", "remind", Span(0, 0), (Part(text=f"reminder {ctx.request.n // 2}"),), slot="reminder")


def _restore(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
    """Puts the first result back, every fifth request."""
    first = next((at for at in ctx.index.results if at < ctx.request.cut), None)
    if first is not None and ctx.request.n % 5 == 4:
        piece = envelope.find_piece(first)
        if piece.body is not None:
            yield Edit("restore", "asked for", Span(piece.start, piece.stop), restore=True)


def _warn(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
    if ctx.request.n % 6 > 2:
        yield Edit("warn", f"request {ctx.request.n} is late")


def rule(name: str, memory: str) -> Rule:
    return Rule(name, "", globals()[name], NoParams, memory)  # type: ignore[arg-type]


RULES = ("_drop_old", "_clear_results", "_condense", "_remind", "_restore", "_warn")
chosen = st.lists(
    st.builds(rule, st.sampled_from(RULES), st.sampled_from(["remembers", "monotone", "fresh"])),
    min_size=1,
    max_size=3,
    unique_by=lambda one: one.name,
)


def trace_of(session: Session, *rules: Rule) -> Trace:
    policy = Policy("test", "t", "d", "s", "f", rules=tuple(Step(one, NoParams()) for one in rules))
    return replayed(session, policy, ledger_of(session))


def try_trace(session: Session, rules: list[Rule]) -> Trace | None:
    """A trace; None where random rules cut each other's placeholders in two, which the runner refuses."""
    try:
        return trace_of(session, *rules)
    except turnscope.TurnscopeError:
        return None


class Reader:
    """What the browser does with the data, in its plainest form: paint, and paint again."""

    def __init__(self, made: Steps) -> None:
        self.data: dict[str, Any] = json.loads(made.data)
        self.blocks = len(self.data["blocks"]["label"])
        self.first = [0, *self.data["requests"].get("first", [])]

    def frame(self, request: int, step: int) -> tuple[list[tuple[int, int]], set[int], list[int], list[int]]:
        """State and decision of every block, the inserts, tokens by bucket, and what the provider leaves out."""
        states, hidden, slots = [NOTHING] * self.blocks, [0] * self.blocks, set()
        carried, requests, decisions = (self.data[name] for name in ("carried", "requests", "decisions"))
        for n in range(request + 1):
            for i in range(carried["until"][n], carried["until"][n + 1]):
                start, stop, state, by = carried["paint"][4 * i : 4 * i + 4]
                states[start:stop] = [(state, by)] * (stop - start)
            for i in range(carried["hidden"][n], carried["hidden"][n + 1]):
                start, stop, value = carried["hide"][3 * i : 3 * i + 3]
                hidden[start:stop] = [value] * (stop - start)
            slots = slots - set(carried["gone"][n]) | set(carried["come"][n])
        counts = requests["before"][5 * request : 5 * request + 5]
        for number in range(self.first[request], self.first[request] + step):
            counts = [a + b for a, b in zip(counts, decisions["delta"][5 * number : 5 * number + 5], strict=True)]
            slots -= set(decisions["removes"][number] or ())
            start, stop = decisions["start"][number], decisions["stop"][number]
            if decisions["state"][number] >= 0:
                states[start:stop] = [(decisions["state"][number], number)] * (stop - start)
            elif decisions["slot"][number] >= 0 and decisions["size"][number]:
                slots.add(number)
        return states, slots, counts, hidden

    def sentence(self, number: int) -> str:
        decisions = self.data["decisions"]
        numbers = iter(decisions["numbers"][number].split("|"))
        return "".join(next(numbers) if part == "\x01" else part for part in self.data["table"][decisions["why"][number]])


def list_standing(envelope: Envelope) -> tuple[list[tuple[bool, bool, int]], set[int]]:
    """For every block: whether it is verbatim, whether nothing stands for it, and by which decision; and the inserts."""
    blocks: list[tuple[bool, bool, int]] = []
    for piece in envelope.pieces:
        blocks += [(piece.body is None, piece.body == (), piece.by)] * (piece.stop - piece.start)
    return blocks, {piece.by for piece in envelope.pieces if piece.start == piece.stop}


def describe_states(states: list[tuple[int, int]]) -> list[tuple[bool, bool, int]]:
    return [(STATES[state] in ("kept", "restored"), STATES[state] in ("dropped", "summed"), by) for state, by in states]


@given(sessions, chosen)
def test_the_data_give_every_frame_of_the_trace(session: Session, rules: list[Rule]) -> None:
    trace = try_trace(session, rules)
    if trace is None:
        return
    reader = Reader(build_steps(trace))
    for plan in trace.plans:
        for step in range(len(plan.decisions) + 1):
            frame = trace.get_frame(Cursor(plan.request.n, step))
            states, slots, counts, hidden = reader.frame(plan.request.n, step)
            blocks, inserts = list_standing(frame.envelope)
            assert describe_states(states[: plan.request.cut]) == blocks
            assert slots == inserts
            assert tuple(counts) == frame.envelope.counts
        absent = [piece.body == () for piece in plan.seen.pieces for _ in range(piece.stop - piece.start)]
        if any(other.server for other in trace.plans):
            assert [bool(one) for one in hidden[: plan.request.cut]] == absent


@given(sessions, chosen)
def test_a_request_without_a_change_stands_as_the_one_before_and_what_was_said_since(
    session: Session, rules: list[Rule]
) -> None:
    trace = try_trace(session, rules)
    if trace is None:
        return
    changed = {cursor.request for cursor in build_steps(trace).changes}
    for old, new in zip(trace.plans, trace.plans[1:], strict=False):
        if new.request.n in changed:
            continue
        grown = old.after.grow(new.request.cut, trace.ledger)
        bodies = [[piece.body for piece in one.pieces for _ in range(piece.stop - piece.start)] for one in (grown, new.after)]
        assert bodies[0] == bodies[1]


@given(sessions, chosen)
def test_sentences_and_facts_come_back_word_for_word(session: Session, rules: list[Rule]) -> None:
    trace = try_trace(session, rules)
    if trace is None:
        return
    reader = Reader(build_steps(trace))
    for plan, decision in ((each, one) for each in trace.plans for one in each.decisions):
        facts = score_rule_summary(plan, decision)
        assert reader.sentence(decision.seq) == decision.edit.because
        place = reader.data["decisions"]["facts"][decision.seq]
        names, *values = reader.data["facts"][place] if place >= 0 else (None,)
        assert values == list(facts.values())
        told = [name.replace("_", " ") for name in facts]
        assert names is None or reader.data["table"][names].split("|") == told


@given(sessions, chosen)
def test_gaps_hold_every_difference_of_two_envelopes(session: Session, rules: list[Rule]) -> None:
    trace = try_trace(session, rules)
    if trace is None:
        return
    for old, new in zip(trace.plans, trace.plans[1:], strict=False):
        runs = difference.compare_envelopes(old.after, new.after, lambda piece: (piece.body is None, piece.by), (True, -1))
        found = {at for start, stop, _ in runs for at in range(start, stop)}
        before, after = list_standing(old.after)[0], list_standing(new.after)[0]
        before += [(True, False, -1)] * (len(after) - len(before))
        assert found == {at for at, (a, b) in enumerate(zip(before, after, strict=True)) if (a[0], a[2]) != (b[0], b[2])}


TALK = make([[("tool", 80), ("tool", 60)], [("think", 60), ("tool", 20)], [("say", 20)], [("say", 20), ("tool", 400)]], True)


def kinds(trace: Trace) -> list[list[str]]:
    reader = Reader(build_steps(trace))
    kind = reader.data["decisions"]["kind"]
    return [[KINDS[kind[d.seq]] for d in plan.decisions] for plan in trace.plans]


def test_a_cut_that_is_made_again_for_each_request_is_told_again_only_where_it_reaches_further() -> None:
    def twice(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
        if ctx.request.n:
            yield Edit("drop", "the same again", Span(2, 3 if ctx.request.n < 3 else 4))

    trace = trace_of(TALK, Rule("twice", "", twice, NoParams, "fresh"))
    assert kinds(trace)[:5] == [[], ["change"], [], ["change"], []]
    assert [d.edit.span for plan in trace.plans for d in plan.decisions] == [(2, 3), (3, 4)]
    assert build_steps(trace).changes == (Cursor(1, 1), Cursor(3, 1))


def test_what_a_fresh_rule_no_longer_cuts_is_a_change_of_its_own() -> None:
    def once(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
        if ctx.request.n == 2:
            yield Edit("drop", "this once", Span(2, 4))

    made = build_steps(trace_of(TALK, Rule("once", "", once, NoParams, "fresh")))
    assert made.changes == (Cursor(2, 1), Cursor(3, 0))
    assert json.loads(made.data)["requests"]["back"][3] == [2, 4, 2]


def test_a_warning_is_an_event_when_it_begins_and_a_look_while_it_goes_on() -> None:
    assert [one[0] for one in kinds(trace_of(TALK, rule("_warn", "fresh"))) if one] == [
        KINDS[EVENT if n in (3, 9) else LOOK] for n in range(len(TALK.requests)) if n % 6 > 2
    ]


def test_an_insert_with_the_same_text_is_not_told_again() -> None:
    found = kinds(trace_of(TALK, rule("_remind", "fresh")))
    assert found[1] == ["change"]
    assert found[2] == ["change"], "its text is another"
    assert found[5] == [], "reminder 2 again"


def test_a_summary_that_no_model_made_is_marked() -> None:
    trace = trace_of(structs.replace(TALK, blocks=TALK.blocks), rule("_condense", "remembers"))
    plain = make([[("say", 50)] * 3] * 3)
    offline = json.loads(build_steps(trace_of(plain, rule("_condense", "remembers"))).data)["decisions"]["offline"]
    assert 1 in offline
    asked = {
        ask.key: Answer("Recorded.", source="recorded")
        for plan in trace_of(plain, rule("_condense", "remembers")).plans
        for ask, _ in plan.asks
    }
    recorded = json.loads(
        build_steps(trace_of(structs.replace(plain, recorded=RecordedFacts(asked)), rule("_condense", "remembers"))).data
    )["decisions"]
    assert 1 not in recorded["offline"]
    assert trace.plans, "a session with a system prompt is not condensed by this rule"


def test_totals_speak_of_the_whole_session() -> None:
    session = make([[("tool", 400)] * 4] * 3)
    kept = build_steps(trace_of(session))
    cut = build_steps(trace_of(session, rule("_drop_old", "fresh")))
    assert kept.sent_tokens == kept.uncut_tokens
    assert kept.changes == ()
    assert cut.sent_tokens < cut.uncut_tokens == kept.uncut_tokens
    assert cut.peak[0] < kept.peak[0]
    assert sum(cut.verdicts) == len(session.requests)
    assert cut.changed <= len(cut.changes) <= cut.decisions


def test_a_session_without_requests_has_steps_too() -> None:
    made = build_steps(trace_of(structs.replace(TALK, requests=())))
    assert (made.changes, made.peak, made.sent_tokens) == ((), (0, 0), 0)


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("name", ["as-recorded", "keep-everything", "balanced", "staged", "cline-classic"])
@pytest.mark.parametrize("sample", sorted(path.stem for path in (ROOT / "sample_sessions").glob("*.jsonl")))
def test_the_data_give_the_frames_of_real_policies_on_the_samples(sample: str, name: str) -> None:
    trace = turnscope.replay(turnscope.load(ROOT / "sample_sessions" / f"{sample}.jsonl"), load(name))
    made = build_steps(trace)
    reader = Reader(made)
    places = {cursor.request for cursor in made.changes[:: max(1, len(made.changes) // 4)]} | {0, len(trace.plans) - 1}
    for n in places:
        for step in {0, len(trace.plans[n].decisions) // 2, len(trace.plans[n].decisions)}:
            frame = trace.get_frame(Cursor(n, step))
            states, slots, counts, _ = reader.frame(n, step)
            assert describe_states(states[: frame.plan.request.cut]) == list_standing(frame.envelope)[0]
            assert slots == list_standing(frame.envelope)[1]
            assert tuple(counts) == frame.envelope.counts


def test_changes_are_decisions_that_change_the_envelope() -> None:
    trace = trace_of(TALK, rule("_clear_results", "remembers"))
    found = [trace.plans[c.request].decisions[c.step - 1] for c in build_steps(trace).changes]
    assert found == [d for plan in trace.plans for d in plan.decisions if d.splice]
    assert {KINDS[k] for k in json.loads(build_steps(trace).data)["decisions"]["kind"]} == {KINDS[CHANGE]}


@pytest.mark.thorough
def test_a_score_is_kept_without_the_texts_that_it_was_made_of() -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(20):
            summary_quality._score(f"user: fix src/module_{number}.py\n" * 10_000, f"src/module_{number}.py was fixed")
        assert tracemalloc.get_traced_memory()[0] - before < 1_000_000  # of 6 MB that were read
    finally:
        tracemalloc.stop()
    assert len(summary_quality._scores) <= summary_quality.CACHE_SIZE
