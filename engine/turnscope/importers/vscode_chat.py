"""VS Code's Copilot Chat: a chat's file under `chatSessions` (JSON, or a log of patches as JSON lines), and "Export Chat".

A request of the file is a turn. Its `result.metadata.toolCallRounds` are the model's requests, with what the calls gave; older
files hold texts and calls of the response as they were shown, and seldom what came back. Longer than a mapping for the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, make_call, make_result, make_text, make_thinking, make_usage
from turnscope.reading.nodes import Cut, Node, NodeMessage, SkippedRecords, build_thread, split_rounds
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import extract_text
from turnscope.session.model import JSON, Note
from turnscope.session.thread import Thread
from turnscope.settings import Machine

NAME = "vscode-chat"
EDITORS = ("Code", "Code - Insiders", "VSCodium")
SHOWN = ("undoStop", "codeblockUri", "progressMessage", "progressTaskSerialized", "mcpServersStarting", "prepareToolInvocation")
READ = {  # keys of a result's metadata that are read, or name things
    *("renderedUserMessage", "renderedGlobalContext", "toolCallRounds", "toolCallResults", "modelId", "summary", "summaries"),
    *("modelMessageId", "responseId", "sessionId", "agentId", "cacheKey", "globalContextCacheKey", "command", "promptTokens"),
    *("outputTokens", "completionTokens", "resolvedModel", "maxToolCallsExceeded"),
}
ABOUT = ("sessionId", "initialLocation", "responderUsername", "version")
Value = Mapping[str, Any]


def sniff(source: Source) -> int:
    if source.kind != "file":
        return 0
    document = source.document
    if document is None:
        first = as_mapping(next(iter(source.first), None))
        document = first.get("v") if first.get("kind") == 0 else None
    fields = as_mapping(document)
    named = fields.keys() & {"requesterUsername", "responderUsername", "sessionId", "creationDate"}
    return 90 if isinstance(fields.get("requests"), list) and named else 0


def find_places(machine: Machine) -> Iterator[Place]:
    for editor in EDITORS:
        user = machine.config / editor / "User"
        for pattern in ("*.json", "*.jsonl"):
            yield Place(user / "workspaceStorage", f"*/chatSessions/{pattern}")
            yield Place(user / "globalStorage" / "emptyWindowChatSessions", pattern)


def _read_document(source: Source, builder: Builder) -> Value:
    """The chat as it is now: the one value, or the first of a log with its patches applied."""
    if source.document is not None and "requests" in as_mapping(source.document):
        return as_mapping(source.document)
    state: Any = {}
    failed = 0
    for record, _ in source.iter_records():
        if isinstance(record, Note):
            builder.notes.append(record)
            continue
        patch = as_mapping(record)
        if patch.get("kind") == 0:
            state = patch.get("v")
        else:
            failed += not _apply(state, patch)
    if failed:
        builder.add_note(
            "warning", 0, f"{failed} patches of the log name a place that it does not hold, or are of no known kind"
        )
    return as_mapping(state)


def _apply(state: Any, patch: Value) -> bool:
    """Apply a patch: 1 sets a value, 2 adds items to a list (cut off at `i` before), 3 deletes. False where it does not fit."""
    path = patch.get("k")
    if not isinstance(path, list) or not path:
        return False
    *above, last = path
    try:
        for key in above:
            state = state[key]
        match patch.get("kind"):
            case 1 if isinstance(state, list) and last == len(state):  # JavaScript lets a list grow so
                state.append(patch.get("v"))
            case 1:
                state[last] = patch.get("v")
            case 2:
                items = state[last] if not isinstance(state, dict) else state.setdefault(last, [])
                del items[patch["i"] if isinstance(patch.get("i"), int) else len(items) :]
                items += patch["v"] if isinstance(patch.get("v"), list) else []
            case 3:
                del state[last]
            case _:
                return False
    except (AttributeError, IndexError, KeyError, TypeError):
        return False
    return True


def read(source: Source, _entry: Entry) -> Thread:
    builder, passed = Builder(source.path.stem, NAME), SkippedRecords()
    document = _read_document(source, builder)
    builder.id = as_text(document.get("sessionId")) or builder.id
    builder.title = as_text(document.get("customTitle"))
    builder.about |= {key: document[key] for key in ABOUT if document.get(key)}
    nodes: list[Node] = []
    for number, turn in enumerate(as_rows(document.get("requests"))):
        id, at = as_text(turn.get("requestId")) or f"#{number}", parse_time(turn.get("timestamp"))
        messages = [*_make_context(turn, nodes), *_make_prompt(turn, builder, passed)]
        nodes += _make_nodes(id, at, [*messages, *_make_answers(turn, at, passed)])
        error = as_mapping(as_mapping(turn.get("result")).get("errorDetails"))
        if error:
            builder.add_note("warning", 0, f"a request failed: {as_text(error.get('message'))[:200]}")
    passed.add_notes(builder)
    return build_thread(builder, nodes)


def _make_context(turn: Value, nodes: list[Node]) -> list[NodeMessage]:
    """What comes before the conversation, as of this turn: repeated in each, and new where it changed."""
    stored = as_mapping(as_mapping(turn.get("result")).get("metadata")).get("renderedGlobalContext")
    text = stored if isinstance(stored, str) else "\n".join(as_text(part.get("text")) for part in as_rows(stored))
    known = {message.content for node in nodes for message in node.messages if message.origin == "meta"}
    return [NodeMessage("user", text, "meta")] if text and text not in known else []


def _make_nodes(id: str, at: float | None, messages: list[NodeMessage]) -> Iterator[Node]:
    """The messages of a turn; a summary begins a node of its own, since what came before it is not sent any more."""
    node = Node(id, None, [], at)
    for number, message in enumerate(messages):
        if message.kind == "summary":
            yield node
            own = f"{id}:{number}"
            node = Node(own, None, [], at, Cut("summarised: what came before is not sent any more", [], own))
        node.messages.append(message)
    yield node


def _make_prompt(turn: Value, builder: Builder, passed: SkippedRecords) -> list[NodeMessage]:
    """The prompt as it was sent where that is stored, else as it was typed."""
    message = turn.get("message")
    typed = message if isinstance(message, str) else as_text(as_mapping(message).get("text"))
    builder.title = builder.title or " ".join(typed.split())[:80]
    metadata = as_mapping(as_mapping(turn.get("result")).get("metadata"))
    rendered = metadata.get("renderedUserMessage")
    sent = make_text(rendered) if isinstance(rendered, str) else []
    sent += [block for part in as_rows(rendered) for block in make_text(as_text(part.get("text")))]
    for variable in as_rows(as_mapping(turn.get("variableData")).get("variables")):
        passed.add("attached variable", variable)
    for key in sorted(metadata.keys() - READ):
        if metadata[key]:
            passed.add(f"metadata {key}", metadata[key])
    whole = typed and any(typed in block["text"] for block in sent)
    return [NodeMessage("user", [*sent, *([] if whole else make_text(typed))])]


def _make_answers(turn: Value, at: float | None, passed: SkippedRecords) -> Iterator[NodeMessage]:
    result = as_mapping(turn.get("result"))
    metadata = as_mapping(result.get("metadata"))
    model = as_text(turn.get("modelId")) or as_text(metadata.get("modelId"))
    rounds, gave = as_rows(metadata.get("toolCallRounds")), as_mapping(metadata.get("toolCallResults"))
    used = as_mapping(turn.get("usage")) or as_mapping(result.get("usage")) or metadata
    listed = [*as_rows(metadata.get("summaries")), *as_rows([metadata.get("summary")])]
    summaries = {as_text(one.get("toolCallRoundId")): as_text(one.get("text")) for one in listed}
    request: dict[str, Any] = {"model": model, "sent_at": at}
    request["usage"] = make_usage(used.get("promptTokens"), used.get("completionTokens", used.get("outputTokens")))
    if turn.get("isCanceled") is True:
        request["stop_reason"] = "canceled"
    shown = [block for part in _list_parts(turn.get("response")) for block in _convert_part(part, passed)]
    for number, each in enumerate(rounds):
        calls = as_rows(each.get("toolCalls"))
        thought = as_mapping(each.get("thinking"))
        blocks = make_thinking(extract_text(thought.get("text") or ""), as_text(thought.get("encrypted")))
        blocks += make_text(as_text(each.get("response")))
        blocks += [make_call(as_text(call.get("id")), as_text(call.get("name")), call.get("arguments")) for call in calls]
        last = number == len(rounds) - 1
        yield NodeMessage("assistant" if blocks else "", blocks, request=request if last else {"model": model})
        results = [make_result(id, _get_output(gave[id])) for call in calls if (id := as_text(call.get("id"))) in gave]
        if results:
            yield NodeMessage("user", results, "tool")
        if summary := as_text(each.get("summary")) or summaries.get(as_text(each.get("id")), ""):
            yield NodeMessage("user", summary, "summary", "summary")
    if not rounds and any(block["type"] == "tool_result" for block in shown):
        yield from split_rounds(_join_texts(shown), request, parallel=True)
    elif not rounds:
        yield NodeMessage("assistant" if shown else "", _join_texts(shown), request=request)


def _get_output(value: Any) -> str:
    """What a call gave, as text; of a prompt's tree its words."""
    parts = as_rows(as_mapping(value).get("content"))
    return "\n".join(_render_tree(part.get("value")) or extract_text(part.get("value")) for part in parts)


