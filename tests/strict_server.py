"""A provider that answers in this process as the built-in model does, and rejects what the Messages API rejects.

No socket and no thread: a thousand short chats take seconds. What was rejected, billed and sent is kept.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from turnscope.errors import ProviderError
from turnscope.live import provider_errors
from turnscope.live.betas import list_betas
from turnscope.live.events import TextDelta
from turnscope.live.offline import context_edits, edit_validation
from turnscope.live.offline import model as offline
from turnscope.live.offline.server import _ERRORS, OfflineServer
from turnscope.live.provider import AnswerStart, ProviderAnswer, StreamChunk
from turnscope.live.stream_assembler import assemble_message
from turnscope.session.destination import Destination

TOO_LONG = ("prompt is too long", "exceed context limit")
READ = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class StrictProvider(OfflineServer):
    """The built-in model as a `Provider`, without HTTP.

    Attributes:
        faults: Names of `FAULTS` that make sense here ("overloaded", "cut", ...); each request uses up one.
        rejected: What was rejected for another reason than its size.
        sent: The body of each request for an answer that was answered.
    """

    def __init__(self) -> None:
        self.memory = offline.CacheState()
        self.faults: deque[str] = deque()
        self.clock = time.time
        self.lock, self.count = threading.Lock(), 0
        self.rejected: list[str] = []
        self.sent: list[Mapping[str, Any]] = []

    def close(self) -> None:
        """Nothing is open."""

    @property
    def destination(self) -> Destination:
        return Destination("offline")

    @contextmanager
    def stream(self, body: Mapping[str, Any]) -> Iterator[Iterator[StreamChunk]]:
        fault = self.faults.popleft() if self.faults else ""
        answer = self._answer(body, fault)
        self.sent.append(body)
        yield self._chunks(answer, fault)

    def _chunks(self, answer: ProviderAnswer, fault: str) -> Iterator[StreamChunk]:
        yield AnswerStart(answer.id, answer.usage)
        for number, block in enumerate(answer.content):
            if block["type"] == "text":
                yield TextDelta(block["text"], number)
                if fault == "cut":
                    raise ProviderError("no answer: the connection broke off", hint="Send again.")
        yield answer

    def complete(self, body: Mapping[str, Any]) -> ProviderAnswer:
        return self._answer(body, self.faults.popleft() if self.faults else "")

    def count_tokens(self, body: Mapping[str, Any]) -> int | None:
        return offline.count_tokens(context_edits.apply_edits(dict(body), offline.count_tokens)[0])

    def explain_error(self, error: Exception) -> ProviderError:
        return error if isinstance(error, ProviderError) else ProviderError(f"the client failed: {error}", hint="")

    def _answer(self, body: Mapping[str, Any], fault: str) -> ProviderAnswer:
        if fault in _ERRORS:
            raise provider_errors.explain_refusal(_ERRORS[fault][0], _ERRORS[fault][2])
        if fault == "too_long":
            raise provider_errors.explain_refusal(400, "prompt is too long: 210883 tokens > 200000 maximum")
        wrong = edit_validation.find_missing_beta(body, list_betas(body))
        status, said = (400, {"error": {"message": wrong}}) if wrong else self.handle_message(dict(body))
        if status != 200:
            what = said["error"]["message"]
            if not any(words in what for words in TOO_LONG):
                self.rejected.append(what)
            raise provider_errors.explain_refusal(status, what)
        answer = assemble_message(said)
        return ProviderAnswer(answer.content, answer.stop_reason, answer.usage, answer.id, answer.applied)

    @property
    def billed(self) -> tuple[int, int]:
        """Prompt and output tokens of everything that was billed."""
        usages = [*self.memory.billed]
        usages += [each for usage in usages for each in usage.get("iterations", ()) if each["type"] != "message"]
        return sum(u[key] for u in usages for key in READ), sum(u["output_tokens"] for u in usages)
