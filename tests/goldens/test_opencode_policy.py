"""opencode's policies do to a session what the golden cases say that the program did: when, which tail stays, what is cleared.

Cases whose history holds compactions or cleared outputs already are no sessions, and stay with the port.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.budget import BudgetParams
from turnscope.envelope.condensing import get_summary
from turnscope.planning.assemble import replay
from turnscope.planning.policy import Policy, load
from turnscope.ports.opencode.limits import compute_usable
from turnscope.session.builder import Builder
from turnscope.session.model import Session, Usage

from tests.goldens import DEFAULT

PATH = DEFAULT / "opencode.json"


def cases(*kinds: str) -> Iterator[dict[str, Any]]:
    found = json.loads(PATH.read_text(encoding="utf-8"))["cases"] if PATH.is_file() else []
    for case in found:
        parts = [part for message in case["input"]["messages"] for part in message["parts"]]
        stored = any(part["type"] in ("compaction", "file") or part.get("compacted") for part in parts)
        off = (case["input"]["compaction"] or {}).get("auto") is False
        if case["kind"] in kinds and not stored and not off:
            yield case


def fill_text(text: Any) -> str:
    return (text["unit"] * text["fill"])[: text["fill"]] if isinstance(text, dict) else text


def session_of(case: dict[str, Any], turns: int) -> tuple[Session, dict[int, str]]:
    """The stored messages and so many new prompts, all answered but the last; and the program's id of each message's start."""
    builder = Builder("golden", "opencode")
    drafts: list[tuple[Any, str]] = []
    for message in case["input"]["messages"]:
        said = [{"type": "text", "text": fill_text(p["text"])} for p in message["parts"] if p["type"] == "text"]
        if message["role"] == "user":
            drafts.append((builder.add_message("user", said, fence=True), message["id"]))
            continue
        tools = [part for part in message["parts"] if part["type"] == "tool"]
        calls = [{"type": "tool_use", "id": p["call"], "name": p["tool"], "input": p["input"]} for p in tools]
        order = [part["type"] for part in message["parts"] if part["type"] in ("text", "tool")]
        draft = builder.add_message("assistant", [*said, *calls] if order[:1] != ["tool"] else [*calls, *said], fence=True)
        builder.set_request(draft, usage=_usage(message.get("tokens")))
        drafts.append((draft, message["id"]))
        if tools:
            results = [{"type": "tool_result", "tool_use_id": p["call"], "content": fill_text(p["output"])} for p in tools]
            builder.add_message("user", results, fence=True)
    for number in range(turns):
        drafts.append((builder.add_message("user", fill_text(case["input"]["steps"][0]["prompt"]), fence=True), f"n{number}"))
        if number < turns - 1:
            builder.set_request(
                builder.add_message("assistant", "OK", fence=True), usage=Usage(input_tokens=100, output_tokens=5)
            )
    builder.add_unanswered()
    return builder.build(), {draft.start: id for draft, id in drafts}


def _usage(tokens: dict[str, Any] | None) -> Usage:
    if not tokens:
        return Usage(input_tokens=10, output_tokens=5)
    if tokens.get("total"):
        return Usage(input_tokens=tokens["total"])
    cache = tokens["cache"]
    return Usage(tokens["input"], cache["write"], cache["read"], tokens["output"])


def policy_of(name: str, case: dict[str, Any]) -> Policy:
    """The policy under the room that the case's model and settings leave, with its settings."""
    model, settings = case["input"]["model"], case["input"]["compaction"] or {}
    room = compute_usable(model["context"], model["output"], model["input"], settings.get("reserved"))
    known = {key: settings[key] for key in ("tail_turns", "preserve_recent_tokens") if key in settings}
    chosen = load(name)
    steps = (
        replace(s, params=replace(s.params, cap=0, **known)) if s.rule.name == "summarise_before_tail" else s
        for s in chosen.rules
    )
    return replace(chosen, budget=BudgetParams(formula="fixed", tokens=room), rules=tuple(steps))


@pytest.mark.parametrize("case", [*cases("trigger", "tail")], ids=lambda case: case["id"])
def test_it_compacts_when_the_program_did_and_keeps_the_tail_that_it_kept(case: dict[str, Any]) -> None:
    session, ids = session_of(case, 1)
    plan = list(replay(session, policy_of("opencode", case), build_ledger(session, CHARS)))[-1]
    marks = [
        part["compaction"] for m in case["expect"]["steps"][0]["new_messages"] for part in m["parts"] if "compaction" in part
    ]
    summed = next((piece for piece in plan.after.pieces if get_summary(piece)), None)
    assert (summed is not None) == bool(marks)
    if summed is not None:
        assert ids.get(summed.stop) == marks[0]["tail_start"]


@pytest.mark.parametrize("case", [*cases("prune")], ids=lambda case: case["id"])
def test_it_clears_what_the_program_cleared(case: dict[str, Any]) -> None:
    session, _ = session_of(case, 2)
    name = "opencode-prune" if (case["input"]["compaction"] or {}).get("prune") else "opencode"
    plan = list(replay(session, policy_of(name, case), build_ledger(session, CHARS)))[-1]
    cleared = [b.raw["tool_use_id"] for b in session.blocks if b.kind == "tool_result" and plan.after.find_piece(b.at).body]
    assert cleared == sorted(case["expect"]["steps"][0]["cleared"], key=cleared.index)


def test_cases_of_each_kind_are_there() -> None:
    if not PATH.is_file():
        pytest.skip("the golden cases are not beside the project")
    assert len([*cases("trigger", "tail")]) >= 20
    assert len([*cases("prune")]) >= 5
