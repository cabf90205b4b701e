"""What a file of real sessions holds, read with plain JSON and nothing of Turnscope: words, calls, results and tokens.

`READINGS` says for each format where they stand, as patterns of key paths: `messages.content.text`. A list adds nothing to a
path, JSON inside a text adds `{}`. The table of formats and its tests hold our reading against this one.
"""

from __future__ import annotations

import json
import re
import sqlite3
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

TASK = ("api_conversation_history.json", "ui_messages.json")  # the two files of a task of Cline or Roo Code
SHORT = 12  # characters; a shorter text is found by accident
Paths = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """Where a format keeps what. `calls` and `results`: ids. `usage`: finds tokens of prompts and of answers; None: not told.

    `select` leaves records out that are no part of the conversation. `fence`: what ends one text and begins another.
    `messages`: what each message has once; (): `plain_messages` counts them.
    """

    words: Paths = ()
    calls: Paths = ()
    results: Paths = ()
    usage: Callable[[list[Any]], tuple[int, int] | None] = lambda _: None
    select: Callable[[list[Any]], list[Any]] = lambda rows: rows
    fence: str = ""
    messages: Paths = ()


@dataclass(frozen=True, slots=True)
class Held:
    """What a file holds by a plain reading."""

    words: list[str]
    calls: set[str]
    results: set[str]
    usage: tuple[int, int] | None
    messages: int | None


def load_rows(path: Path) -> list[Any]:
    """The records of a file: JSON lines, the one document, a cassette's calls, or the rows of a database."""
    data = path.read_bytes()
    if data.startswith(b"SQLite"):
        return list(_load_tables(path))
    if data.startswith(b"PK"):
        with zipfile.ZipFile(path) as archive:
            return [json.loads(archive.read(name)) for name in archive.namelist() if name.startswith("samples/")]
    text = data.decode("utf-8", "replace")
    if path.suffix in (".yaml", ".yml"):
        return list(yaml.load(text, yaml.CSafeLoader)["interactions"])
    with suppress(ValueError):
        return [json.loads(text)]
    if path.suffix == ".md":
        return list(text.splitlines())
    rows = []
    for line in text.splitlines():
        with suppress(ValueError):
            rows.append(json.loads(line))
    return rows


def _load_tables(path: Path) -> Iterator[dict[str, Any]]:
    db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    db.text_factory = lambda raw: raw.decode("utf-8", "replace")
    for (table,) in db.execute("select name from sqlite_master where type = 'table'").fetchall():
        cursor = db.execute(f'select * from "{table}"')
        names = [f"{table}.{column[0]}" for column in cursor.description]
        for row in cursor:
            yield {
                name: held.decode("utf-8", "replace") if isinstance(held, bytes) else held
                for name, held in zip(names, row, strict=True)
            }
    db.close()


