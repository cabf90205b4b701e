"""Laws that every rule keeps, on random sessions with tools, thinking and repeated readings, parameters and budgets."""

from __future__ import annotations

import typing
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from turnscope.counting.ledger import Ledger, build_ledger
from turnscope.counting.tokens import CHARS, Counter
from turnscope.envelope.budget import BudgetParams
from turnscope.envelope.plan import Plan
from turnscope.envelope.rule import Rule
from turnscope.planning.assemble import replay
from turnscope.planning.policy import Policy, Step
from turnscope.planning.render import render
from turnscope.planning.rule_registry import load_rules
from turnscope.session.builder import Builder
from turnscope.session.index import Index, count_before
from turnscope.session.model import Bucket, Session

STATIC = (Bucket.SYSTEM, Bucket.TOOLS)
OWN = Counter("chars", "", 0.31, "")  # another opinion than the session's, as a ported policy has
NAMES = sorted(
    "keep_last_messages keep_last_pairs keep_newest_within_budget cut_in_pairs replace_duplicate_reads cut_long_results "
    "clear_old_results strip_old_thinking compress_old_calls drop_repeated_content".split()
)
MODELS = ("claude-opus-4-5", "claude-sonnet-4-6", "")


@dataclass(frozen=True)
class Drawn:
    session: Session
    policy: Policy
    ledger: Ledger
    own: Ledger | None

    def plans(self) -> list[Plan]:
        return list(replay(self.session, self.policy, self.ledger, self.own))


@st.composite
def sessions(draw: st.DrawFn) -> Session:
    """A conversation that providers accept: prompts, thinking, parallel calls with results in one message or several."""
    builder, number = Builder("law", "law"), 0
    size = st.integers(0, 60)
    if draw(st.booleans()):
        builder.add_message("system", "s" * draw(st.integers(1, 80)))
    if draw(st.booleans()):
        builder.add_message("tools", [{"name": "Read", "description": "d" * draw(size), "input_schema": {}}])
    for turn in range(draw(st.integers(1, 6))):
        if turn and draw(st.integers(0, 4)) == 0:
            builder.add_message("system", f"now {turn} " + "s" * draw(size))
        path = draw(st.sampled_from("ab"))
        text = draw(
            st.sampled_from(
                [
                    "p" * 80,
                    f"question {turn} " + "p" * draw(size),
                    f'<file_content path="{path}">{"f" * draw(size)}</file_content>',
                ]
            )
        )
        builder.add_message("user", [{"type": "text", "text": text}])
        for _ in range(draw(st.integers(0, 4))):
            calls, content = [], _thoughts(draw, size)
            for _ in range(draw(st.integers(1, 3))):
                number += 1
                calls.append(
                    {
                        "type": "tool_use",
                        "id": f"c{number}",
                        "name": draw(st.sampled_from(["Read", "Bash"])),
                        "input": {"path": draw(st.sampled_from("ab"))},
                    }
                )
            answer = builder.add_message("assistant", [*content, *calls])
            builder.set_request(answer, model=draw(st.sampled_from(MODELS)))
            results = [
                {
                    "type": "tool_result",
                    "tool_use_id": c["id"],
                    "content": draw(st.sampled_from(["r" * 90, f"result of {c['id']}\n" + "line\n" * draw(size)])),
                }
                for c in calls
            ]
            split = draw(st.integers(0, len(results)))
            for group in (results[:split], results[split:]):
                if group:
                    builder.add_message("user", group)
        answer = builder.add_message(
            "assistant", [*_thoughts(draw, size), {"type": "text", "text": f"answer {turn} " + "a" * draw(size)}]
        )
        builder.set_request(answer, model=draw(st.sampled_from(MODELS)))
    builder.add_message("user", [{"type": "text", "text": "last " + "p" * draw(size)}])
    builder.add_unanswered(model=draw(st.sampled_from(MODELS)))
    return builder.build()


def _thoughts(draw: st.DrawFn, size: st.SearchStrategy[int]) -> list[Any]:
    return [{"type": "thinking", "thinking": "t" * draw(size), "signature": "s"}] if draw(st.booleans()) else []


