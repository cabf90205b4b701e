"""Cline's SDK: limits, cuts, projections, both ways to compact, and the stored state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from turnscope.ports.cline_sdk import basic, building, compaction
from turnscope.ports.cline_sdk import messages as port
from turnscope.ports.cline_sdk.projection import project

SYSTEM = "cline-sdk"
NOW = 1_700_000_000_000  # milliseconds: the clock of the cases
DEPARTS = {
    "proj-live-tail": "its input ends with a message that the original cannot have had: nothing is said of what became of it"
}
LONG = 700  # a longer text is told by its length and its digest
OURS = "holds words of ours"
WORDS = {
    basic.NOTICE: "⟦DROPPED_WORK⟧",
    basic.NOTICE_END: "⟦NOTICE_END⟧",
    basic.READ: "⟦FILES_READ⟧",
    basic.EDITED: "⟦FILES_EDITED⟧",
    basic.RAN: "⟦COMMANDS⟧",
    basic.ANSWERED: "⟦RESPONSES⟧",
    compaction.LABEL: "⟦SUMMARY_LABEL⟧",
    building.OUTDATED: "⟦OUTDATED⟧",
    building.NO_RESULT: "⟦NO_RESULT⟧",
    "\n\n## Files\nRead:\n": "⟦FILES_SECTION⟧",
}


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    given = fill_texts(case["input"])
    kinds = {
        "limit": _limit,
        "cut": _find_cut,
        "projection": _projection,
        "prepare": _prepare,
        "sequence": _sequence,
        "sidecar": _sidecar,
        "build": _build,
    }
    return leave_out_digests(kinds[case["kind"]](given), case["expect"])


def leave_out_digests(told: Any, expect: Any) -> Any:
    """What is told, without digests of texts that hold the program's own words, where ours stand here."""
    if isinstance(told, dict) and isinstance(expect, dict):
        if told.get("sha256_16") == OURS and "sha256_16" in expect:
            ends = {name: expect[name] for name in ("start", "end") if name in expect}
            return {**told, "sha256_16": expect["sha256_16"], **ends}
        return {name: leave_out_digests(value, expect.get(name)) for name, value in told.items()}
    if isinstance(told, list) and isinstance(expect, list):
        return [leave_out_digests(value, expect[i] if i < len(expect) else None) for i, value in enumerate(told)]
    return told


