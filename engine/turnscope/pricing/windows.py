"""The context windows that a session ran in, each with the evidence for it.

A price list says which window a model can have; a session may have run in a smaller or a larger one. `decide_windows` alone
decides. In this order: what a person chose; what the log states (a number, a beta, `[1m]` behind the model's name); a refusal
that names the limit; automatic compactions of the tool; in a branch or a subagent, what the main path shows of the model; an
answered prompt beyond the window so far; the model's default at the time. Only a number that a person chose or that the log
states is kept where an answered prompt exceeds it.

Each tool compacts at a threshold that follows from its window (`_THRESHOLDS`, observed in recordings of each tool against a
scripted server). So the prompts that it left alone and those that it compacted enclose the window.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from turnscope.numbering import format_request
from turnscope.session.model import CHAT, Request, Session
from turnscope.session.window_facts import (
    LARGER_WINDOWS,
    STANDARD_WINDOW,
    Compactions,
    count_prompt,
    find_large_beta,
    find_over,
    find_refusal,
    get_listed,
    group_by_model,
    list_betas,
    list_switches,
    measure_compactions,
)

EvidenceKind = Literal["chosen", "beta", "suffix", "recorded", "refused", "compacted", "prompt", "default"]
"""How a window is known: chosen by a person, a beta header, the model's name, the log's own number, a refusal's number,
automatic compactions, an answered prompt, the model table."""

ROUND = 50_000  # tokens: windows that people set are multiples of it
PRECISION = 0.05  # share of a window within which prompts must enclose it, for one that no table knows
_SUFFIX = re.compile(r"\[1m\]$", re.IGNORECASE)
_ON_MAIN = "on the session's main path, "
_THRESHOLDS: Mapping[str, Callable[[int], int]] = {  # from a tool's threshold to its window, in tokens
    "claude-code": lambda threshold: threshold + 33_000,  # 2.1.330; 20,000 for the answer and 13,000 of buffer
    "codex": lambda threshold: threshold * 10 // 9,  # 0.169.0
    "qwen-code": lambda threshold: threshold * 10 // 7,  # 0.15.10
}


class _Facts(Protocol):
    """What the tables say of a model: `prices.ModelFacts`."""

    @property
    def window(self) -> int | None: ...
    @property
    def standard_window(self) -> int | None: ...
    @property
    def larger_since(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ChosenWindow:
    """A window that a person chose for a model in a session and in what belongs to it, in tokens."""

    session: str
    model: str
    window: int


@dataclass(frozen=True, slots=True)
class WindowEvidence:
    """The window of a model in a session, and how it is known.

    Attributes:
        model: the model, as requests name it.
        window: in tokens.
        kind: what kind of evidence it is.
        because: the evidence in words.
        start: number of the first request that it holds for.
        table: the window that the table of models has, in tokens; 0 = none.
    """

    model: str
    window: int
    kind: EvidenceKind
    because: str
    start: int = 0
    table: int = 0

    @property
    def sentence(self) -> str:
        """One sentence that says how the window is known."""
        other = f", not {self.table:,}" if self.table not in (0, self.window) else ""
        since = f" from request {format_request(self.start)} on" if self.start else ""
        return f"a window of {self.window:,} tokens{other}{since}: {self.because}"


def decide_windows(
    session: Session, find_facts: Callable[[str], _Facts], chosen: Iterable[ChosenWindow] = ()
) -> tuple[WindowEvidence, ...]:
    """Decide which window each model of a session had, and from which request on.

    Args:
        session: The session.
        find_facts: Gives what the tables say of a model.
        chosen: What a person chose, for any session.

    Returns:
        The evidence by model, in the order of the requests it holds for. A model without any has no known window.
    """
    own = {choice.model: choice.window for choice in chosen if choice.session in (session.id, session.parent)}
    found: list[WindowEvidence] = []
    for model, requests in group_by_model(session).items():
        if model in own:
            found.append(WindowEvidence(model, own[model], "chosen", "you chose it", 0, find_facts(model).window or 0))
        elif session.window != 0:  # 0: the log's own window is unknown, and not what the tables say
            found += _Decision(session, model, find_facts(model)).decide(requests)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Decision:
    """Decides the windows of one model."""

    session: Session
    model: str
    facts: _Facts

    def decide(self, requests: Sequence[Request]) -> Iterator[WindowEvidence]:
        """The evidence, run by run: a run ends where the log says that the window was changed."""
        stated = self.find_stated()
        if stated:
            yield stated
            return
        runs: list[tuple[tuple[EvidenceKind, str, bool] | None, list[Request]]] = []
        for request in requests:
            requested = self.find_requested_window(request)
            if not runs or runs[-1][0] != requested:
                runs.append((requested, []))
            runs[-1][1].append(request)
        last: WindowEvidence | None = None
        for number, (requested, run) in enumerate(runs):
            for made in self.decide_run(requested, run, first=number == 0):
                if last is None or (made.window, made.kind) != (last.window, last.kind):
                    yield made
                last = made

    def make(self, window: int, kind: EvidenceKind, because: str, start: int = 0) -> WindowEvidence:
        return WindowEvidence(self.model, window, kind, because, start, self.facts.window or 0)

    def find_stated(self) -> WindowEvidence | None:
        """The window that the log states as a number, for this model or for all."""
        stated = self.session.window or (get_listed(self.session, "models") or {}).get(_SUFFIX.sub("", self.model))
        return self.make(stated, "recorded", "its log says so") if stated else None

    def find_requested_window(self, request: Request) -> tuple[EvidenceKind, str, bool] | None:
        """What a request requested by the log's account: kind, words, and whether it is the larger window."""
        if _SUFFIX.search(self.model):
            return "suffix", "the model's name ends in [1m]", True
        listed = list_betas(request)
        if beta := find_large_beta(listed):
            return "beta", f"its requests ask for the beta {beta}", True
        when = request.sent_at or 0.0
        chosen = [large for at, large in list_switches(self.session, self.model) if at <= when]
        if any(chosen) and self.has_larger():  # a choice without it says something after one with it alone
            return "suffix", f"its user chose the model with{'' if chosen[-1] else 'out'} [1m]", chosen[-1]
        on_main = [name for at, name in self.get_main_facts().get("betas") or () if at <= when]
        if any(on_main) and not listed:
            name = next(filter(None, reversed(on_main)))
            did = "ask" if on_main[-1] else "asked no more"
            return "beta", f"{_ON_MAIN}requests {did} for the beta {name}", bool(on_main[-1])
        return None

    def find_refused(self, run: Sequence[Request], start: int) -> WindowEvidence | None:
        """The limit that the provider named when it refused a prompt between two requests of a run."""
        found = find_refusal(self.session, self.model, run)
        return self.make_refused(found, start) if found else None

    def make_refused(self, refused: Sequence[int], start: int, where: str = "") -> WindowEvidence:
        tokens, window = refused
        return self.make(window, "refused", f"{where}the provider refused a prompt of {tokens:,} tokens", start)

    def get_main_facts(self) -> Mapping[str, Any]:
        """What the main path shows of the model, in a branch or a subagent."""
        return (get_listed(self.session, "main") or {}).get(self.model) or {}

    def find_on_main_path(self, start: int) -> WindowEvidence | None:
        """What the main path shows of the model, in a branch or a subagent."""
        facts = self.get_main_facts()
        if refused := facts.get("refused"):
            return self.make_refused(refused, start, _ON_MAIN)
        compacted = facts.get("compacted")
        return self.make_compacted(Compactions(*compacted), start, _ON_MAIN) if compacted else None

    def find_larger_on_main_path(self, known: WindowEvidence, start: int) -> WindowEvidence | None:
        """A larger window than the one that is known, which an answered prompt of the main path shows."""
        size = self.get_main_facts().get("prompt") or 0
        tier = next((tier for tier in LARGER_WINDOWS if tier >= size > known.window), None)
        return self.make(tier, "prompt", f"{_ON_MAIN}a prompt of {size:,} tokens was answered", start) if tier else None

    def has_larger(self) -> bool:
        """Whether the model is sold with the standard window and with a larger one, under one name."""
        return "claude" in self.model and (self.facts.window or 0) >= STANDARD_WINDOW

    def decide_run(
        self, requested: tuple[EvidenceKind, str, bool] | None, run: Sequence[Request], *, first: bool
    ) -> Iterator[WindowEvidence]:
        """The evidence of requests for the same window. What they prove by their size holds from the start."""
        start = 0 if first else run[0].n
        usual = self.find_default(run[0])
        if requested and requested[2]:
            made = self.make(LARGER_WINDOWS[0], requested[0], requested[1], start)
        elif requested and self.facts.window:
            made = self.make(min(STANDARD_WINDOW, self.facts.window), requested[0], requested[1], start)
        elif known := self.find_refused(run, start) or self.find_compacted(run, start) or self.find_on_main_path(start):
            made = known
        elif usual:
            made = replace(usual, start=start)
        else:
            return
        made = (None if requested else self.find_larger_on_main_path(made, start)) or made
        over = find_over(self.session, run, made.window)
        if over is None:
            yield made
            return
        tier, largest, since = over
        because = f"request {format_request(largest.n)} was answered with a prompt of {count_prompt(largest):,}"
        if made.kind != "default" and since > start:
            yield made
            start = since
        yield self.make(tier, "prompt", because, start)

    def find_default(self, request: Request) -> WindowEvidence | None:
        """The model's window when a request was sent, where it requested no other."""
        standard, since, window = self.facts.standard_window, self.facts.larger_since, self.facts.window
        day = datetime.fromtimestamp(min(max(0.0, request.sent_at), 4e9), UTC).date().isoformat() if request.sent_at else ""
        if standard and day and day < since and self.session.source != CHAT:
            because = f"until {since} a larger one had to be requested, and the log does not show that it was"
            return self.make(standard, "default", because)
        return self.make(window, "default", "the table of models says so; the log holds no other evidence") if window else None

    def find_compacted(self, run: Sequence[Request], start: int) -> WindowEvidence | None:
        """The window that encloses the prompts of a run: those that the tool left alone, and those that it compacted."""
        found = measure_compactions(self.session, self.model, run)
        return self.make_compacted(found, start) if found else None

    def make_compacted(self, found: Compactions, start: int, where: str = "") -> WindowEvidence | None:
        many = f"{found.times:,} times" if found.times > 1 else "once"
        because = f"{where}the tool compacted by itself {many}, at {found.most:,} tokens or more"
        window = self.enclose(found.least, found.most)
        if window is None and self.has_larger():
            window = next((size for size in (STANDARD_WINDOW, *LARGER_WINDOWS) if size >= found.least), None)
        return self.make(window, "compacted", because, start) if window else None

    def enclose(self, least: int, most: int) -> int | None:
        """The window with a threshold above `least` and not above `most` tokens; None where that says too little."""
        convert = _THRESHOLDS[self.session.source]
        low, high = convert(least), convert(most)
        if low >= high:
            return None
        sold = (STANDARD_WINDOW, *LARGER_WINDOWS) if self.has_larger() else ()
        known = next((size for size in (*sold, self.facts.window or 0) if low < size <= high), None)
        step = high // ROUND * ROUND
        return known or (step if low < step and high - low <= PRECISION * high else None)
