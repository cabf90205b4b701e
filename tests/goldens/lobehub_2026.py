"""LobeHub 2.2.10 over stored messages; `test_lobehub_policy` replays the cases under its policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from math import ceil
from typing import Any

from turnscope.ports.lobechat.messages import fill_variables
from turnscope.ports.lobechat.prompt import HEAD, TAIL, format_date, format_model, format_summary
from turnscope.ports.lobechat.shaping import (
    CLOSED,
    FAILED,
    FINISH,
    OPENED,
    RATED,
    UNSEEN,
    Made,
    Shape,
    build_call_name,
    flatten,
    list_files,
    prepare_messages,
    read_reasoning,
)
from turnscope.ports.lobechat.tokens import (
    DRIFT,
    GROUP,
    RATIO,
    SOURCES,
    WINDOW,
    compute_trigger,
    count_by_source,
    count_message,
    estimate_tokens,
    get_stored_summary,
)
from turnscope.ports.lobechat.window import find_groups

SYSTEM = "lobehub-2026"
CLOCK = datetime(2026, 1, 15, 12, tzinfo=UTC).timestamp()
VARIABLES = (("username", "Ada"), ("date", "1/2/2026"))
NOTICES = {
    FAILED: "⟦TOOL_FAILURE⟧",
    UNSEEN: "⟦NO_VISION⟧",
    FINISH: "⟦FORCE_FINISH⟧",
    HEAD: "⟦SUMMARY_HEAD⟧",
    TAIL: "⟦SUMMARY_TAIL⟧",
    OPENED: "⟦COMPRESSED_HEAD⟧",
    CLOSED: "⟦COMPRESSED_TAIL⟧",
    RATED: "⟦FEEDBACK⟧",
    "Current date: ": "⟦DATE⟧",
    "Current model: ": "⟦MODEL⟧",
    "Model knowledge cutoff: ": "⟦CUTOFF⟧",
}


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    return KINDS[case["kind"]](fill_texts(case["input"]))


def fill_texts(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"fill", "unit"}:
        return (value["unit"] * value["fill"])[: value["fill"]]
    if isinstance(value, list):
        return [fill_texts(one) for one in value]
    return {key: fill_texts(one) for key, one in value.items()} if isinstance(value, dict) else value


def _slice(given: dict[str, Any]) -> dict[str, Any]:
    said, count = given["messages"], given["history_count"]
    on = given["enable"] and count is not None
    numbers = {n for group in find_groups(said)[: max(0, count)] for n in group} if on else range(len(said))
    return {"kept": [said[n]["id"] for n in sorted(numbers)]}


def _account_for(given: dict[str, Any]) -> dict[str, Any]:
    said, tools = given["messages"], [estimate_tokens(tool) for tool in given["tools"] or ()]
    sources = {name: sum(count_by_source(message)[name] for message in said) for name in SOURCES} | {
        "toolDefinition": sum(tools)
    }
    raw = sum(sources.values())
    return {
        "raw_total": raw,
        "adjusted_total": ceil(raw * DRIFT),
        "by_source": sources,
        "messages": [*map(count_message, said)],
    }


def _tokens(given: Mapping[str, Any]) -> int:
    tools = () if given.get("force_finish") else given.get("tools") or ()
    return sum(map(count_message, given["messages"])) + sum(map(estimate_tokens, tools))


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


def _due(given: Mapping[str, Any]) -> Any:
    window, ratio = _or(given.get("max_window"), WINDOW), _or(given.get("threshold_ratio"), RATIO)
    return compute_trigger(_tokens(given), window, ratio, _or(given.get("drift"), DRIFT))


def _decide(given: dict[str, Any]) -> dict[str, Any]:
    due = _due(given)
    if given.get("enabled") is False or not due.compress:
        return {"next": "call_llm", "tokens": None, "existing_summary": None}
    return {"next": "compress_context", "tokens": due.tokens, "existing_summary": get_stored_summary(given["messages"])}


def _prepare(given: dict[str, Any]) -> dict[str, Any]:
    said = _select_window(given)
    shape = Shape(
        template=given.get("input_template") or "",
        variables=VARIABLES,
        calling=given["function_calling"],
        vision=given["vision"],
        files=bool(given.get("file_context")),
        disabled=tuple(given.get("disabled_tools") or ()),
    )
    system, lengths = _build_system(given, said), []
    sent = [made for made in prepare_messages(said, shape) if made.message["role"] != "system"]
    made = _name_results([*_hide_files(_add_reasoning(sent, said), said, lengths)], said)
    closing = [{"role": "system", "content": FINISH}] if given.get("force_finish") else []
    head = [{"role": "system", "content": system}] if system else []
    beside = {"files_context_lengths": lengths} if lengths else {}
    return {"messages": replace_notices([*head, *made, *closing]), **beside}


def _select_window(given: Mapping[str, Any]) -> list[Any]:
    said, count = given["messages"], given["history_count"]
    if not given["enable"] or count is None:
        return list(said)
    return [said[n] for n in sorted({n for group in find_groups(said)[: max(0, count)] for n in group})]


def _build_system(given: Mapping[str, Any], said: list[Any]) -> str:
    """The system message: a stored one, then what the app adds."""
    own = given.get("system_role") or ""
    parts = [m["content"] for m in said if m["role"] == "system"]
    parts += [own] if own.strip() else []
    parts.append(format_date(CLOCK, given.get("timezone") or "") if given.get("system_date") else "")
    parts.append(format_model(given.get("model_name") or "", "m", given.get("model_cutoff") or ""))
    parts.append(format_summary(given.get("history_summary") or ""))
    return fill_variables("\n\n".join(filter(None, parts)), dict(VARIABLES))


def _add_reasoning(sent: list[Made], said: list[Any]) -> list[Made]:
    """The field that the original leaves on answers; reasoning with parts as its text."""
    answers = {n: iter([p for p in flatten(m) if p["role"] in ("assistant", "task")]) for n, m in enumerate(said)}
    made = []
    for of, message in sent:
        thought = next(answers[of], {}).get("reasoning") if of >= 0 and message["role"] == "assistant" else None
        made.append(Made(of, {**message, "reasoning": read_reasoning(thought)} if thought else message))
    return made


def _hide_files(sent: list[Made], said: list[Any], lengths: list[int]) -> Iterator[dict[str, Any]]:
    """The messages with a placeholder for the text that describes files, whose length is noted."""
    for of, message in sent:
        files = list_files(said[of]) if of >= 0 and message["role"] == "user" else ""
        if files and isinstance(message["content"], list) and files in message["content"][0].get("text", ""):
            lengths.append(len(files))
            first, *rest = message["content"]
            yield {**message, "content": [{**first, "text": first["text"].replace(files, "⟦FILES_CONTEXT⟧")}, *rest]}
        else:
            yield message


def _name_results(made: list[dict[str, Any]], said: list[Any]) -> list[dict[str, Any]]:
    """The messages with results named after their tools."""
    stored = [part for message in said for part in flatten(message)]
    tools = {m["tool_call_id"]: m["plugin"] for m in reversed(stored) if m["role"] == "tool" and m.get("plugin")}
    names: dict[str, str] = {}
    for message in made:
        names |= {call["id"]: call["function"]["name"] for call in message.get("tool_calls", ())}
        if message["role"] == "tool":
            own = tools.get(message["tool_call_id"]) if message["content"] != FAILED else None
            message["name"] = build_call_name(own) if own else names[message["tool_call_id"]]
    return made


def replace_notices(value: Any) -> Any:
    """Our own notices as the placeholders of the original's."""
    if isinstance(value, str):
        for text, name in NOTICES.items():
            value = value.replace(text, name)
        return value
    if isinstance(value, list):
        return [replace_notices(one) for one in value]
    return {key: replace_notices(one) for key, one in value.items()} if isinstance(value, dict) else value


