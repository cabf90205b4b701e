"""Token counts of a session as prefix sums: any span, in all or per bucket, in O(1).

A ledger holds the counts of one counter for one session. It fits no scale (see `calibration`) and knows no price.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from itertools import accumulate

from turnscope.counting.media import count_sealed_thinking, get_stated_tokens, is_sealed, is_summarized
from turnscope.counting.tokens import Counter, count_blocks, count_message, count_texts
from turnscope.session.content import UNRECORDED
from turnscope.session.model import BUCKETS, Block, Bucket, Counts, Message, Part, Placeholder, Session
from turnscope.session.timeline import make_block

PER_MESSAGE = 4  # tokens that frame one message (role markers); the fit of a session corrects the rest
_UNFRAMED = ("system", "tools")
_SEALED = ("thinking", "redacted_thinking")
_BUCKETS = {"tool": Bucket.TOOLS, "tool_result": Bucket.TOOL_RESULTS, "thinking": Bucket.THINKING}  # else of messages
_INDEX = {bucket: i for i, bucket in enumerate(BUCKETS)}


@dataclass(frozen=True, slots=True)
class Ledger:
    """Counts of a session: `sums[b][i]` = tokens of bucket `b` in `blocks[:i]`, with what frames the messages."""

    counter: Counter
    sums: tuple[list[int], ...]
    total: list[int]
    memo: dict[str, int]  # tokens by digest of a block or a text; shared, so that nothing is counted twice
    per_message: int = PER_MESSAGE
    exact: float = 0.0  # share of the tokens that were counted with the model's own tokenizer, 0 to 1

    @property
    def label(self) -> str:
        """How these counts were made, in one phrase."""
        return self.counter.label + (f"; {self.exact:.0%} counted exactly" if self.exact else "")

    def __len__(self) -> int:
        return len(self.total) - 1

    def count_by_bucket(self, start: int, stop: int) -> Counts:
        """Count the tokens per bucket of `blocks[start:stop]`.

        Args:
            start: The first block.
            stop: The block after the last one.
        """
        a, b, c, d, e = self.sums
        return (a[stop] - a[start], b[stop] - b[start], c[stop] - c[start], d[stop] - d[start], e[stop] - e[start])

    def count_tokens(self, start: int, stop: int) -> int:
        """Count the tokens of `blocks[start:stop]`.

        Args:
            start: The first block.
            stop: The block after the last one.
        """
        return self.total[stop] - self.total[start]

    def extend(self, blocks: Sequence[Block], message: Message) -> None:
        """Count the blocks of one new message that was appended to the session.

        Args:
            blocks: Its blocks.
            message: The message.
        """
        rounded = self.counter.rounding
        counts = count_message(blocks, self.counter) if rounded else count_blocks(blocks, self.counter, self.memo)
        if counts and _is_framed(message, blocks[0]):
            counts[0] += self.per_message
        for block, count in zip(blocks, counts, strict=True):
            self.total.append(self.total[-1] + count)
            for i, column in enumerate(self.sums):
                column.append(column[-1] + count * (i == _INDEX[block.bucket]))

    def build_branch(self, session: Session, number: int) -> Ledger:
        """Build the ledger of a branch. Only what the branch does not share is counted.

        Args:
            session: The session of this ledger.
            number: Number of its branch, from 0.
        """
        start, at = len(self), number + 1
        while at:
            start, at = min(start, session.forks[at - 1].start), session.forks[at - 1].of
        branch = session.branches[number]
        sums = tuple(column[: start + 1] for column in self.sums)
        ledger = Ledger(self.counter, sums, self.total[: start + 1], self.memo, self.per_message)
        for message in branch.messages[bisect_left(branch.messages, start, key=lambda message: message.start) :]:
            ledger.extend(branch.blocks[message.start : message.stop], message)
        return replace(ledger, exact=self.exact * ledger.total[start] / max(1, ledger.total[-1]))  # the rest is estimated

    def count_placeholder(self, parts: Placeholder) -> Counts:
        """Count the tokens per bucket of a placeholder."""
        counts = [0, 0, 0, 0, 0]
        for part in parts or ():
            counts[_INDEX[find_bucket(part)]] += self._count_part(part)
        return (counts[0], counts[1], counts[2], counts[3], counts[4])

    def count_content(self, blocks: Iterable[Block]) -> int:
        """Count the tokens of blocks without what frames their messages."""
        return sum(self.memo[b.digest] if b.digest in self.memo else count_texts([b.text], self.counter)[0] for b in blocks)

    def count_parts(self, parts: Iterable[Part]) -> int:
        """Count parts that are only tried out. Nothing is added to the memo, so that it holds only what is sent."""
        return sum(self.count_each_part([*parts]))

    def count_each_part(self, parts: Sequence[Part]) -> list[int]:
        """Count each part by itself, all in one call: a tokenizer's call costs more than a short text."""
        texts = iter(count_texts([part.text for part in parts if part.ref is None], self.counter))
        return [next(texts) if part.ref is None else self.count_tokens(part.ref, part.ref + 1) for part in parts]

    def count_ahead(self, parts: Iterable[Part]) -> None:
        """Count in one call the parts that will stand for blocks, one by one."""
        new = {key: part for part in parts if part.ref is None and (key := _make_key(part)) not in self.memo}
        self.memo.update(zip(new, count_texts([part.text for part in new.values()], self.counter), strict=True))

    def _count_part(self, part: Part) -> int:
        if part.ref is not None:
            return self.count_tokens(part.ref, part.ref + 1)
        if part.kind == UNRECORDED:
            return get_stated_tokens(part.raw)
        key = _make_key(part)
        if key not in self.memo:
            self.memo[key] = self.count_each_part([part])[0]
        return self.memo[key]


