"""LobeHub's policy does to a topic what the golden cases say that the original did to its stored messages.

Left out are a store that returns no list, a missing model, texts on files, and reasoning with parts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.plan import Plan
from turnscope.planning.assemble import replay
from turnscope.planning.policy import Policy, load
from turnscope.ports.lobechat.shaping import CLOSED, FAILED, FINISH, OPENED, build_call_name, flatten
from turnscope.ports.lobechat.stored import LISTED
from turnscope.ports.lobechat.tokens import WINDOW, count_message
from turnscope.ports.lobechat.window import EXTRA
from turnscope.session.builder import Builder
from turnscope.session.model import Session

from tests.goldens import DEFAULT
from tests.goldens._apps import Teller, append_stored, list_sent
from tests.goldens.lobehub_2026 import CLOCK, fill_texts, replace_notices

PATH = DEFAULT / "lobehub-2026.json"
VARIABLES = ("username=Ada", "date=1/2/2026")


def cases() -> Iterator[dict[str, Any]]:
    found = json.loads(PATH.read_text(encoding="utf-8"))["cases"] if PATH.is_file() else []
    for case in found:
        left_out = {"no_final", "no_model", "file_context"} & {key for key, value in case["input"].items() if value}
        if case["kind"] in ("prepare", "compress", "sequence") and not left_out and "isMultimodal" not in _reasoning(case):
            yield case


def _reasoning(case: dict[str, Any]) -> str:
    return json.dumps([m.get("reasoning") for m in case["input"].get("messages") or ()])


@pytest.mark.parametrize("case", [*cases()], ids=lambda case: case["id"])
def test_the_policy_sends_what_the_original_sent(case: dict[str, Any]) -> None:
    kinds = {"prepare": _prepare, "compress": _compress, "sequence": _sequence}
    assert kinds[case["kind"]](fill_texts(case["input"])) == case["expect"]


def policy(changes: Mapping[str, Mapping[str, Any]], window: int = 0) -> Policy:
    """LobeHub's policy with other parameters, by rule, for a model with this window."""
    chosen = load("lobehub-2026")
    steps = [replace(s, params=replace(s.params, **changes.get(s.rule.name, {}))) for s in chosen.rules]
    return replace(chosen, rules=tuple(steps), budget=replace(chosen.budget, window=window))


def _prepare(given: dict[str, Any]) -> dict[str, Any]:
    builder = Builder("golden", "lobehub-2026")
    if given.get("system_role"):
        builder.add_message("system", given["system_role"])
    if given.get("history_summary"):
        builder.about["history_summary"] = given["history_summary"]
    append_stored(builder, given["messages"])
    builder.add_unanswered(model="m", sent_at=CLOCK)
    session = builder.build()
    count = given["history_count"]
    shape = {
        "template": given.get("input_template") or "",
        "calling": given["function_calling"],
        "vision": given["vision"],
        "files": bool(given.get("file_context")),
        "disabled": tuple(given.get("disabled_tools") or ()),
        "last_step": bool(given.get("force_finish")),
    }
    told = {"dated": bool(given.get("system_date")), "timezone": given.get("timezone") or ""}
    told |= {"model": given.get("model_name") or "", "cutoff": given.get("model_cutoff") or ""}
    changes = {
        "compress_topic": {"on": False},
        "keep_last_groups": {"on": bool(given["enable"]) and count is not None, "count": (count or 0) - EXTRA},
        "add_to_system": {**told, "variables": VARIABLES},
        "send_prepared": {**shape, "variables": VARIABLES},
    }
    plan = next(iter(replay(session, policy(changes), build_ledger(session, CHARS))))
    return {"messages": _describe_messages(list_sent(session, plan, ""), given)}


