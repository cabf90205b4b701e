"""LibreChat's agents against cases of the original: what fits, mending, shortening, and whole requests, alone and in a run.

`step` and `run` plan requests with the policy; the others call the functions that its rule calls.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs
from turnscope.counting.ledger import Ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.budget import BudgetParams
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.plan import Plan, StepState
from turnscope.envelope.rule import Ctx, Edits
from turnscope.planning import assemble, policy
from turnscope.ports.librechat import agents as port
from turnscope.ports.librechat import cuts, fading
from turnscope.ports.librechat.counts import Column
from turnscope.ports.librechat.history import Bodies, History, read_session
from turnscope.ports.librechat.pruning import Outcome
from turnscope.ports.librechat.state import Scale, State
from turnscope.rules.librechat.prune_by_pressure import RULE, Params, prepare_request
from turnscope.session.builder import Builder
from turnscope.session.model import BUCKETS, Block, Counts, Part, Placeholder, Session, Usage

SYSTEM = "librechat-agents"
MARKS = {
    "TRUNCATED": re.compile(r"\n\n… \[shortened: (\d+) characters, allowed: (\d+)\] …(?:\n\n)?"),
    "SOFT_TRIMMED": re.compile(r"\n\n… \[middle is taken out of (\d+) characters; (\d+) are left\] …\n\n"),
}
DEPARTS = {
    "w-think-95": "its input is not what the original was given: message m3 holds the reasoning that a later case, run on the "
    "same objects, put in front of it (its 8 tokens and signature are those of m3 without and of m1), so m1 is not the nearest"
}
Given = dict[str, Any]


def run(case: Given, file: Given) -> Given:
    """What the port gives for one case."""
    found: Given = KINDS[case["kind"]](_fill_texts(case["input"]))
    return found


def _fill_texts(value: Any) -> Any:
    """Texts for their short forms."""
    if isinstance(value, list):
        return [_fill_texts(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"fill", "unit"}:
        unit = cuts.widen(value["unit"])
        return cuts.narrow_text((unit * (value["fill"] // max(1, len(unit)) + 1))[: value["fill"]])
    return {key: _fill_texts(item) for key, item in value.items()}


@dataclass(frozen=True, slots=True)
class Quarters(Ledger):
    """Characters / 4 of a whole message, rounded up. `inline`: calls that stand in the content as well as beside it."""

    inline: frozenset[str] = frozenset()

    def count_content(self, blocks: Iterable[Block]) -> int:
        return self._count(block.raw for block in blocks)

    def count_parts(self, parts: Iterable[Part]) -> int:
        return self._count(part.text if part.raw is None else part.raw for part in parts)

    def count_each_part(self, parts: Sequence[Part]) -> list[int]:
        return [self.count_parts((part,)) for part in parts]

    def count_placeholder(self, parts: Placeholder) -> Counts:
        return (0, 0, self.count_parts(parts or ()), 0, 0)

    def _count(self, raws: Iterable[Any]) -> int:
        return -(-sum(self._size(raw) for raw in raws) // 4)

    def _size(self, raw: Any) -> int:
        if raw is None or isinstance(raw, str):
            return len(cuts.widen(raw or ""))
        kind = raw.get("type")
        if kind == "tool_result":
            held = raw["content"]
            return self._size(held) if isinstance(held, str) else sum(map(self._size, held))
        if kind in ("text", "thinking") and isinstance(raw.get(kind), str):
            return len(cuts.widen(raw[kind]))
        if kind != "tool_use":
            return len(cuts.write_json(raw))
        size = len(cuts.widen(raw["name"])) + len(cuts.write_json(raw["input"]))
        return size + (len(cuts.write_json(raw)) if raw["id"] in self.inline else 0)


def _say(builder: Builder, messages: Iterable[Given]) -> None:
    for message in messages:
        role, content = str(message["role"]), message["content"]
        if role == "tool":
            held: Any = [{"type": "tool_result", "tool_use_id": message.get("tool_call_id"), "content": content}]
        elif role == "ai":
            said = [content] if isinstance(content, str) else list(content)
            known = {b.get("id") for b in said if isinstance(b, dict) and b.get("type") == "tool_use"}
            calls = [c for c in message.get("tool_calls") or () if c["id"] not in known]
            uses = [{"id": c["id"], "name": c.get("name", "f"), "input": c.get("args", {})} for c in calls]
            held = said + [{"type": "tool_use", **use} for use in uses]
        else:
            held = content
        roles = {"human": "user", "ai": "assistant", "tool": "user"}
        builder.add_message(roles.get(role) or role, held, id=message["id"], fence=True)


def _own(session: Session, messages: Iterable[Given]) -> Quarters:
    inline = [b["id"] for m in messages if isinstance(m["content"], list) for b in m["content"] if b.get("type") == "tool_use"]
    zeros = [0] * (len(session.blocks) + 1)
    return Quarters(CHARS, tuple(zeros for _ in BUCKETS), zeros, {}, inline=frozenset(inline))


def _history(messages: Sequence[Given]) -> tuple[History, Column[int]]:
    """Messages without a plan, for the functions that a plan calls, and their counts."""
    builder = Builder("golden", SYSTEM)
    _say(builder, messages)
    session = builder.build()
    history = History(session, read_session(session, True), _own(session, messages), 0, len(messages))
    counts = [history.recount(i) if m.get("tokens") is None else m["tokens"] for i, m in enumerate(messages)]
    return history, _column(counts)


def _column(counts: Iterable[int]) -> Column[int]:
    empty: Column[int] = Column("sum")
    return empty.extend(counts)


def _within(given: Given) -> Given:
    messages = given["messages"]
    history, counts = _history(messages)
    counts = _column(m["tokens"] or 0 for m in messages)
    starts = _types(given["start_type"])
    terms = port.Terms(given["max"], given["instruction_tokens"], starts, given["thinking"], given["reasoning_type"])
    thought = given["thinking_start_index"]
    fit = port.select_newest(history, counts, terms, -1 if thought is None else thought)
    bodies: dict[int, Bodies] = {}
    if fit.attach:
        bodies[fit.attach[0]] = port.add_reasoning(history, fit.attach[0], {}, fit.attach[1])
    return {
        "kept": _ids(messages, fit.kept),
        "remaining": fit.remaining,
        "to_refine": _ids(messages, range(*fit.refine)),
        "thinking_start_index": None if fit.thought < 0 else fit.thought,
        "changed": _list_changes(history, messages, bodies),
    }


def _types(given: Any) -> tuple[str, ...]:
    return () if not given else (given,) if isinstance(given, str) else tuple(given)


def _ids(messages: Sequence[Given], numbers: Iterable[int]) -> list[str]:
    return [messages[i]["id"] for i in numbers]


def _repair(given: Given) -> Given:
    messages = given["messages"]
    history, counts = _history(messages)
    number = {m["id"]: i for i, m in enumerate(messages)}
    mended = port.repair_pairs(history, [number[id] for id in given["context"]], counts, lambda _: {})
    return {
        "kept": _ids(messages, mended.kept),
        "dropped": _ids(messages, mended.dropped),
        "dropped_count": len(mended.dropped),
        "reclaimed_tokens": mended.reclaimed,
        "changed": _strip_calls(history, messages, mended),
    }


def _sanitize(given: Given) -> Given:
    messages = given["messages"]
    history, _ = _history(messages)
    mended = port.sanitize(history, range(len(messages)))
    return {"kept": _ids(messages, mended.kept), "changed": _strip_calls(history, messages, mended)}


def _strip_calls(history: History, messages: Sequence[Given], mended: port.Repaired) -> Given:
    bodies = {i: port.remove_calls({}, gone) for i, gone in mended.stripped.items()}
    return _list_changes(history, messages, bodies)


def _run_text_cut(given: Given) -> Given:
    text = given["text"]
    new = cuts.narrow_text(cuts.shorten(cuts.widen(text), given["max_chars"]))
    return {"result": "same" if new == text else _describe_text(new)}


def _run_argument_cut(given: Given) -> Given:
    new, changed = cuts.envelope_arguments(given["args"], given["max_chars"])
    return {"result": _describe_arguments(new) if changed else "same"}


def _mask(given: Given) -> Given:
    messages = given["messages"]
    history, counts = _history(messages)
    held, masked = fading.mask_answered(history, fading.add_new_messages(history, fading.Held(), counts), given["raw_budget"])
    return {"masked": len(masked), **_describe_fading(history, messages, held), "stored_originals": sorted(masked)}


def _preflight(given: Given) -> Given:
    messages = given["messages"]
    history, counts = _history(messages)
    held, results = fading.fade_results(history, fading.add_new_messages(history, fading.Held(), counts), given["base_tokens"])
    held, calls = fading.fade_args(history, held, given["base_tokens"])
    return {"results_cut": len(results), "args_cut": len(calls), **_describe_fading(history, messages, held)}


def _describe_fading(history: History, messages: Sequence[Given], held: fading.Held) -> Given:
    bodies = {i: held.get_bodies(history, i) for i in range(len(messages))}
    return {"changed": _list_changes(history, messages, bodies), "tokens": list(held.counts)}


def _recency(given: Given) -> Given:
    messages = given["messages"]
    history, counts = _history(messages)
    turns = 2 if given["turns"] is None else given["turns"]
    start, found = port.find_recent(history, turns, given["token_cap"], counts)
    ids = _ids(messages, range(len(messages)))
    return {"head": ids[:start], "tail": ids[start:], "turns": found, "tail_start": start}


def _trigger(given: Given) -> Given:
    asked = given["trigger"]
    trigger = port.Trigger(asked["type"], asked.get("value")) if asked and isinstance(asked.get("type"), str) else None
    numbers = (given["messages_to_refine"], given["max_context"], given["pre_prune_tokens"], given["remaining_tokens"])
    return {"summarize": port.is_triggered(trigger, numbers[0], *numbers[1:])}


def _step(given: Given) -> Given:
    steps = [{"append": given["messages"], "usage": given["usage"]}]
    plan, outcome, session = next(_plans(given, steps, split=given["start_index"]))
    counts = list(plan.get_state(RULE.name).held.counts)
    unknown = [
        i < given["start_index"] and m["tokens"] is None and m["role"] != "tool" for i, m in enumerate(given["messages"])
    ]
    tokens = [None if lacking else count for count, lacking in zip(counts, unknown, strict=True)]
    return {**_describe_plan(plan, outcome, session, given["messages"]), "tokens": tokens}


def _run(given: Given) -> Given:
    messages: list[Given] = []
    rows = []
    for step, (plan, outcome, session) in zip(given["steps"], _plans(given, given["steps"]), strict=True):
        messages += step["append"]
        row = _describe_plan(plan, outcome, session, messages)
        rows.append({**row, "kept": _runs(row["kept"]), "to_refine": _runs(row["to_refine"])})
    return {"steps": rows}


def _plans(given: Given, steps: Sequence[Given], split: int = 0) -> Iterator[tuple[Plan, Outcome, Session]]:
    """Plans of the steps, and what came out of each before it became edits.

    A plan that sends nothing stands before them: it holds what the host told and was billed.
    """
    builder = Builder("golden", SYSTEM)
    messages = [message for step in steps for message in step["append"]]
    _say(builder, messages[:split])
    builder.add_unanswered(usage=_usage(steps[0]["usage"]))
    _say(builder, steps[0]["append"][split:])
    for step in steps[1:]:
        builder.add_unanswered(usage=_usage(step["usage"]))
        _say(builder, step["append"])
    builder.add_unanswered()
    session = builder.build()
    outcomes: list[Outcome] = []
    chosen = _policy(given, outcomes)
    zeros = [0] * (len(session.blocks) + 1)
    basis = assemble.Basis.of(session, Ledger(CHARS, tuple(zeros for _ in BUCKETS), zeros, {}), _own(session, messages))
    told = {i: message["tokens"] for i, message in enumerate(messages) if message["tokens"] is not None}
    ratio = given["calibration_ratio"]
    state = State(host_counts=told, start=given["start_index"], scale=Scale(ratio if ratio and ratio > 0 else 1.0))
    previous = assemble.plan_step(None, session, session.requests[0], replace(chosen, rules=()), basis)
    previous = structs.replace(previous, states=(StepState(RULE.name, chosen.rules[0].params, state),))
    previous = assemble.reconcile_plan(previous)
    for request in session.requests[1:]:
        plan = assemble.plan_step(previous, session, request, chosen, basis)
        previous = assemble.reconcile_plan(plan)
        yield plan, outcomes[-1], session


def _usage(given: Any) -> Usage | None:
    return Usage(int(given.get("input_tokens") or 0), 0, 0, int(given.get("output_tokens") or 0)) if given else None


def _policy(given: Given, outcomes: list[Outcome]) -> policy.Policy:
    """The policy with the settings of a case; what comes out of each request is added to `outcomes`."""

    def watch_edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
        outcomes.append(prepare_request(ctx, params).outcome)
        return (yield from RULE.edits(envelope, ctx, params))

    chosen = policy.load(SYSTEM)
    asked: Given = {"instructions": given["instruction_tokens"] or 0, "summarization": bool(given["summarization"])}
    asked |= {"thinking": bool(given["thinking"]), "starts": _types(given["start_type"])}
    asked |= {"by_turn": False, "repair": False, "frame": 0}
    asked |= {} if given["reserve_ratio"] is None else {"reserve": given["reserve_ratio"]}
    aged = given["position_pruning"] or {}
    trim, clear = aged.get("softTrim") or {}, aged.get("hardClear") or {}
    found = {
        "by_age": aged.get("enabled"),
        "keep_turns": aged.get("keepLastAssistants"),
        "trim_from": aged.get("softTrimRatio"),
        "clear_from": aged.get("hardClearRatio"),
        "min_chars": aged.get("minPrunableToolChars"),
        "max_chars": trim.get("maxChars"),
        "head": trim.get("headChars"),
        "tail": trim.get("tailChars"),
        "clear": clear.get("enabled"),
        "cleared": clear.get("placeholder"),
    }
    asked |= {key: value for key, value in found.items() if value is not None}
    (rule,) = chosen.rules
    budget = BudgetParams(formula="fixed", tokens=given["max"])
    steps = (replace(rule, rule=replace(RULE, edits=watch_edits), params=replace(rule.params, **asked)),)
    return replace(chosen, counter="", budget=budget, rules=steps)


def _describe_plan(plan: Plan, outcome: Outcome, session: Session, messages: Sequence[Given]) -> Given:
    facts = outcome.facts
    sent = _list_sent(plan, session)
    changed = {m["id"]: new for m in messages if m["id"] in sent and (new := _change(m, sent[m["id"]]))}
    return {
        "kept": list(sent),
        "to_refine": [messages[i]["id"] for run in outcome.refine for i in range(*run)],
        "pre_prune_tokens": facts["tokens"],
        "remaining": facts["remaining"],
        "pressure": facts["pressure"],
        "budget": facts["budget"],
        "instruction_tokens_used": facts["instructions"],
        "calibration_ratio": facts["ratio"],
        "changed": changed,
    }


def _list_sent(plan: Plan, session: Session) -> dict[str, list[Any]]:
    """Raw blocks of the messages sent, by id, in order."""
    sent: dict[str, list[Any]] = {}
    for piece in plan.after.pieces:
        if piece.body is None:
            for block in session.blocks[piece.start : piece.stop]:
                sent.setdefault(session.messages[block.message].id, []).append(block.raw)
            continue
        for part in piece.body:
            raw = session.blocks[part.ref].raw if part.ref is not None else part.text if part.raw is None else part.raw
            sent.setdefault(session.messages[session.blocks[piece.start].message].id, []).append(raw)
    return sent


def _list_changes(history: History, messages: Sequence[Given], bodies: Mapping[int, Bodies]) -> Given:
    found: Given = {}
    for i, body in sorted(bodies.items()):
        raws = [part.text if part.raw is None else part.raw for part in history.build_parts(i, body)]
        if new := _change(messages[i], raws):
            found[messages[i]["id"]] = new
    return found


def _change(message: Given, raws: Sequence[Any]) -> Given:
    """How a message differs from what was said, in the words of the cases."""
    change: Given = {}
    content = message["content"]
    if message["role"] == "tool":
        held = raws[0]["content"]
        return {} if held == content else {"content": _describe_text(held)}
    if message["role"] != "ai":
        return {}
    inline = {b.get("id") for b in content if b.get("type") == "tool_use"} if isinstance(content, list) else set()
    uses = {raw["id"]: raw["input"] for raw in raws if isinstance(raw, dict) and raw.get("type") == "tool_use"}
    beside = uses.keys() - inline
    blocks = [r for r in raws if r is not None and (isinstance(r, str) or r["type"] != "tool_use" or r["id"] not in beside)]
    said = [content] if isinstance(content, str) else content
    if blocks != said:
        change["content"] = {"blocks": [{"type": "text", "text": b} if isinstance(b, str) else b for b in blocks]}
    calls = message.get("tool_calls") or []
    args = {
        c["id"]: _describe_arguments(uses[c["id"]]) for c in calls if c["id"] in uses and uses[c["id"]] != c.get("args", {})
    }
    if args:
        change["args"] = args
    if any(c["id"] not in uses for c in calls):
        change["tool_calls"] = [c["id"] for c in calls if c["id"] in uses]
    return change


def _describe_text(text: str) -> Any:
    if text == cuts.CLEARED:
        return {"placeholder": "⟦HARD_CLEAR⟧"}
    wide = cuts.widen(text)
    marks = [(kind, mark) for kind, pattern in MARKS.items() for mark in pattern.finditer(wide)]
    if len(marks) > 1:
        return {"nested": len(marks), "length": len(wide)}
    if not marks:
        return {"head": len(wide), "marker": None, "tail": 0, "length": len(wide)}
    kind, mark = marks[0]
    marker = {"kind": kind, "length": len(mark[0]), "numbers": [int(mark[1]), int(mark[2])]}
    return {"head": mark.start(), "marker": marker, "tail": len(wide) - mark.end(), "length": len(wide)}


def _describe_arguments(given: Any) -> Any:
    if not isinstance(given, dict) or set(given) != {"_truncated", "_originalChars"}:
        return {"json": given}
    text = cuts.widen(given["_truncated"])
    end = len(cuts.CUT_ARGS) if text.endswith(cuts.CUT_ARGS) else 0
    body = text[: len(text) - end]
    mark = MARKS["TRUNCATED"].search(body)
    envelope = {
        "head": mark.start() if mark else len(body),
        "inner_marker": {"length": len(mark[0]), "numbers": [int(mark[1]), int(mark[2])]} if mark else None,
        "after_inner_marker": len(body) - mark.end() if mark else 0,
        "end_marker_length": end,
        "text_length": len(text),
        "original_chars": given["_originalChars"],
    }
    return {"envelope": envelope, "json_length": len(cuts.write_json(given))}


def _runs(ids: Sequence[str]) -> list[Any]:
    runs: list[Any] = []
    for id in ids:
        number = int(found[1]) if (found := re.fullmatch(r"m(\d+)", id)) else None
        if number is None:
            runs.append(id)
        elif runs and isinstance(runs[-1], list) and runs[-1][1] + 1 == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


KINDS = {
    "within_limit": _within,
    "repair": _repair,
    "sanitize": _sanitize,
    "cut_text": _run_text_cut,
    "cut_args": _run_argument_cut,
    "result_cap": lambda given: {"max_chars": cuts.compute_result_cap(given["tokens"] or 0)},
    "args_cap": lambda given: {"max_chars": cuts.compute_arguments_cap(given["tokens"] or 0)},
    "mask": _mask,
    "preflight": _preflight,
    "recency": _recency,
    "trigger": _trigger,
    "step": _step,
    "run": _run,
}
