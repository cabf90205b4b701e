"""LibreChat's legacy clients against cases of the original: the limit, the strategies, and the path through the tree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from turnscope.counting.ledger import build_ledger, make_text_key
from turnscope.counting.tokens import CHARS
from turnscope.envelope.budget import BudgetParams
from turnscope.envelope.conversation import find_droppable
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.plan import Plan
from turnscope.envelope.rule import Ctx, Edits, NoParams, Rule
from turnscope.planning import policy, trace
from turnscope.ports.librechat.legacy import PRIMER, count_instructions, find_begin, find_path
from turnscope.session.builder import Builder
from turnscope.session.model import Edit, Session

SYSTEM = "librechat-legacy"
STORED, INSTRUCTIONS = "what was said before", "instructions"


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    return {"trim": _trim, "strategy": _strategy, "path": _path}[case["kind"]](case["input"], case["expect"])


def _path(given: dict[str, Any], _expect: Any) -> dict[str, Any]:
    path = find_path(given["messages"], given["head"], given["stop_at_summary"])
    ids = [message.get("messageId") or message.get("id") for message in path]
    replaced = [id for id, message in zip(ids, path, strict=True) if message.get("role") == "system"]
    return {"path": ids, "replaced_by_summary": replaced, "tokens": [message.get("tokenCount") for message in path]}


def _trim(given: dict[str, Any], expect: dict[str, Any]) -> dict[str, Any]:
    session, plan = _plan(given, SYSTEM, TRIM)
    kept = _list_sent(session, plan)
    gone = [m["id"] for m in given["messages"] if m["id"] not in kept]
    result = {"kept": kept, "remaining": given["max"] - PRIMER - plan.after.tokens, "to_refine": gone}
    return {**result, "origin": expect["origin"]} if "origin" in expect else result


def _trim_messages(envelope: Envelope, ctx: Ctx, params: NoParams) -> Edits:
    """What is left out by the function that both strategies call; they look at the instructions alone before they do."""
    starts, first = ctx.index.messages, find_begin(ctx, 0, ctx.limit - (count_instructions(ctx) or 0) - PRIMER)
    stop = starts[first] if first < len(starts) else ctx.request.cut
    for span in find_droppable(ctx, envelope, starts[0], stop) if starts else ():
        envelope = yield Edit("drop", "it does not fit", span)


TRIM = Rule("trim", "Keep what fits.", _trim_messages, NoParams)


def _strategy(given: dict[str, Any], _expect: Any) -> dict[str, Any]:
    session, plan = _plan(given, SYSTEM + ("-summary" if given["summarize"] else ""))
    refused = [d.edit.facts["info"] for d in plan.decisions if d.action == "refuse"]
    if refused:
        return {"error": "input_too_long", "info": refused[0]}
    payload = _list_sent(session, plan)
    gone = [m["id"] for m in given["messages"] if m["id"] not in payload]
    return {"payload": payload, "prompt_tokens": PRIMER + plan.after.tokens, "to_refine": gone}


def _list_sent(session: Session, plan: Plan) -> list[str]:
    ids: list[str] = []
    for piece in plan.after.pieces:
        if piece.body is None:
            ids += [session.messages[block.message].id for block in session.blocks[piece.start : piece.stop]]
        else:
            ids += ["previous-summary" if part.text == STORED else "summary" for part in piece.body]
    return ids


def _plan(given: dict[str, Any], name: str, rule: Rule | None = None) -> tuple[Session, Plan]:
    builder = Builder("golden", SYSTEM)
    tokens = given["instructions_tokens"]
    sizes = [tokens] if tokens is not None else []
    if tokens is not None:
        builder.add_message("system", INSTRUCTIONS, id=INSTRUCTIONS)
    for number, message in enumerate(given["messages"]):
        stored = {"summary": STORED} if not number and given.get("first_has_stored_summary") else {}
        builder.add_message("assistant" if number % 2 else "user", f"message {number}", id=message["id"], extra=stored)
        sizes.append(message["tokens"])
    builder.add_unanswered()
    session = builder.build()
    memo = {block.digest: size for block, size in zip(session.blocks, sizes, strict=True)}
    memo[make_text_key(STORED)] = given.get("stored_summary_tokens") or 0
    chosen = policy.load(name)
    # the strategy alone: the cases give it the path that it starts from
    rules = (policy.Step(rule, NoParams()),) if rule else chosen.rules[-1:]
    chosen = replace(chosen, counter="", budget=BudgetParams(formula="fixed", tokens=given["max"]), rules=rules)
    ledger = build_ledger(session, CHARS, _Fixed(memo, given.get("fake_summary_tokens") or 0), per_message=0)
    return session, trace.trace(session, chosen, ledger).plans[0]


class _Fixed(dict[str, int]):
    """Tokens by digest; a text that is not among them is a new summary and has what the case says."""

    def __init__(self, known: dict[str, int], other: int) -> None:
        super().__init__(known)
        self.other = other

    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> int:
        return self.other