def iter_leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every text and number with its path, and what stands in texts that are JSON."""
    if isinstance(value, dict):
        for key, held in value.items():
            yield from iter_leaves(held, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for held in value:
            yield from iter_leaves(held, path)
    else:
        yield path, value
        if isinstance(value, str) and value[:1] in ("{", "[", '"') and len(value) < 2_000_000:
            with suppress(ValueError):
                yield from iter_leaves(json.loads(value), f"{path}.{{}}")


def fits(path: str, patterns: Paths) -> bool:
    """Whether a path is one of some patterns; `!` before a pattern takes paths out."""
    return any(fnmatchcase(path, one) for one in patterns if one[:1] != "!") and not any(
        fnmatchcase(path, one[1:]) for one in patterns if one[:1] == "!"
    )


def read_plainly(path: Path, reading: Reading, count: Callable[[list[Any]], int | None] | None = None) -> Held:
    """Read a file as `reading` says. `count`: counts messages where no record stands for each."""
    parts = [path.with_name(name) for name in TASK if path.name in TASK and path.with_name(name).exists()]
    rows = [row for part in parts or [path] for row in load_rows(part)]
    for agent in sorted((path.parent / path.stem / "subagents").glob("*.jsonl")):
        rows += load_rows(agent)
    leaves = [leaf for row in reading.select(rows) for leaf in iter_leaves(row)]
    texts = [held for at, held in leaves if isinstance(held, str) and fits(at, reading.words)]
    words = [
        part for held in texts for part in (re.split(reading.fence, held) if reading.fence else [held]) if len(part) >= SHORT
    ]
    calls, results = ({str(held) for at, held in leaves if held and fits(at, ids)} for ids in (reading.calls, reading.results))
    messages = sum(fits(at, reading.messages) for at, _ in leaves) if reading.messages else None
    return Held(words, calls, results, reading.usage(rows), count(rows) if count else messages)


def _count(held: Any, *keys: str) -> int:
    return sum(held.get(key) or 0 for key in keys) if isinstance(held, dict) else 0


def _find(rows: list[Any], key: str) -> Iterator[dict[str, Any]]:
    """Every object under a key, at any depth."""
    pending = list(rows)
    while pending:
        held = pending.pop(0)
        if isinstance(held, dict):
            if isinstance(held.get(key), dict):
                yield held[key]
            pending += [inner for name, inner in held.items() if name != key]
        elif isinstance(held, list):
            pending += held


def _sum_anthropic(rows: list[Any]) -> tuple[int, int]:
    """Usage of each answer, once by its id: of the lines of one answer the last tells the most."""
    by_id: dict[str, dict[str, Any]] = {}
    for number, row in enumerate(rows):
        message = row.get("message") if isinstance(row, dict) else None
        if isinstance(message, dict) and isinstance(message.get("usage"), dict) and message.get("model") != "<synthetic>":
            by_id[message.get("id") or str(number)] = message["usage"]
    prompts = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return sum(_count(one, *prompts) for one in by_id.values()), sum(_count(one, "output_tokens") for one in by_id.values())


def _sum_codex(rows: list[Any]) -> tuple[int, int]:
    """The newest total of the thread; each count that rises is a response."""
    totals = [
        row["payload"]["info"]["total_token_usage"]
        for row in rows
        if row.get("type") == "event_msg" and row["payload"].get("type") == "token_count" and row["payload"].get("info")
    ]
    return (totals[-1]["input_tokens"], totals[-1]["output_tokens"]) if totals else (0, 0)


def _sum_keys(key: str, prompts: Paths, answers: Paths) -> Callable[[list[Any]], tuple[int, int]]:
    """Sum the objects under a key, wherever they stand."""

    def sum_found(rows: list[Any]) -> tuple[int, int]:
        found = list(_find(rows, key))
        return sum(_count(one, *prompts) for one in found), sum(_count(one, *answers) for one in found)

    return sum_found


def _sum_pi(rows: list[Any]) -> tuple[int, int]:
    used = [row["message"]["usage"] for row in rows if row.get("type") == "message" and row["message"].get("usage")]
    return sum(_count(one, "input", "cacheRead", "cacheWrite") for one in used), sum(_count(one, "output") for one in used)


def _sum_parts(rows: list[Any]) -> tuple[int, int]:
    """opencode: the tokens of each step that ended."""
    used = [part["tokens"] for row in rows for message in row["messages"] for part in message["parts"] if part.get("tokens")]
    prompts = sum(_count(one, "input") + _count(one.get("cache"), "read", "write") for one in used)
    return prompts, sum(_count(one, "output", "reasoning") for one in used)


def _sum_bodies(rows: list[Any]) -> tuple[int, int]:
    """Recorded responses: each that ended, once by its id."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        body = row["response"].get("parsed_body") or {}
        text = (row["response"].get("body") or {}).get("string") or ""
        for line in str(text).splitlines():
            if line.startswith("data: {") and "response.completed" in line:
                body = json.loads(line[6:])["response"]
        if body.get("usage"):
            found[body["id"]] = body["usage"]
    return sum(_count(one, "input_tokens") for one in found.values()), sum(
        _count(one, "output_tokens") for one in found.values()
    )


def _sum_aider(rows: list[Any]) -> tuple[int, int]:
    """Of its lines `> Tokens: 2.4k sent, 104 received.`"""
    found = [re.findall(r"([\d.]+)(k?) (sent|received)", line) for line in rows if line.startswith("> Tokens:")]
    told = [(float(count) * (1_000 if k else 1), way) for line in found for count, k, way in line]
    return round(sum(count for count, way in told if way == "sent")), round(sum(c for c, way in told if way == "received"))


def _list_observations(rows: list[Any]) -> list[Any]:
    return [one for row in rows for one in row["trace"]["observations"] if one["type"] == "GENERATION"]


def _list_samples(rows: list[Any]) -> list[Any]:
    return [one for row in rows for one in (row.get("samples") or [row])]


def _fill_in(value: Any, attachments: dict[str, str]) -> Any:
    """Inspect keeps long texts once, under their digest."""
    if isinstance(value, dict):
        return {key: _fill_in(held, attachments) for key, held in value.items() if key != "attachments"}
    if isinstance(value, list):
        return [_fill_in(held, attachments) for held in value]
    return attachments.get(value.removeprefix("attachment://"), value) if isinstance(value, str) else value


