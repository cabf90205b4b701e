"""What Turnscope rebuilds of a run's requests, held against the requests that were sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import turnscope
from turnscope.planning.render import build_body
from turnscope.session.model import Session

from tests.wire import Run
from tests.wire.leaves import Leaves, leaves

PARTS = ("system", "tools", "messages")
HEAD = 64  # characters at the start of a text by which its altered form is known again


@dataclass(frozen=True)
class Rebuilt:
    """A request as Turnscope has it: the session's name, its number there, its body as recorded, what was billed."""

    session: str
    number: int
    body: dict[str, Any]
    tokens: tuple[int, int]
    exact: bool  # the log holds it whole


@dataclass
class Compared:
    """One request that was sent, beside the one that was rebuilt.

    `equal`: share of the sent characters of each part that the rebuilt body holds, from 0 to 1. `more`: characters of the
    rebuilt body that were not sent, or not as often. `missing`: the first text that it lacks, with its part.
    """

    arrival: int
    rebuilt: Rebuilt | None
    equal: dict[str, float] = field(default_factory=dict)
    more: int = 0
    missing: str = ""


def compare(run: Run) -> list[Compared]:
    """Each main request of a run beside its rebuilt form, in the order in which they were sent."""
    return [compare_body(row, found) for row, found in pair_requests(run.main, list(rebuilt(run.transcripts)))]


def pair_requests(sent: list[dict[str, Any]], found: list[Rebuilt]) -> list[tuple[dict[str, Any], Rebuilt | None]]:
    """Each request that was sent, with the rebuilt one that was billed the same."""
    pairs = _pairs([_tokens(row) for row in sent], [one.tokens for one in found])
    return [(row, found[pairs[n]] if n in pairs else None) for n, row in enumerate(sent)]


def rebuilt(folder: Path) -> Iterator[Rebuilt]:
    """Every request of every session below a folder, subagents and branches with them, each once, in order of time."""
    found: dict[tuple[str, int], tuple[float, Rebuilt]] = {}
    for session in sessions(folder):
        trace = turnscope.replay(session)
        for request, plan in zip(session.requests, trace.plans, strict=True):
            usage = request.usage
            if usage is not None:
                tokens = (usage.prompt_tokens, usage.output_tokens)
                key = (request.id, 0) if request.id else (session.id, request.n)
                exact = "exact_requests" in session.about
                one = Rebuilt(session.id, request.n, build_body(plan, session, as_recorded=True), tokens, exact)
                if key not in found or found[key][1].tokens < tokens:  # a copy in a fork may say that it cost nothing
                    found[key] = (request.sent_at or request.answered_at or 0.0, one)
    return (one for _, one in sorted(found.values(), key=lambda pair: pair[0]))


def sessions(folder: Path) -> Iterator[Session]:
    """The sessions below a folder, with their branches and subagents."""
    from turnscope.library.discovery import find_sources

    for path in sorted(
        path for inside in folder.iterdir() for path in find_sources(inside)
    ):  # agents keep them in hidden folders
        try:
            entries = list(turnscope.entries(path))
        except turnscope.TurnscopeError:
            continue  # settings and databases that hold no conversation
        for entry in entries:
            yield from _iter_sessions(turnscope.load(path, entry.id))


def _iter_sessions(session: Session) -> Iterator[Session]:
    yield session
    for part in (*session.branches, *session.subagents):
        yield from _iter_sessions(part)


def compare_body(row: dict[str, Any], found: Rebuilt | None) -> Compared:
    """One request that was sent, against its rebuilt body."""
    if found is None:
        return Compared(row["n"], None, dict.fromkeys(PARTS, 0.0), 0, "no request of the transcript was billed this")
    sent, ours = leaves(row["body"]), leaves(found.body)
    result = Compared(row["n"], found)
    for part in PARTS:
        equal, missing = _equal(sent[part], ours)
        whole = sum(map(len, sent[part]))
        result.equal[part] = equal / whole if whole else 1.0
        if missing and not result.missing:
            result.missing = f"{part}: {missing[:100]!r}"
    result.more = sum(len(text) for part in PARTS for text in _rest(ours[part], sent))
    return result


def _equal(sent: list[str], ours: Leaves) -> tuple[int, str]:
    """How many characters of some texts the rebuilt body holds, wherever, and the first text that it does not hold.

    A text that was sent twice has to be there twice. One that is known by its beginning counts as far as both ends agree; one
    that holds a text of ours within it, such as a summary in its wrapper, by what it holds.
    """
    at_hand = Counter(text for texts in ours.values() for text in texts)
    rest = at_hand - Counter(sent)
    heads = {text[:HEAD]: text for text in rest}
    total, missing = 0, ""
    for text in sent:
        if at_hand[text] > 0:
            at_hand[text] -= 1
            total += len(text)
            continue
        missing = missing or text
        inside = max((len(one) for one in rest if len(one) >= HEAD and one in text), default=0)
        total += max(inside, _common(text, heads.get(text[:HEAD], "")))
    return total, missing


def _rest(texts: list[str], sent: Leaves) -> Iterator[str]:
    """The texts that were not sent, or not as often, and stand within none that was."""
    known = Counter(text for part in sent.values() for text in part)
    for text in texts:
        if known[text] > 0:
            known[text] -= 1
        elif len(text) < HEAD or not any(text in one for one in known if one != text):
            yield text


def _common(a: str, b: str) -> int:
    """Characters that two texts share at the start and at the end."""
    short = min(len(a), len(b))
    start = next((n for n in range(short) if a[n] != b[n]), short)
    end = next((n for n in range(short - start) if a[-1 - n] != b[-1 - n]), short - start)
    return start + end


def _tokens(row: dict[str, Any]) -> tuple[int, int]:
    """Prompt and output tokens that the server billed, whichever API it spoke."""
    usage = (row.get("response") or {}).get("usage") or {}
    cached = usage.get("cache_creation_input_tokens", 0) + usage.get("cache_read_input_tokens", 0)
    prompt = usage.get("prompt_tokens", usage.get("promptTokenCount", usage.get("input_tokens", 0))) or 0
    output = usage.get("completion_tokens", usage.get("candidatesTokenCount", usage.get("output_tokens", 0))) or 0
    thoughts = usage.get("thoughtsTokenCount") or 0
    return prompt + cached, output + thoughts


def _pairs(sent: list[tuple[int, int]], ours: list[tuple[int, int]]) -> dict[int, int]:
    """Positions of the same requests in both lists: what was billed tells which is which, and their order among equal ones.

    Requests of several sessions at once may stand in another order in their logs. An answer that was broken off is logged
    with fewer tokens than it had: its prompt tells it.
    """
    pairs: dict[int, int] = {}
    for known in (2, 1):
        places: dict[tuple[int, ...], list[int]] = {}
        for place in sorted(set(range(len(ours))) - set(pairs.values())):
            places.setdefault(ours[place][:known], []).append(place)
        for place in sorted(set(range(len(sent))) - pairs.keys()):
            if found := places.get(sent[place][:known]):
                pairs[place] = found.pop(0)
    return pairs
