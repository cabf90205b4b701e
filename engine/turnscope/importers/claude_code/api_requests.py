"""Whole requests that a log records: each body rebuilt from the records that it is spread over, and proven by its digests.

Claude Code 2.1.330 writes, behind a feature flag, `api-request-shape` (system prompt and tools), `api-request-blob` (a
message) and `api-request`: the messages of an earlier request up to `keep`, then a `tail`, each message by its hash. A hash
without a blob names a message that the transcript holds itself: an answer, whose content blocks are several lines, or what
neighbouring lines of the user's side say, up to any of them. The hash proves that it is the one. A record says of parameters
(`withheld`) and texts (`cut`) that it leaves out. `api-request-resumed` names two requests that one answer was paused between.
Holds no opinion about where a request stands in the conversation (see `exact`).

The rules were read from recorded runs: a message's hash is the SHA-256 of its compact JSON with sorted keys, without
`cache_control`, a string content taken as one text block; `requestDigest` is that of the body as sent with `cache_control`,
without `metadata`, `stream` and the first system block (a billing header, which is not recorded). Of a body with texts cut
the digest, `cutRequestDigest`, is that of the cut body.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import orjson
from msgspec import Struct, structs

from turnscope.reading.source import Source
from turnscope.session.model import JSON, check_time

SHAPE, BLOB, REQUEST, RESUMED = "api-request-shape", "api-request-blob", "api-request", "api-request-resumed"
TYPES = frozenset({SHAPE, BLOB, REQUEST, RESUMED})
AnswerKey = str | tuple[str, str]  # the provider's id; with "sent" = with the inputs of its calls as they were sent
Mark = tuple[tuple[str | int, ...], JSON]  # where a `cache_control` stands in the body, and what it says


class ApiRequest(Struct, frozen=True):
    """One request as the log records it. `messages`: hashes; `params`: the rest of the body (model, betas, max_tokens, ...).

    `source`: what requested it, such as `sdk`, `repl_main_thread` or `agent:builtin:general-purpose`. `withheld`: parameters
    that the record leaves out. `cut`: whether it leaves out texts of messages, so that its body is not the one that was sent.
    `raw`: it was recorded as one body, which needs no digest.
    """

    id: str
    source: str
    line: int
    sent_at: float | None
    shape: str
    messages: tuple[str, ...]
    params: Mapping[str, JSON]
    marks: tuple[Mark, ...]
    digest: str
    withheld: tuple[str, ...] = ()
    cut: bool = False
    raw: bool = False


@dataclass(slots=True)
class _Run:
    """Content blocks of neighbouring lines of the user's side, and the hash of the message that they make up to a line."""

    blocks: list[JSON] = field(default_factory=list)
    hashed: int = 0
    state: Any = field(default_factory=lambda: sha256(b'{"content":['))

    def hash(self, count: int) -> str:
        """The hash of a message of the first `count` blocks. Counts may only rise from call to call."""
        for number in range(self.hashed, count):
            self.state.update(b","[:number] + _dump(_remove_marks(self.blocks[number])))
        self.hashed = max(self.hashed, count)
        whole = self.state.copy()
        whole.update(b'],"role":"user"}')
        return str(whole.hexdigest())


