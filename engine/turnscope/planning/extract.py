"""A summary without a model: sentences picked from the conversation. Always a placeholder, and its caller marks it so.

Picks what a reader needs to continue: the first request, questions and instructions of the user, decisions, file names,
numbers, errors, and what an earlier summary picked. Time is linear in the text: each line is scored once, then a few hundred
compete.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from heapq import nlargest
from itertools import chain, pairwise
from typing import NamedTuple

from turnscope.counting.tokens import Counter as TokenCounter
from turnscope.counting.tokens import count_texts
from turnscope.session.transcript import Transcript

HEAD = "Summary made offline by picking sentences (no model was called):"
CAP = 1_000  # tokens, if the caller names no limit
LONGEST = 240  # characters of a picked sentence
READ = 2_000  # characters of one sentence that are read: machine output may be one line of megabytes
COMPETE = 400  # sentences that compete for the tokens
REMEMBERED = 512  # sentences and lines that are cached: a summary has most of those of the previous one
KEPT = 4  # transcripts that are read on when they have grown
FILES = 12  # file names listed at the end
# Counted with o200k times 1.75: more than any known tokenizer counts, so the cap holds in any unit.
COUNTER = TokenCounter("toktok", "o200k_base", 1.75, "upper bound")

_COUNTS: dict[str, int] = {}  # tokens of lines: a summary has most lines of the previous one

_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'`(\d])|(?<=[。!?])")
_ENDS = re.compile(r"[.!?。](?:(?<=[!?。])|\s)")  # matches wherever `_END` does
_SPEAKER = re.compile(r"(user|assistant|tool|summary|system): ?(?=(.*))", re.DOTALL)
_SPEAKS = re.compile(r"\n[^\S\n]*+(?=(?:user|assistant|tool|summary|system):)")  # `_SPEAKER` begins the line behind it
_PATH = re.compile(r"[\w./-]+")
_SUFFIXES = frozenset(
    "c cfg cpp cs css csv go h hpp html ini ipynb java js json jsonl jsx kt lock md php proto py rb rs scss sh sql svg swift "
    "toml ts tsx txt xml yaml yml".split()
)
_FILE = re.compile(rf"\.(?:{'|'.join(sorted(_SUFFIXES))})[.-]*(?![\w./-])")  # how a file's name ends
_LINE = re.compile(r"\S[^\n]*")
_WORD = re.compile(r"[^\W\d_]{4,}")
_FAILS = re.compile(
    r"rror|xception|[Ff]ail|FAIL|Traceback|denied|not found|refused|crash|annot|imeout|missing"
)  # in tool output
_TALK = re.compile(r"[^\W\d_]+(?:'[a-z]+)?")
_ASCII_TALK = re.compile(r"[a-z]+(?:'[a-z]+)?")  # the same for ASCII text, in half the time
_QUESTION = re.compile(r"[?？](?:\s|[\"')*`]|$)")
_NUMBER = re.compile(r"\d(?<![\w.]\d)")
# What a sentence is about: its words, and its score.
_SIGNS = {
    "instruction": (
        frozenset(
            "must never always don't please only instead important remember prefer should need ensure keep avoid".split()
        ),
        3.0,
    ),
    "decision": (
        frozenset(
            "decide decided decision we'll let's chose chosen agreed plan because conclusion fixed resolved done passes passed "
            "cause therefore works".split()
        ),
        2.5,
    ),
    "error": (
        frozenset(
            "failed failure fails fail traceback denied cannot can't refused crash crashed crashes timeout missing".split()
        ),
        2.0,
    ),
}
_TELLING = frozenset[str]().union(*(telling for telling, _ in _SIGNS.values()))
_VOICE = {"user": 2.0, "summary": 2.2, "assistant": 1.0, "system": 1.0, "tool": 0.35}


_Scored = tuple[float, int, str, str, frozenset[str]]


class _Sentence(NamedTuple):
    place: int
    speaker: str
    text: str
    about: frozenset[str]
    score: float


def extract(content: str | Transcript, max_tokens: int = 0) -> str:
    """Return the most important sentences of a transcript in their order. Deterministic.

    Args:
        content: The transcript, `role: text` lines. Of one that grew since it was summarised, the new lines are read.
        max_tokens: The most tokens of the summary; 0 = the default. If it is too small for one sentence, the result is the
            beginning of the first request.
    """
    if isinstance(content, str):
        reading = _Reading()
        reading.read(content)
        return _pick(reading, max_tokens)
    reading = _continue_reading(content)
    if (text := reading.picked.get(max_tokens)) is None:
        text = reading.picked[max_tokens] = _pick(reading, max_tokens)
    _READINGS[id(content.lines)] = (content.lines, reading)
    for oldest in [*_READINGS][:-KEPT]:  # a list, because other threads replay as well
        _READINGS.pop(oldest, None)
    return text


class _Reading:
    """What was read of a transcript: the sentences that compete and the files that it names. It can be read on.

    Attributes:
        count: Number of its lines that were read.
        best: Score, negative place, speaker, text and kinds of the sentences that compete, the best first.
        files: How often each file is named.
        picked: The summaries that were picked from it, by their most tokens.
    """

    def __init__(self) -> None:
        self.count = 0
        self.best: list[_Scored] = []
        self.files: Counter[str] = Counter()
        self.picked: dict[int, str] = {}
        self.opened, self.speaker, self.places = False, "user", 0
        self.lines: set[tuple[str, str]] = set()
        self.sentences: set[str] = set()

    def read(self, content: str) -> None:
        """Read on: the beginning of a transcript, or what came behind that begins with a speaker."""
        self.picked = {}
        self.best = nlargest(COMPETE, chain(self.best, _score_sentences(content, self)))


_READINGS: dict[int, tuple[list[str], _Reading]] = {}  # by id of the lines; they are held, so no id is reused


def _continue_reading(transcript: Transcript) -> _Reading:
    """What was read of a transcript, whose new lines alone are read where an earlier version was read before."""
    lines, reading = _READINGS.pop(id(transcript.lines), (None, _Reading()))
    if lines is not transcript.lines or reading.count > transcript.count:
        reading = _Reading()
    new = "\n".join(transcript.lines[reading.count : transcript.count])
    if new and reading.count and not _SPEAKS.match(f"\n{new}"):
        reading, new = _Reading(), transcript.text  # it goes on with what was said last
    if new:
        reading.read(new)
    reading.count = transcript.count
    return reading


def _pick(reading: _Reading, max_tokens: int) -> str:
    """The summary of what was read."""
    room, files = max_tokens or CAP, reading.files
    ranked = [_Sentence(-place, speaker, text, about, score) for score, place, speaker, text, about in reading.best]
    if not ranked:
        return _shorten(HEAD, room)
    lines = {s.place: f"- {s.speaker}: {s.text}" for s in ranked}
    naming = _list_files(files)
    costs = dict(zip(lines, (cost + 1 for cost in _count_lines([*lines.values(), *naming[:1]])), strict=False))
    room -= _count_line(HEAD) + 1
    named = next((line for line in naming if _count_line(line) < room // 6), "")
    room -= _count_line(named) + 1 if named else 0
    chosen = _choose(ranked, costs, room)
    if not chosen:
        first = min(ranked, key=lambda s: s.place)
        return _shorten(f"{HEAD}\n- {first.speaker}: {first.text}", max_tokens or CAP)
    return "\n".join(filter(None, (HEAD, *(lines[place] for place in sorted(chosen)), named)))


def _count_lines(lines: Sequence[str]) -> list[int]:
    """Tokens of each line. New lines are counted together, because a call of the tokenizer costs more than a line."""
    known = {line: _COUNTS.pop(line, -1) for line in lines}
    new = [line for line, cost in known.items() if cost < 0]
    known.update(zip(new, count_texts(new, COUNTER), strict=True))
    _COUNTS.update(known)  # at the end: the least recently used is dropped first
    if (over := len(_COUNTS) - 8 * COMPETE) > 0:
        for line in [*_COUNTS][:over]:  # a list, because other threads replay as well
            _COUNTS.pop(line, 0)
    return [known[line] for line in lines]


def _count_line(line: str) -> int:
    return _count_lines([line])[0]


def _choose(ranked: Sequence[_Sentence], costs: dict[int, int], room: int) -> set[int]:
    """Places of the sentences that fit: the best of each kind first, then the best that add something new."""
    chosen: set[int] = set()
    texts: set[str] = set()
    known: set[str] = set()
    openers = [
        next((s for s in ranked if kind in s.about), None) for kind in ("opening", "decision", "error", "question", "file")
    ]
    rest = iter(sorted(ranked, key=lambda s: (-s.score / (8 + costs[s.place]) ** 0.5, s.place)))
    for sentence in (*filter(None, openers), *rest):
        cost, words = costs[sentence.place], _find_words(sentence.text)
        stale = len(words & known) > 0.8 * len(words) if words else sentence.text in texts
        if sentence.place in chosen or cost > room or sentence.text in texts or (stale and "opening" not in sentence.about):
            continue
        chosen.add(sentence.place)
        texts.add(sentence.text)
        known |= words
        room -= cost
    return chosen


@lru_cache(maxsize=REMEMBERED)
def _find_words(text: str) -> frozenset[str]:
    """The words of a sentence by which it differs from others."""
    return frozenset(_WORD.findall(text.lower()))


def _score_sentences(content: str, reading: _Reading) -> Iterator[_Scored]:
    """Score, place (negative: of equals the first is best), speaker, text and kinds of each sentence. Counts file names."""
    known, files = reading.sentences, reading.files
    for place, (speaker, text) in enumerate(_split_transcript(content, reading), reading.places):
        reading.places = place + 1
        if text in known:
            continue
        known.add(text)
        about, score, named, words = _classify(text)
        if named:
            files.update(named)
        if speaker == "user" and not reading.opened:
            reading.opened = True
            about, score = about | {"opening"}, score + 6
        if not about and words < 4:  # thanks, ok, sure
            continue
        short = text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "…"
        yield score * _VOICE[speaker], -place, speaker, short, about


@lru_cache(maxsize=REMEMBERED)
def _classify(text: str) -> tuple[frozenset[str], float, tuple[str, ...], int]:
    """What a sentence is about, its score, the files it names, and how many different words it has."""
    head = text[:READ]
    low = head.lower()
    words = set((_ASCII_TALK if low.isascii() else _TALK).findall(low))
    about = set[str]()
    if not words.isdisjoint(_TELLING):
        about.update(kind for kind, (telling, _) in _SIGNS.items() if not telling.isdisjoint(words))
    if ("error" in low or "exception" in low) and any(word.endswith(("error", "exception")) for word in words):
        about.add("error")
    score = 0.5 + (sum(worth for kind, (_, worth) in _SIGNS.items() if kind in about) if about else 0)
    if "?" in head or "？" in head:
        score += 3.0 if _QUESTION.search(head) else 0.0
        about.add("question")
    if _NUMBER.search(head):
        score += 0.8
        about.add("number")
    named = tuple(_find_files(head)) if _FILE.search(head) else ()
    if named:
        score += 1.5
        about.add("file")
    return frozenset(about), score, named, len(words)


def _split_transcript(content: str, reading: _Reading) -> Iterator[tuple[str, str]]:
    """Speaker and text of every sentence of new lines. Lines of an earlier placeholder keep the speakers they named."""
    speaker, known = reading.speaker, reading.lines
    for found in _iter_lines(content):
        line = found[: READ * 4].rstrip()
        within = ""
        if speech := _SPEAKER.match(line):
            reading.speaker = speaker = speech[1]
            line = speech[2].strip()
        if speaker == "tool" and not _FAILS.search(line):  # of what tools print only failures are picked
            continue
        if (speaker, line) in known or line == HEAD or line.startswith("Files named: "):
            continue
        known.add((speaker, line))
        if line.startswith("- "):
            line = line[2:]
            if speaker == "summary" and (speech := _SPEAKER.match(line)):
                within, line = speech[1], speech[2]
        for text in _split_sentences(line):
            yield within or speaker, text


def _iter_lines(content: str) -> Iterator[str]:
    """The lines of a transcript; of a tool's output only those that report a failure."""
    starts = [0, *(found.end() for found in _SPEAKS.finditer(content)), len(content)]
    for start, stop in pairwise(starts):
        if content.startswith("tool:", start):
            yield "tool:"
            yield from _iter_failures(content, start, stop)
        else:
            yield from _LINE.findall(content, start, stop)


