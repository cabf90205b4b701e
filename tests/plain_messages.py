"""How many messages a file of real sessions holds, counted with plain JSON and nothing of Turnscope: `COUNTS`, for each format.

The rule is one for all: what stands in the window under one role of its own is one message. The pieces of one answer are one,
the results of one round of calls are one, and so are the tools that a request offers. An answer without words or calls is none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, pairwise
from typing import Any

Rows = list[Any]


def count_runs(speakers: Iterable[str], joined: tuple[str, ...] = ("tool",)) -> int:
    """Count messages by who speaks. Those of `joined` that follow each other are one."""
    return sum(1 if speaker in joined else len(list(run)) for speaker, run in groupby(speakers))


def _iter_objects(value: Any) -> Iterator[dict[str, Any]]:
    """Every object of a value, at any depth."""
    if isinstance(value, dict):
        yield value
    for held in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _iter_objects(held)


def _decode(text: Any) -> Any:
    """What a text holds that is JSON, however often it was quoted."""
    while isinstance(text, str):
        try:
            text = json.loads(text)
        except ValueError:
            break
    return text


def _count_calls(rows: Rows) -> int:
    """Anthropic's API, one thread: the last request has all but its answer."""
    body = rows[-1]["request"]["parsed_body"]
    return len(body["messages"]) + bool(body.get("system")) + bool(body.get("tools")) + 1


def _count_chatgpt(rows: Rows) -> int:
    contents = [
        node["message"]["content"] for chat in rows[0] for node in chat["mapping"].values() if (node.get("message") or {})
    ]
    return sum(any(one["parts"]) if "parts" in one else True for one in contents)


def _count_claude_code(rows: Rows) -> int:
    """Each line of a user, each answer by its id, and what was attached. Of hooks only those of prompts reach the model."""
    rows = [row for row in rows if isinstance(row, dict)]
    answers = {row["message"].get("id") for row in rows if row.get("type") == "assistant"}
    attached = [row["attachment"] for row in rows if row.get("type") == "attachment"]
    told = [one for one in attached if one["type"] != "hook_success" or one["hookEvent"] == "UserPromptSubmit"]
    return len(answers) + sum(row.get("type") == "user" for row in rows) + len(told)


def _count_codex(rows: Rows) -> int:
    speakers = []
    for row in rows:
        if row.get("type") == "response_item":
            kind = row["payload"]["type"]
            role = row["payload"].get("role", "assistant")
            speakers.append("tool" if kind.endswith("_output") else role)
    lead = sum(
        bool((row["payload"].get("base_instructions") or {}).get("text")) for row in rows if row["type"] == "session_meta"
    )
    return count_runs(speakers, ("tool", "assistant")) + lead


def _count_continue(rows: Rows) -> int:
    held = [one for row in rows for one in row["history"]]
    return len(held) + any(one.get("promptLogs") for one in held)


def _count_gemini(rows: Rows) -> int:
    held = [one for row in rows for one in row["messages"] if one["type"] != "info"]
    return len(held) + sum(bool(one.get("toolCalls")) for one in held)


def _count_inspect(rows: Rows) -> int:
    samples = [sample for row in rows for sample in (row.get("samples") or [row])]
    tools = sum(any(event["event"] == "model" and event["tools"] for event in sample["events"]) for sample in samples)
    return tools + sum(count_runs(one["role"] for one in sample["messages"]) for sample in samples)


def _count_librechat(rows: Rows) -> int:
    held = sum("isCreatedByUser" in one for row in rows for one in _iter_objects(row["messages"]))
    return held + sum(bool((row.get("options") or {}).get("promptPrefix")) for row in rows)


def _count_lobechat(rows: Rows) -> int:
    """The tool writes dots until an answer comes, and for good where none did."""
    state = rows[0]["state"]
    told = [one for one in state["messages"] if one["content"] != "..."]
    chats = {(one["sessionId"], one.get("topicId")) for one in state["messages"]}
    led = {one["id"] for one in state["sessions"] if one["config"]["systemRole"]}
    return len(told) + sum(session in led for session, _ in chats)


def _count_opencode(rows: Rows) -> int:
    held = [one for row in rows for one in row["messages"]]
    return len(held) + sum(any(part["type"] == "tool" for part in one["parts"]) for one in held)


def _count_openhands(rows: Rows) -> int:
    count = 0
    for row in rows:
        events = row["history"] if isinstance(row, dict) else row
        for event in events:
            if event.get("action") == "system":
                count += 1 + bool(event["args"].get("tools"))
            elif event.get("observation") == "recall":
                count += bool(event["extras"].get("microagent_knowledge"))
            elif event.get("action") == "message" or event.get("observation") == "error":
                count += 1
            else:
                count += bool(event.get("tool_call_metadata"))
    return count


