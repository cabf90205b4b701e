"""Token counts of a session as prefix sums: any span, in all or per bucket, in O(1).

Holds one counter's opinion of one session. It fits no scale and knows no price (see `calibration` and `pricing`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate

from turnscope.counting.tokens import Counter, count_blocks, count_message, count_texts
from turnscope.session.model import BUCKETS, Block, Bucket, Counts, Message, Part, Placeholder, Session

PER_MESSAGE = 4  # tokens that frame one message (role markers); a session's fit absorbs what this misses
_UNFRAMED = ("system", "tools")
_INDEX = {bucket: i for i, bucket in enumerate(BUCKETS)}


@dataclass(frozen=True, slots=True)
class Ledger:
    """`sums[b][i]` = tokens of bucket `b` in `blocks[:i]`, message overhead included."""

    counter: Counter
    sums: tuple[list[int], ...]
    total: list[int]
    memo: dict[str, int]  # tokens by digest of a block or of a text, shared so that nothing is counted twice
    per_message: int = PER_MESSAGE
    exact: float = 0.0  # share of the tokens that were counted with the model's own tokenizer

    @property
    def label(self) -> str:
        """How these counts came about, in one phrase."""
        return self.counter.label + (f"; {self.exact:.0%} counted exactly" if self.exact else "")

    def __len__(self) -> int:
        return len(self.total) - 1

    def count_by_bucket(self, start: int, stop: int) -> Counts:
        """Tokens per bucket of `blocks[start:stop]`."""
        a, b, c, d, e = self.sums
        return (a[stop] - a[start], b[stop] - b[start], c[stop] - c[start], d[stop] - d[start], e[stop] - e[start])

    def count_tokens(self, start: int, stop: int) -> int:
        """Tokens of `blocks[start:stop]`."""
        return self.total[stop] - self.total[start]

    def extend(self, blocks: Sequence[Block], message: Message) -> None:
        """Count blocks that were appended to the session: those of one new message."""
        rounded = self.counter.rounding
        counts = count_message(blocks, self.counter) if rounded else count_blocks(blocks, self.counter, self.memo)
        if counts and message.role not in _UNFRAMED:
            counts[0] += self.per_message
        for block, count in zip(blocks, counts, strict=True):
            self.total.append(self.total[-1] + count)
            for i, column in enumerate(self.sums):
                column.append(column[-1] + count * (i == _INDEX[block.bucket]))

    def build_branch(self, session: Session, number: int) -> Ledger:
        """The counts of branch `number` of the session that was counted here: only what it does not share is counted."""
        start, at = len(self), number + 1
        while at:
            start, at = min(start, session.forks[at - 1].start), session.forks[at - 1].of
        branch = session.branches[number]
        sums = tuple(column[: start + 1] for column in self.sums)
        ledger = Ledger(self.counter, sums, self.total[: start + 1], self.memo, self.per_message)
        for message in branch.messages[bisect_left(branch.messages, start, key=lambda message: message.start) :]:
            ledger.extend(branch.blocks[message.start : message.stop], message)
        return replace(ledger, exact=self.exact * ledger.total[start] / max(1, ledger.total[-1]))  # what is new is estimated

    def count_placeholder(self, parts: Placeholder) -> Counts:
        """Tokens per bucket of a stand-in."""
        counts = [0, 0, 0, 0, 0]
        for part in parts or ():
            counts[_INDEX[find_bucket(part)]] += self._count_part(part)
        return (counts[0], counts[1], counts[2], counts[3], counts[4])

    def count_content(self, blocks: Iterable[Block]) -> int:
        """Tokens of blocks without what frames their messages."""
        return sum(self.memo[b.digest] if b.digest in self.memo else count_texts([b.text], self.counter)[0] for b in blocks)

    def count_parts(self, parts: Iterable[Part]) -> int:
        """Tokens of parts that are only tried out: counted anew each time, so that the memo holds nothing that is not sent."""
        return sum(self.count_each_part([*parts]))

    def count_each_part(self, parts: Sequence[Part]) -> list[int]:
        """The same for every part alone. All are counted together: a tokenizer's call costs more than a short text."""
        texts = iter(count_texts([part.text for part in parts if part.ref is None], self.counter))
        return [next(texts) if part.ref is None else self.count_tokens(part.ref, part.ref + 1) for part in parts]

    def count_ahead(self, parts: Iterable[Part]) -> None:
        """Count parts together that are about to stand for blocks, one by one."""
        new = {key: part for part in parts if part.ref is None and (key := _make_key(part)) not in self.memo}
        self.memo.update(zip(new, count_texts([part.text for part in new.values()], self.counter), strict=True))

    def _count_part(self, part: Part) -> int:
        if part.ref is not None:
            return self.count_tokens(part.ref, part.ref + 1)
        key = _make_key(part)
        if key not in self.memo:
            self.memo[key] = self.count_each_part([part])[0]
        return self.memo[key]


@lru_cache(maxsize=512)
def make_text_key(text: str) -> str:
    """What a memo knows a stand-in's text by: the texts themselves would outlive the plans that they were made for."""
    return "text:" + blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _make_key(part: Part) -> str:
    return part.key or make_text_key(part.text)


def find_bucket(part: Part) -> Bucket:
    """The bucket that a stand-in's part belongs to, from its place and kind."""
    if part.place == "system" or part.kind == "system":
        return Bucket.SYSTEM
    return {"tool": Bucket.TOOLS, "tool_result": Bucket.TOOL_RESULTS, "thinking": Bucket.THINKING}.get(
        part.kind, Bucket.MESSAGES
    )


def build_ledger(
    session: Session, counter: Counter, memo: dict[str, int] | None = None, per_message: int = PER_MESSAGE
) -> Ledger:
    """Count every block of `session` once. `memo` (tokens by digest) is read and extended."""
    memo = {} if memo is None else memo
    if counter.rounding:
        spans = (session.blocks[message.start : message.stop] for message in session.messages)
        counts = [count for blocks in spans for count in count_message(blocks, counter)]
    else:
        counts = count_blocks(session.blocks, counter, memo)
    for message in session.messages:
        if message.start < message.stop and message.role not in _UNFRAMED:
            counts[message.start] += per_message
    sums = _sum_by_bucket(counts, [_INDEX[block.bucket] for block in session.blocks])
    return Ledger(counter, sums, _accumulate(counts), memo, per_message)


def _accumulate(counts: Iterable[int]) -> list[int]:
    return [*accumulate(counts, initial=0)]


def _sum_by_bucket(counts: Sequence[int], buckets: Sequence[int]) -> tuple[list[int], ...]:
    pairs = list(zip(counts, buckets, strict=True))
    return tuple(_accumulate([count if bucket == i else 0 for count, bucket in pairs]) for i in range(len(BUCKETS)))