def _render_tree(value: Any) -> str:
    """The words of a prompt's tree, "" of anything else. A node says whether a line begins with it."""
    pending, words = [as_mapping(as_mapping(value).get("node"))], ""
    while pending:
        node = pending.pop()
        text = as_text(node.get("text"))
        words += "\n" if text and words and node.get("lineBreakBefore") else ""
        words += text
        pending += reversed(as_rows(node.get("children")))
    return words


def _list_parts(response: Any) -> list[Value]:
    return as_rows([response] if isinstance(response, Mapping) else response)


def _convert_part(part: Value, passed: SkippedRecords) -> list[JSON]:
    kind = part.get("kind")
    value = part.get("value", part.get("content"))
    if kind in (None, "markdownContent", "markdownVuln"):
        return make_text(value if isinstance(value, str) else as_text(as_mapping(value).get("value")))
    if kind == "thinking":
        return make_thinking(extract_text(value or ""))
    if kind == "inlineReference":
        reference = as_mapping(part.get("inlineReference"))
        path = (
            as_text(reference.get("path"))
            or as_text(as_mapping(reference.get("uri")).get("path"))
            or as_text(reference.get("name"))
        )
        return make_text(as_text(part.get("name")) or path.rpartition("/")[2])
    if kind == "toolInvocationSerialized":
        return _convert_shown_call(part, passed)
    if kind not in SHOWN:
        passed.add(f"part {kind}", part)
    return []


