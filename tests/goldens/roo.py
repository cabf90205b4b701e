"""Roo Code 3.52.1: cases of its sliding window, condensing, hidden history, merging and mending of results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs
from turnscope.counting.ledger import Ledger, build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.plan import Plan, StepState
from turnscope.envelope.rule import NoParams, Rule
from turnscope.planning.assemble import Basis, plan_step, reconcile_plan
from turnscope.planning.policy import Policy, Step, load
from turnscope.planning.render import render
from turnscope.ports.roo import management, results
from turnscope.ports.roo.history import SLOT, Store, Summary
from turnscope.session.builder import Builder
from turnscope.session.model import Answer, Ask, Bucket, Edit, Part, Request, Session, Span, Usage

SYSTEM = "roo"
BLOCKS = {"tool_use": 10, "tool_result": 10, "image": 100}


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the case's `expect` should hold."""
    return {
        "truncate": _truncate,
        "effective": _effective,
        "cleanup": _cleanup,
        "merge": _merge,
        "validate": _validate,
        "synthetic": _synthetic,
        "context_tokens": _context_tokens,
        "will_manage": _will_manage,
        "manage": _manage,
        "sequence": _sequence,
    }[case["kind"]](case["input"])


def _ids(messages: list[Any]) -> list[str]:
    return [message["id"] for message in messages]


def _truncate(given: dict[str, Any]) -> dict[str, Any]:
    cut = management.truncate(given["messages"], given["fraction"], "T1")
    messages = [{**m, "id": "marker:T1"} if m is cut.marker else m for m in cut.messages]
    marker = cut.marker and {
        "position": _ids(messages).index("marker:T1"),
        "ts": cut.marker["ts"],
        "role": cut.marker["role"],
        "content": _replace_notices(cut.marker["content"]),
    }
    hidden = [m["id"] for m in messages if m.get("truncationParent") == "T1"]
    return {
        "removed": cut.removed,
        "hidden": hidden,
        "marker": marker,
        "effective": _ids(management.select_effective(messages)),
    }


def _effective(given: dict[str, Any]) -> dict[str, Any]:
    before = {m["id"]: m["content"] for m in given["messages"]}
    sent = management.select_effective(given["messages"])
    changed = {m["id"]: m["content"] for m in sent if m["content"] != before[m["id"]]}
    return {
        "kept": _ids(sent),
        "changed": changed,
        "since_last_summary": _ids(management.select_since_summary(given["messages"])),
    }


def _cleanup(given: dict[str, Any]) -> dict[str, Any]:
    cleaned = management.clean_up(given["messages"])
    return {"tags": [[m["id"], m.get("condenseParent"), m.get("truncationParent")] for m in cleaned]}


def _merge(given: dict[str, Any]) -> dict[str, Any]:
    merged = management.merge_neighbours(given["messages"], given["roles"])
    return {"out": [{key: m.get(key) for key in ("id", "role", "ts", "content")} for m in merged]}


def _validate(given: dict[str, Any]) -> dict[str, Any]:
    fitted = results.fit_results(given["user"], given["history"])
    return {"content": given["user"]["content"] if fitted is None else [_placeholder(block) for _, block in fitted]}


def _synthetic(given: dict[str, Any]) -> dict[str, Any]:
    added = management.build_missing_results(given["messages"])
    return {"appended": added and [_placeholder(block) for block in added]}


def _placeholder(block: Any) -> Any:
    names = {results.INTERRUPTED: "⟦RESULT_INTERRUPTED⟧", management.DEFERRED: "⟦RESULT_DEFERRED⟧"}
    return {**block, "content": names[block["content"]]} if block.get("content") in names else block


def _context_tokens(given: dict[str, Any]) -> dict[str, Any]:
    return {"context_tokens": management.count_context(given["ui"])}


def _will_manage(given: dict[str, Any]) -> dict[str, Any]:
    will = management.will_manage(
        given["total_tokens"],
        given["last_message_tokens"],
        given["window"],
        given["max_output"],
        given["auto_condense"],
        given["threshold_percent"],
        given["profile_threshold"],
    )
    return {"will": will}


# ---------------------------------------------------------------- whole preparations


