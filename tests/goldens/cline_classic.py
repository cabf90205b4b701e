"""Cline's classic context manager against cases of the original: ranges, what is sent of each message, and whole tasks.

`mask`, `step`, `forced` and `sequence` plan requests with the policy; the others call the functions that its rule calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from msgspec import structs
from turnscope.counting.ledger import Ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.plan import Plan, StepState
from turnscope.planning import assemble, policy
from turnscope.ports.cline import ranges
from turnscope.ports.cline.ranges import Entry, State, Text
from turnscope.session.builder import Builder
from turnscope.session.model import BUCKETS, Session, Usage

SYSTEM = "cline-classic"
RULE = "hide_oldest_pairs"
NOTICES = {
    "⟦TRUNCATION_NOTICE⟧": ranges.TRUNCATED,
    "⟦FIRST_USER_NOTICE⟧": ranges.FIRST_USER,
    "⟦DUPLICATE_READ_NOTICE⟧": ranges.READ_AGAIN,
    "⟦RESULT_MISSING⟧": ranges.MISSING,
}
ROLES = {"u": "user", "a": "assistant"}


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    found: dict[str, Any] = KINDS[case["kind"]](_words(case["input"], out=False))
    return _words(found, out=True)  # type: ignore[no-any-return]


def _range(given: dict[str, Any]) -> dict[str, Any]:
    return {"range": list(_next(given["roles"], given["current"], given["keep"]))}


def _table(given: dict[str, Any]) -> dict[str, Any]:
    first, last = given["lengths"]
    ranges = {n: _next("ua" * (n // 2 + 1), given["current"], given["keep"], n) for n in range(first, last + 1)}
    return {"start": 2, "end_by_length": [[n, end] for n, (_, end) in ranges.items()]}


def _chain(given: dict[str, Any]) -> dict[str, Any]:
    current, ranges = None, []
    for keep in given["keeps"]:
        current = _next(given["roles"], current, keep)
        ranges.append(list(current))
    return {"ranges": ranges}


def _next(roles: str, current: Any, keep: ranges.Keep, count: int | None = None) -> ranges.Range:
    roles = roles if count is None else roles[:count]
    return ranges.compute_next_range(lambda i: ROLES[roles[i]] if 0 <= i < len(roles) else "", len(roles), current, keep)


def _mask(given: dict[str, Any]) -> dict[str, Any]:
    plan, session = _plan_one(given, window=0)
    return _list_sent(plan, session, given["messages"])


def _step(given: dict[str, Any]) -> dict[str, Any]:
    plan, session = _plan_one(given, given["window"], _usage(given["previous_request"]), auto_condense=given["auto_condense"])
    state = plan.get_state(RULE)
    cut = any("keep" in d.edit.facts for d in plan.decisions)
    return {
        "range": _list_range(state),
        "range_updated": cut,
        **_list_sent(plan, session, given["messages"]),
        "edits": _edits(state),
    }


def _force_state(given: dict[str, Any]) -> dict[str, Any]:
    plan, session = _plan_one(given, window=0, force=given["keep"])
    state = plan.get_state(RULE)
    return {"range": _list_range(state), **_list_sent(plan, session, given["messages"]), "edits": _edits(state)}


def _sequence(given: dict[str, Any]) -> dict[str, Any]:
    steps = given["steps"]
    builder = Builder("golden", SYSTEM)
    for step, after in zip(steps, [*steps[1:], {}], strict=True):
        _say(builder, step["append"])
        builder.add_unanswered(usage=_usage(after.get("previous_request")))
    session = builder.build()
    messages = [message for step in steps for message in step["append"]]
    rows: list[dict[str, Any]] = []
    plans = list(_plans(session, [step["window"] for step in steps]))
    for plan in plans:
        numbers = [number for number, _ in _messages(plan.after, session)]
        cut = any("keep" in d.edit.facts for d in plan.decisions)
        edited = list(_list_sent(plan, session, messages)["changed"])
        rows.append({"range": _list_range(plan.get_state(RULE)), "updated": cut, "sent": _runs(numbers), "edited": edited})
    return {"steps": rows, "final_edits": _edits(plans[-1].get_state(RULE)) if plans else []}


KINDS = {
    "range": _range,
    "range_table": _table,
    "range_chain": _chain,
    "mask": _mask,
    "step": _step,
    "forced": _force_state,
    "sequence": _sequence,
}


def _plan_one(given: dict[str, Any], window: int, usage: Usage | None = None, **params: Any) -> tuple[Plan, Session]:
    """The plan of one request whose task has come to a stored state: that state is what the plan before it left."""
    builder = Builder("golden", SYSTEM)
    builder.add_unanswered(usage=usage)
    _say(builder, given["messages"])
    builder.add_unanswered()
    session = builder.build()
    stored = {
        row["message"]: Entry(row["type"], {block["block"]: _text(block) for block in row["blocks"]})
        for row in given.get("edits", ())
    }
    state = State(tuple(given["range"]) if given["range"] else None, stored)
    return list(_plans(session, [window, window], state, **params))[-1], session


def _text(given: dict[str, Any]) -> Text:
    before = "" if given["updates"] > 1 else None  # the cases do not say what an older text was
    return Text(given["text"], given["updates"], before, tuple(given["replaced"]), tuple(given["all"]))


def _plans(session: Session, windows: Iterable[int], state: State | None = None, **params: Any) -> Iterator[Plan]:
    """Plans of the requests, each with its own window. `state` is put into the first plan, which sends nothing."""
    chosen = policy.load(SYSTEM)
    asked = tuple(replace(part, params=replace(part.params, **params)) for part in chosen.rules)
    zeros = [0] * (len(session.blocks) + 1)
    basis = assemble.Basis.of(session, Ledger(CHARS, tuple(zeros for _ in BUCKETS), zeros, {}))
    previous: Plan | None = None
    for request, window in zip(session.requests, windows, strict=True):
        first = state is not None and previous is None
        used = replace(chosen, rules=chosen.rules if first else asked, budget=replace(chosen.budget, window=window))
        plan = assemble.plan_step(previous, session, request, used, basis)
        if first:
            plan = structs.replace(plan, states=tuple(StepState(RULE, part.params, state) for part in asked))
        previous = assemble.reconcile_plan(plan)
        yield plan


def _say(builder: Builder, messages: Iterable[Mapping[str, Any]]) -> None:
    for message in messages:  # fenced: Cline sends neighbours of one role as they are
        builder.add_message(message["role"], message["content"], id=message["id"], fence=True)


def _usage(given: Any) -> Usage | None:
    if not isinstance(given, dict):
        return None
    tokens = [given.get(key) or 0 for key in ("tokensIn", "cacheWrites", "cacheReads", "tokensOut")]
    return Usage(*tokens)


def _list_sent(plan: Plan, session: Session, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Ids of the messages sent, in order, and contents that differ from what was said."""
    sent = [(messages[number], content) for number, content in _messages(plan.after, session)]
    changed = {message["id"]: content for message, content in sent if content != message["content"]}
    return {"sent": [message["id"] for message, _ in sent], "changed": changed}


