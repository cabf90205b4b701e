"""What a text is about: files, functions, errors, content words, sentences. Pure functions of a text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

from msgspec import Struct

READ = 6_000  # characters of one text that are read: half from its beginning, half from its end
SHORT = 8  # words of a first sentence whose "it" stands for something said before
_FILE = re.compile(
    r"(?<![\w/.@-])(?:[\w.@-]*/)*[\w-][\w.-]*\.(?:c|cc|cfg|cpp|cs|css|csv|go|h|hpp|html|ini|ipynb|java|js|json|jsonl|jsx|kt|lock|"
    r"md|php|proto|py|rb|rs|scss|sh|sql|svg|swift|toml|ts|tsx|txt|xml|ya?ml)\b"
)
_FUNCTION = re.compile(r"\b([A-Za-z_]\w{2,60})\(|`([A-Za-z_][\w.]{2,60})`")
_ERROR = re.compile(r"\b[A-Z]\w{0,60}(?:Error|Exception)\b|\berror\[?[A-Z]+\d+|\bE\d{3,5}\b")
_SIGN = re.compile(r"\b(?=[\w-]*\d)[A-Za-z][\w]*-?[\w-]*\w\b|\b[A-Z][A-Z\d_]{2,}\b")  # names with digits, and names in capitals
_WORD = re.compile(r"[^\W\d_][\w'-]{2,}")
_END = re.compile(r"(?<=[.!?])\s+|\n+|(?<=[。!?])")
_NOT_CALLS = frozenset("for if in not and the with while return print len str int range list dict set def class".split())
_EMPTY = frozenset(
    "the and for with that this from are was were have has had you your our their its can could should would will shall may "
    "might must not but all any some what when where which who whom how why there here then than them they his her him she "
    "about into onto over under again also just please now let lets use using used make made does did done doing get got "
    "want need like one two out off too very much more most other another same such only own yes okay ok thanks thank see "
    "look into still after before been being be is it to of on in at by as an or so we us me my i a do if no up go".split()
)
# words of a prompt that goes on with whatever it was about
_GOES_ON = frozenset(
    "next continue proceed carry keep going step steps rest resume retry try again more works work good great nice perfect "
    "fine sure right wrong correct what's that's it's don't doesn't isn't".split()
)
_REFERS_BACK = re.compile(
    r"^\W*(?:and|also|but|or|so|then|next|again|why|(?:what|how) about|yes|no)\b|\b(?:it|its|them|they|those|these|again)\b"
    r"|\b(?:that|this)\b(?=\s*(?:[.?!,]|$|is\b|was\b|does\b))",
    re.IGNORECASE,
)


class TextNames(Struct, frozen=True, gc=False):
    """What a text names, each name once, in the order of its first mention."""

    files: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()  # ids, ticket numbers, constants
    concepts: tuple[str, ...] = ()

    @property
    def entities(self) -> tuple[str, ...]:
        """All names that can be looked up again, the most reliable first."""
        return tuple(dict.fromkeys((*self.files, *self.signs, *self.errors, *self.functions)))


def clip_text(text: str, most: int = READ) -> str:
    """Return the beginning and the end of a text, `most` characters in all.

    Args:
        text: The text.
        most: Characters of the result.
    """
    return text if len(text) <= most else f"{text[: most // 2]}\n{text[-most // 2 :]}"


@lru_cache(maxsize=4_096)
def find_names(text: str) -> TextNames:
    """Return the names in a text. Only the beginning and the end of a long text are read."""
    text = clip_text(text)
    calls = (a or b for a, b in _FUNCTION.findall(text))
    files = _FILE.findall(text)
    functions = (name for name in calls if name.lower() not in _NOT_CALLS and name not in files)
    found: tuple[Iterable[str], ...] = (files, functions, _ERROR.findall(text), _SIGN.findall(text), find_content_words(text))
    return TextNames(*(_drop_duplicates(one) for one in found))


def find_content_words(text: str, most: int = 40) -> tuple[str, ...]:
    """Return the first `most` words of a text that carry meaning, in lower case.

    Args:
        text: The text.
        most: How many words.
    """
    found = dict.fromkeys(word.lower() for word in _WORD.findall(clip_text(text)))
    return tuple(word for word in found if word not in _EMPTY)[:most]


def find_topic_words(text: str) -> frozenset[str]:
    """Return the content words of a prompt that tell its topic: those of "next" or "go on" tell none."""
    return frozenset(find_content_words(text)) - _GOES_ON


def continues_topic(text: str, about: Collection[str]) -> bool:
    """Return whether a prompt goes on with a topic: it has fewer than two words of its own, shares one, or refers back.

    Args:
        text: The prompt.
        about: Topic words of the prompts before it.
    """
    words, first = find_topic_words(text), next(split_sentences(text), "")
    refers = len(first.split()) <= SHORT and _REFERS_BACK.search(first) is not None  # in a longer one "it" is something in it
    return len(words) < 2 or not words.isdisjoint(about) or refers


def find_topic(text: str, most: int = 6) -> tuple[str, ...]:
    """Return the words that say what a text is about, from its first sentence with content words.

    Args:
        text: The text.
        most: How many words.
    """
    first = next((one for one in split_sentences(text) if find_content_words(one)), "")
    words = [*re.findall(r"[\w./@'-]*\w", first)]
    telling = [word for word in dict.fromkeys(words) if word.lower() not in _EMPTY and (len(word) > 2 or word[0].isdigit())]
    return tuple(telling[:most])


def split_sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text in order, without blank ones. A line ends a sentence."""
    for found in _END.split(text):
        if line := " ".join(found.split()).lstrip("#>*-• ").rstrip():
            yield line


def _drop_duplicates(found: Iterable[str], most: int = 24) -> tuple[str, ...]:
    return tuple(dict.fromkeys(found))[:most]
