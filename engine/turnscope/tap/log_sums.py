"""What the requests in the log of a tap cost, by day, while it grows: each line is read once, and no body is put together."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson

from turnscope.pricing.prices import Prices
from turnscope.tap.answer_usage import count_prompt, measure_answer
from turnscope.tap.apis import find_model
from turnscope.tap.client_bodies import CONVERSATIONS

RECENT = 8  # requests of a session; the dearest of them says what its next one may cost
READ_BYTES = 1 << 20
_MODEL = re.compile(r'"model"\s*:\s*"([^"]+)"')


@dataclass(slots=True)
class _Call:
    """A call that has not ended. `prompt`: tokens of its body."""

    api: str
    model: str
    day: str
    sent_at: float
    prompt: int
    status: int = 0
    answer: list[str] = field(default_factory=list)


class LogSums:
    """The sums of one log. `recent`: USD of its last requests.

    Args:
        path: The log.
        prices: Prices of models.
        name_day: Names the day of a moment.
    """

    def __init__(self, path: Path, prices: Prices, name_day: Callable[[float], str]) -> None:
        self.path, self.prices, self._name_day = path, prices, name_day
        self.recent: deque[Decimal] = deque(maxlen=RECENT)
        self._place = 0
        self._pieces: dict[str, int] = {}  # tokens by digest
        self._bodies: dict[int, list[int]] = {}  # tokens of each part
        self._models: dict[int, str] = {}  # that bodies name
        self._calls: dict[int, _Call] = {}
        self._ended: dict[str, Decimal] = {}

    def compute_day(self, day: str) -> Decimal:
        """Compute what the requests of a day cost in USD, those that run by what came of their answers so far.

        Args:
            day: The day.
        """
        self._read()
        return self._ended.get(day, Decimal(0)) + sum(
            (self._measure(call) for call in self._calls.values() if call.day == day), Decimal(0)
        )

    def _read(self) -> None:
        """Read the whole lines that came since."""
        with self.path.open("rb") as file:
            file.seek(self._place)
            while data := file.read(READ_BYTES):
                if b"\n" not in data:
                    data += file.readline()
                whole = data[: data.rfind(b"\n") + 1]
                self._place += len(whole)
                file.seek(self._place)
                for line in whole.splitlines():
                    self._add(line)
                if not whole:
                    break

    def _add(self, line: bytes) -> None:
        """Add a line. A damaged one counts nothing."""
        try:
            record = orjson.loads(line)
            if "piece" in record:
                self._pieces[record["piece"]] = count_prompt(record["text"])
            elif "body" in record:
                self._begin(record)
            elif "ruling" in record:
                self._change_body(record)
            elif (call := self._calls.get(record.get("call"))) is not None:
                self._answer(call, record)
        except (AttributeError, KeyError, TypeError, ValueError, IndexError):
            return

    def _begin(self, record: Mapping[str, Any]) -> None:
        number, at = int(record["call"]), float(record["sent_at"])
        prompt = self._count_body(number, record, "body")
        named = _MODEL.search("".join(record["body"][::2]))
        self._models[number] = named[1] if named else self._models.get(record.get("from", 0), "")
        if record["api"] in CONVERSATIONS:
            model = find_model(record["url"]) or self._models[number]
            self._calls[number] = _Call(record["api"], model, self._name_day(at), at, prompt)

    def _change_body(self, record: Mapping[str, Any]) -> None:
        if "sent" in record:
            prompt = self._count_body(-record["call"], record, "sent")
            if record["call"] in self._calls and not record["ruling"].get("dry_run"):
                self._calls[record["call"]].prompt = prompt

    def _count_body(self, number: int, record: Mapping[str, Any], key: str) -> int:
        kept = self._bodies[record["from"]][: int(record["keep"])] if "from" in record else []
        parts: Sequence[str] = record[key]
        lead = len(kept)
        new = [self._pieces[part] if (lead + at) % 2 else len(part) // 3 for at, part in enumerate(parts)]
        self._bodies[number] = [*kept, *new]
        return sum(self._bodies[number])

    def _answer(self, call: _Call, record: Mapping[str, Any]) -> None:
        if "parts" in record:
            call.answer += [text for _, text in record["parts"]]
        elif "outcome" in record:
            cost = self._measure(call)
            self._ended[call.day] = self._ended.get(call.day, Decimal(0)) + cost
            self.recent.append(cost)
            del self._calls[record["call"]]
        elif "status" in record:
            call.status = int(record["status"])

    def _measure(self, call: _Call) -> Decimal:
        if call.status != 200:
            return Decimal(0)
        model, usage = measure_answer(call.api, lambda: call.prompt, "".join(call.answer), call.model)
        cost = self.prices.compute_cost(usage, model, call.sent_at)
        return cost.total if cost else Decimal(0)
