"""What a summary retained of its source: identifiers, numbers, decisions and open questions.

Pure functions of two texts, linear in both. The score is shown with a decision (`views.summary_quality`). It changes no
envelope, and no rule reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

ACTIVE = 3  # files; those that the source names last
MOST = 2_000  # names, and numbers, of a source that are looked up in the summary
NAMED_LOSSES = 3  # losses that a fact names
LONGEST = 80  # characters of each
SHARE = 0.6  # part of a sentence's words that the summary must contain

_NAME = re.compile(  # an empty group is a plain word: most of a text, and no name
    r"[A-Za-z][a-z]*+(?![\w./-])|([A-Za-z_](?:[\w./-]*\w)?|\d(?<![\w.]\d)[\d.,:]*\d(?!\w))"
)
_PATH = re.compile(r"[\w./-]+")
_ENDING = re.compile(r"[A-Za-z][A-Za-z0-9]{0,5}")
_IDENTIFIER = re.compile(r"[a-z0-9][A-Z]|[A-Za-z0-9]_[A-Za-z0-9]|\w[./]\w")
_DECIDED = re.compile(
    r"\b(?:decided?|decision|agreed|chose|chosen|instead of|we(?:'ll| will)|let's|conclusion|root cause|fixed by)\b",
    re.IGNORECASE,
)
_OPEN = re.compile(r"\b(?:TODO|open question|still open|unresolved|not yet|remains to)\b", re.IGNORECASE)
_TELLING = (  # wherever one of these two patterns matches, one of these words occurs
    *("deci", "agreed", "chose", "instead of", "we'll", "we will", "let's", "conclusion", "root cause", "fixed by"),
    *("todo", "open question", "still open", "unresolved", "not yet", "remains to"),
)
_SENTENCE = re.compile(r"[^.!?\n]*[^.!?\s][^.!?\n]*(?:\.(?=\w)[^.!?\n]*)*[.!?]*")
_SPEAKER = re.compile(r"(user|assistant|tool|summary|system): ?", re.IGNORECASE)
_SPEAKS = re.compile(  # before each line that begins with a speaker, except the first
    r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029](?=(?:user|assistant|tool|summary|system):)", re.IGNORECASE
)
_WORD = re.compile(r"[^\W\d_]{4,}")


class Retention(NamedTuple):
    """How many of each kind the summary retained, as `(retained, in the source)`; `lost`: files and questions it lost."""

    identifiers: tuple[int, int]
    numbers: tuple[int, int]
    decisions: tuple[int, int]
    questions: tuple[int, int]
    lost: tuple[str, ...]

    @property
    def share(self) -> float:
        """The mean of the shares of the kinds that the source has; 1.0 where it has none."""
        shares = [kept / there for kept, there in self[:4] if there]
        return sum(shares) / len(shares) if shares else 1.0


def score_summary(source: str, summary: str) -> dict[str, Any]:
    """Return what a summary retained, as facts of a decision.

    Args:
        source: The transcript that was summarised.
        summary: The summary.

    Returns:
        `kept`: the mean share; `kept_of`: the counts in words; `flagged`: active files and open questions it lost, if any.
    """
    shares = compare_summary(source, summary)
    counts = zip(("identifiers", "numbers", "decisions", "open questions"), shares[:4], strict=True)
    found = {"kept": round(shares.share, 3), "kept_of": ", ".join(f"{name} {a:,} of {b:,}" for name, (a, b) in counts if b)}
    if shares.lost:
        more = f"; and {len(shares.lost) - NAMED_LOSSES} more" if len(shares.lost) > NAMED_LOSSES else ""
        found["flagged"] = "it loses " + "; ".join(shares.lost[:NAMED_LOSSES]) + more
    return found


def compare_summary(source: str, summary: str) -> Retention:
    """Return what a summary retained of its source.

    A file counts as named if its name without folders is. Active files are those that the source names last. A question is open
    if nobody answers it in the source, or if the source marks it as open.

    Args:
        source: A transcript of `role: text` lines.
        summary: The summary.
    """
    names, numbers = _find_names(source)
    files = _find_last_files(source, names)
    has, digits = _find_names(summary)
    has |= {name.rpartition("/")[2] for name in has}
    matches = sum(name in has or name.rpartition("/")[2] in has for name in names)
    words = frozenset(_WORD.findall(summary.lower()))
    decisions, questions = _find_statements(source)
    lost = [f"the active file {name[-LONGEST:]}" for name in files if name not in has and name.rpartition("/")[2] not in has]
    gone = [text for text in questions if not _is_covered(text, words)]
    lost += (f"the open question {text[:LONGEST]!r}" for text in gone)
    decided = sum(_is_covered(text, words) for text in decisions)
    return Retention(
        identifiers=(matches, len(names)),
        numbers=(len(numbers & digits), len(numbers)),
        decisions=(decided, len(decisions)),
        questions=(len(questions) - len(gone), len(questions)),
        lost=tuple(lost),
    )


def _find_names(text: str) -> tuple[set[str], set[str]]:
    """Names that look like identifiers or files, and numbers of two or more digits."""
    names: dict[str, None] = {}
    numbers: set[str] = set()
    for found in filter(None, dict.fromkeys(_NAME.findall(text))):
        if found[0].isdigit():
            if len(numbers) < MOST:
                numbers.add(found)
        elif len(found) > 2 and len(names) < MOST and _IDENTIFIER.search(found):
            names[found] = None
    return set(names), numbers


def _find_last_files(text: str, names: set[str]) -> list[str]:
    """The files that are named last, newest first, of those in `names`."""
    files: list[str] = []
    for line in reversed(text[-20_000:].splitlines()):
        for path in (path.rstrip(".-/") for path in _PATH.findall(line)) if "." in line else ():
            if path in names and path not in files and "." in path and _ENDING.fullmatch(path.rpartition(".")[2]):
                files.append(path)
                if len(files) == ACTIVE:
                    return files
    return files


def _find_statements(source: str) -> tuple[list[str], list[str]]:
    """Decisions and open questions in what people and models wrote. Output of tools is not read."""
    speaker, decided, questions, marked = "", dict[str, None](), dict[str, str](), dict[str, None]()
    for start, stop in pairwise((0, *(found.end() for found in _SPEAKS.finditer(source)), len(source))):
        text = source[start:stop]
        if found := _SPEAKER.match(text):
            now = found[1].lower()
            if now in ("user", "assistant") and now != speaker:
                questions = {text: who for text, who in questions.items() if who == now}
            speaker, text = now, text[found.end() :]
        if speaker == "tool" or not ("?" in text or any(map(text.casefold().__contains__, _TELLING))):
            continue
        for line in text.splitlines():
            tells = any(map(line.casefold().__contains__, _TELLING))
            if "?" in line or (tells and (_DECIDED.search(line) or _OPEN.search(line))):
                _sort_sentences(line, speaker, decided=decided, questions=questions, marked=marked)
    return [*decided], [*questions, *marked]


def _sort_sentences(
    line: str, speaker: str, decided: dict[str, None], questions: dict[str, str], marked: dict[str, None]
) -> None:
    """Add each sentence of a line to decisions or questions, if it is one."""
    for sentence in _SENTENCE.findall(line[:4_000]):
        text = sentence.strip()
        if text.endswith("?") and len(text) > 8 and speaker in ("user", "assistant"):
            questions[text] = speaker
        elif _OPEN.search(text):
            marked[text] = None
        elif _DECIDED.search(text):
            decided[text] = None


def _is_covered(text: str, words: Iterable[str]) -> bool:
    """Whether most words of a sentence are among `words`."""
    own = set(_WORD.findall(text.lower()))
    return not own or len(own.intersection(words)) >= SHARE * len(own)
