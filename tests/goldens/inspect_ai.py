"""Inspect's compaction over a growing conversation, planned under its policies; its strategies over single lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from msgspec import structs
from turnscope.counting.ledger import Ledger
from turnscope.envelope.budget import BudgetParams
from turnscope.envelope.condensing import get_summary
from turnscope.envelope.plan import Plan
from turnscope.planning import policy
from turnscope.planning.assemble import Basis, plan_step, reconcile_plan
from turnscope.ports.inspect_ai import handler
from turnscope.ports.inspect_ai import strategies as port
from turnscope.session.builder import Builder
from turnscope.session.model import Answer, Block, Session, Usage

from tests.goldens._chats import add, fake, list_sent

SYSTEM = "inspect-ai"
SHOWN = ("role", "content", "tool_calls", "tool_call_id")
Message = Mapping[str, Any]


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    given = case["input"]
    try:
        if case["kind"] == "sequence":
            steps = _sequence(given)
            return {"steps": [_shorten_step(*both) for both in zip(steps, case["expect"]["steps"], strict=True)]}
        if "strategy" not in given:
            share = 0.7 if given["preserve"] is None else given["preserve"]
            return {"sent": _describe_messages(port.trim(given["messages"], share), given)}
        return _strategy(given)
    except ValueError:
        return {"error": "invalid"}


def _shorten_step(step: dict[str, Any], told: dict[str, Any]) -> dict[str, Any]:
    """The step with the number of what is sent where a case tells no more of it, which it does of some quiet steps."""
    return {**step, "sent": len(step["sent"])} if "sent" in step and isinstance(told.get("sent"), int) else step


def _describe_messages(messages: Sequence[Message], given: Mapping[str, Any]) -> list[Any]:
    said = {message["id"]: message for message in given["messages"]}
    return [m["id"] if m.get("id") in said and said[m["id"]] == m else _describe_message(m) for m in messages]


def _describe_message(message: Message) -> dict[str, Any]:
    return {name: _words(message[name]) for name in SHOWN if name in message}


def _words(value: Any) -> Any:
    """The program's own words as the cases name them."""
    if isinstance(value, list):
        return [_words(part) for part in value]
    if isinstance(value, dict):
        return {name: _words(part) for name, part in value.items()}
    if not isinstance(value, str):
        return value
    before, after = port.CALL_REMOVED.split("{}")
    if value.startswith(before) and value.endswith(after):
        return f"⟦CALL_REMOVED:{value[len(before) : -len(after)]}⟧"
    known = {port.REMOVED: "⟦REMOVED⟧", port.SAVED: "⟦SAVED⟧", port.BEFORE: "⟦SUMMARY_BEFORE⟧", port.AFTER: "⟦SUMMARY_AFTER⟧"}
    for text, name in known.items():
        value = value.replace(text, name)
    return value


def _strategy(given: dict[str, Any]) -> dict[str, Any]:
    saw: list[Message] = []

    def summarise(messages: list[Message]) -> str:
        saw.extend(messages)
        return str(given["fake_summary"])

    sent, appended = handler.build_strategy(given["strategy"], summarise)(given["messages"])
    told: dict[str, Any] = {
        "sent": _describe_messages(sent, given),
        "appended": None if appended is None else _describe_message(appended),
    }
    return {**told, "summariser_sees": [*_describe_messages(saw, given), "⟦PROMPT⟧"]} if saw else told


def _count(messages: Sequence[Message]) -> int:
    """The counter of the cases."""
    total = 0
    for m in messages:
        blocks = [{"type": "text", "text": m["content"]}] if isinstance(m["content"], str) else m["content"]
        chars = sum(len(b.get("text") or b.get("reasoning") or "") for b in blocks)
        total += 3 + -(-chars // 4) + 10 * len(m.get("tool_calls") or ())
    return total


OPTIONS = {"keep_thinking_turns": "keep_thinking", "keep_tool_uses": "keep_uses", "preserve": "preserve"}


def _sequence(given: dict[str, Any]) -> list[dict[str, Any]]:
    """The steps as the strategy's policy sends them, told after each what the provider counted where a case says so."""
    strategy = given["strategy"]
    told = {m["id"]: m for m in given["messages"]}
    session = _session(given["messages"], given["prefix"])
    chosen = policy.load(f"inspect-{strategy['type']}")
    options = {ours: strategy[name] for name, ours in OPTIONS.items() if name in strategy}
    (part,) = chosen.rules
    most = handler.compute_threshold(strategy["threshold"], None)
    spec = BudgetParams(formula="fixed", tokens=most)
    chosen = replace(chosen, budget=spec, rules=(replace(part, params=replace(part.params, cap=0, **options)),))
    own = fake(
        session, lambda rows: sum(map(_row, rows)), _count_row, lambda parts: 3 + -(-sum(len(p.text) for p in parts) // 4)
    )
    steps: list[dict[str, Any]] = []
    for plan in _plans(session, chosen, own, given["usage_overhead"]):
        after = max(m.id for m in session.messages if m.stop == plan.request.cut)
        if plan.verdict == "refuse":
            return [*steps, {"after": after, "error": "insufficient"}]
        summary = {piece.start: text for piece in plan.after.pieces if (text := get_summary(piece))}
        made = {session.messages[session.blocks[at].message].id: text for at, text in summary.items()}
        messages = [
            {"role": "user", "content": made[id]}
            if id in made
            else told[id]
            if content is None
            else {**told[id], "id": "", "content": content}
            for id, content in list_sent(session, plan.after).items()
        ]
        appended = any(d.splice and d.action == "condense" for d in plan.decisions)
        steps.append(
            {"after": after, "sent": _describe_messages(messages, given), "appended": appended, "tokens": _count(messages)}
        )
    return steps


def _plans(session: Session, chosen: policy.Policy, own: Ledger, overhead: int | None) -> Iterator[Plan]:
    """The fold, told after each request what the provider counted of it, where a case says so: what was sent, and so much."""
    previous: Plan | None = None
    numbers = count()
    basis = Basis.of(session, own)
    for request in session.requests:
        previous = plan_step(
            previous, session, request, chosen, basis, lambda _ask: Answer(f"T: summary {next(numbers)}", source="model")
        )
        yield previous
        usage = None if overhead is None else Usage(input_tokens=previous.after.tokens + overhead)
        previous = reconcile_plan(structs.replace(previous, request=structs.replace(request, usage=usage)))


def _row(row: tuple[int, list[Block]]) -> int:
    return 3 + _count_row(*row) + 10 * sum(block.kind == "tool_use" for block in row[1])


def _count_row(_number: int, blocks: list[Block]) -> int:
    return -(-sum(len(block.text) for block in blocks if block.kind != "tool_use") // 4)


def _session(messages: Sequence[Message], prefix: int) -> Session:
    """A request after each message that is no answer, from the end of the prefix on."""
    builder = Builder("golden", SYSTEM)
    for number, message in enumerate(messages):
        add(builder, {**message, "tool_calls": [_call(call) for call in message.get("tool_calls") or ()]})
        if message["role"] != "assistant" and number >= prefix - 1:
            builder.add_unanswered()
    return builder.build()


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": call["id"], "name": call["function"], "args": call["arguments"]}