def _count_spans(rows: Rows) -> int:
    """Langfuse: what the trace came to. OTLP: threads by how they begin, each as long as what its requests sent and got.

    An answer that is sent on with more behind it is the same one: a message is known by how it begins.
    """
    if "trace" in rows[0]:
        return sum(map(_count_trace, rows))
    threads: dict[str, set[str]] = {}
    for row in _iter_objects(rows):
        held = [one for one in row.get("attributes", ()) if isinstance(one, dict) and "key" in one]
        sent: dict[str, list[str]] = {}
        for one in sorted(held, key=lambda one: one["key"]):
            if found := re.match(r"llm\.((?:in|out)put_messages\.\d+|tools)\b", one["key"]):
                words = one["key"].endswith(("content", "text", "function.name"))
                sent.setdefault(found[1], []).extend([json.dumps(one["value"])] if words else [])
        if sent:
            began = json.dumps([sent.get(f"input_messages.{n}") for n in (0, 1)])
            marks = {"tools" if name == "tools" else json.dumps(words)[:100] for name, words in sent.items()}
            threads.setdefault(began, set()).update(marks)
    return sum(map(len, threads.values()))


def _count_trace(row: dict[str, Any]) -> int:
    given, came = _decode(row["trace"]["input"]), _decode(row["trace"]["output"])
    asked = [_decode(one.get("input")) for one in row["observations"]]
    tools = any(isinstance(one, dict) and one.get("tools") for one in asked)
    if "messages" in came:
        return len(came["messages"]) + tools
    seen = [one["type"] for one in row["trace"]["observations"]]
    return sum(key in given for key in ("system", "prompt")) + seen.count("GENERATION") + ("TOOL" in seen)


def _count_pi(rows: Rows) -> int:
    held = [row["message"] for row in rows if row["type"] == "message"]
    return sum(one["role"] != "assistant" or bool(one["content"]) for one in held)


def _count_aider(rows: Rows) -> int:
    speakers = ["user" if row[:5] == "#### " else "assistant" for row in rows if row.strip() and row[:2] not in ("> ", "# ")]
    return count_runs(speakers, ("user", "assistant"))


def _count_aistudio(rows: Rows) -> int:
    return count_runs((one["role"] for one in rows[0]["chunkedPrompt"]["chunks"]), ("model",))


def _count_steps(rows: Rows) -> int:
    return sum(1 + ("observation" in step and step["source"] == "agent") for row in rows for step in row["steps"])


def _count_exec(rows: Rows) -> int:
    """A command is a call, which belongs to the answer before it, and a result."""
    speakers: list[str] = []
    for row in rows:
        if row["type"] == "item.completed":
            speakers += ["assistant", "tool"] if row["item"]["type"] == "command_execution" else ["assistant"]
    return count_runs(speakers, ("tool", "assistant"))


def _count_copilot_cli(rows: Rows) -> int:
    kinds = ("system.message", "user.message", "assistant.message", "tool.execution_complete")
    return sum(row["type"] in kinds for row in rows)


def _count_crush(rows: Rows) -> int:
    parts = [json.loads(row["messages.parts"]) for row in rows if "messages.role" in row]
    return sum(any(part["type"] != "finish" for part in held) for held in parts)


def _count_cursor(rows: Rows) -> int:
    """An empty bubble is the field for what comes next."""
    held = [_decode(row["ItemTable.value"]) for row in rows if isinstance(row.get("ItemTable.value"), str)]
    bubbles = [
        bubble
        for one in held
        if isinstance(one, dict)
        for chat in (*one.get("tabs", ()), *one.get("allComposers", ()))
        for bubble in (*chat.get("bubbles", ()), *chat.get("conversation", ()))
    ]
    return sum(bool(one.get("text") or one.get("rawText")) for one in bubbles)


def _count_droid(rows: Rows) -> int:
    return count_runs((row["message"]["role"] for row in rows if row["type"] == "message"), ("assistant",))


def _count_grok(rows: Rows) -> int:
    names = {"user": "user", "system": "system", "tool_result": "tool"}
    return count_runs((names.get(row["type"], "assistant") for row in rows), ("tool", "assistant"))


def _count_hermes(rows: Rows) -> int:
    return sum(
        count_runs(one["role"] for one in row["messages"] if one.get("content"))
        + bool(row.get("system_prompt"))
        + bool(row.get("tools"))
        for row in rows
    )


def _count_kimi(rows: Rows) -> int:
    told = sum(row["type"] == "context.append_message" for row in rows)
    lead = any(row["type"] == "config.update" and row.get("systemPrompt") for row in rows)
    return told + lead + any(row["type"] == "llm.tools_snapshot" for row in rows)


def _count_letta(rows: Rows) -> int:
    """Behind the system message stand memory that it lacks, and open files."""
    count = 0
    for row in rows:
        for agent in row["agents"]:
            system = json.dumps(agent["messages"] or agent["system"])
            blocks = [one["value"] for one in row["blocks"] if one["id"] in agent["block_ids"]]
            behind = any(json.dumps(value)[1:-1] not in system for value in blocks)
            opened = any(one.get("is_open") for one in agent["files_agents"])
            count += bool(agent["tool_ids"]) + (len(agent["messages"]) or 1) + behind + opened
    return count


def _count_qwen(rows: Rows) -> int:
    return sum(bool((row.get("message") or {}).get("parts")) for row in rows)


