"""Rules that a person gave in words ("never push", "always run the tests"): which sentences are one.

Rules are found lexically in prompts, memory files and system prompts, in English: a sentence with an imperative. What is in
code, in quotation marks or tags, or in pasted output is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, get_args

from turnscope.envelope.context_items import RULE_FILES
from turnscope.session.content import extract_block_text
from turnscope.session.model import Block, Part, Session, Span

Source = Literal["prompt", "memory", "system"]

RULE_SOURCES: tuple[Source, ...] = get_args(Source)

HEADING = "Rules that were given earlier in this conversation. They still hold:"
MAX_RULES = 200  # of a session; a system prompt may have more
MAX_CHARACTERS = 400  # of a sentence; what is longer is pasted, or a list
MAX_WORDS, MIN_WORDS = 50, 3
MAX_TEXT = 200_000  # characters of one block that are read
LONG_PROMPT = 6_000  # characters; a longer prompt has something pasted in its middle
NEAR = 2_000  # characters within which a memory file is named
EDGE = 2_000  # characters of a long prompt that are read at either end

_HIDDEN = re.compile(
    r"```.*?(?:```|\Z)"  # code
    r"|~~~.*?(?:~~~|\Z)"
    r"|`[^`\n]+`"
    r"|“[^”\n]{1,400}”"
    r"|(?<!\w)\"[^\"\n]{1,400}\"(?!\w)"
    r"|(?<!\w)'[^'\n]{1,400}'(?!\w)",
    re.DOTALL,
)
# What people put their own words in; what stands in other tags was put there by a tool, or pasted.
_OWN_TAGS = r"instructions?|rules?|constraints?|requirements?|guidelines?|important|task|user_?(?:query|message|request)|prompt"
_TAG = re.compile(rf"<(?!(?:{_OWN_TAGS})\b)([A-Za-z][\w:.-]{{0,60}})(?: [^<>\n]{{0,400}})?>", re.IGNORECASE)
_YET = re.compile(r"\b(?:yet|for now|right now|any ?more|this time)\b", re.IGNORECASE)  # it holds for a moment
_PASTED_LINE = re.compile(
    r"\s*(?:[<>|]"  # quotations, tags, tables
    r"|\$ |% |# ?include|//|/\*|at [\w.$<>]+ ?\(|File \"|Traceback"  # shells, code, stacks
    r"|\[?\d{4}-\d\d-\d\d|\[?\d\d:\d\d:\d\d|\[?(?:DEBUG|INFO|WARN|WARNING|ERROR|FATAL|TRACE)\b"  # logs
    r"|[+-]{3} |@@|diff --git"  # differences
    r"|(?:error|warning|note|help|hint)(?:\[\w+\])?:"  # compilers
    r"|\d+[:|] )|(?: {8}|\t\t)\S"
)
_CODE_LINE = re.compile(r"[;{}]\s*$|^\s*(?:import|from|def|class|return|const|let|var|function|public)\s|=>|\)\s*:\s*$|==|!=")
_SENTENCE = re.compile(r"[^.!?\n]+(?:[.!?](?!\s|$)[^.!?\n]*)*[.!?]*")
_BULLET = re.compile(r"\s*(?:[-*•+]|\d{1,2}[.)]|#{1,6})?")
_AROUND = "*_ \t\r"

# What may come before an imperative: the beginning of a clause, with words that only introduce it.
_BEGIN = (
    r"(?:^|[,;:()–—]\s*|\s-+\s+|\b(?:and|but|so|then|or|also|please|just|important|note|remember|again|otherwise|instead)[,:!]?\s+"
    r"|\b(?:you|u)\s+(?:should|must|will|can|may|shall|need to)\s+|\b(?:want|need|like|ask|tell) you to\s+)[\s*_]*"
)
_VERBS = (
    r"use|do|change|edit|write|touch|respond|answer|reply|return|output|modify|suggest|show|give|include|read|run|call|make|add"
    r"|create|work|talk|speak|consider|print|list|commit|ask|recommend|propose|fix|update|implement|report|provide|keep|look|focus"
    r"|produce|generate|test|allow|accept|send|stop|book|offer|quote|cite|mention|delete|remove|install|push|reference|import|say|rely"
)
_NO_RULE = (  # what a person says of a belief, and what follows a fact
    r"mind|know|think|worry|see|seem|believe|remember|recall|understand|have|get me wrong|bother|care|feel|like|want|need"
    r"|wonder|saw|seen|been|had|was|were|did|is|are|has|heard|got|came|went|worked|happened|be afraid|exist|appear"
    r"|even|really|matter"
)
_PAST = r"(?!(?:need|feed|embed|proceed|exceed)\b)\w+ed"
_SUBJECTS = (  # what a demand is made of
    r"code|tests?|output|answers?|repl(?:y|ies)|responses?|files?|changes?|it|they|that|this|names?|functions?|commits?|messages?"
    r"|text|docs?"
)
_RULE = re.compile(
    rf"(?:{_BEGIN}(?:do\s+not|don['’]t|never)|(?:^|\b(?:and|but|so|please|just|also)\s+)dont)\s+(?:ever\s+)?"
    rf"(?!(?:{_NO_RULE}|{_PAST})\b|qqq)[a-z]{{2,}}"
    rf"|{_BEGIN}always\s+(?!(?:{_NO_RULE}|a|an|the|in|on|there|this)\b|qqq)[a-z]{{2,}}"
    rf"|{_BEGIN}only\s+(?:{_VERBS})\b|{_BEGIN}(?:{_VERBS})\s+only\b"
    rf"|{_BEGIN}(?:make|be)\s+sure\b|{_BEGIN}ensure\s+\w"
    r"|\byou\s+(?:absolutely\s+)?must(?:\s+not|n['’]t)?\s+(?!have\s+been)\w"
    r"|\bmust\s+(?:not|never|always|only)\s+\w|\bmustn['’]t\s+\w"
    r"|\b(?:everything|everyone|every|all|each|any)\b(?:\s+(?!(?:you|we|i|they|might|may|that|which)\b)[\w'’-]+){0,4}?"
    r"\s+(?:must|ha(?:s|ve)\s+to\s+be|needs\s+to\s+be)\s+(?!have\s+been)\w"
    rf"|\b(?:{_SUBJECTS})\s+must\s+(?!have\s+been|be\s+(?:because|a\s+bug|something|wrong|due|missing))\w"
    r"|\bno\s+exceptions\b",
    re.IGNORECASE,
)
_FOUND_BY = re.compile(
    r"never|always|must|do\s+not|don['’]?t|only|sure|ensure|ha(?:s|ve)\s+to|needs?\s+to|exceptions", re.IGNORECASE
)
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class UserRule:
    """A sentence that tells the model what to do, or not to do.

    Attributes:
        block: address of the first block that says it.
        span: characters of the block's text.
        text: the sentence, with one space wherever it had white space.
        source: where it stands.
        others: addresses of further prompts, memory files and system prompts with the same sentence.
    """

    block: int
    span: Span
    text: str
    source: Source
    others: tuple[int, ...] = ()


def find_rules(session: Session) -> tuple[UserRule, ...]:
    """Find the rules in the prompts, memory files and system prompts of a session, each once, in order.

    Args:
        session: the session.
    """
    found: dict[str, UserRule] = {}
    others: dict[str, list[int]] = {}
    for message in session.messages:
        for block in session.blocks[message.start : message.stop]:
            for rule in read_block_rules(block, message.origin):
                if rule.text in found:
                    others[rule.text].append(block.at)
                elif len(found) < MAX_RULES:
                    found[rule.text], others[rule.text] = rule, []
    return tuple(replace(rule, others=tuple(others[text])) for text, rule in found.items())


def read_block_rules(block: Block, origin: str) -> Iterator[UserRule]:
    """Yield the rules that a block says, in order.

    Args:
        block: the block.
        origin: that of its message.
    """
    if (source := _find_source(origin, block)) is not None:
        for span, text in _read_text_rules(block.text, source):
            yield UserRule(block.at, span, text, source)


@lru_cache(maxsize=4096)  # more than the texts with rules of a long session: if it is full, each request reads all of them anew
def _read_text_rules(text: str, source: Source) -> tuple[tuple[Span, str], ...]:
    """Each rule of a text with its characters. Every request of a replay asks for them, so they are cached."""
    return tuple((span, normalise(text[span.start : span.stop])) for span in iter_rule_spans(text, source))


def _find_source(origin: str, block: Block) -> Source | None:
    """What a block is, if a person may have written rules there."""
    if block.kind == "memory" or (block.kind == "reminder" and _find_file(block.text) >= 0):
        return "memory"
    if block.kind == "system":
        return "system"
    return "prompt" if origin == "prompt" and block.role == "user" and block.kind == "text" else None


def _find_file(text: str) -> int:
    """Where the name of a memory file stands near the beginning of a text; -1 = it names none."""
    return min((at for name in RULE_FILES if (at := text.find(name, 0, NEAR)) >= 0), default=-1)


def iter_rule_spans(text: str, source: Source = "prompt") -> Iterator[Span]:
    """Yield the characters of each sentence of a text that is a rule.

    Args:
        text: the text.
        source: where it stands. What a prompt has between tags was put there by a tool, and the middle of a long one is pasted.
    """
    text = text[:MAX_TEXT]
    if not _FOUND_BY.search(text):
        return
    plain = _HIDDEN.sub(_blank, text)
    if source == "memory" and (begins := _find_file(plain)) >= 0:
        plain = " " * begins + plain[begins:]  # what a tool says of the file
    if source == "prompt":
        plain = _blank_tags(plain)
    at = 0
    for line in plain.split("\n"):
        start, at = at, at + len(line) + 1
        pasted = source == "prompt" and len(text) > LONG_PROMPT and EDGE < start < len(text) - EDGE
        if pasted or not _FOUND_BY.search(line) or _PASTED_LINE.match(line) or _CODE_LINE.search(line):
            continue
        for sentence in _SENTENCE.finditer(line):
            span = _trim(line, sentence.span())
            if is_rule(line[span.start : span.stop]):
                yield Span(start + span.start, start + span.stop)


def is_rule(sentence: str) -> bool:
    """Whether a sentence is an imperative that holds from then on, by its words."""
    words = sentence.split()
    if not MIN_WORDS <= len(words) <= MAX_WORDS or len(sentence) > MAX_CHARACTERS or sentence.endswith(("?", ":")):
        return False
    letters = sum(each.isalpha() or each.isspace() for each in sentence)
    return letters >= 0.8 * len(sentence) - 8 and _RULE.search(sentence) is not None and not _YET.search(sentence)


def _trim(line: str, span: tuple[int, int]) -> Span:
    """A sentence without the bullet or number before it, and without white space and marks of emphasis around it."""
    bullet = _BULLET.match(line, *span)
    start, stop = bullet.end() if bullet else span[0], span[1]
    while start < stop and line[start] in _AROUND:
        start += 1
    while stop > start and line[stop - 1] in _AROUND:
        stop -= 1
    return Span(start, stop)


def _blank(found: re.Match[str]) -> str:
    """Spaces in place of what is no sentence. Within a line letters stand for it, so that the words around it stay apart."""
    text = found[0]
    if "\n" in text:
        return "".join("\n" if each == "\n" else " " for each in text)
    return ("x" if text[0] == "`" else "q") * len(text)  # code may be what an imperative is about


def _blank_tags(text: str) -> str:
    """A text without what stands between tags, in one pass. A tag that is not closed is left."""
    parts, at, unclosed = list[str](), 0, set[str]()
    for tag in _TAG.finditer(text):
        if tag.start() < at or tag[1] in unclosed:
            continue
        close = f"</{tag[1]}>"
        stop = text.find(close, tag.end())
        if stop < 0:
            unclosed.add(tag[1])
            continue
        parts += [text[at : tag.start()], re.sub(r"[^\n]", " ", text[tag.start() : stop + len(close)])]
        at = stop + len(close)
    return "".join((*parts, text[at:]))


def write_rules(rules: Iterable[UserRule], heading: str = HEADING) -> Part:
    """Write rules as a part of a message, one on a line.

    Args:
        rules: the rules.
        heading: the line in front of them.
    """
    return Part("user", "text", "\n".join((heading, *(f"- {rule.text}" for rule in rules))))


def normalise(text: str) -> str:
    """A text with one space wherever it has white space."""
    return _SPACE.sub(" ", text).strip()


def read_part_text(part: Part, session: Session) -> str:
    """The text of a part of a placeholder.

    Args:
        part: the part.
        session: the session that it may refer to.
    """
    if part.ref is not None:
        return session.blocks[part.ref].text
    if part.raw is not None:
        return part.raw if isinstance(part.raw, str) else extract_block_text(part.kind, part.raw)
    return part.text


class RuleWords:
    """Finds a sentence in texts, whatever white space they have; the longest word is looked for first.

    >>> RuleWords("Never push to main.").are_in("They said: never, Never push\\n  to main")
    True
    """

    __slots__ = ("_longest", "_text")

    def __init__(self, sentence: str) -> None:
        self._text = sentence.rstrip(".! ")
        self._longest = max(self._text.split(), key=len, default="")

    def are_in(self, text: str) -> bool:
        if self._longest not in text:
            return False
        # A pattern, rather than the text with its white space changed: a replay looks in long texts at each request.
        return self._text in text or re.search(r"\s+".join(map(re.escape, self._text.split())), text) is not None