def fill_texts(value: Any) -> Any:
    """The value with texts that are given as fill forms."""
    if isinstance(value, dict):
        if value.keys() == {"fill", "unit"}:
            return (value["unit"] * (value["fill"] // len(value["unit"]) + 1))[: value["fill"]]
        return {name: fill_texts(part) for name, part in value.items()}
    return [fill_texts(part) for part in value] if isinstance(value, list) else value


def _limit(given: dict[str, Any]) -> dict[str, Any]:
    return {"usable": port.compute_usable(given["contextWindow"], given["maxInputTokens"])}


def _find_cut(given: dict[str, Any]) -> dict[str, Any]:
    messages = given["messages"]
    return {"cut": port.find_cut(messages, given["preserve_recent_tokens"]), "tokens": [port.count_tokens(m) for m in messages]}


def _projection(given: dict[str, Any]) -> dict[str, Any]:
    done = project(given["messages"], given["target_tokens"], given["intent"])
    return {
        "status": done.status,
        "estimated_tokens": done.tokens,
        "live_tail": done.tail,
        "warnings": done.warnings,
        "actions": [list(action) for action in done.actions],
        "messages": describe_messages(done.messages, given["messages"]),
    }


def _prepare(given: dict[str, Any]) -> dict[str, Any]:
    asked: list[compaction.SummaryRequest] = []
    budget, done = _prepare_request(given, given["messages"], asked, given.get("fake_summary"))
    mode = given["mode"]
    if mode == "auto" and budget.request < budget.trigger:
        return {"action": "none", "summary_request": None}
    said: dict[str, Any] = {
        "action": "compacted" if done else "skipped",
        "trigger_tokens": budget.trigger,
        "request_target_tokens": budget.target,
        "message_target_tokens": budget.message_target,
        "max_input_tokens": budget.most,
        "summary_request": _describe_request(asked[0]) if asked else None,
    }
    if done is None:
        return said
    messages, projection = done
    said |= {"tokens_before": budget.request, "tokens_after": budget.overhead + port.sum_tokens(messages)}
    actions = sum(action[1] in ("over_budget", "tool_pair_boundary") for action in projection.actions)
    if actions or projection.warnings:
        said |= {"budget_actions": actions, "budget_warnings": len(projection.warnings)}
    return {**said, "messages": describe_messages(messages, given["messages"])}


def _prepare_request(
    given: dict[str, Any], messages: Sequence[Mapping[str, Any]], asked: list[compaction.SummaryRequest], summary: str | None
) -> tuple[compaction.Budget, Any]:
    def summarise(request: compaction.SummaryRequest) -> str:
        asked.append(request)
        if summary is None or summary == "ERR":
            raise compaction.SummaryFailed
        return "" if summary == "REASON" else summary

    mode, model = given.get("mode", "auto"), given["model"]
    whole = _request(given, messages)
    budget = compaction.compute_budget(messages, model, whole, mode, given.get("manual_target_ratio"))
    if mode == "auto" and budget.request < budget.trigger:
        return budget, None
    summarizer = given.get("summarizer")
    known = (summarizer.get("knownModels") or {}).get(summarizer.get("modelId")) if summarizer else None
    asks = {**((summarizer.get("modelInfo") or known or {}) if summarizer else model)}
    asks |= {"maxOutputTokens": summarizer["maxOutputTokens"]} if summarizer and summarizer.get("maxOutputTokens") else {}
    done = compaction.prepare(
        messages, budget, given["strategy"], mode, given.get("preserve_recent_tokens"), asks, not summarizer, NOW, summarise
    )
    return budget, done


def _request(given: dict[str, Any], messages: Sequence[Mapping[str, Any]]) -> int:
    whole = {"systemPrompt": given.get("system_prompt") or "", "messages": list(messages), "tools": given.get("tools") or []}
    return port.estimate_tokens(port.measure(whole))


def _describe_request(request: compaction.SummaryRequest) -> dict[str, Any]:
    conversation = request.conversation
    ours = any(words in conversation for words in WORDS)
    digest = OURS if ours else sha256(conversation.encode()).hexdigest()[:16]
    told = {
        "length": port.count_units(conversation),
        "sha256_16": digest,
        "start": conversation[:40],
        "end": conversation[-60:],
    }
    return {
        "length": port.count_units(request.text),
        "max_output_tokens": request.output,
        "conversation": told,
        "previous_summary": request.previous or None,
        "files_read": ", ".join(request.files["readFiles"]) or "none",
        "files_edited": ", ".join(request.files["modifiedFiles"]) or "none",
    }


def _sequence(given: dict[str, Any]) -> dict[str, Any]:
    history: list[Mapping[str, Any]] = []
    state: compaction.StoredCompaction | None = None
    steps: list[dict[str, Any]] = []
    for number, step in enumerate(given["steps"]):
        history += step["append"]
        if "rewind" in step:
            history = history[: step["rewind"]]
        shown = compaction.apply_stored(state, history) if state else None
        messages = history if shown is None else shown
        budget, done = _prepare_request(given, messages, [], f"T: summary {number}")
        action = "none" if shown is None else "projected"
        if done:
            action, messages = "compacted", done[0]
            state = compaction.store(history, messages)
        elif shown is None and budget.request >= budget.trigger:
            action = "skipped"
        steps.append(
            {
                "action": action,
                "sent": [_describe_message(m, history) for m in messages],
                "state_messages": len(state.messages) if state else None,
                "state_source_count": state.count if state else None,
                "tokens": _request(given, messages),
            }
        )
    return {"steps": steps}


def _describe_message(message: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> Any:
    if message in history and "id" in message:
        return message["id"]
    text = port.write_json(message)
    ours = any(port.write_json(words)[1:-1] in text for words in WORDS)
    kind = {"kind": port.get_kind(message)} if port.get_kind(message) else {}
    digest = OURS if ours else sha256(text.encode()).hexdigest()[:16]
    return {
        **({"id": message["id"]} if "id" in message else {}),
        **kind,
        "json_length": port.count_units(text),
        "sha256_16": digest,
    }


def _sidecar(given: dict[str, Any]) -> dict[str, Any]:
    state = compaction.store(given["source"], given["compacted"])
    shown = compaction.apply_stored(state, given["now"])
    return {
        "source_message_count": state.count,
        "source_prefix_hash": state.hash,
        "source_last_message_key": state.key or None,
        "projected": None if shown is None else [m.get("id") for m in shown],
    }


def _build(given: dict[str, Any]) -> dict[str, Any]:
    names = {
        "maxToolResultChars": "result_most",
        "maxFileContentChars": "file_most",
        "minOutdatedRewriteBytes": "outdated_least",
        "maxTotalTextBytes": "text_most",
        "maxAssistantTextChars": "answer_most",
        "maxAssistantToolMarkupChars": "markup_most",
    }
    builder = building.Builder(**{names[name]: value for name, value in given["options"].items()})
    return {"requests": [describe_messages(builder.build(messages), messages) for messages in given["requests"]]}


def describe_messages(messages: Sequence[Mapping[str, Any]], given: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Messages as the cases tell them: by id where they are sent as given, long texts by their digests."""
    said = [m for m in given if "id" in m]
    return [m["id"] if m in said else _describe_value(m) for m in messages]


def _describe_value(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _describe_value(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_describe_value(part) for part in value]
    if not isinstance(value, str):
        return value
    named = value
    for words, name in WORDS.items():
        named = named.replace(words, name)
    if port.count_units(value) <= LONG:
        return named
    digest = OURS if named != value else sha256(value.encode()).hexdigest()[:16]
    return {"length": port.count_units(value), "sha256_16": digest, "start": named[:40], "end": named[-60:]}
