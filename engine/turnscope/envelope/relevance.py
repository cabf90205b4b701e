"""How relevant each exchange of a conversation is to a question: bm25 over exchanges, with identifiers split as well.

An index grows with the replay: each block is read once, and no score uses anything after the request at hand. Nothing here
knows a budget or yields edits.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from heapq import nlargest
from math import log
from operator import itemgetter
from threading import Lock

from turnscope.envelope.rule import Ctx
from turnscope.session.content import dumps
from turnscope.session.index import count_before
from turnscope.session.model import Answer, Ask, Block, Bucket, Session

K1, B = 1.2, 0.75
READ = 1_200  # characters of one block that are indexed: half from its beginning, half from its end
QUERY = 24  # terms of a question that are used: the rarest
COMMON = 0.25  # a term in more than this share of many exchanges says nothing of any
MANY = 32  # exchanges
COMMON = 0.25  # a term in more than this share of exchanges is ignored, from MANY exchanges on
RERANKED = 50  # exchanges with the best words that a model compares, if one is named
COMPARED = 200  # exchanges that it compares: these, and the newest
COMPARED_CHARS = 2_400  # characters of an exchange that it reads
WORDS = 0.03  # what a point of bm25 adds to a nearness by meaning: names and numbers have little meaning of their own
RANKED = 64  # exchanges that compete for the free tokens
REMEMBERED = 4  # sessions whose index is cached

_WORD = re.compile(r"[^\W_]+(?:[_-][^\W_]+)*")
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
_STOP = frozenset(
    "a about all am an and any are as at be been but by can could did do does for from had has have how i if in into is it its "
    "just let me my no not now of on or our out please should so some than that the their them then there these they this to "
    "up us was we were what when where which who why will with would you your again also here like look make more need new "
    "one only over see use want well".split()
)
_SUFFIXES = ("ization", "ations", "ation", "ings", "ing", "ies", "ied", "ers", "er", "ed", "es", "s", "ly", "e")


def extract_terms(text: str) -> list[str]:
    """Return the terms of a text: stems of its words, and the parts of identifiers. Stop words are left out.

    Example:
        >>> extract_terms("loadConfig in config_loader.py")
        ['loadconfig', 'load', 'config', 'config_loader', 'config', 'load', 'py']
    """
    return [term for word in _WORD.findall(text) for term in _split_word(word)]


@lru_cache(maxsize=50_000)
def _split_word(word: str) -> tuple[str, ...]:
    whole = word.lower()
    parts = [part.lower() for part in _PIECE.findall(word)]
    named = [whole] if len(parts) > 1 else []
    return (*named, *(_strip_ending(part) for part in parts if part not in _STOP and (len(part) > 1 or part.isdigit())))


def _strip_ending(word: str) -> str:
    """A word without its most common English ending, so that `caching` finds `cache`."""
    for ending in _SUFFIXES:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word[: -len(ending)]
    return word


@dataclass(slots=True)
class Exchanges:
    """An index of a session's exchanges, as far as read. An exchange begins at a prompt, or at an answer behind results."""

    blocks: Sequence[Block] = ()
    read: int = 0  # blocks of `blocks` that are in it
    starts: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)  # terms up to and with each exchange that is whole
    postings: dict[str, tuple[list[int], list[int]]] = field(default_factory=dict)  # exchanges with a term, and how often
    held: Counter[str] = field(default_factory=Counter)  # terms of the newest exchange, which may go on
    last: tuple[int, tuple[tuple[int, float], ...]] = (-1, ())  # the last requested turn, and what it found

    def grow(self, session: Session, starts: Sequence[int], cut: int) -> None:
        """Read on up to `cut`.

        Args:
            session: The session.
            starts: Addresses of the conversation's messages.
            cut: Address behind the last block to read.
        """
        blocks, self.blocks = session.blocks, session.blocks
        for start in starts[count_before(starts, self.read) : count_before(starts, cut)]:
            message = session.messages[blocks[start].message]
            result = any(block.bucket == Bucket.TOOL_RESULTS for block in blocks[start : message.stop])
            before = blocks[start - 1] if start else None
            follows = before is not None and before.bucket == Bucket.TOOL_RESULTS and message.role == "assistant"
            if not self.starts or follows or (message.role == "user" and not result):
                self._close()
                self.starts.append(start)
            for block in blocks[start : min(message.stop, cut)]:
                if block.bucket != Bucket.THINKING:
                    text = block.text
                    self.held.update(extract_terms(text if len(text) <= READ else f"{text[: READ // 2]} {text[-READ // 2 :]}"))
            self.read = min(message.stop, cut)

    def _close(self) -> None:
        if not self.starts:
            return
        number = len(self.starts) - 1
        for term, times in self.held.items():
            where, often = self.postings.setdefault(term, ([], []))
            where.append(number)
            often.append(times)
        self.sizes.append((self.sizes[-1] if self.sizes else 0) + self.held.total())
        self.held = Counter()

    def score(self, question: Iterable[str], below: int) -> dict[int, float]:
        """Return the bm25 scores of the exchanges that share a term with the question; all others have 0.

        Args:
            question: Terms of the question.
            below: Score only exchanges with a smaller number.
        """
        below = min(below, len(self.sizes))
        found = [(count_before(hit[0], below), term) for term in dict.fromkeys(question) if (hit := self.postings.get(term))]
        rare = sorted((many, term) for many, term in found if many and (below <= MANY or many <= COMMON * below))[:QUERY]
        mean = max(1.0, self.sizes[below - 1] / below) if below else 1.0
        scored: dict[int, float] = {}
        for many, term in rare:
            worth = log(1 + (below - many + 0.5) / (many + 0.5))
            where, often = self.postings[term]
            for place in range(many):
                number, times = where[place], often[place]
                size = self.sizes[number] - (self.sizes[number - 1] if number else 0)
                scored[number] = scored.get(number, 0.0) + worth * times * (K1 + 1) / (times + K1 * (1 - B + B * size / mean))
        return scored


