"""LiteLLM's trim_messages against cases of the original: single requests, a growing history, and the shortening of one text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from msgspec import structs
from turnscope.envelope.budget import BudgetParams
from turnscope.envelope.plan import Plan
from turnscope.planning import policy, trace
from turnscope.ports.litellm.trim import PRIMER, shorten
from turnscope.session.builder import Builder
from turnscope.session.model import Block, Part, Session

from tests.goldens._chats import Fake, add, fake, list_sent, texts

SYSTEM = "litellm-trim"


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    return {"trim": _trim, "shorten": _shorten, "growing": _run_growing}[case["kind"]](case["input"])


def _trim(given: dict[str, Any]) -> dict[str, Any]:
    session, plans = _plans(given, [len(given["messages"])])
    plan = plans[0]
    facts = plan.decisions[0].edit.facts if plan.decisions else {}
    kept, changed = _list_sent(session, plan)
    result: dict[str, Any] = {"kept": kept, "changed": changed}
    if given["want_response_tokens"]:
        result["response_tokens"] = facts.get("response")
    if "error" in facts:
        result["returned_input"] = True
    return result


def _run_growing(given: dict[str, Any]) -> dict[str, Any]:
    session, plans = _plans(given, given["prefix_lengths"])
    rows = []
    for plan in plans:
        kept, changed = _list_sent(session, plan)
        rows.append({"kept": kept, "shortened": {id: text for id, text in changed.items() if id != "SYSTEM"}})
    return {"rows": rows}


def _shorten(given: dict[str, Any]) -> dict[str, Any]:
    frame, count = _frame(given["counter"], given["role"]), TEXTS[given["counter"]]
    text, _ = shorten(given["text"], given["tokens_needed"], lambda t: PRIMER + frame + count(t), "gpt" in given["model"])
    return {"text": text, "length": len(text)}


def _list_sent(session: Session, plan: Plan) -> tuple[list[str], dict[str, Any]]:
    """Ids that are sent and their new contents; the system message that trimming makes is called SYSTEM."""
    found = list_sent(session, plan.after)
    trimmed = next((d.edit.facts for d in plan.decisions if "system" in d.edit.facts), None)
    if trimmed:
        first = next(m for m in session.messages if m.role == "system")
        text = found.pop(first.id)
        found = {"SYSTEM": session.blocks[first.start].text if text is None else text, **found}
    return list(found), {id: content for id, content in found.items() if content is not None}


TEXTS = {"chars4": lambda t: len(t) // 4, "words": lambda t: len(t.split()), "explicit": lambda t: len(t) // 4}


def _frame(counter: str, role: str) -> int:
    return {"chars4": 3 + len(role) // 4, "words": 4, "explicit": 0}[counter]


def _ledger(session: Session, messages: list[Mapping[str, Any]], counter: str) -> Fake:
    count = TEXTS[counter]

    def count_rows(rows: list[tuple[int, list[Block]]]) -> int:
        total = 0
        for row, blocks in rows:
            message = messages[row]
            frame = 0 if message["role"] == "system" else _frame(counter, message["role"])  # the rule adds the system's frame
            explicit = counter == "explicit" and "tokens" in message
            total += message["tokens"] if explicit else frame + count(texts(blocks))
        return total

    def count_row(row: int, blocks: list[Block]) -> int:
        return 0 if "tokens" in messages[row] and counter == "explicit" else count(texts(blocks))

    def trial(parts: list[Part]) -> int:
        if counter == "explicit" and parts[0].role != "system":
            return 0  # a shortened message keeps the number it carries
        return count("".join(part.text for part in parts))

    return fake(session, count_rows, count_row, trial)


def _plans(given: dict[str, Any], cuts: list[int]) -> tuple[Session, tuple[Plan, ...]]:
    builder = Builder("golden", SYSTEM)
    model = given["model"]
    for number, message in enumerate(given["messages"]):
        for _ in range(cuts.count(number)):
            builder.add_unanswered(model=model)
        add(builder, message)
    for _ in range(cuts.count(len(given["messages"]))):
        builder.add_unanswered(model=model)
    builder.window = given.get("model_input_limit") or (1 if given["max_tokens"] is not None else None)
    session = builder.build()
    if given["max_tokens"] is not None:
        budget = BudgetParams(formula="fixed", tokens=given["max_tokens"])
    else:
        budget = BudgetParams(formula="share", share=given["trim_ratio"])
        if builder.window is None:  # a model that is in no table
            session = structs.replace(
                session, requests=tuple(structs.replace(r, model=f"unlisted {r.model}") for r in session.requests)
            )
    chosen = policy.load(SYSTEM)
    rule = chosen.rules[0]
    params = replace(rule.params, lists="fail", frame=_frame(given["counter"], "system"))
    chosen = replace(chosen, counter="", budget=budget, rules=(replace(rule, params=params),))
    return session, trace.trace(session, chosen, _ledger(session, given["messages"], given["counter"])).plans
