"""Laws of the fold, and each power of the types shown by one tiny rule."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from law_sessions import ledger_of, make, sessions
from msgspec import structs
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.plan import Plan
from turnscope.envelope.rule import Ctx, NoParams, Rule
from turnscope.planning.assemble import replay
from turnscope.planning.policy import Policy, Step, load, parse
from turnscope.planning.render import render
from turnscope.planning.trace import Cursor
from turnscope.planning.trace import trace as replayed
from turnscope.session.model import Answer, Ask, Edit, Part, RecordedFacts, Session, Span


def policy(*rules: Rule, **fields: object) -> Policy:
    return Policy("test", "t", "d", "s", "f", rules=tuple(Step(rule, NoParams()) for rule in rules), **fields)  # type: ignore[arg-type]


def rule(name: str, memory: str = "remembers"):
    def wrap(edits: object) -> Rule:
        return Rule(name, "", edits, NoParams, memory)  # type: ignore[arg-type]

    return wrap


def plans(session: Session, chosen: Policy) -> list[Plan]:
    return list(replay(session, chosen, ledger_of(session)))


def first(session: Session, n: int) -> Session:
    """The session as it was before request `n` was sent."""
    cut = session.requests[n].cut if n < len(session.requests) else len(session.blocks)
    messages = tuple(m for m in session.messages if m.start < cut)
    return structs.replace(session, blocks=session.blocks[:cut], messages=messages, requests=session.requests[:n])


@given(sessions)
def test_keep_everything_keeps_everything(session: Session) -> None:
    for plan in plans(session, load("keep-everything")):
        assert [(p.start, p.stop, p.body) for p in plan.after.pieces] == [(0, plan.request.cut, None)]


@pytest.mark.thorough
@given(sessions)
def test_the_first_requests_alone_give_the_same_plans(session: Session) -> None:
    whole = plans(session, policy(DROP_OLD))
    for n in range(len(session.requests) + 1):
        assert [p.after for p in plans(first(session, n), policy(DROP_OLD))] == [p.after for p in whole[:n]]
        assert [p.calibration for p in plans(first(session, n), policy(DROP_OLD))] == [p.calibration for p in whole[:n]]


@given(sessions)
def test_back_undoes_forward_from_any_cursor(session: Session) -> None:
    trace = replayed(session, policy(DROP_OLD, CLEAR_ALL), ledger_of(session))
    cursor, path = Cursor(0, 0), []
    while True:
        path.append(cursor)
        after = trace.move(cursor, 1)
        assert trace.get_frame(cursor).envelope.counts
        if after == cursor:
            break
        assert trace.move(after, -1) == cursor
        cursor = after
    assert len(path) == sum(len(plan.decisions) + 1 for plan in trace.plans)
    assert trace.move(cursor, -len(path)) == Cursor(0, 0)
    for plan in trace.plans:
        n = plan.request.n
        assert [*trace.get_frame(Cursor(n, len(plan.decisions))).envelope.pieces] == [*plan.after.pieces]
        assert [*trace.get_frame(Cursor(n, 0)).envelope.pieces] == [*plan.before.pieces]


@given(sessions)
def test_every_change_between_before_and_after_is_a_decision(session: Session) -> None:
    for plan in plans(session, policy(DROP_OLD, CLEAR_ALL)):
        envelope = plan.before
        for decision in plan.decisions:
            assert decision.before == envelope.tokens
            if decision.splice:
                envelope = envelope.redo(decision.splice)
            assert decision.after == envelope.tokens
        assert [*envelope.pieces] == [*plan.after.pieces]


@given(sessions)
def test_a_monotone_rule_gives_the_same_as_a_fresh_one(session: Session) -> None:
    fresh = Rule("drop_old", "", DROP_OLD.edits, NoParams, "fresh")
    monotone = Rule("drop_old", "", DROP_OLD.edits, NoParams, "monotone")
    for a, b in zip(plans(session, policy(fresh)), plans(session, policy(monotone)), strict=True):
        assert render(a.after, session) == render(b.after, session)


@given(sessions)
def test_a_policy_survives_writing_and_parsing(session: Session) -> None:
    for name in ("as-recorded", "keep-everything"):
        assert parse(name, load(name).to_toml()) == load(name)


def _drop_old(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
    starts = [at for at in ctx.index.messages if at < ctx.request.cut]
    if len(starts) > 4:
        for span in ctx.index.find_conversation_spans(0, starts[-4]):
            yield Edit("drop", "old", span)


def _clear_all(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
    for at in ctx.index.results:
        if at < ctx.request.cut - 3 and envelope.find_piece(at).body is None:
            yield Edit("clear", "old result", Span(at, at + 1), (Part("user", "tool_result", "cleared"),))


DROP_OLD = rule("drop_old", "fresh")(_drop_old)
CLEAR_ALL = rule("clear_all")(_clear_all)
TALK = make([[("tool", 80)], [("think", 60), ("tool", 20)], [("say", 20)]], system=True)


def test_a_remembered_edit_is_made_once_and_a_fresh_one_is_told_once_but_not_kept() -> None:
    remembered = plans(TALK, policy(CLEAR_ALL))
    cleared = [d.edit.span for plan in remembered for d in plan.decisions]
    assert cleared
    assert len(cleared) == len(set(cleared))
    fresh = plans(TALK, policy(Rule("clear_all", "", _clear_all, NoParams, "fresh")))
    assert [d.edit.span for plan in fresh for d in plan.decisions] == cleared
    assert [plan.after.counts for plan in fresh] == [plan.after.counts for plan in remembered]
    assert all(piece.body is None for plan in fresh for piece in plan.kept.pieces)
    assert any(piece.body for piece in remembered[-1].kept.pieces)


def test_a_monotone_edit_is_given_up_when_the_model_changes() -> None:
    other = [*TALK.requests[:-1], structs.replace(TALK.requests[-1], model="claude-haiku-4-5")]
    monotone = Rule("clear_all", "", _clear_all, NoParams, "monotone")
    done = plans(structs.replace(TALK, requests=tuple(other)), policy(monotone))
    last = [d.edit.span for d in done[-1].decisions]
    assert set(last) >= {d.edit.span for plan in done[:-1] for d in plan.decisions}


def test_a_slot_is_rewritten_each_request_and_holds_one_piece() -> None:
    @rule("memo", "remembers")
    def memo(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
        yield Edit("insert", "memory", Span(0, 0), (Part(text=f"memo of request {ctx.request.n}"),), slot="memory")

    for plan in plans(TALK, policy(memo)):
        assert [p.body[0].text for p in plan.after.pieces if p.slot] == [f"memo of request {plan.request.n}"]


def test_parts_can_hold_raw_blocks_refs_system_text_and_fences() -> None:
    @rule("parts")
    def parts(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
        if ctx.request.n == 0:
            raw = {"type": "text", "text": "structured"}
            prompt = ctx.index.messages[0]
            body = (
                Part("user", text="a"),
                Part("user", raw=raw),
                Part("user", ref=prompt, fence=True),
                Part("user", text="s", place="system"),
            )
            yield Edit("condense", "b", Span(prompt, prompt + 1), body)

    body = render(plans(TALK, policy(parts))[0].after, TALK)
    assert body["system"][-1] == {"type": "text", "text": "s"}
    assert body["messages"][0]["content"] == [{"type": "text", "text": "a"}, {"type": "text", "text": "structured"}]
    assert body["messages"][1]["content"] == TALK.blocks[2].text


def test_restore_brings_blocks_back_verbatim() -> None:
    @rule("back")
    def back(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
        at = ctx.index.results[0]
        if at < ctx.request.cut:
            if envelope.find_piece(at).body is None:
                yield Edit("drop", "away", Span(at, at + 1))
            else:
                yield Edit("retrieve", "needed again", Span(at, at + 1), restore=True)

    done = plans(TALK, policy(back))
    states = [plan.after.find_piece(TALK.blocks[plan.request.cut - 1].at).body for plan in done]
    assert states
    acts = [d.action for plan in done for d in plan.decisions]
    assert acts[:3] == ["drop", "retrieve", "drop"]


def test_an_ask_is_answered_by_the_record_else_offline_and_is_kept_in_the_plan() -> None:
    @rule("ask")
    def ask(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit | Ask]:
        if ctx.request.n == 2:
            answer = yield Ask("summary", "key", "Summarise.", "user: Why is it red?\nassistant: It is 7 tokens over.")
            assert isinstance(answer, Answer)
            prompt = ctx.index.messages[0]
            yield Edit(
                "condense", "asked", Span(prompt, prompt + 2), (Part(text=answer.text),), facts={"source": answer.source}
            )

    offline = plans(TALK, policy(ask))[2]
    assert offline.asks[0][1].source == "offline"
    assert "Why is it red?" in offline.asks[0][1].text
    known = structs.replace(TALK, recorded=RecordedFacts({"key": Answer("It was red.", source="recorded")}))
    assert plans(known, policy(ask))[2].asks[0][1].text == "It was red."


def test_reported_is_what_was_billed_only_where_that_envelope_was_sent() -> None:
    told: list[int] = []

    @rule("look", "fresh")
    def look(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
        told.append(ctx.previous_usage)
        yield Edit("keep", "a look")

    plans(TALK, policy(look))
    billed = [r.usage.prompt_tokens + r.usage.output_tokens for r in TALK.requests if r.usage]
    assert told == [0, *billed[:-1]]
    told.clear()
    plans(TALK, policy(look, DROP_OLD))
    assert told[-1] < billed[-2]


def test_reported_counts_the_answer_as_well_where_nothing_was_billed() -> None:
    told: list[int] = []

    @rule("look", "fresh")
    def look(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
        told.append(ctx.previous_usage)
        yield Edit("keep", "a look")

    ledger = ledger_of(TALK)
    unbilled = structs.replace(TALK, requests=tuple(structs.replace(r, usage=None) for r in TALK.requests))
    plans(unbilled, policy(look, DROP_OLD))
    done = plans(unbilled, policy(DROP_OLD))
    answers = [ledger.count_tokens(r.cut, r.stop) for r in TALK.requests]
    assert min(answers) > 0
    assert told == [0, *(plan.seen.tokens + answer for plan, answer in zip(done[:-1], answers, strict=False))]
    half = structs.replace(unbilled, requests=(*TALK.requests[:-2], *unbilled.requests[-2:]))
    told.clear()
    (*_, before, last) = plans(half, policy(look))
    assert last.calibration.scale != 1.0
    said = round(last.calibration.scale * ledger.count_tokens(before.request.cut, before.request.stop))
    assert told[-1] == last.calibration.predict(before.seen.tokens) + said


def test_a_fallback_changes_the_model_and_the_budget_of_what_follows() -> None:
    windows: list[int] = []

    @rule("fall")
    def fall(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
        yield Edit("fallback", "larger window", model="claude-sonnet-4-6")

    @rule("see")
    def see(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
        windows.append(ctx.budget.window)
        yield Edit("keep", "a look")

    done = plans(TALK, policy(fall, see))
    assert {plan.model for plan in done} == {"claude-sonnet-4-6"}
    assert set(windows) == {1_000_000}


@pytest.mark.parametrize("action", ["refuse", "warn"])
def test_a_verdict_follows_from_decisions(action: str) -> None:
    @rule("say")
    def say(envelope: Envelope, ctx: Ctx, params: NoParams) -> Iterator[Edit]:
        yield Edit(action, "so it is")  # type: ignore[arg-type]

    assert {plan.verdict for plan in plans(TALK, policy(say))} == {action}