def _messages(envelope: Envelope, session: Session) -> Iterator[tuple[int, Any]]:
    """Message numbers and contents as they stand in an envelope."""
    for (number, _), rows in groupby(_raws(envelope, session), key=lambda row: row[0]):
        content = [raw for _, raw in rows if raw is not None]
        yield number, content[0] if len(content) == 1 and isinstance(content[0], str) else content


def _raws(envelope: Envelope, session: Session) -> Iterator[tuple[tuple[int, bool], Any]]:
    """Each block as sent, with its message's number and whether it stands there again."""
    for piece in envelope.pieces:
        if piece.body is None:
            yield from (((block.message, False), block.raw) for block in session.blocks[piece.start : piece.stop])
            continue
        again = piece.start == piece.stop
        number = int(piece.slot.split()[1]) if again else session.blocks[piece.start].message
        for part in piece.body:
            yield (number, again), session.blocks[part.ref].raw if part.ref is not None else part.raw


def _list_range(state: State) -> list[int] | None:
    return list(state.range) if state.range else None


def _edits(state: State) -> list[dict[str, Any]]:
    return [
        {
            "message": message,
            "type": entry.type,
            "blocks": [
                {"block": block, "updates": t.updates, "text": t.text, "replaced": list(t.replaced), "all": list(t.files)}
                for block, t in entry.blocks.items()
            ],
        }
        for message, entry in state.entries.items()
    ]


def _runs(numbers: list[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] + 1 == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


def _words(value: Any, out: bool) -> Any:
    """Our own texts for the placeholders of the original's, or the reverse."""
    if isinstance(value, str):
        for placeholder, text in NOTICES.items():
            value = value.replace(text, placeholder) if out else value.replace(placeholder, text)
        return value
    if isinstance(value, list):
        return [_words(item, out) for item in value]
    return {key: _words(item, out) for key, item in value.items()} if isinstance(value, dict) else value
