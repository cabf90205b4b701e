"""What Anthropic's Messages API rejects: the built-in model answers with status 400 and a sentence like the API's.

Pure functions of a body. Thinking is signed and checked here: a signature is valid for this thinking, of this model, after
exactly these messages, as Opus 5.5 and Fable 5.1 require.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from turnscope.live.attachments import find_image_error, find_oversized_image
from turnscope.live.offline import edit_validation
from turnscope.session.content import dumps

JSON = Any
KEY = b"the built-in model"  # signatures only show that a text was changed, so the key is no secret
MAX_BREAKPOINTS = 4
MAX_MESSAGES = 100_000
MIN_THINKING = 1_024  # tokens of a thinking budget
MAX_OUTPUT = 64_000  # tokens of an answer
OLD_SIGNATURE = re.compile(r"[0-9a-f]{32}")  # of earlier versions of Turnscope; it cannot be checked any more
THINKING_KINDS = ("thinking", "redacted_thinking")
KINDS = {
    "user": ("text", "image", "document", "tool_result", "search_result", "container_upload"),
    "system": ("text",),
    "assistant": ("text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "compaction"),
}
_ID = re.compile(r"[a-zA-Z0-9_-]+")


def find_rejection(body: Mapping[str, JSON]) -> str:
    """Return the first reason to reject a request, as a sentence; "" if it is accepted."""
    return next(_find_errors(body), "")


def sign_thinking(model: str, messages: Sequence[JSON], thinking: str) -> str:
    """Return the signature of thinking.

    Args:
        model: The model that thought.
        messages: The messages that it answers.
        thinking: The text.
    """
    return _sign(model, _hash_messages(messages).digest(), thinking)


def _find_errors(body: Mapping[str, JSON]) -> Iterator[str]:
    yield from _check_settings(body)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "messages: at least one message is required"
        return
    if len(messages) > MAX_MESSAGES:
        yield f"messages: List should have at most {MAX_MESSAGES} items after validation, not {len(messages)}"
    for i, message in enumerate(messages):
        yield from _check_message(message, i, i == len(messages) - 1)
    if messages[0]["role"] != "user" and not any(b.get("type") == "compaction" for b in _list_blocks(messages[0])):
        yield "messages: first message must use the user role"
    yield from _check_pairs(messages)
    if sum(1 for _ in _find_breakpoints(body)) > MAX_BREAKPOINTS:
        found = sum(1 for _ in _find_breakpoints(body))
        yield f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {found}."
    if large := find_oversized_image(messages):
        yield f"{large[0]}.image.source.base64.data: {large[1]}"
    yield from edit_validation.find_errors(body)
    yield from _check_signatures(str(body.get("model", "")), messages)


def _check_settings(body: Mapping[str, JSON]) -> Iterator[str]:
    most = body.get("max_tokens")
    if not isinstance(body.get("model"), str) or not body["model"]:
        yield "model: Field required"
    if not isinstance(most, int) or isinstance(most, bool):
        yield "max_tokens: Field required" if most is None else "max_tokens: Input should be a valid integer"
        return
    if most < 1:
        yield "max_tokens: Input should be greater than or equal to 1"
    if most > MAX_OUTPUT:
        model = body.get("model")
        yield f"max_tokens: {most} > {MAX_OUTPUT}, which is the maximum allowed number of output tokens for {model}"
    thinking = body.get("thinking")
    if isinstance(thinking, Mapping) and thinking.get("type") == "enabled":
        budget = thinking.get("budget_tokens")
        if not isinstance(budget, int) or budget < MIN_THINKING:
            yield f"thinking.enabled.budget_tokens: Input should be greater than or equal to {MIN_THINKING}"
        elif budget >= most:
            yield "`max_tokens` must be greater than `thinking.budget_tokens`."
    names = [tool.get("name") for tool in body.get("tools") or () if isinstance(tool, Mapping)]
    if len(set(names)) < len(names):
        yield "tools: Tool names must be unique."
    system = body.get("system")
    for text in [system] if isinstance(system, str) else [b.get("text") for b in system or ()]:
        if not text:
            yield "system: text content blocks must be non-empty"
        elif not text.strip():
            yield "system: text content blocks must contain non-whitespace text"


def _check_message(message: JSON, i: int, last: bool) -> Iterator[str]:
    role = message.get("role") if isinstance(message, Mapping) else None
    content = message.get("content") if isinstance(message, Mapping) else None
    if role not in KINDS:
        yield f"messages.{i}.role: Input should be 'user' or 'assistant'"
        return
    if not isinstance(content, (str, list)):
        yield f"messages.{i}.content: Input should be a valid list"
        return
    if not content and not (last and role == "assistant"):
        yield f"messages.{i}: all messages must have non-empty content except for the optional final assistant message"
    for j, block in enumerate(content if isinstance(content, list) else ()):
        kind = block.get("type") if isinstance(block, Mapping) else None
        if kind not in KINDS[role]:
            yield f"messages.{i}.content.{j}: Input tag {kind!r} found using 'type' does not match any of the expected tags"
            return
        if kind == "tool_use" and not (_ID.fullmatch(str(block.get("id"))) and isinstance(block.get("input"), Mapping)):
            yield f"messages.{i}.content.{j}.tool_use: `id` should match pattern '^[a-zA-Z0-9_-]+$' and `input` be a dictionary"
        if kind == "image" and (bad := find_image_error(block)):
            yield f"messages.{i}.content.{j}.{bad}"
        if kind == "thinking" and not block.get("signature"):
            yield f"messages.{i}.content.{j}.thinking.signature: Field required"
        if kind in THINKING_KINDS and block.get("cache_control"):
            yield f"messages.{i}.content.{j}.{kind}.cache_control: Extra inputs are not permitted"
    texts = [content] if isinstance(content, str) else [b.get("text") for b in _list_blocks(message) if b["type"] == "text"]
    yield from _check_texts([text or "" for text in texts if content], last and role == "assistant")


def _check_texts(texts: Sequence[str], prefill: bool) -> Iterator[str]:
    if not all(texts):
        yield "messages: text content blocks must be non-empty"
    elif texts and not any(text.strip() for text in texts):
        yield "messages: text content blocks must contain non-whitespace text"
    elif prefill and texts and texts[-1] != texts[-1].rstrip():
        yield "messages: final assistant content cannot end with trailing whitespace"


def _check_pairs(messages: Sequence[JSON]) -> Iterator[str]:
    """Check that calls and results form pairs. Neighbouring messages of one role are one message."""
    known: set[str] = set()
    calls: set[str] = set()
    for i, (_, blocks) in enumerate(_join_neighbours(messages)):
        results = [str(b.get("tool_use_id")) for b in blocks if b.get("type") == "tool_result"]
        if stray := [name for name in results if name not in calls]:
            yield (
                f"messages.{i}.content: unexpected `tool_use_id` found in `tool_result` blocks: {stray[0]}. Each `tool_result` "
                "block must have a corresponding `tool_use` block in the previous message."
            )
        if len(set(results)) < len(results):
            yield f"messages.{i}.content: each tool_use must have a single result. Found two with one id"
        if missing := calls - set(results):
            yield (
                f"messages.{i - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(sorted(missing))}. Each `tool_use` block must have a corresponding `tool_result` block in the "
                "next message."
            )
        if calls and [b.get("type") == "tool_result" for b in blocks][: len(results)] != [True] * len(results):
            yield f"messages.{i}.content: `tool_result` blocks must come first in the message behind their `tool_use` blocks"
        ids = [str(b.get("id")) for b in blocks if b.get("type") == "tool_use"]
        if len(set(ids)) < len(ids) or known & set(ids):
            yield "messages: `tool_use` ids must be unique"
        known |= set(ids)
        calls = set(ids)
    if calls:
        yield f"messages: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(sorted(calls))}."


def _check_signatures(model: str, messages: Sequence[JSON]) -> Iterator[str]:
    """Find thinking that was changed, or that follows other messages than it was signed for."""
    prefix = blake2b(digest_size=16)
    for i, message in enumerate(messages):
        for j, block in enumerate(_list_blocks(message)):
            if block.get("type") == "thinking":
                thinking, signature = str(block.get("thinking") or ""), str(block.get("signature"))
                expected = _sign(model, prefix.digest(), thinking)
                if not OLD_SIGNATURE.fullmatch(signature) and not hmac.compare_digest(signature.encode(), expected.encode()):
                    issued, own = signature[32:], _sign(model, b"", thinking)[32:]
                    what = "the messages before it were changed" if issued == own else "Invalid `signature` in `thinking` block"
                    yield f"messages.{i}.content.{j}: {what}"
            elif block.get("type") == "redacted_thinking":
                yield f"messages.{i}.content.{j}: Invalid `data` in `redacted_thinking` block"
            _hash_block(prefix, message["role"], block)


def _sign(model: str, prefix: bytes, thinking: str) -> str:
    """Return two signatures in one: of everything, and of the thinking alone.

    So a rejection can say which of the two was changed.
    """
    own = hmac.new(KEY, dumps([model, thinking]).encode("utf-8", "surrogatepass"), "blake2b").hexdigest()[:32]
    return hmac.new(KEY, prefix + own.encode(), "blake2b").hexdigest()[:32] + own


def _hash_messages(messages: Sequence[JSON]) -> Any:
    digest = blake2b(digest_size=16)
    for message in messages:
        for block in _list_blocks(message):
            _hash_block(digest, message["role"], block)
    return digest


def _hash_block(digest: Any, role: str, block: Mapping[str, JSON]) -> None:
    bare = {key: value for key, value in block.items() if key != "cache_control"}
    digest.update(json.dumps([role, bare], sort_keys=True).encode())  # the order of keys has no meaning


def _list_blocks(message: JSON) -> list[JSON]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def _join_neighbours(messages: Sequence[JSON]) -> list[tuple[str, list[JSON]]]:
    found: list[tuple[str, list[JSON]]] = []
    for message in messages:
        if found and found[-1][0] == message["role"]:
            found[-1][1].extend(_list_blocks(message))
        else:
            found.append((message["role"], _list_blocks(message)))
    return found


def _find_breakpoints(holder: JSON) -> Iterator[JSON]:
    if isinstance(holder, Mapping):
        if holder.get("cache_control"):
            yield holder
        for key in ("tools", "system", "messages", "content"):
            yield from _find_breakpoints(holder.get(key))
    elif isinstance(holder, list):
        for each in holder:
            yield from _find_breakpoints(each)
