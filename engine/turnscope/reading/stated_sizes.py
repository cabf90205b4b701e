"""Builds the bodies of requests of which a trace states only how many tokens each part of the prompt has.

Each request adds what its prompt has more of than the one before, as blocks without content that state their tokens. Where a
part shrank, its newest blocks leave again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from turnscope.session.content import UNRECORDED
from turnscope.session.model import JSON, Bucket

_GROWING = (Bucket.THINKING, Bucket.MESSAGES, Bucket.TOOL_RESULTS)  # in the order in which a turn makes them


@dataclass(slots=True)
class StatedPrompts:
    """The prompts of one conversation, in order. An answer has no size of its own: it is part of what the next prompt adds."""

    messages: list[tuple[Bucket | None, dict[str, JSON]]] = field(default_factory=list)
    turn: JSON = None
    made: int = 0

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
                self.messages.append((bucket, {"role": speaker, "content": [part]}))
        heads: dict[str, JSON] = {
            str(bucket): [_state(bucket, sizes[bucket])] for bucket in (Bucket.SYSTEM, Bucket.TOOLS) if sizes.get(bucket)
        }
        body = {**heads, "messages": [message for _, message in self.messages]}
        self.messages.append((None, {"role": "assistant", "content": self.make_answer()}))
        return body

    def make_answer(self) -> list[JSON]:
        """Make the content of the answer to the newest request."""
        return [{**_state(Bucket.MESSAGES, 0), "request": self.made}]

    def _shrink(self, bucket: Bucket, size: int) -> int:
        """Remove the newest blocks of a bucket until no more than `size` tokens are left; gives how many that are."""
        own: list[int] = [message["content"][0]["tokens"] for held, message in self.messages if held == bucket]
        kept, left = len(own), sum(own)
        while left > size:
            kept -= 1
            left -= own[kept]
        places = [at for at, (held, _) in enumerate(self.messages) if held == bucket][kept:]
        for at in reversed(places):
            del self.messages[at]
        return left


def _state(bucket: Bucket, tokens: int) -> dict[str, JSON]:
    return {"type": UNRECORDED, "bucket": str(bucket), "tokens": tokens}