@dataclass(slots=True)
class ApiRequests:
    """The requests of a file, in the order in which they were sent, and what they are made of."""

    shapes: dict[str, dict[str, JSON]] = field(default_factory=dict)
    messages: dict[str, dict[str, JSON]] = field(default_factory=dict)  # by hash; an answer or a prompt once it was requested
    requests: dict[str, ApiRequest] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)  # requests that one answer was paused between
    answers: dict[AnswerKey, dict[str, JSON]] = field(default_factory=dict)  # their fragments joined
    unhashed: dict[AnswerKey, dict[str, JSON]] = field(default_factory=dict)  # answers that no hash is known of yet
    run: _Run | None = None  # the user's lines that the next one would join
    lines: list[tuple[_Run, int]] = field(default_factory=list)  # runs up to a line, no hash of which is known yet
    prompts: dict[str, tuple[_Run, int]] = field(default_factory=dict)  # the same by hash

    def __bool__(self) -> bool:
        return bool(self.requests)

    def add(self, record: Mapping[str, Any], line: int) -> None:
        """Take in one of the kinds of records; one without its fields says nothing.

        Args:
            record: The record.
            line: Its line in the file, from 1.
        """
        kind = record.get("type")
        if kind == SHAPE and isinstance(record.get("shape"), dict):
            self.shapes[str(record.get("shapeHash"))] = record["shape"]
        elif kind == BLOB and isinstance(record.get("message"), dict):
            self.messages[str(record.get("hash"))] = record["message"]
        elif kind == REQUEST and isinstance(record.get("id"), str):
            self.requests[record["id"]] = self._request(record, line)
        elif kind == RESUMED:
            self.paused |= {str(record.get(key)) for key in ("pausedRequestId", "resumedRequestId")}

    def hear(self, message: Mapping[str, Any], sent: JSON = None) -> None:
        """Take in a message of the transcript: a prompt, or a fragment of an answer.

        Args:
            message: The message, as the transcript has it.
            sent: Its content as it was sent, where that is known to be another.
        """
        content, id = message.get("content"), message.get("id")
        if message.get("role") == "assistant" and isinstance(id, str) and isinstance(content, list):
            before = self.answers.get(id, {"content": []})["content"]
            self._add_fragment(id, content, before)
            if (sent is not None and sent != content) or (id, "sent") in self.answers:
                self._add_fragment((id, "sent"), content if sent is None else sent, before)
        elif message.get("role") == "user" and isinstance(content, (str, list)):
            self.run = self.run or _Run()
            self.run.blocks += list_blocks(content)
            self.lines.append((self.run, len(self.run.blocks)))
            return
        self.run = None

    def _add_fragment(self, key: AnswerKey, content: list[JSON], otherwise: list[JSON]) -> None:
        """Add to an answer. `otherwise`: what it begins with where this is the first that is kept of it."""
        whole = self.answers.setdefault(key, {"role": "assistant", "content": otherwise})
        whole["content"] = [*whole["content"], *content]
        self.unhashed[key] = whole

    def add_origin(self, source: Source) -> None:
        """Take in the requests of another session's file, from which this one copied what was said. Their line is 0."""
        other = ApiRequests()
        for record, line in source.iter_records():
            if isinstance(record, dict):
                other.add(record, line)
                if isinstance(message := record.get("message"), dict):
                    other.hear(message)
        self.shapes = other.shapes | self.shapes
        for request in other.requests.values():
            self.requests.setdefault(request.id, structs.replace(request, line=0))
            found = ((hash, other.find(hash)) for hash in request.messages if hash not in self.messages)
            self.messages |= {hash: message for hash, message in found if message is not None}

    def add_body(self, id: str, body: Mapping[str, Any], line: int, source: str) -> None:
        """Take in a request that was recorded as one body. What it shares with others is kept once.

        Args:
            id: A name for it.
            body: The body, as it was sent.
            line: The line of the transcript that its answer begins in.
            source: What requested it.
        """
        hashes = []
        for message in body["messages"]:
            hashes.append(hash_message(message))
            self.messages.setdefault(hashes[-1], _remove_marks(message))
        shape = {key: _remove_marks(body[key]) for key in ("system", "tools") if key in body}
        name = sha256(_dump(shape)).hexdigest()
        self.shapes.setdefault(name, shape)
        params = {key: value for key, value in body.items() if key not in (*shape, "messages")}
        marks = tuple(_find_marks(body, ()))
        self.requests[id] = ApiRequest(id, source, line, None, name, tuple(hashes), params, marks, "", raw=True)

    def find(self, hash: str) -> dict[str, JSON] | None:
        """The message with that hash; None where the file does not hold it."""
        if hash not in self.messages and self.unhashed:
            for message in self.unhashed.values():
                listed = {**message, "content": list_blocks(message["content"])}
                self.messages.setdefault(hash_message(listed), listed)
            self.unhashed = {}
        if hash not in self.messages:
            self.prompts |= {run.hash(count): (run, count) for run, count in self.lines}
            self.lines = []
            if hash in self.prompts:
                run, count = self.prompts[hash]
                self.messages[hash] = {"role": "user", "content": run.blocks[:count]}
        return self.messages.get(hash)

    def rebuild(self, request: ApiRequest) -> dict[str, JSON] | None:
        """A request's body as it was sent, but for the billing header; None where a part of it is not in the file."""
        shape = self.shapes.get(request.shape)
        messages = [self.find(hash) for hash in request.messages]
        if shape is None or not request.messages or None in messages:
            return None
        body: dict[str, JSON] = {**request.params, **shape, "messages": messages}
        for path, value in request.marks:
            body = _set_mark(body, path, value)
        return body

    def count_equal(self, requests: Iterable[ApiRequest]) -> int:
        """How many requests, rebuilt, have the digest that the tool recorded of what it sent."""
        digests = _Digests()
        rebuilt = ((request, self.rebuild(request)) for request in requests if not request.raw)
        return sum(body is not None and digests.digest(request, body) == request.digest for request, body in rebuilt)

    def _request(self, record: Mapping[str, Any], line: int) -> ApiRequest:
        base = self.requests.get(str(record.get("base")))
        keep = record.get("keep")
        shared = base.messages[:keep] if base and isinstance(keep, int) and keep > 0 else ()
        whole = len(shared) == (keep or 0)  # else the log lacks the request that this one goes on from
        params, tail = record.get("params"), record.get("tail")
        digest = record.get("requestDigest") or record.get("cutRequestDigest")
        marks = [mark for mark in _as_list(record.get("cacheControl")) if isinstance(mark, dict)]
        return ApiRequest(
            id=record["id"],
            source=str(record.get("querySource") or ""),
            line=line,
            sent_at=parse_time(record.get("timestamp")),
            shape=str(record.get("shapeHash")),
            messages=(*shared, *map(str, _as_list(tail))) if whole else (),
            params=params if isinstance(params, dict) else {},
            marks=tuple((tuple(_as_list(mark.get("path"))), mark.get("value")) for mark in marks),
            digest=str(digest or ""),
            withheld=tuple(map(str, _as_list(record.get("withheld")))),
            cut="cut" in record,
        )


