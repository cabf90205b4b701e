"""Aider's chat history, `.aider.chat.history.md`: prompts behind `####`, what the tool says behind `>`, answers between them.

A session begins with `# aider chat started at`. Token lines stand behind an answer and are rounded (2.4k): the usage of
its request. Neither the prompt that was built nor the repository map is stored. Longer than a mapping because it is text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import parse_time
from turnscope.reading.content_blocks import make_text, make_usage
from turnscope.reading.nodes import Node, NodeMessage, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.thread import Thread

NAME = "aider"
START = re.compile(r"^# aider chat started at (.+?)\s*$", re.MULTILINE)
MODEL = re.compile(r"^> (?:Main model|Model): (\S+)")
TOKENS = re.compile(
    r"^> Tokens: ([\d.,]+[kM]?) sent(?:, ([\d.,]+[kM]?) cache write)?(?:, ([\d.,]+[kM]?) cache hit)?, ([\d.,]+[kM]?) received"
)
COST = re.compile(r"Cost: \$([\d.]+) message")
FACTORS = {"k": 1_000, "M": 1_000_000}


def sniff(source: Source) -> int:
    head = source.head if source.kind == "file" else b""
    return 90 if b"# aider chat started at" in head and START.search(head.decode("utf-8", "replace")) else 0


def _split(source: Source) -> list[tuple[str, str]]:
    """When each session began, and its text."""
    if "sessions" not in source.cache:
        text = source.data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
        found = list(START.finditer(text))
        stops = [*(one.start() for one in found[1:]), len(text)]
        source.cache["sessions"] = [(one[1], text[one.end() : stop]) for one, stop in zip(found, stops, strict=True)]
    sessions: list[tuple[str, str]] = source.cache["sessions"]
    return sessions


def list_entries(source: Source) -> Iterator[Entry]:
    """The sessions with messages, the newest first; the only one if none was."""
    listed = [(n, at, text) for n, (at, text) in enumerate(_split(source)) if "\n#### " in text] or [(0, *_split(source)[0])]
    for number, at, text in reversed(listed):
        yield Entry(str(number), f"Chat of {at}", parse_time(at), len(text), len(TOKENS.findall(text)))


def read(source: Source, entry: Entry) -> Thread:
    _, text = _split(source)[int(entry.id)]
    chat = _Chat(Builder(f"{source.path.stem}/{entry.id}", NAME))
    for line in text.splitlines():
        chat.add_line(line.rstrip("\n"))
    chat.close()
    if chat.terminal_lines:
        size = sum(map(len, chat.terminal_lines))
        chat.builder.add_note(
            "info", 0, f"{len(chat.terminal_lines)} lines of the tool itself ({size:,} characters) are not part of the chat"
        )
    chat.builder.add_note("info", 0, "token counts of the log are rounded; the prompt that was built is not in it")
    return build_thread(chat.builder, chat.nodes)


class _Chat:
    """The nodes of a session while its lines are read."""

    def __init__(self, builder: Builder) -> None:
        self.builder, self.nodes, self.terminal_lines = builder, list[Node](), list[str]()
        self.model, self.role, self.lines = "", "", list[str]()

    def add_line(self, line: str) -> None:
        if line.startswith("#### ") or line.rstrip() == "####":
            self._open("user")
            self.lines.append(line[5:].removesuffix("  "))
        elif line.startswith(">") and (self.role != "assistant" or _is_apart(self.lines, line)):
            self._read_notice(line)
        elif self.role == "user" and not line.strip():
            return
        elif self.role or line.strip():
            self._open("assistant")
            self.lines.append(line)

    def _read_notice(self, line: str) -> None:
        if found := MODEL.match(line):
            self.model = found[1]
        self.close()
        if found := TOKENS.match(line):
            self._add_usage(found, line)
        self.terminal_lines.append(line)

    def _add_usage(self, found: re.Match[str], line: str) -> None:
        """Usage of the answer before it, or of a request without one."""
        sent, written, read, received = (_parse_count(text) for text in found.groups())
        whole = max(sent, written + read)  # what was cached is part of what was sent
        cost = COST.search(line)
        about: dict[str, Any] = {"usage": make_usage(whole, received, read, written)}
        about["logged_usd"] = float(cost[1]) if cost and cost[1].count(".") < 2 and cost[1] != "." else None
        last = self.nodes[-1].messages[0] if self.nodes else None
        if last is not None and last.role == "assistant" and "usage" not in _get_request(last):
            last.request = {**_get_request(last), **about}
        else:
            self.nodes.append(Node(str(len(self.nodes)), None, [NodeMessage("", request={"model": self.model, **about})]))

    def _open(self, role: str) -> None:
        if role != self.role:
            self.close()
            self.role = role

    def close(self) -> None:
        """End the message that is being read."""
        text = "\n".join(self.lines).strip("\n")
        if text.strip():
            request = {"model": self.model} if self.role == "assistant" else None
            self.nodes.append(Node(str(len(self.nodes)), None, [NodeMessage(self.role, make_text(text), request=request)]))
        self.role, self.lines = "", []


def _get_request(message: NodeMessage) -> Mapping[str, Any]:
    return message.request or {}


def _is_apart(lines: list[str], line: str) -> bool:
    """Whether an answer ends before a line: no fence is open, and the tool's lines end in a line break of Markdown.

    A quotation in an answer looks like a notice otherwise.
    """
    fences = sum(one.lstrip().startswith("```") for one in lines)
    return fences % 2 == 0 and (line.endswith("  ") or TOKENS.match(line) is not None)


def _parse_count(text: str | None) -> int:
    """Read a rounded count.

    >>> _parse_count("2.4k"), _parse_count("1,104"), _parse_count(None)
    (2400, 1104, 0)
    """
    plain = (text or "0").replace(",", "").rstrip("kM")
    factor = FACTORS.get((text or "0")[-1], 1)
    return round(float(plain) * factor) if plain.count(".") < 2 and plain.strip(".") and len(plain) < 16 else 0


IMPORTER = Importer(
    NAME,
    "Aider chat history (Markdown)",
    sniff,
    read,
    list_entries,
    suffixes=(".md",),
    names=("*.aider.chat.history.md",),
    wants="line `# aider chat started at`",
    right="each start a session; usage and cost of each answer, as rounded as they are printed",
)