def _compress(given: dict[str, Any]) -> dict[str, Any]:
    """The compression step over a store that hides grouped rows and lists a new group by the time of its creation."""
    stored, working = given["stored"], given.get("messages") or given["stored"]
    last = working[-1] if len(working) > 1 and working[-1]["role"] == "user" else None
    read = [m["id"] for m in stored if m["role"] != GROUP and not (last and m["id"] == last["id"])]
    parent = next((m["id"] for m in reversed(stored) if m["role"] == "assistant"), None)
    unknown = any(given.get(key) is False for key in ("topic", "user"))
    if unknown or not read or len(working) == bool(last):
        return _describe_topic(working, skipped=True)
    if given.get("no_model"):
        return _describe_topic(working, skipped=True, parent_message=parent)
    if given["summary"] is None:
        return _describe_topic(working, skipped=True, summarised=read, error=True)
    group = {"id": "G1", "role": GROUP, "content": given["summary"]}
    left = [m for m in stored if m["id"] not in read]
    kept = [m for m in stored if m["id"] in read] if given.get("no_final") else [*left, group]
    if last and all(m["id"] != last["id"] for m in kept):
        kept.append(last)
    return _describe_topic(kept, summarised=read, parent_message=parent)


def _describe_topic(messages: list[Any], **facts: Any) -> dict[str, Any]:
    known = {"skipped": False, "summarised": None, "parent_message": None, "error": False}
    contents = {m["id"]: m["content"] for m in messages if m["role"] == GROUP}
    return {**known, "next_messages": [m["id"] for m in messages], "next_contents_of_groups": contents, **facts}


def _sequence(given: dict[str, Any]) -> dict[str, Any]:
    """The topic turn by turn: compression if it is due, then the window."""
    rows: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = []
    words, made = " tundra", 0
    for turn, (asked, answered) in enumerate(given["turns"]):
        rows.append({"id": f"u{turn}", "role": "user", "content": f"#u{turn}{words * asked}"})
        tokens = sum(map(count_message, rows))
        read: list[str] = []
        if given["compression"] and compute_trigger(tokens, _or(given["max_window"], WINDOW)).compress:
            read = [m["id"] for m in rows[:-1] if m["role"] != GROUP]
        if read:
            made += 1
            group = {"id": f"G:S{made}", "role": GROUP, "content": f"#S{made}{words * given['summary_words']}"}
            rows = [*(m for m in rows if m["id"] not in read), group]
        sent = _select_window({"messages": rows, "enable": given["enable_history_count"], **given})
        step = {"tokens": tokens, "compress": bool(read), "summarised": read or None, "sent": [m["id"] for m in sent]}
        steps.append({**step, "sent_tokens": sum(map(count_message, rows))})
        rows.append({"id": f"a{turn}", "role": "assistant", "content": f"#a{turn}{words * answered}"})
    return {"steps": steps}


KINDS = {
    "prepare": _prepare,
    "slice": _slice,
    "accounting": _account_for,
    "trigger": lambda given: _due(given)._asdict(),
    "decide": _decide,
    "compress": _compress,
    "sequence": _sequence,
}