def list_blocks(content: JSON) -> JSON:
    """A message's content as blocks: a string is one text block."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def hash_message(message: Mapping[str, JSON]) -> str:
    """The hash that the tool gives a message."""
    return sha256(_dump_listed(_remove_marks({**message, "content": message.get("content")}))).hexdigest()


class _Digests:
    """Digests of bodies, one after the other. What a request shares with the one before it is hashed once.

    A digest is the SHA-256 of the body's JSON with sorted keys. Cache marks stand at the end, so that all before the first
    marked message is the same bytes in the next request.
    """

    def __init__(self) -> None:
        self.head, self.hashes, self.state = b"", tuple[str, ...](), sha256()
        self.bytes: dict[str, bytes] = {}

    def digest(self, request: ApiRequest, body: Mapping[str, JSON]) -> str:
        """The digest of a body that was rebuilt of a request."""
        before = {key: value for key, value in body.items() if key < "messages"}
        behind = {key: value for key, value in body.items() if key > "messages"}
        head = _dump(before)[:-1] + (b',"messages":[' if before else b'"messages":[')
        marked = [place for path, _ in request.marks if path[:1] == ("messages",) and isinstance(place := path[1], int)]
        shared = min([len(request.messages), *marked])
        known = len(self.hashes)
        if head != self.head or known > shared or request.messages[:known] != self.hashes:
            self.head, self.hashes, self.state, known = head, (), sha256(head), 0
        for number in range(known, shared):
            self.state.update(b","[:number] + self._dump_message(request.messages[number], body["messages"][number]))
        self.hashes = request.messages[:shared]
        state = self.state.copy()
        for number in range(shared, len(request.messages)):
            state.update(b","[:number] + _dump_listed(body["messages"][number]))
        state.update(b"]," + _dump(behind)[1:] if behind else b"]}")
        return state.hexdigest()

    def _dump_message(self, hash: str, message: Mapping[str, JSON]) -> bytes:
        if hash not in self.bytes:
            self.bytes[hash] = _dump_listed(message)
        return self.bytes[hash]


def _dump_listed(message: Mapping[str, JSON]) -> bytes:
    return _dump({**message, "content": list_blocks(message["content"])})


def _dump(value: JSON) -> bytes:
    """Compact JSON with sorted keys, as the tool hashes it."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # a number beyond 64 bits
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def _remove_marks(value: JSON) -> JSON:
    """A value without any `cache_control`."""
    if isinstance(value, dict):
        return {key: _remove_marks(part) for key, part in value.items() if key != "cache_control"}
    return [_remove_marks(part) for part in value] if isinstance(value, list) else value


def _find_marks(value: JSON, path: tuple[str | int, ...]) -> Iterator[Mark]:
    """Every `cache_control` of system, tools and messages, with the path of what it stands in."""
    if isinstance(value, dict):
        if path and "cache_control" in value:
            yield path, value["cache_control"]
        for key, part in value.items():
            if path or key in ("system", "tools", "messages"):
                yield from _find_marks(part, (*path, key))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _find_marks(part, (*path, number))


def _set_mark(value: JSON, path: tuple[str | int, ...], mark: JSON) -> JSON:
    """A value with a `cache_control` at the end of a path; copies only what lies on it. A wrong path changes nothing."""
    if not path:
        return {**value, "cache_control": mark} if isinstance(value, dict) else value
    key = path[0]
    if isinstance(value, dict) and key == "content" and isinstance(value.get("content"), str):
        value = {**value, "content": list_blocks(value["content"])}
    if isinstance(value, dict) and key in value:
        return {**value, key: _set_mark(value[key], path[1:], mark)}
    if isinstance(value, list) and isinstance(key, int) and 0 <= key < len(value):
        return [*value[:key], _set_mark(value[key], path[1:], mark), *value[key + 1 :]]
    return value


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def parse_time(value: Any) -> float | None:
    """A timestamp of the log as seconds since the epoch, in UTC where it names no zone; None where it is none."""
    try:
        at = datetime.fromisoformat(value)
        return check_time((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp())
    except (TypeError, ValueError, OverflowError):
        return None