def _describe_messages(made: list[dict[str, Any]], given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One system message in front, results named after their tools, and the field that the original leaves on answers."""
    closing = [m for m in made if m["role"] == "system" and m["content"] == FINISH]
    system = [m["content"] for m in made if m["role"] == "system" and m not in closing]
    rest = [m for m in made if m["role"] != "system"]
    stored = [part for message in given["messages"] for part in flatten(message)]
    tools = {m["tool_call_id"]: m["plugin"] for m in reversed(stored) if m["role"] == "tool" and m.get("plugin")}
    names = {call["id"]: call["function"]["name"] for m in rest for call in m.get("tool_calls", ())}
    for message in rest:
        if message["role"] == "tool":
            id = message["tool_call_id"]
            own = tools.get(id) if message["content"] != FAILED else None
            message["name"] = build_call_name(own) if own else names[id]
        thought = next((m["reasoning"] for m in stored if m.get("reasoning") and _says(message, m)), None)
        if thought and message["role"] == "assistant":
            message["reasoning"] = thought
    head = [{"role": "system", "content": "\n\n".join(system)}] if system else []
    return replace_notices([*head, *rest, *closing])


def _says(message: Mapping[str, Any], stored: Mapping[str, Any]) -> bool:
    held = message.get("content")
    return (held[-1].get("text") if isinstance(held, list) and held else held) == stored["content"]


def _list_topic(session: Session, plan: Plan) -> tuple[list[str], dict[str, str]]:
    """Ids of what is listed, stored messages and new summaries, in order; and the texts of summaries."""
    ids: list[str] = []
    texts: dict[str, str] = {}
    for piece in plan.after.pieces:
        if piece.slot.startswith(LISTED) and piece.start == piece.stop:
            name = f"G{piece.slot.removeprefix(LISTED)}"
            ids.append(name)
            texts[name] = piece.body[0].text.removeprefix(OPENED).removesuffix(CLOSED) if piece.body else ""
        elif piece.body != ():
            ids += [session.messages[b.message].id for b in session.blocks[piece.start : piece.stop] if b.role != "system"]
    return list(dict.fromkeys(ids)), texts


def _hidden(session: Session, plan: Plan) -> list[str]:
    """Ids of the messages that this request's compression read."""
    spans = [d.edit.span for d in plan.decisions if d.rule == "compress_topic" and d.action == "condense" and d.edit.span]
    return [m.id for m in session.messages if any(s.start <= m.start < s.stop for s in spans)]


def _compress(given: dict[str, Any]) -> dict[str, Any]:
    builder = Builder("golden", "lobehub-2026")
    append_stored(builder, given["stored"])
    builder.add_unanswered()
    session = builder.build()
    on = all(given.get(key) is not False for key in ("topic", "user")) and not given.get("no_model")
    teller = Teller([given["summary"]])
    off = {"send_prepared": {"vision": True}}
    chosen = policy({"compress_topic": {"on": on, "ratio": 0.0}, **off}, WINDOW)
    plan = next(iter(replay(session, chosen, build_ledger(session, CHARS), answers=teller)))
    ids, texts = _list_topic(session, plan)
    asked, read = bool(teller.asks), _hidden(session, plan)
    made = [d.edit.facts for d in plan.decisions if d.rule == "compress_topic" and d.action == "insert"]
    failed = [d.edit.facts for d in plan.decisions if d.rule == "compress_topic" and d.action == "keep"]
    if failed:
        read = [m["id"] for m in given["stored"] if m["role"] != "compressedGroup"][: failed[0]["messages"]]
    stored = {m["id"]: m["content"] for m in given["stored"] if m["role"] == "compressedGroup"}
    return {
        "skipped": not made,
        "summarised": read if asked else None,
        "next_messages": ids,
        "next_contents_of_groups": stored | texts,
        "parent_message": made[0]["parent"] if made else None,
        "error": bool(failed),
    }


def _sequence(given: dict[str, Any]) -> dict[str, Any]:
    builder, words = Builder("golden", "lobehub-2026"), " tundra"
    builder.add_message("system", "Be brief.")
    for turn, (asked, answered) in enumerate(given["turns"]):
        said = [("user", f"u{turn}", asked), ("assistant", f"a{turn}", answered)]
        append_stored(builder, [{"id": id, "role": role, "content": f"#{id}{words * n}"} for role, id, n in said])
        builder.set_request(builder.drafts[-1])
    session = builder.build()
    count = given["history_count"]
    changes = {
        "compress_topic": {"on": given["compression"]},
        "keep_last_groups": {"on": bool(given["enable_history_count"]) and count is not None, "count": (count or 0) - EXTRA},
    }
    chosen, teller = policy(changes, given["max_window"]), Teller([])
    summary = f"#S{{}}{words * given['summary_words']}"
    tokens = {message.id: count_message({"content": session.blocks[message.start].text}) for message in session.messages}
    steps: list[dict[str, Any]] = []
    whole: list[str] = []
    for turn, plan in enumerate(_plans(session, chosen, teller, summary)):
        ids, texts = _list_topic(session, plan)
        tokens |= {f"G:S{name[1:]}": count_message({"content": text}) for name, text in texts.items()}
        whole += [*([f"a{turn - 1}"] if turn else []), f"u{turn}"]
        before, read = sum(tokens[id] for id in whole), _hidden(session, plan)
        if read:
            whole = [*(id for id in whole if id not in read), f"G:S{len(plan.get_state('compress_topic').places)}"]
        steps.append(
            {
                "tokens": before,
                "compress": bool(read),
                "summarised": read or None,
                "sent": [f"G:S{id[1:]}" if id in texts else id for id in ids],
                "sent_tokens": sum(tokens[id] for id in whole),
            }
        )
    return {"steps": steps}


def _plans(session: Session, chosen: Policy, teller: Teller, text: str) -> Any:
    plans = replay(session, chosen, build_ledger(session, CHARS), answers=teller)
    for _ in session.requests:
        teller.texts = [text.format(len(teller.asks) + 1)]
        yield next(plans)