def _count_responses(rows: Rows) -> int:
    """Every item once, whether sent, answered or sent again. An answer's items are one message, a round's results are, too."""
    seen: set[str] = set()
    count = 0
    for row in rows:
        body, answer = row["request"].get("parsed_body") or {}, row["response"].get("parsed_body") or {}
        for line in str((row["response"].get("body") or {}).get("string") or "").splitlines():
            if line.startswith("data: {") and "response.completed" in line:
                answer = json.loads(line[6:])["response"]
        if row["request"]["uri"].endswith("/compact"):  # the rest of it is what was sent
            answer = {"output": [one for one in answer["output"] if one["type"] == "compaction"]}
        lead = [one for one in (body.get("instructions"), body.get("tools")) if one]
        for run in ([one] for one in lead), _split_items(body.get("input")), _split_items(answer.get("output")):
            for group in run:
                marks = {json.dumps(_name_item(item), sort_keys=True) for item in group}
                count += not marks <= seen
                seen |= marks
    return count


def _split_items(items: Any) -> Iterator[list[Any]]:
    items = [{"role": "user", "content": items}] if isinstance(items, str) else items or []

    def tell(item: dict[str, Any]) -> str:
        kind = item.get("type") or "message"
        return "tool" if kind.endswith("_output") else item.get("role", "assistant")

    for role, run in groupby(items, tell):
        held = list(run)
        yield from [held] if role in ("tool", "assistant") else ([one] for one in held)


def _name_item(item: Any) -> Any:
    """What an item is known by where it is told again."""
    if not isinstance(item, dict) or "content" not in item:
        return (
            [item.get("type"), item.get("call_id") or item.get("encrypted_content") or item.get("id")]
            if isinstance(item, dict)
            else item
        )
    content = item["content"]
    return [item.get("role"), [content] if isinstance(content, str) else [part.get("text") for part in content]]


def _count_task(rows: Rows) -> int:
    """What is stored; and of each request on the screen, from its beginning to the next one's, what is not stored any more."""
    told = [one for each in rows for one in each]
    stored = [one for one in told if one.get("role") and not one.get("isSummary") and not one.get("isTruncationMarker")]
    screen = [one for one in told if one.get("type") in ("say", "ask")]
    began = [one["ts"] for one in screen if one.get("say") == "api_req_started"]
    count = len(stored)
    for start, stop in pairwise([*began, float("inf")]):
        kept = {one["role"] for one in stored if start <= one["ts"] < stop}
        answered = any(start < one["ts"] < stop and (one.get("say") == "text" or one["type"] == "ask") for one in screen)
        count += ("user" not in kept) + ("assistant" not in kept and answered)
    return count


def _count_vercel(rows: Rows) -> int:
    """Of each stream what it came to: each step is an answer, then the results of its calls that the server did not make."""
    count = 0
    for case in rows[0]:
        last = (case["writes"] or [case["input"].get("lastMessage") or {}])[-1]
        steps: list[list[dict[str, Any]]] = [[]]
        for part in last.get("parts", ()):
            if part["type"] == "step-start":
                steps.append([])
            elif not part["type"].startswith(("data-", "custom", "source-")):
                steps[-1].append(part)
        for step in steps:
            came = [str(part.get("state")).startswith("output-") for part in step if not part.get("providerExecuted")]
            count += bool(step) + any(came)
    return count


def _count_vscode(rows: Rows) -> int:
    return sum(bool(one["message"]) + bool(one["response"]) for row in rows for one in row["requests"])


COUNTS: dict[str, Callable[[Rows], int | None]] = {
    "anthropic-api": _count_calls,
    "chatgpt": _count_chatgpt,
    "claude-code": _count_claude_code,
    "codex": _count_codex,
    "continue": _count_continue,
    "gemini-cli": _count_gemini,
    "inspect": _count_inspect,
    "librechat": _count_librechat,
    "lobechat": _count_lobechat,
    "opencode": _count_opencode,
    "openhands": _count_openhands,
    "otel": _count_spans,
    "pi": _count_pi,
    "aider": _count_aider,
    "aistudio": _count_aistudio,
    "atif": _count_steps,
    "printed": _count_exec,
    "copilot-cli": _count_copilot_cli,
    "crush": _count_crush,
    "cursor": _count_cursor,
    "droid": _count_droid,
    "grok-cli": _count_grok,
    "hermes": _count_hermes,
    "kimi-code": _count_kimi,
    "letta": _count_letta,
    "qwen-code": _count_qwen,
    "openai-responses": _count_responses,
    "task-folder": _count_task,
    "vercel-ui": _count_vercel,
    "vscode-chat": _count_vscode,
    "chatbot-ui": lambda rows: sum(len(one["messages"]) + bool(one["prompt"]) for row in rows for one in row["history"]),
    "copilot-web": lambda rows: sum(bool(one.get("content")) for row in rows for one in row["messages"]),
    "tau-bench": lambda rows: sum(bool(row["info"]["environment_info"]["policy"]) for row in rows),
}
