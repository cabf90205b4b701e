"""Layered context on a long session: its size stays, its caps hold, what was said long before is found and put back."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from law_sessions import ledger_of, sessions
from long_session import facts, make_long_session
from msgspec import structs
from turnscope.counting.ledger import Ledger, build_ledger
from turnscope.counting.tokens import CHARS, make_estimator
from turnscope.envelope.layers.caps import cut_text, fit_points
from turnscope.envelope.layers.conversations import Split, find_borders, format_id, parse_id
from turnscope.envelope.layers.places import CONTEXT, HEADERS, RETRIEVED, SUMMARIES
from turnscope.envelope.plan import Plan
from turnscope.envelope.rule import Ctx
from turnscope.envelope.wishes import add_wishes
from turnscope.planning.assemble import replay
from turnscope.planning.policy import Policy, load
from turnscope.planning.render import render
from turnscope.session.builder import Builder
from turnscope.session.facts import add_facts
from turnscope.session.fork import fork_session
from turnscope.session.index import Index
from turnscope.session.model import Edit, Fork, Part, Session, Span, join_path, list_fork_points

TURNS = 300
HEADER = re.compile(r"c\d+(?:\.2)? (?:done|open|error)\b.*")
LAYERED = load("layered")


def within(limit: int, policy: Policy = LAYERED) -> Policy:
    return replace(policy, budget=replace(policy.budget, formula="fixed", tokens=limit, output=0, margin=0.0))


@cache
def make_long() -> tuple[Session, Ledger]:
    session = make_long_session(TURNS)
    return session, build_ledger(session, make_estimator("claude-3"))


@cache
def make_plans(limit: int = 12_000) -> list[Plan]:
    return [*replay(*make_long()[:1], within(limit), make_long()[1])]


def slot(plan: Plan, name: str) -> list[str]:
    return [part.text for piece in plan.after.pieces if piece.slot == name for part in piece.body or ()]


def lines(plan: Plan) -> list[str]:
    return [line for text in slot(plan, HEADERS) for line in text.split("\n") if HEADER.match(line)]


def full(plan: Plan, session: Session) -> int:
    """Conversations before the one under way of which something stands as it was said: here a turn is one."""
    blocks = session.blocks[: plan.request.cut]
    here = max(block.turn for block in blocks)
    stands = {b.turn for b in blocks if b.role != "system" and plan.after.find_piece(b.at).body is None}
    return len(stands - {here})


def caps_hold(plan: Plan, ledger: Ledger, caps: tuple[int, int, int]) -> None:
    context, headers, summary = caps

    def tokens(text: str) -> int:
        return sum(ledger.count_placeholder((Part("user", "text", text),)))

    assert all(tokens(text) <= context for text in slot(plan, CONTEXT))
    assert len(slot(plan, CONTEXT)) <= 1
    assert all(tokens(line) <= headers for line in lines(plan))
    assert len(lines(plan)) <= 200
    assert all(tokens(text) <= summary for text in slot(plan, SUMMARIES))
    assert len(slot(plan, SUMMARIES)) <= 5


def test_the_size_stays_while_the_session_grows_and_what_is_saved_is_what_was_published() -> None:
    session, ledger = make_long()
    plans = make_plans()
    assert all(plan.verdict == "send" and plan.after.tokens <= 12_000 for plan in plans)
    sizes = [plan.after.tokens for plan in plans]
    assert max(sizes[-100:]) <= 1.1 * max(sizes[400:500]), "flat from the two hundredth header on"
    whole = sum(ledger.total[plan.request.cut] for plan in plans)
    assert 1 - sum(sizes) / whole >= 0.9  # published: 70 to 90 %
    assert all(full(plan, session) <= 5 for plan in plans[::40])
    assert full(plans[-1], session) == 5


def test_caps_hold_at_every_request_of_the_long_session() -> None:
    for plan in make_plans():
        caps_hold(plan, make_long()[1], (300, 12, 120))
    last = make_plans()[-1]
    assert 180 <= len(lines(last)) <= 200
    assert slot(last, HEADERS)[1] == "c1 to c100: 100 older conversations, not listed"
    assert len(slot(last, SUMMARIES)) == 5


@settings(max_examples=examples(60))
@given(sessions, st.integers(60, 1_500), st.integers(1, 60), st.integers(1, 40), st.integers(1, 60), st.booleans())
def test_caps_hold_at_every_request_of_any_session(
    session: Session, limit: int, context: int, header: int, summary: int, claude: bool
) -> None:
    own = {"cap": context, "header_cap": header, "summary_cap": summary, "part_over": 80}
    steps = tuple(
        replace(s, params=replace(s.params, **{k: v for k, v in own.items() if hasattr(s.params, k)})) for s in LAYERED.rules
    )
    ledger = build_ledger(session, make_estimator("claude-3")) if claude else ledger_of(session)
    for plan in replay(session, within(limit, replace(LAYERED, rules=steps)), ledger):
        caps_hold(plan, ledger, (context, header, summary))


IDS = st.sampled_from([*(f"c{n}" for n in range(16)), "C3 ", "c4.2", "c999", "nonsense", ""])
GIVEN = st.fixed_dictionaries(
    {"ids": st.lists(IDS, max_size=9)},
    optional={
        "format": st.sampled_from(["header", "summary", "full", "mixed", "odd"]),
        "priority": st.sampled_from(["recent", 7]),
    },
)


@settings(max_examples=examples(20))
@given(GIVEN, GIVEN, st.integers(0, 4), st.integers(900, 4_000))
def test_whatever_is_asked_for_what_is_retrieved_keeps_to_quota_caps_and_budget(
    first: Any, second: Any, quota: int, limit: int
) -> None:
    session = make_long_session(14, {9: ("Tell me more.", first), 12: ("And more.", second)}, lines=4)
    own = {"quota": quota, "header_cap": 12, "summary_cap": 40}
    steps = tuple(
        replace(s, params=replace(s.params, **{k: v for k, v in own.items() if hasattr(s.params, k)})) for s in LAYERED.rules
    )
    ledger = build_ledger(session, CHARS)
    plans = [*replay(session, within(limit, replace(LAYERED, rules=steps)), ledger)]
    for plan in plans:
        assert plan.verdict == "refuse" or plan.after.tokens <= limit
        caps_hold(plan, ledger, (300, 12, 40))
        assert all(sum(ledger.count_placeholder((Part("user", "text", text),))) <= 40 for text in slot(plan, RETRIEVED))
        state = plan.get_state("retrieve_conversations")
        assert state is None or len(state.shown) <= state.used <= quota
    for n, wish in ((19, first), (25, second)):
        rows = answers(plans[n])
        assert {row[0] for row in rows} <= {*wish["ids"]}
        assert bool(rows) == bool(wish["ids"])
        assert sum(row[1] in ("given", "superseded") for row in rows) <= quota


def find_name(plan: Plan, what: str) -> str:
    """The id by which a request names what is looked for: in a header, or where it was spoken of before."""
    rows = [line for line in lines(plan) if what in line]
    if rows:
        return rows[0].split()[0]
    pointers = (line for text in slot(plan, "references") for line in text.split("\n"))
    return next(line.partition(": ")[2].split()[-1] for line in pointers if line.startswith(what))


@pytest.mark.thorough
def test_every_planted_fact_is_found_by_header_or_pointer_and_put_back_in_full() -> None:
    """Of the newest two hundred conversations a header names it; of older ones a pointer does where the prompt asks for it."""
    planted = facts(TURNS - 20)
    asking = {TURNS - 1 - k: (f"What is the deploy key of project {what}?", {}) for k, (what, _) in enumerate(planted.values())}
    session = make_long_session(TURNS, asking)
    first = [*replay(session, within(12_000), build_ledger(session, CHARS))]
    found = {n: find_name(first[2 * n], asking[n][0].split()[-1].rstrip("?")) for n in asking}
    assert sum(any(name in line for line in lines(first[2 * n])) for n, name in found.items()) >= 10
    session = make_long_session(
        TURNS, {n: (prompt, {"ids": [found[n]], "format": "full"}) for n, (prompt, _) in asking.items()}
    )
    plans = [*replay(session, within(12_000), build_ledger(session, CHARS))]
    for k, (what, key) in enumerate(planted.values()):
        n = TURNS - 1 - k
        before, after = (json.dumps(render(plans[2 * n + i].after, session)) for i in (0, 1))
        assert key in after, what
        assert before.count("Remember it for the release") < after.count("Remember it for the release")
        assert any(d.action == "retrieve" and d.splice for d in plans[2 * n + 1].decisions)
    assert all(plan.verdict == "send" for plan in plans)


def ask_session(given: Any, limit: int = 12_000, turns: int = 40, at: int = 30) -> tuple[Session, list[Plan]]:
    session = make_long_session(turns, {at: ("Tell me more.", given)})
    return session, [*replay(session, within(limit), build_ledger(session, CHARS))]


def answers(plan: Plan) -> list[list[str]]:
    return [row for d in plan.decisions for row in d.edit.facts.get("answers", ())]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"ids": ["c3"], "format": "summary"}, [["c3", "given", "summary"]]),
        ({"ids": ["C3 "], "format": "header"}, [["C3 ", "given", "header"]]),
        ({"conversation_ids": ["c3"]}, [["c3", "given", "summary"]]),
        ({"ids": ["c999", "c0", "nonsense", 7]}, [["c999", "unknown"], ["c0", "unknown"], ["nonsense", "malformed"]]),
        ({"ids": ["c31", "c30", "c26"]}, [["c31", "stands in full"], ["c30", "stands in full"], ["c26", "stands in full"]]),
        ({"ids": "c4"}, [["c4", "given", "summary"]]),
        ({"ids": None}, [["None", "malformed"]]),
        ({}, [["None", "malformed"]]),
        ("no object", [["None", "malformed"]]),
        ({"ids": ["c2", "c9", "c5"], "priority": "recent"}, [["c9", "given"], ["c5", "given"], ["c2", "given"]]),
        ({"ids": ["c2", "c9"], "format": "mixed"}, [["c2", "given", "full"], ["c9", "given", "summary"]]),
        ({"ids": ["c2"] * 3}, [["c2", "given", "summary"]]),
        (
            {"ids": [f"c{n}" for n in range(1, 8)], "format": "header"},
            [*([f"c{n}", "given"] for n in range(1, 6)), ["c6", "over the quota"]],
        ),
        ({"ids": ["c²", "c1.9", "c" + "9" * 40]}, [["c²", "malformed"], ["c1.9", "unknown"]]),
    ],
)
def test_every_request_for_conversations_is_answered(given: Any, expected: list[list[str]]) -> None:
    _, plans = ask_session(given)
    told = answers(plans[61])
    assert [row[: len(want)] for row, want in zip(told, expected, strict=False)] == expected


def test_a_retrieved_text_stands_while_its_conversation_goes_on_and_leaves_with_it() -> None:
    session, plans = ask_session({"ids": ["c3", "c5"], "format": "mixed"})
    stood = [at for at in range(plans[61].request.cut) if session.blocks[at].turn == 2]
    assert [plans[n].after.find_piece(stood[0]).body for n in (60, 61, 62)] == [(), None, ()]
    assert [len(slot(plans[n], RETRIEVED)) for n in (60, 61, 62)] == [0, 1, 0]


def test_under_pressure_a_full_text_becomes_a_summary_then_a_header_before_anything_else_is_dropped() -> None:
    given = {"ids": ["c3"], "format": "full"}
    base = ask_session({}, turns=31)[1][61].after.tokens
    forms, summaries = [], []
    for more in (1_500, 130, 30, 0):
        session, plans = ask_session(given, base + more, turns=31)
        (shown,) = plans[61].get_state("retrieve_conversations").shown
        forms.append(shown)
        summaries.append(len(slot(plans[61], SUMMARIES)))
        assert full(plans[61], session) == 5 + (shown[1] == "full")
        assert plans[61].after.tokens <= base + more
    assert forms == [(2, "full"), (2, "summary"), (2, "header"), (2, "header")]
    assert summaries == [5, 5, 5, 4]


def test_what_is_likely_asked_for_is_ready_and_the_rate_is_told() -> None:
    session = make_long_session(40, {30: ("Look at src/cache.py again.", {"ids": ["c2", "c1"], "format": "header"})})
    plans = [*replay(session, within(12_000), build_ledger(session, CHARS))]
    look = next(d for d in plans[61].decisions if "answers" in d.edit.facts)
    assert look.edit.facts["asked"] == 2
    assert "of 2 requested so far were ready" in look.edit.because
    state = plans[61].get_state("retrieve_conversations")
    assert {1, 0} <= set(state.ready)
    assert state == msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=type(state))
    assert not any("prefetch" in p.slot for p in plans[61].after.pieces), "what is ready is in no prompt"


def ctx_of(session: Session, policy: Policy = LAYERED) -> Ctx:
    ledger, request = build_ledger(session, CHARS), session.requests[-1]
    plan = [*replay(session, policy, ledger)][-1]
    return Ctx(
        session, request, Index.build(session), ledger, ledger, None, plan.calibration, plan.budget, plan.budget.limit, 0
    )


def test_an_edit_that_supersedes_a_conversation_gives_it_another_id_that_the_old_one_leads_to() -> None:
    session = make_long_session(8)
    at = next(block.at for block in session.blocks if block.turn == 5)
    branch = structs.replace(session, id="branch", parent=session.id, at=at)
    ctx, split = ctx_of(branch), Split()
    assert [format_id(ctx, split, n) for n in range(7)] == ["c1", "c2", "c3", "c4", "c5", "c6.2", "c7.2"]
    assert parse_id(ctx, split, "c6") == parse_id(ctx, split, "c6.1") == parse_id(ctx, split, "c6.2") == (5, "c6.2")
    assert parse_id(ctx, split, "c5.2") == (-1, "")
    assert parse_id(ctx_of(session), split, "c6") == (5, "c6")


def test_borders_are_turns_or_silence_or_another_topic_and_stay_when_the_session_grows() -> None:
    session = make_long_session(
        12, {n: ("Check render again." if n < 6 else "Rotate the mailer keys.", {}) for n in range(1, 12)}
    )
    ctx = ctx_of(session)
    assert find_borders(ctx, Split()) == ctx.index.turns
    assert len(find_borders(ctx, Split("topic"))) == 2
    gaps = tuple(
        structs.replace(m, sent_at=m.sent_at + (7_200 if b.turn >= 4 else 0)) if m.sent_at else m
        for m in session.messages
        for b in [session.blocks[m.start]]
    )
    silent = ctx_of(structs.replace(session, messages=gaps))
    assert find_borders(silent, Split("idle gap")) == (ctx.index.turns[0], ctx.index.turns[4])
    parts = find_borders(ctx, Split(part_over=200))
    assert set(ctx.index.turns) < set(parts)
    short = make_long_session(6, {n: ("Check render again.", {}) for n in range(1, 6)})
    part = ctx_of(short)
    assert find_borders(part, Split(part_over=200)) == tuple(at for at in parts if at < len(short.blocks))


def count(texts: Any) -> list[int]:
    return [(len(text) + 3) // 4 for text in texts]


@given(st.lists(st.lists(st.text("ab c.", max_size=30), max_size=4), max_size=5), st.integers(0, 60))
def test_a_cap_is_kept_and_sentences_go_before_points(said: list[list[str]], cap: int) -> None:
    points = [(f"p{n}", " ", tuple(rows)) for n, rows in enumerate(said)]
    text = fit_points("[head]", points, cap, count)
    assert count([text])[0] <= cap
    kept = [row.partition(":")[0] for row in text.split("\n")[1:]]
    assert kept == sorted(kept), "points go from the last on"


def test_a_text_is_cut_at_a_word() -> None:
    assert cut_text("one two three four", 3, count) == "one two"
    assert cut_text("one", 0, count) == ""


def test_system_blocks_between_conversations_stand_and_the_prompt_of_a_parted_turn_stays() -> None:
    session = make_long_session(3, lines=400)
    steps = tuple(
        replace(
            s,
            params=replace(
                s.params,
                **({"keep": 0} if hasattr(s.params, "keep") else {}),
                **({"part_over": 100} if hasattr(s.params, "part_over") else {}),
            ),
        )
        for s in LAYERED.rules
    )
    for plan in replay(session, within(30_000, replace(LAYERED, rules=steps)), build_ledger(session, CHARS)):
        turn = plan.request.turn
        prompt = next(b.at for b in session.blocks if b.turn == turn and b.role == "user")
        assert plan.after.find_piece(prompt).body is None
        assert plan.after.find_piece(0).body is None


def talk(*prompts: str, answer: str = "Done.", sent: float | None = None) -> Session:
    """A chat of these prompts, each with the same answer, a minute after the last message from `sent` on."""
    builder = Builder("talk", "test")
    for n, prompt in enumerate(prompts):
        times = (None, None) if sent is None else (sent + 120 * n, sent + 120 * n + 60)
        builder.add_message("user", prompt, sent_at=times[0])
        builder.set_request(builder.add_message("assistant", answer, sent_at=times[1]), model="claude-opus-4-5")
    return builder.build()


def plans_of(session: Session, policy: Policy = LAYERED) -> list[Plan]:
    return [*replay(session, policy, build_ledger(session, CHARS))]


def point(plan: Plan, name: str) -> str:
    """A point of the context summary; "" = it has none of that name."""
    rows = [line for text in slot(plan, CONTEXT) for line in text.split("\n")]
    return next((line.removeprefix(f"{name}: ") for line in rows if line.startswith(f"{name}: ")), "")


def test_the_objective_stands_through_prompts_that_go_on_and_changes_with_the_topic() -> None:
    going_on = ("next?", "go on", "And the docs?", "Now write a test for it.", "Why is that?", "Check the ferry pool again.")
    topic = ("Please rewrite the pool of the ferry service.", *going_on, "Which anchors does the harbour sell?", "next?")
    plans = plans_of(talk(*topic))
    said = [(point(plan, "objective"), point(plan, "now")) for plan in plans[1:]]
    assert said[: len(going_on)] == [(topic[0], prompt) for prompt in going_on]
    assert said[len(going_on) :] == [(topic[-2], ""), (topic[-2], "next?")]


def test_an_intent_that_was_reported_before_the_topic_changed_is_not_its_objective() -> None:
    builder = Builder("talk", "test")
    builder.add_message("user", "Please rewrite the pool of the ferry service.")
    report = {"type": "tool_use", "id": "c", "name": "report_housekeeping", "input": {"understood_intent": "Faster ferries."}}
    builder.set_request(builder.add_message("assistant", [report], fence=True))
    builder.add_message("user", [{"type": "tool_result", "tool_use_id": "c", "content": "Kept."}], origin="tool")
    for prompt in ("next?", "Which anchors does the harbour sell?"):
        builder.set_request(builder.add_message("assistant", "Done."))
        builder.add_message("user", prompt)
    builder.add_unanswered()
    plans = plans_of(builder.build())
    assert "Faster ferries." in point(plans[-2], "objective")
    assert point(plans[-1], "objective") == "Which anchors does the harbour sell?"


def test_achievements_have_room_of_their_own_however_long_the_objective_and_the_story_are() -> None:
    wordy = " ".join(f"Rewrite part {n} of the ferry pool so that each of its callers is served in turn." for n in range(9))
    plans = plans_of(talk(wordy, *[f"{n} {wordy}" for n in range(12)], answer="We decided to keep the queue. All tests pass."))
    assert point(plans[-1], "achieved") == "We decided to keep the queue. All tests pass."
    assert point(plans[-1], "story, the newest first")
    assert all(sum((len(text) + 3) // 4 for text in slot(plan, CONTEXT)) <= 300 for plan in plans)


def test_what_enters_and_leaves_the_focus_is_named() -> None:
    session = talk(*["Check cache.py."] * 3, *["Check mailer.py."] * 3, "And?")
    last = plans_of(session)[6]
    assert point(last, "left") == "cache.py, cache"
    told = next(d.edit for d in plans_of(session)[4].decisions if d.rule == "write_context")
    assert told.facts["entered"] == ["mailer.py", "mailer"]
    assert told.because.endswith("entered focus: mailer.py, mailer")


def test_headers_carry_the_time_and_name_the_day_once() -> None:
    plans = plans_of(talk(*["Check the ferry pool."] * 4, sent=1_700_006_260.0))  # 14 November 2023, 23:57:40
    text = slot(plans[-1], HEADERS)[1]
    assert text.split("\n") == [
        "On 11-14:",
        "c1 done 23:57 Check ferry pool 14 - Done.",
        "c2 done 23:59 Check ferry pool 14 - Done.",
        "On 11-15:",
        "c3 done 00:01 Check ferry pool 14 - Done.",
    ]


def test_a_summary_has_position_and_whether_it_can_be_retrieved_as_fields() -> None:
    session = talk(*[f"Check ferry {n}." for n in range(8)], answer="We decided to keep it. What about the pool?")
    dropped = Edit("drop", "by hand", Span(0, 2), ())
    wished = structs.replace(session, recorded=add_facts(session.recorded, add_wishes(session, 0, [dropped])))
    for chat, can in ((session, True), (wished, False)):
        rows = next(d.edit.facts["fields"] for d in plans_of(chat)[-1].decisions if "fields" in d.edit.facts)
        assert [(row["id"], row["position"], row["retrievable"]) for row in rows] == [("c1", 1, can), ("c2", 2, True)]
    assert rows[1] | {"decisions": 1, "open questions": 1} == rows[1]


def test_every_version_of_an_edited_conversation_leads_to_the_newest() -> None:
    session = make_long_session(8)
    starts = [next(block.at for block in session.blocks if block.turn == turn) for turn in range(8)]
    twice = structs.replace(session, id="branch", parent="before", at=starts[5], about={"forked": [starts[3]]})
    ctx, split = ctx_of(twice), Split()
    assert [format_id(ctx, split, n) for n in range(8)] == ["c1", "c2", "c3", "c4.2", "c5.2", "c6.3", "c7.3", "c8.3"]
    assert {parse_id(ctx, split, name) for name in ("c6", "c6.1", "c6.2", "C6.3 ")} == {(5, "c6.3")}
    assert {parse_id(ctx, split, name)[0] for name in ("c6.4", "c6.0", "c4.3", "c3.2", "c6.", "c6.x", "c6.²")} == {-1}


def test_a_branch_of_a_branch_knows_where_its_path_was_edited_before() -> None:
    session = make_long_session(8)
    once = fork_session(session, 8)
    grown = structs.replace(session, id=once.id, parent=once.parent, at=once.at, about=once.about)
    assert (list_fork_points(session), list_fork_points(once)) == ((), (session.requests[8].cut,))
    assert list_fork_points(fork_session(grown, 10)) == (session.requests[8].cut, session.requests[10].cut)
    paths = [structs.replace(session, id=f"p{n}", parent=session.id, at=at) for n, at in enumerate((7, 13, 25))]
    forks = [Fork(structs.replace(path, blocks=path.blocks[path.at :]), n, path.at) for n, path in enumerate(paths)]
    assert [list_fork_points(join_path(session, forks, n)) for n in range(4)] == [(), (7,), (7, 13), (7, 13, 25)]


def test_the_composed_message_measures_what_is_metadata() -> None:
    plans = plans_of(talk(*["Check the ferry pool."] * 9))
    facts = [next(d.edit for d in plan.decisions if d.rule == "compose_message") for plan in plans]
    assert facts[0].facts["metadata"] == 0
    last = facts[-1].facts
    assert last["metadata"] == sum(last["layers"].values()) > 0
    assert f"{last['metadata']:,} of {plans[-1].after.tokens:,} tokens are metadata" in facts[-1].because


def test_the_composed_message_says_what_its_input_is_and_counts_a_mixed_system_prompt_by_kind() -> None:
    builder = Builder("chat", "test")
    builder.add_message("system", "You write code.\n\n<env>Platform: linux</env>\n\nNever delete files.")
    for prompt in ("Open the pool of the ferry.", "No, that is wrong.", "Which anchors does the harbour sell?"):
        builder.add_message("user", prompt)
        builder.set_request(builder.add_message("assistant", "Done."))
    builder.add_message("user", "Read the file.")
    builder.set_request(
        builder.add_message("assistant", [{"type": "tool_use", "id": "c", "name": "read", "input": {}}], fence=True)
    )
    failed = {"type": "tool_result", "tool_use_id": "c", "content": "no such file", "is_error": True}
    builder.add_message("user", [failed])
    builder.set_request(builder.add_message("assistant", "It is not there."))
    said = builder.build()
    told = [
        d.edit.facts
        for plan in replay(said, LAYERED, build_ledger(said, CHARS))
        for d in plan.decisions
        if "input" in d.edit.facts
    ]
    assert [facts["input"]["type"] for facts in told][:3] == ["user_query", "user_feedback", "user_query"]
    assert told[-1]["input"]["type"] == "tool_response"
    assert told[-1]["input"]["errors"] == ["no such file"]
    assert set(told[0]["system"]) == {"other", "environment", "guardrails"}
