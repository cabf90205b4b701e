"""Reads the log of a tap: JSON lines that hold each message once, in the order in which they passed.

The first line is `{"turnscope_tap": 1, "started_at", "command"}`. Then, in any order:

    {"piece": digest, "text"}                                a part of a body, before the first call that has it
    {"call": n, "api", "url", "sent_at", "headers", "body"}  a request. Its body: text, digest, text, ..., text
    {"call": n, "ruling", "sent"}                            what the tap ruled on it; what left in its place, or would
    {"call": n, "status", "headers", "first_at"}             the head of its answer
    {"call": n, "parts": [[when, text], ...]}                what came of the answer, decoded
    {"call": n, "outcome", "ended_at", "why"}                how it ended: "complete", or what went wrong
    {"lost": n, "why"}                                       so many calls were not recorded

The texts of a body, joined, are the body to the letter. With "from" and "keep" it begins with so many of an earlier call's;
"trouble" says why it is not whole.
A call without an outcome is still running, or the tap was killed. The module interprets no body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from turnscope.reading.calls import as_text, parse_if_json
from turnscope.reading.source import Source
from turnscope.session.content import dumps
from turnscope.session.model import JSON, Note

MARK = "turnscope_tap"
COMPLETE = "complete"
FORMAT = 1
CACHE_KEY = "tap-log"  # of `Source.cache`: the log, once it is read
_MODEL = re.compile(r"/models/([^/:]+):")  # Google names the model in the address


@dataclass(slots=True)
class TapCall:
    """One call as it passed. Times are seconds since the Unix epoch. `outcome` is "" where no end is recorded."""

    number: int
    line: int
    api: str
    url: str
    headers: Mapping[str, str]
    body: str
    sent_at: float | None = None
    status: int = 0
    answer: list[str] = field(default_factory=list)
    ended_at: float | None = None
    outcome: str = ""
    why: str = ""
    trouble: str = ""
    ruling: Mapping[str, Any] = field(default_factory=dict)
    sent: str = ""  # the body that left in its place; of a dry run, that would have left

    @property
    def left(self) -> str:
        """The body that really left."""
        return self.body if self.ruling.get("dry_run") else self.sent or self.body

    @property
    def model(self) -> str:
        """The model that the address names; "" = none."""
        found = _MODEL.search(self.url)
        return found[1] if found else ""

    @property
    def response(self) -> JSON:
        """The body of the answer: its value where it is JSON, else its text; None where nothing came."""
        text = "".join(self.answer)
        return (parse_if_json(text) if text.lstrip()[:1] in ("{", "[") else text) if text.strip() else None


@dataclass(slots=True)
class TapLog:
    """What a log holds. `command`: the name of the tool that the tap started, "" = none.

    `lost`: requests that were not recorded, and `lost_because`: why the last of them was not.
    """

    calls: list[TapCall]
    notes: list[Note]
    command: str = ""
    lost: int = 0
    lost_because: str = ""


def is_tap_log(source: Source) -> bool:
    """Whether a file is the log of a tap."""
    return (
        source.kind == "file"
        and f'"{MARK}"'.encode() in source.head[:200]
        and MARK in _as_object(next(iter(source.first), None))
    )


def read_tap_log(source: Source) -> TapLog:
    """Read the log of a tap. It is read once per source. Damaged lines and unknown records are notes."""
    if CACHE_KEY not in source.cache:
        source.cache[CACHE_KEY] = parse_tap_log(source.iter_records())
    found: TapLog = source.cache[CACHE_KEY]
    return found


def parse_tap_log(records: Iterable[tuple[Any, int]]) -> TapLog:
    """Parse the records of a log.

    Args:
        records: Values with their line numbers, and notes about lines that cannot be read.
    """
    log = TapLog([], [])
    reader = _Reader(log)
    for record, line in records:
        if isinstance(record, Note):
            log.notes.append(record)
            continue
        try:
            reader.add(_as_object(record), line)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            log.notes.append(Note("error", line, f"the record is damaged and was skipped: {error!r}"))
    return log


def encode_calls(log: TapLog) -> bytes:
    """Encode a log as one of plain API calls, as JSON lines: each body as it was sent, whole, with what came back.

    It opens as the logs of gateways and SDKs do. A request whose body is no JSON is left out.
    """
    return b"".join(dumps(record).encode("utf-8", "replace") + b"\n" for record in map(_describe_call, log.calls) if record)


def _describe_call(call: TapCall) -> dict[str, JSON] | None:
    body = parse_if_json(call.left)
    if not isinstance(body, dict):
        return None
    about: dict[str, JSON] = {"sent_at": call.sent_at, "answered_at": call.ended_at, "method": "POST", "url": call.url}
    about |= {"status": call.status} | ({"ruling": call.ruling} if call.ruling else {})
    model = {"model": call.model} if call.model else {}
    planned = {"planned": parse_if_json(call.sent)} if call.sent and call.left != call.sent else {}
    return {**about, **model, "request": body, **planned, "response": call.response}


class _Reader:
    def __init__(self, log: TapLog) -> None:
        self.log = log
        self._pieces: dict[str, str] = {}
        self._bodies: dict[int, list[str]] = {}
        self._calls: dict[int, TapCall] = {}

    def add(self, record: Mapping[str, Any], line: int) -> None:
        """Add a record to the log. Whatever error it raises, the record is damaged."""
        if "piece" in record:
            self._pieces[str(record["piece"])] = str(record["text"])
        elif "body" in record:
            self._begin(record, line)
        elif "ruling" in record:
            self._rule(record)
        elif "lost" in record:
            self.log.lost += int(record["lost"])
            self.log.lost_because = as_text(record.get("why"))
            many = f"{int(record['lost'])} requests" if record["lost"] != 1 else "1 request"
            self.log.notes.append(Note("warning", line, f"{many} passed here without being recorded: {record.get('why')}"))
        elif MARK in record:
            self.log.command = as_text(record.get("command"))
            if record[MARK] != FORMAT:
                self.log.notes.append(Note("warning", line, f"the log has format {record[MARK]}, and {FORMAT} is known here"))
        elif (call := self._calls.get(record["call"])) is not None:  # one whose beginning was lost has been counted as lost
            _add_answer(call, record)

    def _begin(self, record: Mapping[str, Any], line: int) -> None:
        number = int(record["call"])
        body = self._join_body(number, record, "body")
        headers = {str(name): str(value) for name, value in record["headers"].items()}
        self._calls[number] = TapCall(number, line, str(record["api"]), str(record["url"]), headers, body)
        self._calls[number].sent_at = _as_time(record.get("sent_at"))
        self._calls[number].trouble = as_text(record.get("trouble"))
        self.log.calls.append(self._calls[number])

    def _rule(self, record: Mapping[str, Any]) -> None:
        number = int(record["call"])
        if (call := self._calls.get(number)) is not None:
            call.ruling = _as_object(record["ruling"])
            call.sent = self._join_body(-number, record, "sent") if "sent" in record else ""

    def _join_body(self, number: int, record: Mapping[str, Any], key: str) -> str:
        kept = self._bodies[record["from"]][: int(record["keep"])] if "from" in record else []
        parts = [*kept, *map(str, record[key])]
        self._bodies[number] = parts
        return "".join(self._pieces[part] if at % 2 else part for at, part in enumerate(parts))


def _add_answer(call: TapCall, record: Mapping[str, Any]) -> None:
    if "parts" in record:
        call.answer += [str(text) for _, text in record["parts"]]
    elif "outcome" in record:
        call.outcome, call.why = str(record["outcome"]), as_text(record.get("why"))
        call.ended_at = _as_time(record.get("ended_at"))
    else:
        call.status = int(record["status"])


def _as_time(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e11 else None


def _as_object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