def _sum_inspect(rows: list[Any]) -> tuple[int, int]:
    """What each sample was billed, by model. Whatever a vendor calls input, the total has it with what was cached."""
    used = [one for sample in _list_samples(rows) for one in (sample.get("model_usage") or {}).values()]
    return sum(one["total_tokens"] - one["output_tokens"] for one in used), sum(one["output_tokens"] for one in used)


def _sum_spans(rows: list[Any]) -> tuple[int, int]:
    """Langfuse: observations of a model with none below them. OTLP: the usage in recorded answers."""
    if "trace" in rows[0]:
        told = _list_observations(rows)
        above = {one["parentObservationId"] for one in told}
        used = [one["usageDetails"] for one in told if one["id"] not in above]
        return sum(one["total"] - _count(one, "output", "output_reasoning") for one in used), sum(
            _count(one, "output", "output_reasoning") for one in used
        )
    leaves = [leaf for row in rows for leaf in iter_leaves(row)]
    return sum(held for at, held in leaves if at.endswith(".usage.prompt_tokens")), sum(
        held for at, held in leaves if at.endswith(".usage.completion_tokens")
    )


def _sum_task_folder(rows: list[Any]) -> tuple[int, int] | None:
    """Cline and Roo: what `ui_messages.json` says of each request. By OpenAI's protocol the cache is in `tokensIn`."""
    began = [json.loads(row["text"]) for each in rows for row in each if row.get("say") == "api_req_started"]
    outside = ("cacheReads", "cacheWrites")
    prompts = sum(_count(one, "tokensIn", *(() if one.get("apiProtocol") == "openai" else outside)) for one in began)
    return (prompts, sum(_count(one, "tokensOut") for one in began)) if began else None


def _sum_gemini(rows: list[Any]) -> tuple[int, int]:
    tokens = [message["tokens"] for row in rows for message in row.get("messages", ()) if message.get("tokens")]
    return sum(_count(one, "input") for one in tokens), sum(_count(one, "output", "thoughts") for one in tokens)


