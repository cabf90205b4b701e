"""What the provider would refuse of a session under a policy, for people: one sentence of the whole, one line of a request.

What is wrong with each request is `planning.rejections`'; here it is counted and put into words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from turnscope.planning.lint import Problem
from turnscope.planning.refusals import UNKNOWN, find_judge, select_refused
from turnscope.planning.rejections import SharedChecks, check_trace
from turnscope.planning.trace import Trace

MAX_REASONS = 3  # reasons that a sentence gives
_KINDS = (
    (re.compile(r"^the call \S+ has"), "a call has"),
    (re.compile(r"^no call before this result has the id \S+$"), "a result has no call before it"),
    (re.compile(r"^the result of \S+ does not stand.*"), "a result does not stand right behind its call"),
    (re.compile(r"^two calls have the id \S+$"), "two calls have one id"),
    (re.compile(r"^.* is no valid id of a call$"), "a call's id is not valid"),
    (re.compile(r"^\S+ does not go on from an answer: "), "the model does not go on from an answer: "),
)


@dataclass(frozen=True, slots=True)
class Rejections:
    """By request, what the provider would reject of it. `kinds`: what it would be refused for first, and in how many; `rules`:
    by whose rules each is judged, "" where none are known.
    """

    requests: tuple[tuple[Problem, ...], ...]
    kinds: tuple[tuple[str, int], ...]
    rules: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Requests that would be refused."""
        return sum(map(bool, self.requests))

    @property
    def first_request(self) -> int:
        """The first of them; -1 where there is none."""
        return next((n for n, found in enumerate(self.requests) if found), -1)

    @property
    def sentence(self) -> str:
        """All of it in one sentence; "" where nothing would be refused, by rules that are known."""
        unknown = self.rules.count(UNKNOWN)
        left = f"{unknown:,} of {len(self.requests):,} requests are not judged: their provider's rules are not known here"
        if not self.count:
            return left if unknown else ""
        told = [f"{kind} ({many:,})" if len(self.kinds) > 1 else kind for kind, many in self.kinds[:MAX_REASONS]]
        more = f"; and {len(self.kinds) - MAX_REASONS} more" if len(self.kinds) > MAX_REASONS else ""
        others = sorted({*self.rules} - {UNKNOWN, "Anthropic"})
        by = f" (rules of {' and '.join(others)})" if others else ""
        said = f"{self.count:,} of {len(self.requests):,} requests would be refused by the API{by}: {'; '.join(told)}{more}"
        return f"{said}; {left}" if unknown else said


def find_rejections(trace: Trace, shared: SharedChecks | None = None) -> Rejections:
    """What the provider would reject of every request, counted by what it is. `shared`: see `rejections`."""
    rules = tuple(find_judge(plan.model, trace.prices) for plan in trace.plans)
    found = tuple(select_refused(problems, known) for problems, known in zip(check_trace(trace, shared), rules, strict=True))
    kinds = Counter(classify_problem(problems[0]) for problems in found if problems)
    return Rejections(found, tuple(kinds.most_common()), rules)


def classify_problem(problem: Problem) -> str:
    """What is wrong, without names and numbers: the same words for the same mistake."""
    for pattern, words in _KINDS:
        if pattern.search(problem.what):
            return pattern.sub(words, problem.what)
    return problem.what


def format_problems(problems: Sequence[Problem]) -> str:
    """What is wrong with one request, in one line; "" where nothing is."""
    told = "; ".join(f"{path}: {what}" for path, what in problems[:MAX_REASONS])
    return told + (f"; and {len(problems) - MAX_REASONS:,} more" if len(problems) > MAX_REASONS else "")