@lru_cache(maxsize=512)
def make_text_key(text: str) -> str:
    """Make the memo's key of a placeholder's text. The text itself would outlive its plan."""
    return "text:" + blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _make_key(part: Part) -> str:
    return part.key or make_text_key(part.text)


def find_bucket(part: Part) -> Bucket:
    """Find the bucket of a placeholder's part, from its place and kind."""
    if part.kind == UNRECORDED:
        return make_block(0, 0, 0, part.role, "", part.raw).bucket
    if part.place == "system" or part.kind == "system":
        return Bucket.SYSTEM
    return _BUCKETS.get(part.kind, Bucket.MESSAGES)


def build_ledger(
    session: Session,
    counter: Counter,
    memo: dict[str, int] | None = None,
    per_message: int = PER_MESSAGE,
    *,
    counted: bool = False,
) -> Ledger:
    """Count every block of a session once.

    Args:
        session: The session.
        counter: The counter.
        memo: Tokens by digest. It is read and extended; None = start empty.
        per_message: Tokens that frame one message.
        counted: Whether `memo` is the whole count of this session by this counter. Then no text is read.

    >>> from turnscope.counting.tokens import CHARS
    >>> session = turnscope.load("sample_sessions/cache-goes-cold.jsonl")
    >>> ledger = build_ledger(session, CHARS)
    >>> len(ledger) == len(session.blocks), ledger.count_tokens(0, 3)
    (True, 104)
    """
    memo = {} if memo is None else memo
    if counter.rounding:
        spans = (session.blocks[message.start : message.stop] for message in session.messages)
        counts = [count for blocks in spans for count in count_message(blocks, counter)]
    else:
        if not counted:
            memo.update(fit_sealed_thinking(session, counter, memo))
        counts = count_blocks(session.blocks, counter, memo)
    for message in session.messages:
        if message.start < message.stop and _is_framed(message, session.blocks[message.start]):
            counts[message.start] += per_message
    sums = _sum_by_bucket(counts, [_INDEX[block.bucket] for block in session.blocks])
    return Ledger(counter, sums, _accumulate(counts), memo, per_message)


def _is_framed(message: Message, first: Block) -> bool:
    """Whether a message has tokens of its own around its blocks. What a log states of content without it includes them."""
    return message.role not in _UNFRAMED and first.kind != UNRECORDED


def fit_sealed_thinking(session: Session, counter: Counter, memo: dict[str, int]) -> dict[str, int]:
    """Tokens of thinking blocks without their text, by digest: what an answer was billed for beyond the text that it holds.

    Several such blocks of one answer share that as their signatures are long. Blocks without a difference, as where a log was
    redacted, each get the mean. Answers whose recorded output cannot be true, or leaves nothing over, are left to their
    signatures (see `media`).

    Args:
        session: The session.
        counter: Counts what else the answers hold.
        memo: Known counts, by digest; new ones are added.
    """
    found: dict[str, list[float]] = {}
    for request in session.requests:
        output = request.usage.output_tokens if request.usage and not request.output_stub else 0
        answer = session.blocks[request.cut : request.stop] if output else ()
        sealed = [block for block in answer if block.kind in _SEALED and (is_sealed(block.raw) or is_summarized(block.raw))]
        if sealed:
            rest = output - sum(count_blocks([block for block in answer if block not in sealed], counter, memo))
            weights = [count_sealed_thinking(block.raw) for block in sealed]
            if rest > 0:
                for block, weight in zip(sealed, weights, strict=True):
                    found.setdefault(block.digest, []).append(rest * weight / sum(weights))
    return {digest: round(sum(sizes) / len(sizes)) for digest, sizes in found.items()}


def _accumulate(counts: Iterable[int]) -> list[int]:
    return [*accumulate(counts, initial=0)]


def _sum_by_bucket(counts: Sequence[int], buckets: Sequence[int]) -> tuple[list[int], ...]:
    pairs = list(zip(counts, buckets, strict=True))
    return tuple(_accumulate([count if bucket == i else 0 for count, bucket in pairs]) for i in range(len(BUCKETS)))