ANTHROPIC = Reading(
    words=("message.content", "message.content.text", "message.content.thinking", "message.content.content.text"),
    calls=("message.content.id",),
    results=("message.content.tool_use_id",),
    usage=_sum_anthropic,
    select=lambda rows: [
        row
        for row in rows
        if isinstance(row, dict)
        and row.get("type") in ("user", "assistant")
        and not (row.get("isApiErrorMessage") or (row.get("message") or {}).get("model") == "<synthetic>")
    ],
)
OPENAI: tuple[Paths, Paths] = ("prompt_tokens",), ("completion_tokens",)
READINGS: dict[str, Reading] = {
    "claude-code": ANTHROPIC,
    "codex": Reading(
        words=("payload.content.text", "payload.output", "payload.summary.text"),
        calls=("payload.call_id",),
        results=("payload.call_id",),
        usage=_sum_codex,
        select=lambda rows: [row for row in rows if row.get("type") == "response_item"],
    ),
    "gemini-cli": Reading(
        words=("content", "content.text", "thoughts.description", "toolCalls.args.*"),
        calls=("toolCalls.id",),
        results=("toolCalls.result.functionResponse.id",),
        usage=_sum_gemini,
        select=lambda rows: [message for row in rows for message in row["messages"] if message["type"] != "info"],
    ),
    "opencode": Reading(
        words=("messages.parts.text", "messages.parts.state.output", "messages.parts.state.input.*", "!*.metadata.*"),
        calls=("messages.parts.callID",),
        results=("messages.parts.callID",),
        usage=_sum_parts,
    ),
    "pi": Reading(
        words=("message.content.text", "message.content.thinking", "message.content.arguments.*", "summary"),
        calls=("message.content.id",),
        results=("message.toolCallId",),
        usage=_sum_pi,
    ),
    "aider": Reading(
        words=("",),
        usage=_sum_aider,
        select=lambda rows: [row.removeprefix("#### ") for row in rows if row[:2] not in ("> ", "# ")],
    ),
    "chatgpt": Reading(words=("mapping.*.message.content.parts", "mapping.*.message.content.text")),
    "claude-ai": Reading(words=("chat_messages.text", "chat_messages.content.text"), messages=("chat_messages.uuid",)),
    "open-webui": Reading(words=("*history.messages.*.content",), messages=("*history.messages.*.role",)),
    "librechat": Reading(words=("messages.*text",)),
    "chatbot-ui": Reading(words=("history.messages.content", "history.prompt")),
    "lobechat": Reading(words=("*messages.content", "*messages.reasoning.content")),
    "swe-agent": Reading(
        words=("history.content", "history.content.text", "trajectory.observation"), messages=("history.role",)
    ),
    "mini-swe-agent": Reading(
        words=("messages.content", "messages.content.text"),
        usage=_sum_keys("usage", *OPENAI),
        fence=r"\n?```(?:\w+\n)?",
        messages=("messages.role",),
    ),
    "openhands": Reading(
        words=("content", "args.content", "tool_call_metadata.model_response.choices.message.content"),
        select=lambda rows: [
            event
            for row in rows
            for event in (row["history"] if isinstance(row, dict) else row)
            if event.get("observation") != "recall" and event.get("action") != "condensation"
        ],
    ),
    "continue": Reading(words=("history.message.content", "history.message.content.text")),
    "anthropic-api": Reading(words=("request.parsed_body.messages.content", "request.parsed_body.messages.content.text")),
    "crush": Reading(
        words=("messages.parts.{}.data.text", "messages.parts.{}.data.thinking", "messages.parts.{}.data.content"),
        calls=("messages.parts.{}.data.id",),
        results=("messages.parts.{}.data.tool_call_id",),
    ),
    "kimi-code": Reading(words=("event.part.text", "event.part.think", "input.text", "tools.description")),
    "droid": Reading(
        words=("message.content.text", "message.content.content", "message.content.input.*"),
        calls=("message.content.id",),
        results=("message.content.tool_use_id",),
    ),
    "hermes": Reading(
        words=("messages.content", "messages.reasoning", "system_prompt"),
        calls=("messages.tool_calls.id",),
        results=("messages.tool_call_id",),
    ),
    "qwen-code": Reading(words=("message.parts.text", "message.parts.functionResponse.response.output")),
    "copilot-cli": Reading(
        words=("data.content", "data.transformedContent", "data.result.content"),
        calls=("data.toolRequests.toolCallId",),
        results=(),
    ),
    "copilot-web": Reading(words=("messages.content",)),
    "vscode-chat": Reading(words=("requests.message.text", "requests.response.value")),
    "openai-responses": Reading(
        words=(
            "request.parsed_body.input.content",
            "response.parsed_body.output.content.text",
            "request.parsed_body.instructions",
        ),
        calls=("response.parsed_body.output.call_id",),
        usage=_sum_bodies,
    ),
    "cursor": Reading(
        words=("*.conversation.text", "*.tabs.bubbles.text", "*.tabs.bubbles.rawText", "!*.context*", "!*tabs.bubbles.sel*")
    ),
    "goose": Reading(words=("content.text", "content.toolResult.value.text"), calls=("content.id",), messages=("role",)),
    "printed": Reading(
        words=("item.text", "item.aggregated_output"),
        select=lambda rows: [row for row in rows if row.get("type") == "item.completed"],
    ),
    "grok-cli": Reading(words=("content", "content.text", "summary.text"), calls=("tool_calls.id",), results=("tool_call_id",)),
    "aistudio": Reading(words=("chunkedPrompt.chunks.text", "systemInstruction.text")),
    "letta": Reading(words=("agents.messages.content.text", "agents.system")),
    "atif": Reading(words=("steps.message", "steps.reasoning_content"), usage=_sum_keys("metrics", *OPENAI)),
    "inspect": Reading(
        words=("*messages.content", "*messages.content.text", "!events.call.*"),  # a body has its own words for a failed call
        calls=("*messages.tool_calls.id",),
        results=("*messages.tool_call_id",),
        usage=_sum_inspect,
        select=lambda rows: [_fill_in(sample, sample["attachments"]) for sample in _list_samples(rows)],
    ),
    "otel": Reading(
        words=(
            "*.messages.content.text",
            "*.choices.message.content",
            *(f"observations.*put.{{}}.{at}" for at in ("system", "prompt", "content", "content.text", "messages.content")),
            *(f"observations.*put.{{}}.{at}kwargs.content" for at in ("", "messages.", "output.")),
            "observations.*put.{}.tools.function.description",
            "!*metadata*",
        ),
        usage=_sum_spans,
    ),
    "tau-bench": Reading(
        words=("simulations.messages.content", "info.environment_info.policy"), calls=("simulations.messages.tool_calls.id",)
    ),
    "vercel-ui": Reading(words=("input.lastMessage.parts.text", "writes.parts.text")),
    "task-folder": Reading(
        words=("content.text", "content", "text"),
        usage=_sum_task_folder,
        select=lambda rows: [
            row
            for each in rows
            for row in each
            if row.get("type") not in ("say", "ask") or row.get("say") in ("text", "user_feedback")
        ],
        fence=r"\s*</?[a-z_]+>\s*|\s*\n\s*",
    ),
}
