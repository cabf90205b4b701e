"""The context windows that a session ran in, each with the evidence for it.

A price list says which window a model can have; a session may have run in a smaller or a larger one. `decide_windows` alone
decides. In this order: what a person chose; what the log states (a number, a beta, `[1m]` behind the model's name); a refusal
that names the limit; automatic compactions of the tool; an answered prompt beyond the window so far; the model's default at the
time. Only a number that a person chose or that the log states is kept where an answered prompt exceeds it.

Each tool compacts at a threshold that follows from its window (`_THRESHOLDS`, observed in recordings of each tool against a
scripted server). So the prompts that it left alone and those that it compacted enclose the window.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from turnscope.session.model import CHAT, MODEL_WINDOWS, Bucket, Request, Session

EvidenceKind = Literal["chosen", "beta", "suffix", "recorded", "refused", "compacted", "prompt", "default"]
"""How a window is known: chosen by a person, a beta header, the model's name, the log's own number, a refusal's number,
automatic compactions, an answered prompt, the model table."""

STANDARD_WINDOW = 200_000  # tokens of the window that Claude models are sold with beside a larger one
LARGER_WINDOWS = (1_000_000, 2_000_000)  # tokens of the larger windows that providers sell
LEAST_WINDOW = 100_000  # tokens of the smallest window that is sold in a larger size, too
LARGE_BETA = "context-1m"  # how the name of the beta begins that asks for 1,000,000 tokens
ROUND = 50_000  # tokens: windows that people set are multiples of it
PRECISION = 0.05  # share of a window within which prompts must enclose it, for one that no table knows
_SUFFIX = re.compile(r"\[1m\]$", re.IGNORECASE)
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
        since = f" from request {self.start} on" if self.start else ""
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
    by_model: dict[str, list[Request]] = {}
    for request in session.requests:
        by_model.setdefault(request.model, []).append(request)
    found: list[WindowEvidence] = []
    for model, requests in by_model.items():
        if model in own:
            found.append(WindowEvidence(model, own[model], "chosen", "you chose it", 0, find_facts(model).window or 0))
        elif session.window != 0:  # 0: the log's own window is unknown, and not what the tables say
            found += _Decision(session, model, find_facts(model)).decide(requests)
    return tuple(found)


def is_one_prompt(session: Session, request: Request) -> bool:
    """Whether a request's prompt tokens are those of one prompt: none of the provider's tools ran inside the answer.

    Args:
        session: The session.
        request: One of its requests.
    """
    return all(block.bucket is not Bucket.TOOL_RESULTS for block in session.blocks[request.cut : request.stop])


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
            asked = self.find_asked(request)
            if not runs or runs[-1][0] != asked:
                runs.append((asked, []))
            runs[-1][1].append(request)
        last: WindowEvidence | None = None
        for number, (asked, run) in enumerate(runs):
            for made in self.decide_run(asked, run, first=number == 0):
                if last is None or (made.window, made.kind) != (last.window, last.kind):
                    yield made
                last = made

    def make(self, window: int, kind: EvidenceKind, because: str, start: int = 0) -> WindowEvidence:
        return WindowEvidence(self.model, window, kind, because, start, self.facts.window or 0)

    def get_listed(self, key: str) -> Any:
        """What the importer found of windows in the log, by key of `MODEL_WINDOWS`."""
        listed = self.session.about.get(MODEL_WINDOWS) if self.session.source != CHAT else None
        return listed.get(key) if isinstance(listed, Mapping) else None

    def find_stated(self) -> WindowEvidence | None:
        """The window that the log states as a number, for this model or for all."""
        stated = self.session.window or (self.get_listed("models") or {}).get(_SUFFIX.sub("", self.model))
        return self.make(stated, "recorded", "its log says so") if stated else None

    def find_asked(self, request: Request) -> tuple[EvidenceKind, str, bool] | None:
        """What the log says that a request asked for: kind, words, and whether it is the larger window."""
        if _SUFFIX.search(self.model):
            return "suffix", "the model's name ends in [1m]", True
        betas = request.settings.get("betas") or request.settings.get("anthropic_beta")
        listed = [name for name in betas if isinstance(name, str)] if isinstance(betas, (list, tuple)) else []
        if beta := next((name for name in listed if name.startswith(LARGE_BETA)), ""):
            return "beta", f"its requests ask for the beta {beta}", True
        chosen = [large for at, large in self.get_listed("switches") or () if at <= (request.sent_at or 0.0)]
        if any(chosen) and self.has_larger():  # a choice without it says something after one with it alone
            return "suffix", f"its user chose the model with{'' if chosen[-1] else 'out'} [1m]", chosen[-1]
        return None

    def find_refused(self, run: Sequence[Request], start: int) -> WindowEvidence | None:
        """The limit that the provider named when it refused a prompt between two requests of a run."""
        for at, tokens, window in reversed(self.get_listed("refused") or ()):
            before = [request for request in self.session.requests if (request.sent_at or 0.0) <= at]
            asked = before[-1] if before else self.session.requests[0]
            if run[0].n <= asked.n <= run[-1].n and asked.model == self.model:
                return self.make(window, "refused", f"the provider refused a prompt of {tokens:,} tokens and said so", start)
        return None

    def has_larger(self) -> bool:
        """Whether the model is sold with the standard window and with a larger one, under one name."""
        return "claude" in self.model and (self.facts.window or 0) >= STANDARD_WINDOW

    def decide_run(
        self, asked: tuple[EvidenceKind, str, bool] | None, run: Sequence[Request], *, first: bool
    ) -> Iterator[WindowEvidence]:
        """The evidence of requests that asked for the same window. What they prove by their size holds from the start."""
        start = 0 if first else run[0].n
        usual = self.find_default(run[0])
        if asked and asked[2]:
            made = self.make(LARGER_WINDOWS[0], asked[0], asked[1], start)
        elif asked and self.facts.window:
            made = self.make(min(STANDARD_WINDOW, self.facts.window), asked[0], asked[1], start)
        elif known := self.find_refused(run, start) or self.find_compacted(run, start):
            made = known
        elif usual:
            made = replace(usual, start=start)
        else:
            return
        over = self.find_over(run, made.window)
        if over is None:
            yield made
            return
        tier, largest, since = over
        because = f"request {largest.n} was answered with a prompt of {_count_prompt(largest):,}"
        if made.kind != "default" and since > start:
            yield made
            start = since
        yield self.make(tier, "prompt", because, start)

    def find_default(self, request: Request) -> WindowEvidence | None:
        """The model's window when a request was sent, where it asked for nothing special."""
        standard, since, window = self.facts.standard_window, self.facts.larger_since, self.facts.window
        day = datetime.fromtimestamp(min(max(0.0, request.sent_at), 4e9), UTC).date().isoformat() if request.sent_at else ""
        if standard and day and day < since and self.session.source != CHAT:
            because = f"until {since} a larger one had to be asked for, and the log does not show that it was"
            return self.make(standard, "default", because)
        return self.make(window, "default", "the table of models says so; the log holds no other evidence") if window else None

    def find_over(self, run: Sequence[Request], window: int) -> tuple[int, Request, int] | None:
        """The next larger window that a run proves, the request that does, and the first request that it may hold for."""
        sizes = ((_count_prompt(request), request) for request in run if window >= LEAST_WINDOW)
        over = [(size, request) for size, request in sizes if size > window and request.stop > request.cut]
        proven = [(size, request) for size, request in over if is_one_prompt(self.session, request)]
        size, largest = max(proven, key=lambda pair: pair[0], default=(0, None))
        tier = next((tier for tier in LARGER_WINDOWS if tier >= size), None)
        if largest is None or tier is None:
            return None
        first = proven[0][1].n
        return tier, largest, max((n for n, _ in self.list_compactions(run) if n <= first), default=run[0].n)

    def list_compactions(self, run: Sequence[Request]) -> list[tuple[int, int]]:
        """The automatic compactions within a run: the first request after each, and the tokens that were compacted."""
        numbers = {request.n: request for request in run}
        found: dict[int, int] = {}
        for seen in self.session.observed if self.session.source in _THRESHOLDS else ():
            edit = seen.edit
            trigger = edit.facts.get("trigger", "" if self.session.source == "claude-code" else "auto")
            if edit.action == "condense" and trigger == "auto" and seen.request in numbers and seen.request:
                size, before = edit.facts.get("preTokens"), self.session.requests[seen.request - 1]
                found[seen.request] = size if isinstance(size, int) and size > 0 else _count_used(before)
        return sorted((n, size) for n, size in found.items() if size)

    def find_compacted(self, run: Sequence[Request], start: int) -> WindowEvidence | None:
        """The window that encloses the prompts of a run: those that the tool left alone, and those that it compacted."""
        compactions = self.list_compactions(run)
        if not compactions:
            return None
        after = {n for n, _ in compactions}
        first = self.find_over(run, STANDARD_WINDOW) if self.has_larger() else None
        end = first[2] if first and compactions[0][0] <= first[2] else run[-1].n  # a larger window was in force from there
        compactions = [pair for pair in compactions if pair[0] <= end]
        alone = (request for request in run if request.n < end and request.n + 1 not in after)
        least, most = max(map(_count_used, alone), default=0), min(size for _, size in compactions)
        many = f"{len(compactions):,} times" if len(compactions) > 1 else "once"
        because = f"the tool compacted by itself {many}, at {most:,} tokens or more"
        window = self.enclose(least, most)
        if window is None and self.has_larger():
            window = next((size for size in (STANDARD_WINDOW, *LARGER_WINDOWS) if size >= least), None)
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


def _count_prompt(request: Request) -> int:
    return request.usage.prompt_tokens if request.usage else 0


def _count_used(request: Request) -> int:
    """Tokens of the prompt and its answer, as a tool holds them against its threshold."""
    usage = request.usage
    return usage.answered_prompt_tokens + (0 if request.output_stub else usage.output_tokens) if usage else 0
