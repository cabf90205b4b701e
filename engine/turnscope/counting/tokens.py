"""Counts tokens: counters, their stated errors, and the counts of texts and blocks.

The module holds counters and the instant estimates that every page starts with. It does not calibrate against recorded usage
and counts no per-message overhead.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import accumulate, islice
from math import ceil, floor
from pathlib import Path
from threading import Lock
from typing import Literal

import toktok

from turnscope.counting.counting_process import CountingProcess
from turnscope.counting.eager_counts import EagerCounter, make_key
from turnscope.counting.exact import CTOK_VERSIONS, count_exactly
from turnscope.counting.media import count_media
from turnscope.errors import TurnscopeError
from turnscope.session.content import replace_surrogates
from turnscope.session.model import Block

# Tokens of a Claude family per o200k token: the factors that fit best the recorded count_tokens responses of 1,741 Rosetta Code
# documents (the recordings in ctok 1.3.0's source distribution). Mean error of a document 5.5, 9.1 and 8.6 %; 95 % of the
# documents are within 15, 25 and 23 %. Over whole
# recorded Claude Code sessions ctok counts 1.12-1.18 and 1.47-1.61 times o200k, which is within the stated errors.
_CLAUDE = {"claude-3": (1.20, "±10 %"), "claude-4.7": (1.47, "±15 %"), "claude-4.8": (1.45, "±15 %")}

# ctok 1.3.0 against recorded responses: Claude 3-4.6 and Opus 4.7 all equal; Opus 5 is 1-4 tokens off in 18 of 1,991 documents,
# and nothing was published for the 5.5 models.
_CTOK_ERROR = {"claude-4.8": "99 % of documents exact on Opus 5, not verified on 5.5 models"}

# OpenAI encodings that toktok 0.3 reads: equal to tiktoken on 4,639 documents (20 MB) and on the edge cases of the tests.
_OPENAI = ("o200k_base", "cl100k_base")

# Where the tokenizer is unknown: raw o200k is 18 % low for Claude 3-4.6 and 33 % low for Claude 4.7 and later.
_UNKNOWN_ERROR = "±35 %, tokenizer unknown"

BATCH_TEXTS = 512  # texts counted in one batch
MULTICORE_CHARACTERS = 200_000  # from here on, more than one core pays for its start

_LOADED: set[str] = set()  # vocabularies that toktok has loaded in this process
_PROCESSES: dict[str, CountingProcess] = {}  # by encoding: the process that counts until the vocabulary is loaded here
_EAGER: dict[str, EagerCounter] = {}  # by encoding: the counter that got the texts of the session that was read last
_LOAD_LOCK = Lock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_PROCESSES.clear)  # a copy of this process has no counting process of its own

# Characters / 4 is 41-52 % low on Claude. Several tools use it to decide when to cut.
_CHARS_ERROR = "±50 %"

# Words / 0.75, split at white space; code and JSON have long words. 25 recorded sessions (growth of their
# prompts, tests/bench/counter_table.py): words 41-72 % low, characters / 4 17-57 % low on Claude and 3-22 % on o200k.
_WORDS_ERROR = "±70 %"

# Names of tiktoken's vocabularies in TIKTOKEN_CACHE_DIR: the sha1 of the address that it would load.
_VOCABULARIES = {
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
}


@dataclass(frozen=True, slots=True)
class Counter:
    """A way to count: tokens = `factor` x the count of `name` with `encoding`. `error` is "" where counts are exact.

    `rounding`: "" rounds every text to the nearest token. "up" and "down" round a message as a whole, like tools that count a
    message with one division; its texts are not rounded before (see `Ledger`).
    """

    name: str  # toktok | tiktoken | ctok | chars | words
    encoding: str
    factor: float
    error: str
    family: str = ""  # the tokenizer family that it estimates; decides how media are counted
    rounding: Literal["", "up", "down"] = ""

    @property
    def label(self) -> str:
        """The phrase shown with every number of this counter."""
        if self.name == "ctok":
            return f"offline count: ctok, {self.encoding}" + (f", {self.error}" if self.error else "")
        what = {"chars": "characters", "words": "words"}.get(self.name) or self.encoding.removesuffix("_base")
        if self.rounding:
            how = "characters / 4" if self.name == "chars" else "words / 0.75"
            return f"estimate: {how}, rounded {self.rounding} per message, {self.error}"
        if self.error:
            return f"estimate: {what} x {self.factor:.2f}, {self.error}"
        return f"exact: {what} ({self.name}, offline)"


CHARS = Counter("chars", "", 0.25, _CHARS_ERROR)
"""Four characters per token, each text rounded to the nearest. Tests and sizes on disk use it."""

NAMED_COUNTERS = {
    "chars": CHARS,
    "chars-up": Counter("chars", "", 0.25, _CHARS_ERROR, rounding="up"),
    "chars-down": Counter("chars", "", 0.25, _CHARS_ERROR, rounding="down"),
    "words": Counter("words", "", 4 / 3, _WORDS_ERROR, rounding="up"),
}
"""The counters that a policy may name besides a tokenizer family: estimates that published tools use."""

COUNTERS = (*NAMED_COUNTERS, *_CLAUDE, *_OPENAI)


def get_counter(name: str) -> Counter:
    """Get the counter that a policy names. TurnscopeError where `COUNTERS` has none of that name.

    >>> get_counter("o200k_base").label
    'exact: o200k (toktok, offline)'
    """
    if name not in COUNTERS:
        raise TurnscopeError(f"there is no counter {name!r}", hint=f"Known counters: {', '.join(COUNTERS)}.")
    return NAMED_COUNTERS.get(name) or make_estimator(name)


def make_estimator(family: str) -> Counter:
    """Make the instant counter of a tokenizer family.

    Args:
        family: "claude-3", "claude-4.7", "claude-4.8", "o200k_base", "cl100k_base", or "" for an unknown one.
    """
    if family in _CLAUDE:
        factor, error = _CLAUDE[family]
        return Counter("toktok", "o200k_base", factor, error, family)
    if family in _OPENAI:
        return Counter("toktok", family, 1.0, "", family)
    return Counter("toktok", "o200k_base", 1.0, _UNKNOWN_ERROR, family)


def make_exact_counter(family: str) -> Counter | None:
    """Make the exact offline counter of a family: ctok for Claude (slow: see `exact`), toktok for OpenAI; None for others."""
    if family in CTOK_VERSIONS:
        return Counter("ctok", family, 1.0, _CTOK_ERROR.get(family, ""), family)
    return make_estimator(family) if family in _OPENAI else None


def count_texts(texts: Sequence[str], counter: Counter) -> list[int]:
    """Count the tokens of each text, rounded once per text; 0 for an empty text. Media are not counted.

    Args:
        texts: The texts.
        counter: The counter.

    >>> count_texts(["Hello, world", ""], CHARS)
    [3, 0]
    """
    if counter.name == "toktok":
        counts = _count_with_toktok(texts, counter.encoding)
    elif counter.name == "tiktoken":
        counts = count_with_tiktoken(texts, counter.encoding)
    elif counter.name == "ctok":
        counts = [count_exactly(text, counter.encoding) for text in texts]
    elif counter.name in ("chars", "words"):
        counts = [_count_units(text, counter) for text in texts]
    else:
        raise ValueError(f"no counter is called {counter.name!r}")
    if counter.rounding:
        return [_round(n, counter) for n in counts]
    return counts if counter.factor == 1.0 else [_scale(n, counter) for n in counts]


def count_message(blocks: Sequence[Block], counter: Counter) -> list[int]:
    """Count the tokens of each block of one message. Their sum is the count of the message as a whole.

    Args:
        blocks: The message's blocks.
        counter: A counter with a `rounding`.
    """
    sums = list(accumulate(_count_units(block.text, counter) for block in blocks))
    media = [count_media(block.raw, counter.family) for block in blocks]
    rounded = [_round(units, counter) for units in sums]
    return [now - before + own for before, now, own in zip([0, *rounded], rounded, media, strict=False)]


def _count_units(text: str, counter: Counter) -> int:
    return len(text) if counter.name == "chars" else len(text.split())


def _scale(tokens: int, counter: Counter) -> int:
    return int(tokens * counter.factor + 0.5)


def _round(units: int, counter: Counter) -> int:
    return (ceil if counter.rounding == "up" else floor)(round(units * counter.factor, 6))


def count_blocks(blocks: Sequence[Block], counter: Counter, memo: dict[str, int] | None = None) -> list[int]:
    """Count the tokens of each block, text and media, without message overhead.

    Args:
        blocks: The blocks.
        counter: The counter.
        memo: Tokens by digest, of this counter alone. Digests in it are not counted again, new ones are added.
    """
    memo = {} if memo is None else memo
    new = {block.digest: block for block in blocks if block.digest not in memo}
    memo.update(_count_by_digest(list(new.values()), counter))
    return [memo[block.digest] for block in blocks]


def _count_by_digest(blocks: Sequence[Block], counter: Counter) -> Iterator[tuple[str, int]]:
    """Count each block, by its digest. A thread counts one batch while the next one is put together."""
    if counter.name == "toktok" and (ahead := _EAGER.pop(counter.encoding, None)):
        known, unheard = ahead.wait_for_counts(), list[Block]()
        for block in blocks:
            tokens = known.get(make_key(block.text))
            if tokens is None:
                unheard.append(block)
            else:
                yield block.digest, _scale(tokens, counter) + count_media(block.raw, counter.family)
        blocks = unheard
    if len(blocks) <= BATCH_TEXTS:
        texts = count_texts([block.text for block in blocks], counter)
        yield from _add_media(blocks, texts, counter)
        return
    rest = iter(blocks)
    with ThreadPoolExecutor(1) as thread:
        before: tuple[list[Block], Future[list[int]]] | None = None
        while some := list(islice(rest, BATCH_TEXTS)):  # a tokenizer copies all texts of one call
            counting = thread.submit(count_texts, [block.text for block in some], counter)
            if before:
                yield from _add_media(before[0], before[1].result(), counter)
            before = some, counting
        if before:
            yield from _add_media(before[0], before[1].result(), counter)


def _add_media(blocks: Sequence[Block], texts: Sequence[int], counter: Counter) -> Iterator[tuple[str, int]]:
    for block, tokens in zip(blocks, texts, strict=True):
        yield block.digest, tokens + count_media(block.raw, counter.family)


def count_with_tiktoken(texts: Sequence[str], encoding: str) -> list[int]:
    """Count the tokens of each text with OpenAI's own tokenizer: the reference, 3-5 times slower than toktok.

    tiktoken reads its vocabulary from the folder TIKTOKEN_CACHE_DIR. Nothing is ever downloaded.

    Args:
        texts: The texts.
        encoding: "o200k_base" or "cl100k_base".

    Raises:
        TurnscopeError: The vocabulary is not there, or tiktoken is not installed.
    """
    folder, file = os.environ.get("TIKTOKEN_CACHE_DIR"), _VOCABULARIES.get(encoding)
    if not folder or not file or not Path(folder, file).is_file():
        raise TurnscopeError(
            f"tiktoken's vocabulary of {encoding} is not on this computer",
            hint=f"Set TIKTOKEN_CACHE_DIR to a folder that holds {file or 'it'}, or count with toktok.",
        )
    try:
        import tiktoken
    except ImportError as error:
        raise TurnscopeError("tiktoken is not installed", hint="pip install tiktoken, or count with toktok.") from error
    encoder = tiktoken.get_encoding(encoding)
    return [len(tokens) for tokens in encoder.encode_ordinary_batch([replace_surrogates(text) for text in texts])]


def start_process(encoding: str = "o200k_base") -> None:
    """Start a process that loads a vocabulary and answers the next counts. Meanwhile this process can read a file."""
    if encoding in _LOADED or encoding in _PROCESSES:
        return
    with suppress(OSError):
        _PROCESSES[encoding] = CountingProcess(encoding)


@contextmanager
def count_while_reading(encoding: str = "o200k_base") -> Iterator[Callable[[str], None]]:
    """Count texts in another process while a file is read. The next count of blocks finds them counted.

    Yields:
        A function to call with each text.
    """
    start_process(encoding)
    ahead = _EAGER[encoding] = EagerCounter(lambda texts: _count_with_toktok(texts, encoding))
    try:
        yield ahead.add
    finally:
        ahead.finish()


def _load_vocabulary(encoding: str) -> None:
    with _LOAD_LOCK:  # one thread only: toktok would load it again for each thread that asks meanwhile
        toktok.batch_count([], encoding)
        _LOADED.add(encoding)


def _count_in_process(texts: Sequence[str], encoding: str) -> list[int] | None:
    """Count with the process that was started, or with a new one where that one timed out. None without a process."""
    while (apart := _PROCESSES.get(encoding)) is not None:
        try:
            counts = apart.count(texts)
        except UnicodeEncodeError:
            counts = apart.count([replace_surrogates(text) for text in texts])
        if counts is not None:
            return counts
        with _LOAD_LOCK:
            if _PROCESSES.get(encoding) is apart:
                _PROCESSES.pop(encoding)
                if apart.timed_out:  # a vocabulary loaded here would stay: 70 MB of memory
                    start_process(encoding)
        apart.end()
    return None


def _count_with_toktok(texts: Sequence[str], encoding: str) -> list[int]:
    counts: list[int]
    if not texts:
        return []
    if encoding not in _LOADED:
        if any(known != encoding for known in (*_LOADED, *_PROCESSES)):  # a second one: 57 MB that would stay here
            start_process(encoding)
        if (made := _count_in_process(texts, encoding)) is not None:
            return made
        _load_vocabulary(encoding)
    threads = 1 if sum(map(len, texts)) < MULTICORE_CHARACTERS else 0  # 0 = one per core
    try:
        counts = toktok.batch_count(texts, encoding, threads)
    except UnicodeEncodeError:
        counts = toktok.batch_count([replace_surrogates(text) for text in texts], encoding, threads)
    return counts
