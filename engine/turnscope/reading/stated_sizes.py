"""Builds the bodies of requests of which a trace states only how many tokens each part of the prompt has.

Each request adds what its prompt has more of than the one before, as blocks without content that state their tokens. Where a
part shrank, its newest blocks leave again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from turnscope.session.content import UNRECORDED
from turnscope.session.model import JSON, Bucket

_GROWING = (Bucket.THINKING, Bucket.MESSAGES, Bucket.TOOL_RESULTS)  # in the order in which a turn makes them


@dataclass(slots=True)
class StatedPrompts:
    """The prompts of one conversation, in order. An answer has no size of its own: it is part of what the next prompt adds.

    A message that stays from one prompt to the next is the same object in both bodies.
    """

    messages: list[dict[str, JSON]] = field(default_factory=list)
    turn: JSON = None
    made: int = 0
    _numbers: list[int] = field(default_factory=list)  # of the messages that are left, rising
    _next: int = 0
    _standing: dict[Bucket, list[tuple[int, int]]] = field(default_factory=dict)  # number and tokens, by bucket
    _sums: dict[Bucket, int] = field(default_factory=dict)

    def build_body(self, sizes: Mapping[Bucket, int], turn: JSON) -> dict[str, JSON]:
        """Build the body of the next request.

        Args:
            sizes: Tokens of its prompt by bucket.
            turn: What tells its turn from the one before.
        """
        role = "user" if not self.made or turn != self.turn else "assistant"
        self.turn, self.made = turn, self.made + 1
        for bucket in _GROWING:
            more = sizes.get(bucket, 0) - self._shrink(bucket, sizes.get(bucket, 0))
            speaker = {Bucket.MESSAGES: role, Bucket.TOOL_RESULTS: "user"}.get(bucket, "assistant")
            if more or (bucket is Bucket.MESSAGES and role == "user"):  # a turn begins with a message, of whatever size
                part = {**_state(bucket, more), "request": self.made}
                self._standing.setdefault(bucket, []).append((self._next, more))
                self._sums[bucket] = sizes.get(bucket, 0)
                self._append({"role": speaker, "content": [part]})
        heads: dict[str, JSON] = {
            str(bucket): [_state(bucket, sizes[bucket])] for bucket in (Bucket.SYSTEM, Bucket.TOOLS) if sizes.get(bucket)
        }
        body = {**heads, "messages": [*self.messages]}
        self._append({"role": "assistant", "content": self.make_answer()})
        return body

    def make_answer(self) -> list[JSON]:
        """Make the content of the answer to the newest request."""
        return [{**_state(Bucket.MESSAGES, 0), "request": self.made}]

    def _shrink(self, bucket: Bucket, size: int) -> int:
        """Remove the newest blocks of a bucket until no more than `size` tokens are left; gives how many that are."""
        own, left = self._standing.get(bucket, []), self._sums.get(bucket, 0)
        while left > size:
            number, tokens = own.pop()
            at = bisect_left(self._numbers, number)
            del self.messages[at], self._numbers[at]
            left -= tokens
        self._sums[bucket] = left
        return left

    def _append(self, message: dict[str, JSON]) -> None:
        self.messages.append(message)
        self._numbers.append(self._next)
        self._next += 1


def _state(bucket: Bucket, tokens: int) -> dict[str, JSON]:
    return {"type": UNRECORDED, "bucket": str(bucket), "tokens": tokens}