class Task:
    """A task that is prepared request by request through `assemble.plan_step`, with the counter of these cases."""

    def __init__(self, given: Mapping[str, Any], messages: list[Any], cuts: list[int]) -> None:
        self.given, self.stored = given, messages
        self.real = [m for m in messages if not _is_made(m)]
        builder = Builder("golden", "golden")
        if given.get("tools"):
            builder.add_message("tools", given["tools"])
        if given.get("system_prompt"):
            builder.add_message("system", given["system_prompt"])
        for number, message in enumerate(self.real):
            for _ in range(cuts.count(number)):
                builder.add_unanswered()
            sent_at = message["ts"] / 1000 if "ts" in message else None
            builder.add_message(message["role"], message["content"], id=message["id"], sent_at=sent_at)
        for _ in range(cuts.count(len(self.real))):
            builder.add_unanswered()
        self.session = builder.build()
        self.ledger = ledger(self.session, given.get("tools"))
        self.basis = Basis.of(self.session, self.ledger)
        self.plan: Plan | None = None
        self.decisions: dict[int, Any] = {}
        self.seeds: dict[str, str] = {}

    def prepare(self, request: Request, policy: Policy, used: int, answer: Answer) -> Plan:
        """Plan one request; `used`: what the program reads as the context's tokens beforehand."""
        before = self.plan
        if before:
            billed = structs.replace(before, request=structs.replace(before.request, usage=Usage(input_tokens=used)))
            told = structs.replace(before.calibration, counted=before.seen.tokens, recorded=0)
            before = reconcile_plan(billed) if used else structs.replace(billed, calibration=told)

        def answers(_ask: Ask) -> Answer:
            return answer

        self.plan = plan_step(before, self.session, request, policy, self.basis, answers)
        self.decisions |= {decision.seq: decision for decision in self.plan.decisions}
        return self.plan

    def list_sent(self) -> list[str]:
        """Ids of what the request holds, before neighbours are joined."""
        assert self.plan
        found: list[str] = []
        for piece in self.plan.after.pieces:
            if piece.body is not None and not (piece.body and piece.body[0].ref is not None):
                found += [self._name(piece)] if piece.body else []
                continue
            for block in self.session.blocks[piece.start : piece.stop]:
                name = self.session.messages[block.message].id
                if block.bucket not in (Bucket.SYSTEM, Bucket.TOOLS) and found[-1:] != [name]:
                    found.append(name)
        return found

    def _name(self, piece: Any) -> str:
        facts = self.decisions[piece.by].edit.facts
        return str(
            facts.get("id") or (f"marker:T{facts['marker']}" if piece.slot.startswith(SLOT) else f"summary:C{facts['summary']}")
        )

    def count_merged(self) -> int:
        """Messages of the rendered request."""
        assert self.plan
        return len(render(self.plan.after, self.session)["messages"])


def ledger(session: Session, tools: list[Any] | None) -> Ledger:
    """The counter of these cases: a text counts ceil(UTF-16 length / 4); all tool definitions are one text."""
    counts = {block.at: tokens_of(block.raw) for block in session.blocks}
    if tools:
        own = [block.at for block in session.blocks if block.bucket is Bucket.TOOLS]
        counts |= dict.fromkeys(own, 0) | {own[0]: text_tokens(json.dumps(tools, separators=(",", ":"), ensure_ascii=False))}
    made = build_ledger(structs.replace(session, blocks=(), messages=()), CHARS)
    empty = _Counted(made.counter, made.sums, made.total, made.memo)
    for block in session.blocks:
        empty.total.append(empty.total[-1] + counts[block.at])
        for column, bucket in zip(empty.sums, Bucket, strict=True):
            column.append(column[-1] + counts[block.at] * (block.bucket == bucket))
    return empty


class _Counted(Ledger):
    """Counts of placeholders, as the original makes them."""

    def count_each_part(self, parts: Sequence[Part]) -> list[int]:
        return [text_tokens(part.text) for part in parts]