def rank_texts(question: str, texts: Sequence[str]) -> list[int]:
    """Return the numbers of the texts that share a term with a question, the most relevant first, by bm25.

    Args:
        question: The question.
        texts: The texts.
    """
    index = Exchanges()
    for number, text in enumerate(texts):
        index.starts.append(number)
        index.held.update(extract_terms(text))
        index._close()  # noqa: SLF001 - in the same module
    scores = index.score(extract_terms(question), len(texts))
    return sorted(scores, key=lambda number: (-scores[number], number))


def rank_exchanges(ctx: Ctx, index: Exchanges, turn: int) -> tuple[tuple[int, float], ...]:
    """Return the most relevant exchanges before a turn, with their scores, the best first (at most `RANKED`).

    Args:
        ctx: What the rule may read.
        index: The index of the session.
        turn: Address of the turn, whose prompt is the question.
    """
    known, found = index.last
    if known != turn:
        message = ctx.session.messages[ctx.session.blocks[turn].message]
        question = extract_terms("\n".join(block.text[: 4 * READ] for block in ctx.session.blocks[turn : message.stop]))
        scored = index.score(question, find_exchange(index.starts, turn))
        found = tuple(nlargest(RANKED, scored.items(), key=itemgetter(1, 0)))
        index.last = (turn, found)
    return found


def rerank_exchanges(
    ctx: Ctx, index: Exchanges, turn: int, found: dict[int, float], model: str, last: int
) -> Generator[Ask, Answer, str]:
    """Score exchanges by a model that compares meanings, beside bm25: also those that share no word with the question.

    Args:
        ctx: What the rule may read.
        index: The index of the session.
        turn: Address of the turn, whose prompt is the question.
        found: bm25 scores by exchange, the best first; changed in place: the compared ones come first, with their new scores.
        model: Name of the model.
        last: Only exchanges with a smaller number are compared.

    Returns:
        Why the model could not compare them; "" where it did.
    """
    best = [*found][:RERANKED]
    known = set(best)
    best += [n for n in range(last - 1, max(-1, last - 1 - COMPARED), -1) if n not in known][: COMPARED - len(best)]
    if not best:
        return ""
    blocks, ends = ctx.session.blocks, [*index.starts, ctx.request.cut]

    def join_texts(start: int, stop: int) -> str:
        return "\n".join(block.text[:READ] for block in blocks[start:stop] if block.kind == "text")[:COMPARED_CHARS]

    message = ctx.session.messages[blocks[turn].message]
    texts = [join_texts(ends[n], ends[n + 1]) for n in best]
    near, missing = yield from compare_meanings(join_texts(turn, message.stop), texts, model)
    if missing:
        return missing
    scores = {n: nearness + WORDS * found.get(n, 0.0) for n, nearness in zip(best, near, strict=True)}
    rest = {n: score for n, score in found.items() if n not in scores}
    found.clear()
    found.update({n: scores[n] for n in sorted(best, key=lambda n: -scores[n])} | rest)
    return ""


def compare_meanings(question: str, texts: Sequence[str], model: str) -> Generator[Ask, Answer, tuple[Sequence[float], str]]:
    """Ask a model how near texts are to a question.

    Args:
        question: The question.
        texts: The texts.
        model: Name of the model.

    Returns:
        The nearness of each text, from -1 to 1; and why there is none, "" where there is.
    """
    content = dumps([question, *texts])
    key = blake2b(f"{model}\0{content}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    answer = yield Ask("rank", f"rerank:{key}", model, content)
    if answer.failed or len(answer.items) != len(texts):
        return (), answer.failed or "not every text was ranked"
    return [*map(float, answer.items)], ""


_indexes: list[Exchanges] = []
_lock = Lock()  # several replays of one session read on in threads of their own


def get_exchanges(ctx: Ctx) -> Exchanges:
    """Return the index of the request's session, grown up to the request. Earlier requests of the conversation share it."""
    blocks, cut = ctx.session.blocks, ctx.request.cut
    with _lock:
        found = next((index for index in _indexes if _is_same_session(index, blocks)), None)
        if found is None:
            found = Exchanges()
            _indexes.append(found)
            del _indexes[:-REMEMBERED]
        found.grow(ctx.session, ctx.index.messages, cut)
    return found


def _is_same_session(index: Exchanges, blocks: Sequence[Block]) -> bool:
    """Whether the blocks that an index read are the first of `blocks`: by identity of the list, else by content."""
    if index.blocks is blocks:
        return True
    n = index.read
    if n > len(blocks) or not n:
        return False
    return all(a is b or a.digest == b.digest for a, b in zip(index.blocks[:n], blocks[:n], strict=True))


def find_exchange(starts: Sequence[int], at: int) -> int:
    """Return the number of the exchange that holds address `at`.

    Args:
        starts: Where exchanges begin, in order.
        at: The address of a block.
    """
    return max(0, bisect_left(starts, at + 1) - 1)