def values(kind: Any) -> st.SearchStrategy[Any] | None:
    """Random values of a parameter, small enough to matter; None where the default has to do."""
    if typing.get_origin(kind) is Literal:
        return st.sampled_from(typing.get_args(kind))
    if kind is bool:
        return st.booleans()
    if kind is int:
        return st.one_of(st.integers(0, 6), st.integers(0, 300))
    if kind is float:
        return st.floats(0, 1)
    if kind == tuple[str, ...]:
        return st.lists(st.sampled_from(["Read", "Bash"]), max_size=2, unique=True).map(tuple)
    return None


def params(rule: Rule) -> st.SearchStrategy[Any]:
    """Random parameters of a rule, by the types that it declares."""
    hints = typing.get_type_hints(rule.params)
    known = {f.name: strategy for f in fields(rule.params) if (strategy := values(hints[f.name])) is not None}
    return st.builds(rule.params, **known)


@st.composite
def draw_case(draw: st.DrawFn, names: list[str] = NAMES, most: int = 3) -> Drawn:
    """A session under a policy of random rules and a random limit, counted by the session's counter or the policy's own."""
    session = draw(sessions())
    chosen = [load_rules()[name] for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=most))]
    steps = tuple(Step(rule, draw(params(rule))) for rule in chosen)
    spec = BudgetParams(formula="fixed", tokens=draw(st.integers(0, 400)))
    own = build_ledger(session, OWN) if draw(st.booleans()) else None
    policy = Policy("law", "law", "", "", "", budget=spec, rules=steps)
    return Drawn(session, policy, build_ledger(session, CHARS), own)


def states(plan: Plan) -> list[Any]:
    return [(p.start, p.stop, p.counts, p.body, p.slot) for p in plan.after.pieces]


@given(draw_case())
def test_an_envelope_tiles_its_blocks_and_counts_what_it_holds(case: Drawn) -> None:
    for plan in case.plans():
        at, counts = 0, (0, 0, 0, 0, 0)
        for piece in plan.after.pieces:
            assert piece.start == at
            at = piece.stop
            own = (
                case.ledger.count_by_bucket(piece.start, piece.stop)
                if piece.body is None
                else case.ledger.count_placeholder(piece.body)
            )
            counts = tuple(a + b for a, b in zip(counts, own, strict=True))
        assert (at, counts) == (plan.request.cut, plan.after.counts)


@given(draw_case())
def test_decisions_undone_from_the_last_give_the_envelope_before(case: Drawn) -> None:
    for plan in case.plans():
        envelope = plan.after
        for decision in reversed(plan.decisions):
            assert envelope.tokens == decision.after
            envelope = envelope.undo(decision.splice) if decision.splice else envelope
            assert envelope.tokens == decision.before
        assert [*envelope.pieces] == [*plan.before.pieces]


@given(draw_case(), st.data())
def test_the_first_requests_alone_give_the_same_plans(case: Drawn, data: st.DataObject) -> None:
    whole = case.plans()
    n = data.draw(st.integers(1, len(whole)))
    cut = case.session.requests[n - 1].cut
    alone = structs.replace(
        case.session,
        blocks=tuple(structs.replace(b, pair=b.pair if b.pair < cut else -1) for b in case.session.blocks[:cut]),
        messages=tuple(m for m in case.session.messages if m.start < cut),
        requests=case.session.requests[:n],
    )
    own = build_ledger(alone, OWN) if case.own else None
    part = list(replay(alone, case.policy, build_ledger(alone, CHARS), own))
    assert [states(plan) for plan in part] == [states(plan) for plan in whole[:n]]
    assert [[d.edit for d in plan.decisions] for plan in part] == [[d.edit for d in plan.decisions] for plan in whole[:n]]


@given(draw_case())
def test_system_and_tools_stand_untouched(case: Drawn) -> None:
    for plan in case.plans():
        for block in case.session.blocks[: plan.request.cut]:
            if block.bucket in STATIC:
                piece = plan.after.find_piece(block.at)
                assert piece.body is None