def text_tokens(text: str) -> int:
    return -(-(len(text.encode("utf-16-le", "surrogatepass")) // 2) // 4)


def tokens_of(content: Any) -> int:
    """Tokens of a message's content, or of one block."""
    if isinstance(content, str):
        return text_tokens(content)
    blocks = content if isinstance(content, list) else [content or {}]
    return sum(text_tokens(b["text"]) if b.get("type") == "text" else BLOCKS.get(b.get("type"), 0) for b in blocks)


def policy(given: Mapping[str, Any]) -> Policy:
    """Roo's policy with the settings of a case. Its messages are stored ones: nothing is mended on the way in."""
    changes: dict[str, dict[str, Any]] = {
        "condense_to_fresh_start": {
            "auto": given["auto_condense"],
            "threshold": given["threshold_percent"],
            "profile": management.INHERIT if given.get("profile_threshold") is None else given["profile_threshold"],
            "environment": given.get("environment_details") or "",
            "factor": 1.0,
            "count_after_condense": False,  # the cases say what the program reads
        },
        "hide_older_half": {"factor": 1.0, "count_after_condense": False},
    }
    ported = load("roo")
    steps = tuple(
        Step(part.rule, replace(part.params, **changes.get(part.rule.name, {})))
        for part in ported.rules
        if part.rule.name != "match_results_to_calls"
    )
    room = replace(ported.budget, window=given["window"], output=given["max_output"] or ported.budget.output)
    return replace(ported, rules=steps, budget=room)


def _answer(text: str | None, fails: bool = False) -> Answer:
    return Answer(failed="the call failed", source="recorded") if fails or text is None else Answer(text, source="recorded")


def _manage(given: dict[str, Any]) -> dict[str, Any]:
    messages = given["messages"]
    real = sum(not _is_made(m) for m in messages)
    task = Task(given, messages, [real, real])
    before, request = task.session.requests
    chosen = policy(given)
    task.plan = _restore_states(
        task, task.prepare(before, Policy("stored", "", "", "", "", rules=_seeds(task)), 0, Answer()), chosen
    )
    answer = _answer(given["fake_summary"], given["condense_call_fails"])
    plan = task.prepare(request, chosen, given["total_tokens"], answer)
    did = _did(plan, given["total_tokens"], messages[-1])
    condensed = did["action"] == "condense"
    facts = _facts(plan)
    shown = [decision.edit for decision in plan.decisions if decision.action == "condense"]
    body = shown[0].body if shown else ()
    content = [{"type": "text", "text": _replace_notices(part.text)} for part in body or ()]
    made = plan.get_state("condense_to_fresh_start")
    marker = next((e for e in (d.edit for d in plan.decisions) if e.action == "insert"), None)
    text = marker.body[0].text if marker and marker.body else management.MARKER.format(did["removed"])
    return {
        **did,
        "effective": task.list_sent(),
        "summary": {"role": "user", "ts": made.ts, "content": content} if condensed and made else None,
        "marker": {"ts": facts["ts"], "content": _replace_notices(text)} if "marker" in facts else None,
        "newly_condensed": [m["id"] for m in messages if not m.get("condenseParent")] if condensed else [],
    }


def _did(plan: Plan, total: int, last: Mapping[str, Any]) -> dict[str, Any]:
    """What one preparation did; a request at which nothing was due leaves no decision that says its size."""
    facts = _facts(plan)
    errors = [d.edit.facts["error"] for d in plan.decisions if "error" in d.edit.facts]
    action = "truncate" if "removed" in facts else "condense" if "summary" in facts else "none"
    return {
        "action": action,
        "condense_error": errors[0] if errors else None,
        "previous_tokens": facts.get("size", total + tokens_of(last["content"])),
        "removed": facts.get("removed"),
        "new_tokens": facts.get("new_size"),
    }


def _facts(plan: Plan) -> Mapping[str, Any]:
    told = [decision.edit.facts for decision in plan.decisions if "size" in decision.edit.facts]
    return told[-1] if told else {}


def _sequence(given: dict[str, Any]) -> dict[str, Any]:
    steps = given["steps"]
    messages = [message for part in steps for message in part["append"]]
    cuts = [sum(len(part["append"]) for part in steps[: n + 1]) for n in range(len(steps))]
    task, chosen, found = Task(given, messages, cuts), policy(given), []
    for part, request in zip(steps, task.session.requests, strict=True):
        used = part["context_tokens"]
        plan = task.prepare(request, chosen, used, _answer(part.get("fake_summary")))
        did = _did(plan, used, part["append"][-1])
        if not used:
            did |= {"action": "skipped", "previous_tokens": None}
        found.append({**did, "sent": _runs(task.list_sent()), "messages_after_merge": task.count_merged()})
    return {"steps": found}


def _runs(ids: list[str]) -> list[Any]:
    """Ids `m0`, `m1`, ... as runs of their numbers, others as they are."""
    found: list[Any] = []
    for name in ids:
        number = int(name[1:]) if name[:1] == "m" and name[1:].isdigit() else None
        if number is None:
            found.append(name)
        elif found and isinstance(found[-1], list) and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found


def _replace_notices(text: str) -> str:
    """Our own texts as the placeholders of the original's."""
    before, after = management.WORKFLOWS
    if text.startswith(before):
        return "⟦WORKFLOW_WRAPPER⟧" + text.removeprefix(before).removesuffix(after)
    if text.startswith(management.HEADING):
        return "⟦SUMMARY_HEADING⟧" + text.removeprefix(management.HEADING)
    head, tail = management.MARKER.split("{}")
    number = text.removeprefix(head).removesuffix(tail)
    return f"⟦TRUNCATION_MARKER:{number}⟧" if text == head + number + tail else text


# ---------------------------------------------------------------- a history that holds tags already


def _is_made(message: Mapping[str, Any]) -> bool:
    return bool(message.get("isSummary") or message.get("isTruncationMarker"))


def _seeds(task: Task) -> tuple[Step, ...]:
    """Edits that bring a session to where stored tags say that it is."""

    def seed_states(_envelope: Any, _ctx: Any, _params: NoParams) -> Any:
        yield from _yield_stored(task)

    return (Step(Rule("as_stored", "as stored", seed_states, NoParams), NoParams()),)


def _restore_states(task: Task, plan: Plan, chosen: Policy) -> Plan:
    """The plan as if the rules of a policy had left what the stored tags say."""
    store = _store(task, _places(task))
    newest = store.summary
    known = {
        "condense_to_fresh_start": newest,
        "hide_older_half": store,
        "drop_results_of_condensed_calls": newest and newest.at,
    }
    steps = (part for part in chosen.rules if part.rule.name in known)
    return structs.replace(plan, states=tuple(StepState(part.rule.name, part.params, known[part.rule.name]) for part in steps))


def _yield_stored(task: Task) -> Any:
    messages, places = task.stored, _places(task)
    if not any(_is_made(m) or m.get("condenseParent") or m.get("truncationParent") for m in messages):
        return
    sent = {m["id"]: m for m in management.select_effective(messages)}
    last = max((n for n, m in enumerate(messages) if m.get("isSummary")), default=None)
    newest = _store(task, places).summary
    first = min(m.start for m in task.session.messages if m.role in ("user", "assistant"))
    if last is not None and newest:
        shown = messages[last]["id"] in sent
        body = tuple(
            Part("user", "text" if n else "summary", text, {"type": "text", "text": text})
            for n, text in enumerate(newest.texts)
        )
        facts = {"id": messages[last]["id"]}
        yield Edit("condense", "as stored", Span(first, places[last]), body if shown else (), facts=facts)
    for n, message in enumerate(messages):
        if message.get("isTruncationMarker") and message["id"] in sent:
            part = Part("user", "text", message["content"], fence=True)
            facts = {"id": message["id"]}
            yield Edit("insert", "as stored", Span(places[n], places[n]), (part,), slot=f"{SLOT} {message['id']}", facts=facts)
        if not _is_made(message) and (last is None or n > last):
            real = next(m for m in task.session.messages if m.id == message["id"])
            if message["id"] not in sent:
                yield Edit("drop", "as stored", Span(real.start, real.stop))
            elif sent[message["id"]] is not message:
                left = sent[message["id"]]["content"]
                for block in task.session.blocks[real.start : real.stop]:
                    if not any(raw is block.raw for raw in left):
                        yield Edit("drop", "as stored", Span(block.at, block.at + 1))


def _places(task: Task) -> list[int]:
    """The address of each stored message; of a summary or marker that of the next real message."""
    starts = {m.id: m.start for m in task.session.messages}
    found, at = [], len(task.session.blocks)
    for message in reversed(task.stored):
        at = at if _is_made(message) else starts[message["id"]]
        found.append(at)
    return found[::-1]


def _store(task: Task, places: list[int]) -> Store:
    summaries: list[Summary] = []
    visible: list[tuple[int, int]] = []
    hidden: list[tuple[int, int]] = []
    for place, message in zip(places, task.stored, strict=True):
        if message.get("isTruncationMarker"):
            continue
        key = (place, 0 if message.get("isSummary") else 1)
        (hidden if message.get("truncationParent") else visible).append(key)
        if message.get("isSummary"):
            content = message["content"]
            texts = (content,) if isinstance(content, str) else tuple(block["text"] for block in content)
            summaries.append(Summary(0, place, -1, texts, sum(map(text_tokens, texts)), 0, message.get("ts")))
    first = visible[1] if len(visible) > 1 else (len(task.session.blocks), 0)
    assert all(visible[0] < key < first for key in hidden), "only a run behind the first message can be hidden"
    return Store(tuple(summaries), first if hidden else None, 0)
