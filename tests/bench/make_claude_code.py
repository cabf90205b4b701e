"""Writes a big synthetic Claude Code session (JSONL) for benchmarks.

Holds the generator alone, no measuring and no reading. The lines have the shapes that Claude Code 2.1 writes: one line per
content block with a shared `message.id` and the usage repeated on each, parent chains, parallel tool calls whose results hang
off different blocks, tool output a second time in `toolUseResult`, there with the whole file that was edited, files that are
read again while they are worked on, signed thinking, `compact_boundary` and summary lines, and
`attachment` lines: listings and instructions at the start and again after each compaction, a reminder with every prompt.
Its text is slices of the standard library's source, so tokenizers and digests meet realistic material. The same arguments
write the same bytes on the same Python version; no clock is read.

    python tests/bench/make_claude_code.py big.jsonl --megabytes 111 --requests 6000 --compactions 130
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, BinaryIO, NamedTuple

Json = dict[str, Any]

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
MODEL = "claude-opus-4-5-20251101"  # a 200k window, and priced by every tool we compare with
PREFIX = 18_000  # tokens of the system prompt and tools, which the log does not hold
WINDOW = 167_000  # tokens; Claude Code compacts a 200k window here at the latest
CHARS_PER_TOKEN = 2.8  # source code, roughly
CACHE_SECONDS = 300
REPEATED = 3.9  # bytes of log per character of tool output: twice, with escapes, and the files that were edited
EDITED = 10  # characters of an edited file, which the log holds beside the answer, per character of tool output
SNIPPET = 1_200  # characters of an edited file that the model is shown at most
FILES, AT_ONCE = 400, 12  # files of the shop, and those that a few turns work on
CORPUS = (
    "argparse ast asyncio collections concurrent datetime doctest email http inspect json logging multiprocessing pathlib pdb "
    "pickle pydoc ssl subprocess tarfile typing zipfile"
).split()
# One pixel, as large as a screenshot by its header's word: what counts of an image is its size in pixels.
PIXELS = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x05\xa0\x00\x00\x03\x84\x08\x02\x00\x00\x00"
IMAGE = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": base64.b64encode(PIXELS + bytes(64)).decode()},
}
PREAMBLE = (
    "This session is being continued from a previous conversation that ran out of context. "
    "The summary below covers the earlier portion of the conversation.\n\n"
)


class Variety(NamedTuple):
    """What differs from session to session. Shares are of 1; `rewinds` and `clearings` are numbers over the whole session."""

    model: str = MODEL
    sealed: float = 0.0  # thinking of which the log holds the signature alone
    pictures: float = 0.0  # readings of a file that give an image
    parallel: float = 0.12  # answers that call two tools
    rewinds: int = 0  # the user goes back to before the newest turn
    clearings: int = 0  # microcompactions: old tool results are cleared
    agents: int = 0  # subagents, whose lines stand between the others


# In the proportions of recorded sessions: one that drops the thinking of past turns, one whose log seals it, one without any.
VARIETIES = {
    "opus-4-5": Variety(),
    "sonnet-4-5": Variety("claude-sonnet-4-5-20250929", pictures=0.02, parallel=0.3, rewinds=8, clearings=4, agents=10),
    "opus-4-7": Variety("claude-opus-4-7", sealed=1.0, pictures=0.02, parallel=0.3, rewinds=8, agents=10),
}


class Written(NamedTuple):
    """What a generated file holds; tokens as recorded, each request once. `peak` is the largest prompt."""

    size: int
    lines: int
    requests: int
    turns: int
    compactions: int
    peak: int
    input_tokens: int
    cache_creation_input_tokens: int
    cache_read_input_tokens: int
    output_tokens: int


def tokens(text: str) -> int:
    return round(len(text) / CHARS_PER_TOKEN)


def corpus() -> list[str]:
    """The lines of about twenty standard library packages, in a fixed order."""
    root = Path(sysconfig.get_paths()["stdlib"])
    found = (path for name in CORPUS for path in (root / f"{name}.py", *sorted((root / name).rglob("*.py"))) if path.is_file())
    return [line for path in found for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


@dataclass(slots=True)
class Log:
    """An open file, and the state of the conversation that is being written to it."""

    out: BinaryIO
    rng: Random
    source: list[str]
    now: datetime = START
    parent: str | None = None
    size: int = 0
    lines: int = 0
    turns: int = 0
    compactions: int = 0
    window: int = PREFIX  # tokens of the next prompt
    cached: int = 0  # tokens of it that the prompt cache holds
    cached_at: datetime = START
    peak: int = 0
    spent: Json = field(default_factory=dict)
    session: str = ""
    attached: int = 0  # characters of listings and instructions at the start and after each compaction
    variety: Variety = VARIETIES["opus-4-5"]
    results: list[str] = field(default_factory=list)  # ids of calls whose results stand in the window
    turn: str | None = None  # the line before the newest prompt

    def hexid(self, bits: int = 96) -> str:
        return f"{self.rng.getrandbits(bits):0{bits // 4}x}"

    def uuid(self) -> str:
        h = self.hexid(128)
        return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}"

    def stamp(self) -> str:
        return self.now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{self.now.microsecond // 1000:03d}Z"

    def wait(self, low: float, high: float) -> None:
        self.now += timedelta(milliseconds=round(1000 * self.rng.uniform(low, high)))

    def pick_file(self) -> int:
        """The number of a file, of those that these turns work on: half of all readings are of one that was read."""
        return (self.turns // 4 * 5 + self.rng.randrange(AT_ONCE)) % FILES

    def text(self, chars: int, file: int | None = None) -> str:
        """About `chars` characters of consecutive source lines, from a random place, or from the beginning of a file."""
        lines: list[str] = []
        at, length = self.rng.randrange(len(self.source)) if file is None else file * len(self.source) // FILES, 0
        while length < chars:
            line = self.source[at % len(self.source)]
            lines.append(line)
            length += len(line) + 1
            at += 1
        return "\n".join(lines)[: max(1, chars)]

    def write_record(self, record: Json) -> None:
        line = json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        self.out.write(line)
        self.size += len(line)
        self.lines += 1

    def entry(self, more: Json, *, parent: str | None, chain: bool = True) -> str:
        """Write one entry of the conversation below `parent`; returns its uuid, which becomes the next parent."""
        uuid = self.uuid()
        head = {"parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": "/work/shop"}
        head |= {"sessionId": self.session, "version": "2.1.12", "gitBranch": "main"}
        self.write_record(head | more | {"uuid": uuid, "timestamp": self.stamp()})
        if chain:
            self.parent = uuid
        return uuid


def prompt(log: Log) -> None:
    """A new turn: a snapshot line, then what the user typed, after a pause that now and then outlives the prompt cache."""
    long_pause = log.rng.random() < 0.08
    log.wait(*((400, 1_800) if long_pause else (8, 90)))
    text = f"Please look at step {log.turns + 1}.\n" + log.text(log.rng.randint(80, 900))
    log.turn = log.parent
    snapshot = {"messageId": log.uuid(), "trackedFileBackups": {}, "timestamp": log.stamp()}
    log.write_record(
        {"type": "file-history-snapshot", "messageId": snapshot["messageId"], "snapshot": snapshot, "isSnapshotUpdate": False}
    )
    log.entry({"type": "user", "message": {"role": "user", "content": text}}, parent=log.parent)
    log.window += tokens(text)
    log.turns += 1
    if log.turns == 1:
        add_attachments(log)
    if log.attached:
        attach(log, "total_tokens_reminder", 60, text=f"<total_tokens>{15_000_000 - log.window} tokens left</total_tokens>")


def attach(log: Log, type: str, chars: int, **fields: Any) -> None:
    """Write what the tool puts in beside the prompt. `chars`: of what is sent of it."""
    log.entry({"type": "attachment", "attachment": {"type": type, **fields}}, parent=log.parent)
    log.window += tokens("x" * chars)


def add_attachments(log: Log, again: bool = False) -> None:
    """Listings of agents, skills and deferred tools, and instructions of MCP servers, in the shares that real logs have.

    `again`: after a compaction, with the names of files that the model had read.
    """
    if not log.attached:
        return
    agents, skills, names, servers = (round(log.attached * share) for share in (0.56, 0.31, 0.09, 0.04))
    types = [f"agent-{n}" for n in range(max(1, agents // 1_200))]
    lines = [f"- {name}: {' '.join(log.text(agents // len(types) - 20).split())}" for name in types]
    tools = [f"mcp__shop__tool_{n:03}" for n in range(names // 20)]
    skilled = [f"skill-{n}" for n in range(max(1, skills // 250))]
    listing = "\n".join(f"- {name}: {' '.join(log.text(skills // len(skilled) - 20).split())}" for name in skilled)
    attach(log, "deferred_tools_delta", names, addedNames=tools, addedLines=tools, removedNames=[], pendingMcpServers=[])
    about = {"addedTypes": types, "addedLines": lines, "removedTypes": [], "isInitial": not again, "showConcurrencyNote": True}
    attach(log, "agent_listing_delta", sum(map(len, lines)), **about)
    attach(log, "skill_listing", len(listing), content=listing, names=skilled, skillCount=len(skilled), isInitial=not again)
    block = f"## shop\n{log.text(servers)}"
    attach(log, "mcp_instructions_delta", len(block), addedNames=["shop"], addedBlocks=[block], removedNames=[])
    for _ in range(3 if again else 0):
        path = f"src/part{log.pick_file()}.py"
        attach(log, "compact_file_reference", 120, filename=f"/work/shop/{path}", displayPath=path)


def usage(log: Log, output: int) -> Json:
    """Usage of the request being answered: the prompt is split by what the cache still holds."""
    if (log.now - log.cached_at).total_seconds() > CACHE_SECONDS:
        log.cached = 0
    fresh = min(log.rng.randint(3, 12), log.window - log.cached)
    written = log.window - log.cached - fresh
    found = {"input_tokens": fresh, "cache_creation_input_tokens": written, "cache_read_input_tokens": log.cached}
    found["output_tokens"] = output
    for name, value in found.items():
        log.spent[name] = log.spent.get(name, 0) + value
    log.peak = max(log.peak, log.window)
    log.cached, log.cached_at = log.window - fresh, log.now
    life = {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0}
    return found | {"cache_creation": life, "service_tier": "standard"}


def arguments(log: Log, name: str) -> Json:
    """Input of one tool call, about some file of the shop."""
    where = f"/work/shop/src/part{log.pick_file()}.py"
    if name == "Read":
        return {"file_path": where}
    if name == "Bash":
        return {"command": f"python -m pytest -q {where}", "description": "Run the tests of one file"}
    if name == "Grep":
        return {"pattern": log.text(24), "path": "/work/shop/src", "output_mode": "content"}
    return {"file_path": where, "old_string": log.text(900), "new_string": log.text(1_400)}


def blocks(log: Log, calls: int) -> list[Json]:
    """Content of one answer: sometimes thinking, sometimes text, then `calls` tool calls; text always if there is no call."""
    content: list[Json] = []
    if log.rng.random() < 0.6:
        signature = base64.b64encode(log.rng.randbytes(log.rng.randint(300, 1_300))).decode()
        thinking = log.text(log.rng.randint(200, 1_400))
        sealed = log.variety.sealed and log.rng.random() < log.variety.sealed
        content.append({"type": "thinking", "thinking": "" if sealed else thinking, "signature": signature})
    if calls == 0 or log.rng.random() < 0.4:
        content.append({"type": "text", "text": log.text(log.rng.randint(80, 1_600))})
    for _ in range(calls):
        name = log.rng.choices(("Read", "Bash", "Grep", "Edit"), (4, 3, 2, 2))[0]
        given = arguments(log, name)
        content.append({"type": "tool_use", "id": f"toolu_01{log.hexid()}", "name": name, "input": given})
    return content


def answer(log: Log, calls: int) -> list[tuple[Json, str]]:
    """Write one answer, a line per block; returns each tool call with the uuid of its line."""
    log.wait(2, 9)
    content = blocks(log, calls)
    size = sum(tokens(json.dumps(block.get("input") or block.get("text") or block["thinking"])) for block in content)
    spent = usage(log, size)
    ids = {"id": f"msg_01{log.hexid()}", "type": "message", "role": "assistant", "model": log.variety.model}
    request, made = f"req_011{log.hexid()}", []
    for block in content:
        message = ids | {"content": [block], "stop_reason": None, "stop_sequence": None, "usage": spent}
        line = {"type": "assistant", "requestId": request, "message": message}
        uuid = log.entry(line, parent=log.parent)
        if block["type"] == "tool_use":
            made.append((block, uuid))
        log.wait(0.2, 1.5)
    log.window += size
    return made


def result(log: Log, call: Json, uuid: str, chars: int) -> None:
    """Write the result of one call: once as the model saw it, once more as Claude Code keeps it for itself."""
    log.wait(0.1, 6)
    given, edits = call["input"], call["name"] == "Edit"
    found = re.search(r"part(\d+)", given.get("file_path", ""))
    text = log.text(min(chars, SNIPPET) if edits else chars, int(found[1]) if found else None)
    whole = log.text(round(EDITED * chars), int(found[1])) if edits and found else ""
    lines = text.count("\n") + 1
    copy: Json = {
        "Read": {
            "type": "text",
            "file": {"filePath": given.get("file_path"), "content": text, "numLines": lines, "startLine": 1},
        },
        "Bash": {"stdout": text, "stderr": "", "interrupted": False, "isImage": False},
        "Grep": {"mode": "content", "numFiles": 0, "filenames": [], "content": text, "numLines": lines},
        "Edit": {"filePath": given.get("file_path"), "originalFile": whole, "userModified": False, "replaceAll": False},
    }[call["name"]]
    pictures = log.variety.pictures if call["name"] == "Read" else 0
    content = [IMAGE] if pictures and log.rng.random() < pictures else text
    block = {"tool_use_id": call["id"], "type": "tool_result", "content": content}
    log.results.append(call["id"])
    more = {"type": "user", "message": {"role": "user", "content": [block]}, "toolUseResult": copy}
    log.entry(more | {"sourceToolAssistantUUID": uuid}, parent=uuid)
    log.window += tokens(text)


def compact(log: Log) -> None:
    """Write a compaction: a boundary that starts a second root, then the summary that stands for all before it."""
    log.wait(20, 60)
    before = {"logicalParentUuid": log.parent, "type": "system", "subtype": "compact_boundary"}
    before |= {"content": "Conversation compacted", "isMeta": False, "level": "info"}
    log.entry(before | {"compactMetadata": {"trigger": "auto", "preTokens": log.window}}, parent=None)
    text = PREAMBLE + log.text(log.rng.randint(5_000, 11_000))
    told = {"isVisibleInTranscriptOnly": True, "isCompactSummary": True}
    log.entry({"type": "user", "message": {"role": "user", "content": text}} | told, parent=log.parent)
    log.window = PREFIX + tokens(text)
    log.cached = min(log.cached, PREFIX)  # system prompt and tools stay as they were
    log.compactions += 1
    log.results, log.turn = [], None
    add_attachments(log, again=True)


def clear(log: Log) -> None:
    """Write a microcompaction: the older half of the results in the window is cleared."""
    cleared, log.results = log.results[: len(log.results) // 2], log.results[len(log.results) // 2 :]
    meta = {"trigger": "auto", "preTokens": log.window, "tokensSaved": 0, "compactedToolIds": cleared}
    more = {"type": "system", "subtype": "microcompact_boundary", "content": "Context microcompacted", "isMeta": False}
    log.entry(more | {"level": "info", "microcompactMetadata": meta | {"clearedAttachmentUUIDs": []}}, parent=log.parent)


def ask_agent(log: Log) -> None:
    """Write a subagent's lines: its task, two answers with usage of their own, and one reading between them."""
    main, before, cached = log.parent, log.window, log.cached
    log.window = log.cached = 0
    side = {"isSidechain": True, "agentId": log.hexid(32)}
    text = "Please find where this is used.\n" + log.text(400)
    log.entry(side | {"type": "user", "message": {"role": "user", "content": text}}, parent=None)
    log.window += tokens(text)
    for call in ("toolu_01" + log.hexid(), ""):
        spent = usage(log, 120)
        last = {"type": "tool_use", "id": call, "name": "Read", "input": arguments(log, "Read")}
        block = last if call else {"type": "text", "text": log.text(400)}
        message = {"id": f"msg_01{log.hexid()}", "type": "message", "role": "assistant", "model": log.variety.model}
        message |= {"content": [block], "stop_reason": None, "stop_sequence": None, "usage": spent}
        log.entry(side | {"type": "assistant", "requestId": f"req_011{log.hexid()}", "message": message}, parent=log.parent)
        if call:
            found = log.text(3_000)
            content = [{"type": "tool_result", "tool_use_id": call, "content": found}]
            log.entry(side | {"type": "user", "message": {"role": "user", "content": content}}, parent=log.parent)
            log.window += 120 + tokens(found)
    log.parent, log.window, log.cached = main, before, cached