def _convert_shown_call(part: Value, passed: SkippedRecords) -> list[JSON]:
    """A call as it was shown. What it gave is there for tools of MCP servers (`resultDetails`) and for terminals."""
    message = part.get("pastTenseMessage") or part.get("invocationMessage")
    shown = message if isinstance(message, str) else as_text(as_mapping(message).get("value"))
    data, details = as_mapping(part.get("toolSpecificData")), as_mapping(part.get("resultDetails"))
    terminal = as_mapping(data.get("terminalCommandOutput"))
    arguments = {key: value for key, value in data.items() if key != "terminalCommandOutput"} or (
        {"shown": shown} if shown else {}
    )
    id = as_text(part.get("toolCallId"))
    call = make_call(id, as_text(part.get("toolId")), details.get("input") or arguments)
    if part.get("resultDetails") and not details:
        passed.add("places that a call found", part["resultDetails"])
    texts = [as_text(one.get("value")) for one in as_rows(details.get("output"))]
    output = "\n".join(text for text in texts if text) or as_text(terminal.get("text"))
    return [call, make_result(id, output, details.get("isError") is True)] if output else [call]


def _join_texts(blocks: list[JSON]) -> list[JSON]:
    """Neighbouring texts as one: a reference in a sentence is a part of its own."""
    found: list[JSON] = []
    for block in blocks:
        if block["type"] == "text" and found and found[-1]["type"] == "text":
            found[-1] = {"type": "text", "text": found[-1]["text"] + block["text"]}
        else:
            found.append(block)
    return found


IMPORTER = Importer(
    NAME,
    "VS Code Copilot Chat (chatSessions, Export Chat)",
    sniff,
    read,
    finds=find_places,
    wants="`requests` of a chat with `sessionId` or `responderUsername`",
    version=3,
    right="rounds of calls as the model's requests, with what the calls gave; summaries; the log of patches",
)
