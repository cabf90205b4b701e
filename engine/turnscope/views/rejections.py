"""What the provider would reject of a session under a policy, for people: a sentence about all requests, a line about one.

`planning.rejections` finds the problems; this module counts and words them.
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

MAX_REASONS = 3  # reasons in a sentence
_KINDS = (
    (re.compile(r"^the call \S+ has"), "a call has"),
    (re.compile(r"^no call before this result has the id \S+$"), "a result has no call before it"),
    (re.compile(r"^the result of \S+ does not directly follow.*"), "a result does not directly follow its call"),
    (re.compile(r"^two calls have the id \S+$"), "two calls have one id"),
    (re.compile(r"^.* is no valid id of a call$"), "a call's id is not valid"),
    (re.compile(r"^\S+ does not continue an answer: "), "the model does not continue an answer: "),
)


@dataclass(frozen=True, slots=True)
class Rejections:
    """The problems of each request.

    Attributes:
        requests: problems by request.
        kinds: the first problem of a request, without names and numbers, and how many requests have it.
        rules: whose rules judge each request, "" = unknown.
    """

    requests: tuple[tuple[Problem, ...], ...]
    kinds: tuple[tuple[str, int], ...]
    rules: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """Requests that would be rejected."""
        return sum(map(bool, self.requests))

    @property
    def first_request(self) -> int:
        """The first of them; -1 = there is none."""
        return next((n for n, found in enumerate(self.requests) if found), -1)

    @property
    def sentence(self) -> str:
        """All of it in one sentence; "" where nothing would be rejected by known rules."""
        unknown = self.rules.count(UNKNOWN)
        left = f"{unknown:,} of {len(self.requests):,} requests are not judged: their provider's rules are not known here"
        if not self.count:
            return left if unknown else ""
        reasons = [f"{kind} ({many:,})" if len(self.kinds) > 1 else kind for kind, many in self.kinds[:MAX_REASONS]]
        more = f"; and {len(self.kinds) - MAX_REASONS} more" if len(self.kinds) > MAX_REASONS else ""
        others = sorted({*self.rules} - {UNKNOWN, "Anthropic"})
        by = f" (rules of {' and '.join(others)})" if others else ""
        text = f"{self.count:,} of {len(self.requests):,} requests would be rejected by the API{by}: {'; '.join(reasons)}{more}"
        return f"{text}; {left}" if unknown else text


def find_rejections(trace: Trace, shared: SharedChecks | None = None) -> Rejections:
    """Find what the provider would reject of every request.

    Args:
        trace: the replay.
        shared: see `planning.rejections`.
    """
    return select_rejections(trace, check_trace(trace, shared))


def select_rejections(trace: Trace, problems: Sequence[Sequence[Problem]]) -> Rejections:
    """What the providers of a replay would reject, of all problems of its requests.

    Args:
        trace: the replay.
        problems: those of each request, see `planning.rejections`.
    """
    rules = tuple(find_judge(plan.model, trace.prices) for plan in trace.outlines)
    found = tuple(select_refused(each, known) for each, known in zip(problems, rules, strict=True))
    kinds = Counter(classify_problem(problems[0]) for problems in found if problems)
    return Rejections(found, tuple(kinds.most_common()), rules)


def classify_problem(problem: Problem) -> str:
    """A problem without names and numbers, so that the same mistake has the same words."""
    for pattern, words in _KINDS:
        if pattern.search(problem.what):
            return pattern.sub(words, problem.what)
    return problem.what


def format_problems(problems: Sequence[Problem]) -> str:
    """The problems of one request in one line; "" without problems."""
    line = "; ".join(f"{path}: {what}" for path, what in problems[:MAX_REASONS])
    return line + (f"; and {len(problems) - MAX_REASONS:,} more" if len(problems) > MAX_REASONS else "")