def _iter_failures(content: str, at: int, stop: int) -> Iterator[str]:
    while found := _FAILS.search(content, at, stop):
        begin, end = content.rfind("\n", at, found.start()) + 1, content.find("\n", found.end(), stop)
        end = end if end >= 0 else stop
        yield content[begin or at : end].lstrip()
        at = end


@lru_cache(maxsize=REMEMBERED)
def _split_sentences(line: str) -> tuple[str, ...]:
    """The sentences of a line."""
    texts = [" ".join(sentence.split()) for sentence in _END.split(line)] if _ENDS.search(line) else [" ".join(line.split())]
    return tuple([text for text in texts if len(text) >= 8 or "?" in text])


def _find_files(text: str) -> Iterator[str]:
    for word in _PATH.findall(text):
        name = word.rstrip(".-")
        stem, dot, suffix = name.rpartition(".")
        if dot and suffix in _SUFFIXES and stem.strip("./-") and len(name) <= 120:
            yield name


def _list_files(files: Counter[str]) -> list[str]:
    """Lines with the files that are named most, the longest line first."""
    best = sorted(files.items(), key=lambda item: (-item[1], item[0]))[:FILES]
    names = [f"{name} ({times})" if times > 1 else name for name, times in best]
    return ["Files named: " + ", ".join(names[:count]) for count in range(len(names), 0, -1)]


def _shorten(text: str, room: int) -> str:
    """The longest beginning of `text` with at most `room` tokens."""
    low, high = 0, min(len(text), room * 8)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count_texts([text[:middle]], COUNTER)[0] <= room else (low, middle - 1)
    return text[:low]
