"""Continue's policies do to a session what the golden cases say that the originals did to their lists of messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import count_texts, make_estimator
from turnscope.envelope.budget import BudgetParams
from turnscope.envelope.plan import Plan
from turnscope.planning.assemble import Basis, plan_step, reconcile_plan, replay
from turnscope.planning.policy import Step, load
from turnscope.ports.continuedev import cli
from turnscope.ports.continuedev.compiling import CALL, FRAME, RESULT, compute_room
from turnscope.session.builder import Builder
from turnscope.session.model import Block, Part, Session

from tests.goldens import DEFAULT, difference
from tests.goldens._apps import Teller, messages
from tests.goldens._chats import fake

PROMPT = "⟦COMPACTION_PROMPT⟧"
PATH = DEFAULT / "continue-ide.json"


def cases() -> Iterator[dict[str, Any]]:
    found = json.loads(PATH.read_text(encoding="utf-8"))["cases"] if PATH.is_file() else []
    return (case for case in found if case["kind"] == "compile")


def sessions() -> Iterator[dict[str, Any]]:
    path = DEFAULT / "continue-cli.json"
    found = json.loads(path.read_text(encoding="utf-8"))["cases"] if path.is_file() else []
    return (c for c in found if c["kind"] == "session" and not any(step["error"] for step in c["expect"]["steps"]))


@pytest.mark.parametrize("case", [*cases()], ids=lambda case: case["id"])
def test_the_policy_sends_what_the_original_sent(case: dict[str, Any]) -> None:
    assert not difference(case["expect"], _compile(case["input"]))


def build(said: Sequence[Mapping[str, Any]]) -> Session:
    """A session of the messages of a case."""
    builder = Builder("golden", "continue-ide")
    for message in said:
        role, held = message["role"], message["content"]
        stored = builder.about.setdefault("stored", {}).setdefault("continue", {})
        stored[message["id"]] = {"content": held} if role != "thinking" else {}
        if role == "tool":
            role, held = "user", [{"type": "tool_result", "tool_use_id": message["toolCallId"], "content": held}]
        elif role == "thinking":
            role, held = "assistant", [{"type": "thinking", "thinking": held, "signature": message.get("signature", "")}]
        elif calls := message.get("toolCalls"):
            uses = [{"type": "tool_use", "id": c["id"], "name": c["function"]["name"], "input": {}} for c in calls]
            held = [{"type": "text", "text": held}, *uses]
        elif isinstance(held, list):
            held = [{"type": "image", "source": part} if part["type"] == "imageUrl" else part for part in held]
        builder.add_message(role, held, id=message["id"], fence=True)
    builder.add_unanswered()
    return builder.build()


def _compile(given: dict[str, Any]) -> dict[str, Any]:
    said = given["messages"]
    session, sizes = build(said), {message["id"]: message.get("tokens", 0) for message in said}

    def count_row(_row: int, blocks: list[Block]) -> int:
        beside = sum(CALL * (b.kind == "tool_use") + RESULT * (b.kind == "tool_result") for b in blocks)
        return sizes[session.messages[blocks[0].message].id] - FRAME - beside

    def count_rows(rows: list[tuple[int, list[Block]]]) -> int:
        return sum(sizes[session.messages[blocks[0].message].id] for _, blocks in rows)

    def trial(_parts: list[Part]) -> int:
        return 0

    ledger = fake(session, count_rows, count_row, trial)
    tools = [given["tools_tokens"]] * len(ledger.total)
    ledger = replace(ledger, sums=(ledger.sums[0], tools, *ledger.sums[2:]))
    budget = BudgetParams(formula="window", window=given["context_length"] or 0, fallback_window=128_000)
    chosen = replace(load("continue-ide"), counter="", budget=budget)
    changes = {
        "shift_oldest_messages": {"output": given["max_output"]},
        "space_for_blank": {"images": given["supports_images"]},
    }
    steps = [replace(s, params=replace(s.params, **changes[s.rule.name])) for s in chosen.rules]
    plan = next(iter(replay(session, replace(chosen, rules=tuple(steps)), ledger)))
    refused = [d.edit.facts["error"] for d in plan.decisions if d.action == "refuse"]
    if refused:
        return {"error": refused[0]}
    pruned = any("used" in d.edit.facts for d in plan.decisions)
    ids = messages(session, plan)
    used = given["tools_tokens"] + sum(sizes[id] for id in ids)
    roles = {message["id"]: message["role"] for message in said}
    changed = {}
    for decision in plan.decisions:
        if decision.action == "repair" and decision.edit.body and decision.edit.span:
            changed[session.messages[session.blocks[decision.edit.span.start].message].id] = decision.edit.body[0].text
    return {
        "sent": sorted(ids, key=lambda name: roles[name] != "system"),
        "did_prune": pruned,
        "context_percentage": used / compute_room(plan.budget.window, given["max_output"]),
        "changed": {id: text for id, text in changed.items() if id in ids},
    }


@pytest.mark.parametrize("case", [*sessions()], ids=lambda case: case["id"])
def test_the_policy_of_the_cli_compacts_a_session_when_the_original_did(case: dict[str, Any]) -> None:
    loop = _Loop(case["input"])
    assert [loop.turn(turn) for turn in case["input"]["turns"]] == case["expect"]["steps"]


class _Loop:
    """A chat that grows as the program would let it grow."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given
        self.said: list[tuple[str, str, Any]] = []  # id, role, content; None = a request was sent here
        self.calls: dict[str, dict[str, Any]] = {}
        self.plan: Plan | None = None
        self.teller = Teller([""])
        self.made = 0
        chosen = load("continue-cli")
        params = replace(chosen.rules[0].params, output=given["max_tokens"] if given["max_tokens"] is not None else -1)
        room = BudgetParams(formula="window", window=given["context_length"])
        self.policy = replace(chosen, budget=room, rules=(Step(chosen.rules[0].rule, params),))

    def session(self) -> Session:
        builder = Builder("golden", "continue-cli")
        builder.add_message("system", self.given["system"])
        for name, role, content in self.said:
            if role == "request":
                builder.add_unanswered(model=self.given["model"])
            else:
                builder.add_message(role, content, id=name, fence=True)
        return builder.build()

    def ask(self) -> tuple[list[dict[str, Any]], bool]:
        """The next request; the requests that it took, and whether a summary was made."""
        before = self.history()
        self.said.append(("", "request", None))
        session = self.session()
        self.teller.texts[0] = f"#S{self.made + 1}" + " river" * self.given["summary_words"]
        asked = len(self.teller.asks)
        ledger = build_ledger(session, make_estimator("o200k_base"), per_message=0)
        tools = [self.given["tools_tokens"]] * len(ledger.total)
        basis = Basis.of(session, replace(ledger, sums=(ledger.sums[0], tools, *ledger.sums[2:])))
        self.plan = reconcile_plan(plan_step(self.plan, session, session.requests[-1], self.policy, basis, self.teller))
        found = []
        compacted = len(self.teller.asks) > asked
        if compacted:
            self.made += 1
            stop = next(d.edit.facts["asked"] for d in self.plan.decisions if "asked" in d.edit.facts)
            ids = [x for name in before[:stop] for x in self.list_sent(name)]
            found.append({"purpose": "compaction", "messages": ["system", *ids, PROMPT]})
        ids = [x for name in self.history() for x in self.list_sent(name)]
        found.append({"purpose": "answer", "messages": ["system", *ids]})
        return found, compacted

    def history(self) -> list[str]:
        """Ids of the items that stand."""
        if self.plan is None or not self.plan.get_state("compact_whole_history"):
            start, lead = 0, []
        else:
            start, lead = self.plan.get_state("compact_whole_history").start, [f"S{self.made}"]
        session = self.session()
        ids = (m.id for m in session.messages if m.start >= start and m.id and not m.id.startswith("tool:"))
        return [*lead, *("continue" if name.startswith("continue") else name for name in ids)]

    def list_sent(self, name: str) -> list[str]:
        return [name, *(f"tool:{call}" for call in self.calls.get(name, ()))]

    def turn(self, turn: Mapping[str, Any]) -> dict[str, Any]:
        """One question, until an answer without calls stands."""
        self.said.append((turn["id"], "user", f"#{turn['id']}" + " river" * turn["words"]))
        found, flag, rounds, again = [], False, list(turn["rounds"]), 0
        while True:
            requests, compacted = self.ask()
            found += requests
            flag = flag or compacted
            if rounds:
                self.reply(f"a{turn['id']}r{len(turn['rounds']) - len(rounds) + 1}", rounds.pop(0))
                continue
            name = f"e{turn['id']}x{again}" if again else f"a{turn['id']}"
            self.said.append((name, "assistant", f"#{name}" + " river" * (2 if again else turn["answer"])))
            if not flag:
                break
            flag, again = False, again + 1
            self.said.append((f"continue {len(self.said)}", "user", "continue"))
        return {"requests": found, "error": False, "history": self.history(), "tokens": self.tokens()}

    def reply(self, name: str, calls: Sequence[Mapping[str, Any]]) -> None:
        uses = [{"type": "tool_use", "id": c["id"], "name": "Read", "input": {"path": "x"}} for c in calls]
        self.said.append((name, "assistant", [{"type": "text", "text": f"#{name} river"}, *uses]))
        texts = [f"#{c['id']}" + " river" * c["words"] for c in calls]
        results = [{"type": "tool_result", "tool_use_id": c["id"], "content": t} for c, t in zip(calls, texts, strict=True)]
        self.said.append((f"tool:{name}", "user", results))
        self.calls[name] = {c["id"]: c for c in calls}

    def tokens(self) -> int:
        """Tokens of the history, by the program's own count."""
        total = 0
        texts = {name: content for name, _, content in self.said}
        for name in self.history():
            held = "continue" if name == "continue" else texts.get(name, f"#{name}" + " river" * self.given["summary_words"])
            text = held if isinstance(held, str) else held[0]["text"]
            calls = [
                {"name": "Read", "arguments": '{"path":"x"}', "output": f"#{c['id']}" + " river" * c["words"]}
                for c in self.calls.get(name, {}).values()
            ]
            total += cli.count_item({"content": text, "calls": calls}, _o200k, self.given["model"]) + cli.LISTED
        return total


def _o200k(text: str) -> int:
    return count_texts([text], make_estimator("o200k_base"))[0]