@given(draw_case())
def test_the_newest_message_is_never_dropped(case: Drawn) -> None:
    index = Index.build(case.session)
    for plan in case.plans():
        start = index.messages[count_before(index.messages, plan.request.cut) - 1]
        for at in range(start, plan.request.cut):
            # One line may stand for a result together with its call; everything else of the message is there.
            compressed = (
                any(s.rule.name == "compress_old_calls" for s in case.policy.rules) and case.session.blocks[at].pair >= 0
            )
            assert plan.after.find_piece(at).body != () or case.session.blocks[at].bucket in STATIC or compressed


@given(draw_case())
def test_no_result_is_sent_without_its_call_and_no_call_without_its_result(case: Drawn) -> None:
    for plan in case.plans():
        answered = {b.raw["tool_use_id"] for b in case.session.blocks[: plan.request.cut] if b.kind == "tool_result"}
        calls: list[str] = []
        results: list[str] = []
        for message in render(plan.after, case.session)["messages"]:
            for part in message["content"] if isinstance(message["content"], list) else ():
                if part["type"] == "tool_use":
                    calls.append(part["id"])
                elif part["type"] == "tool_result":
                    results.append(part["tool_use_id"])
                    assert part["tool_use_id"] in calls, "a result stands before or without its call"
        assert {*calls} & answered == {*results}
        assert len({*calls}) == len(calls)
        assert len({*results}) == len(results)


@given(draw_case(["keep_last_pairs", "keep_newest_within_budget"], most=1))
def test_a_request_fits_or_is_refused_where_the_rule_may_refuse(case: Drawn) -> None:
    step = case.policy.rules[0]
    step = replace(
        step, params=replace(step.params, refuse=True, **({"reduce": True} if hasattr(step.params, "reduce") else {}))
    )
    for plan in replay(case.session, replace(case.policy, rules=(step,)), case.ledger, case.own):
        size = plan.after.tokens if case.own is None else _size(plan, case.own)
        assert size <= plan.budget.limit or plan.verdict == "refuse"


def _size(plan: Plan, own: Ledger) -> int:
    return sum(
        own.count_tokens(p.start, p.stop) if p.body is None else sum(own.count_placeholder(p.body)) for p in plan.after.pieces
    )


@given(draw_case(["keep_newest_within_budget"], most=1))
@settings(max_examples=examples(200))
def test_nothing_more_would_have_fitted_from_the_newest_backwards(case: Drawn) -> None:
    """Compared with the loop as chat apps write it: message by message from the end, stop at the first that does not fit."""
    step = case.policy.rules[0]
    given_params = replace(step.params, pin_first=False, whole_pairs=False)
    ledger = case.own or case.ledger
    for plan in replay(case.session, replace(case.policy, rules=(Step(step.rule, given_params),)), case.ledger, case.own):
        cut, blocks = plan.request.cut, case.session.blocks[: plan.request.cut]
        static = sum(ledger.count_tokens(b.at, b.at + 1) for b in blocks if b.bucket in STATIC)
        talk = [m for m in case.session.messages if m.start < cut and blocks[m.start].bucket not in STATIC]
        total, first = static, cut
        for message in reversed(talk):
            tokens = ledger.count_tokens(message.start, message.stop)
            if total + tokens > int(plan.budget.limit * given_params.share):
                break
            total, first = total + tokens, message.start
        kept = [m.start for m in talk if plan.after.find_piece(m.start).body is None]
        assert kept, "the newest message stays"
        legal = [
            m.start
            for m in talk
            if m.start >= first and not any(0 <= b.pair < m.start <= b.at for b in blocks if b.kind == "tool_result")
        ]
        if first == talk[0].start:
            assert kept[0] == first
        elif legal:  # the first message from which the rest may be sent; a lone answer before a user's message goes too
            after = [m.start for m in talk if m.start > legal[0]]
            lone = blocks[legal[0]].role == "assistant" and after and blocks[after[0]].role == "user" and after[0] in legal
            assert kept[0] == (after[0] if lone else legal[0])


def test_the_random_policies_name_rules_that_exist() -> None:
    assert set(NAMES) <= set(load_rules())
