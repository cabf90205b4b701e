"""LangChain's trim_messages against cases of the original, and its approximate counter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from turnscope.counting.ledger import Ledger
from turnscope.envelope.budget import BudgetParams
from turnscope.planning import policy, trace
from turnscope.ports.langchain.trim import get_sums
from turnscope.session.builder import Builder
from turnscope.session.model import Block, Part, Session

from tests.goldens._chats import add, fake, list_sent, texts

SYSTEM = "langchain-trim"


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    return {"trim": _trim, "approximate_count": _approximate}[case["kind"]](case["input"])


def _approximate(given: dict[str, Any]) -> dict[str, Any]:
    return {"tokens": get_sums(_session(given))[-1]}


def _session(given: dict[str, Any]) -> Session:
    builder = Builder("golden", SYSTEM)
    for message in given["messages"]:
        add(builder, message)
    builder.add_unanswered()
    return builder.build()


def _trim(given: dict[str, Any]) -> dict[str, Any]:
    session = _session(given)
    chosen = policy.load(SYSTEM)
    rule = chosen.rules[0]
    params = replace(
        rule.params,
        strategy=given["strategy"],
        include_system=given["include_system"],
        allow_partial=given["allow_partial"],
        start_on=_types(given["start_on"]),
        end_on=_types(given["end_on"]),
        counter="approximate" if given["counter"] == "approximate" else "own",
        primer=7 if given["counter"] == "chars_list_primer7" else 0,
        frame=0,
        splitter={"default": "lines"}.get(name := given.get("splitter") or "lines", name),
    )
    budget = BudgetParams(formula="fixed", tokens=given["max_tokens"])
    chosen = replace(chosen, counter="", budget=budget, rules=(replace(rule, params=params),))
    plan = trace.trace(session, chosen, _ledger(session, given)).plans[0]
    errors = [d.edit.facts["error"] for d in plan.decisions if "error" in d.edit.facts]
    if errors:
        return {"error": errors[0]}
    found = list_sent(session, plan.after)
    return {"kept": list(found), "changed": {id: content for id, content in found.items() if content is not None}}


def _types(given: Any) -> tuple[str, ...]:
    return () if given is None else (given,) if isinstance(given, str) else tuple(given)


def _ledger(session: Session, given: dict[str, Any]) -> Ledger:
    """The counter of a case; each counts whole lists, with a message's number and those of its blocks that are meant."""
    messages = given["messages"]

    def count_text(text: str) -> int:
        return len(text) // 4

    Rows = list[tuple[int, list[Block]]]  # noqa: N806
    wholes: dict[str, Callable[[Rows], int]] = {
        "explicit": lambda rows: sum(messages[row]["tokens"] for row, _ in rows),
        "chars": lambda rows: sum(3 + count_text(texts(blocks)) for _, blocks in rows),
        "message_count": len,
        "bump_at_3": lambda rows: 10 * len(rows) + 100 * (len(rows) == 3),
    }
    kind = "chars" if given["counter"] in ("chars_each", "chars_list_primer7", "approximate") else given["counter"]

    def count_row(row: int, blocks: list[Block]) -> int:
        return count_text(texts(blocks)) if kind == "chars" else 0

    def trial(parts: list[Part]) -> int:
        return count_text("".join(part.text for part in parts)) if kind == "chars" else 0

    return fake(session, wholes[kind], count_row, trial)