def plan(rng: Random, requests: int, parallel: float = 0.12) -> Iterator[tuple[bool, int]]:
    """For each request: whether a prompt comes before it, and how many tools it calls. A turn ends with a call-free answer."""
    left = 0
    for n in range(requests):
        opens = left == 0
        if opens:
            left = min(rng.randint(2, 16), requests - n)
        left -= 1
        yield opens, (0 if left == 0 else 2 if rng.random() < parallel else 1)


def write(
    path: Path | str,
    megabytes: float = 111,
    requests: int = 6000,
    compactions: int = 130,
    seed: int = 7,
    attached: int = 20_000,
    variety: Variety = VARIETIES["opus-4-5"],
) -> Written:
    """Write the session to `path` and say what it holds.

    `attached`: characters of listings and instructions at the start and after each compaction, at most a tenth of the bytes;
    0 = no attachments at all. `megabytes` (of 10^6 bytes) is met to within about a percent. `compactions` are spread evenly;
    one more is written wherever a prompt would pass 170,000 tokens, so no request is larger than that. `variety` says which
    model answers, and what else the session holds.
    """
    rng, goal = Random(seed), megabytes * 1e6 / requests
    with Path(path).open("wb") as out:
        log = Log(out, rng, corpus(), attached=min(attached, round(megabytes * 1e5 / (compactions + 1))))
        log.session, log.variety = log.uuid(), variety
        log.write_record({"type": "summary", "summary": "A long day in the shop", "leafUuid": log.uuid()})
        happen = {name: {round(requests * (k + 0.5) / many) for k in range(many)} for name, many in _events(variety)}
        for n, (opens, calls) in enumerate(plan(rng, requests, variety.parallel)):
            if n * (compactions + 1) // requests > (n - 1) * (compactions + 1) // requests and n:
                compact(log)
            if n in happen["clearings"]:
                clear(log)
            if n in happen["agents"]:
                ask_agent(log)
            if opens:
                if log.turn and any(n - 16 < at <= n for at in happen["rewinds"]):
                    happen["rewinds"] -= {at for at in happen["rewinds"] if at <= n}
                    log.parent = log.turn  # what was said since is another branch
                prompt(log)
            made = answer(log, calls)
            room = (goal * (n + 2) - log.size) / REPEATED / max(1, len(made))  # a request ahead: the last calls no tool
            for call, uuid in made:
                chars = min(max(200.0, room * rng.uniform(0.5, 1.5)), (WINDOW - log.window) * CHARS_PER_TOKEN)
                result(log, call, uuid, round(chars) if chars > 0 else 40)
            if not made:
                log.entry(
                    {"type": "system", "subtype": "turn_duration", "durationMs": 60_000, "isMeta": False}, parent=log.parent
                )
            if log.window > WINDOW - 3_000 and n + 1 < requests:
                compact(log)
    return Written(log.size, log.lines, requests, log.turns, log.compactions, log.peak, **log.spent)


def _events(variety: Variety) -> tuple[tuple[str, int], ...]:
    return (("rewinds", variety.rewinds), ("clearings", variety.clearings), ("agents", variety.agents))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--megabytes", type=float, default=111)
    parser.add_argument("--requests", type=int, default=6000)
    parser.add_argument("--compactions", type=int, default=130)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--attached", type=int, default=20_000)
    parser.add_argument("--variety", choices=VARIETIES, default="opus-4-5")
    given = vars(parser.parse_args())
    print(write(**given | {"variety": VARIETIES[given["variety"]]}))


if __name__ == "__main__":
    main()
