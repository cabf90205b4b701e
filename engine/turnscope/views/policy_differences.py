"""In what two policies differ, such as two versions of one agent: their text, and what that comes to on a session."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from textwrap import fill
from typing import Any, NamedTuple

from turnscope.numbering import format_request
from turnscope.planning.policy import Policy
from turnscope.views.comparison import Row, find_drops
from turnscope.views.parameters import Group, Parameter, group_parameters
from turnscope.views.policy_groups import find_system
from turnscope.views.text_tables import format_csv

LISTED = 8  # requests that are named; of more their number is
SESSION = "On this session"
NOT_THERE = "–"
WIDTH = 100  # characters of a line in a terminal
HEADINGS = ("part", "what", "A", "B")


class Difference(NamedTuple):
    """One thing in which two policies differ: the part of the policy, its name, and how it is in either; "" = not there."""

    part: str
    what: str
    a: str
    b: str


@dataclass(frozen=True, slots=True)
class Differences:
    """All differences of two policies, by their titles."""

    a: str
    b: str
    rows: tuple[Difference, ...] = field(default=())

    def to_csv(self) -> str:
        """Return a line per difference."""
        return format_csv(HEADINGS, self.rows)

    def to_json(self) -> str:
        """Return the differences with the titles of both policies."""
        rows = [row._asdict() for row in self.rows]
        return json.dumps({"a": self.a, "b": self.b, "differences": rows}, ensure_ascii=False, indent=2) + "\n"

    def __repr__(self) -> str:
        lines = [f"A: {self.a}", f"B: {self.b}"]
        for row in self.rows:
            lines += ["", f"{row.part}: {row.what}", _wrap("A", row.a), _wrap("B", row.b)]
        return "\n".join(lines)


def _wrap(name: str, text: str) -> str:
    return fill(f"{name}  {text or NOT_THERE}", WIDTH, initial_indent="  ", subsequent_indent="     ")


def are_versions(a: Policy, b: Policy) -> bool:
    """Return whether two policies are of one system, so that one may be another version of the other.

    Args:
        a: A policy.
        b: Another one.
    """
    return a.name != b.name and bool(find_system(a.name)) and find_system(a.name) == find_system(b.name)


def find_differences(a: Policy, b: Policy, rows: Sequence[Row] = ()) -> Differences:
    """Find in what two policies differ.

    Args:
        a: A policy.
        b: Another one.
        rows: A replay of each on a session; () = of none.

    >>> from turnscope.planning.policy import load
    >>> find_differences(load("claude-code-32k"), load("claude-code")).rows[0][1:]
    ('version', '2.1.5 to 2.1.7', '2.1')
    """
    found = [
        *([Difference("Policy", "version", a.version, b.version)] if a.version != b.version else []),
        *(_compare_rows(*rows) if len(rows) == 2 else ()),
        *_compare_groups(a, b),
        *_compare_values("Constants", a.constants, b.constants),
    ]
    return Differences(a.title or a.name, b.title or b.name, tuple(found))


def _compare_groups(a: Policy, b: Policy) -> Iterator[Difference]:
    """The budget, and rule by rule. A rule that both have is compared by its parameters, whatever its place."""
    one, other = ({group.title: group for group in group_parameters(policy)} for policy in (a, b))
    for title in dict.fromkeys((*one, *other)):
        mine, theirs = one.get(title), other.get(title)
        if mine is None or theirs is None:
            yield Difference("Rules", title, mine.doc if mine else "", theirs.doc if theirs else "")
        else:
            yield from _compare_values(title, _list_values(mine), _list_values(theirs))


def _list_values(group: Group) -> dict[str, Any]:
    return {parameter.label: _get_value(parameter) for parameter in group.parameters}


def _get_value(parameter: Parameter) -> Any:
    return "none" if parameter.value in (None, "") else parameter.value


def _compare_values(part: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Difference]:
    for name in dict.fromkeys((*a, *b)):
        if a.get(name) != b.get(name):
            yield Difference(part, name, _format(a.get(name)), _format(b.get(name)))


def _format(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _compare_rows(a: Row, b: Row) -> Iterator[Difference]:
    """What the differences come to: where room is made, what is left then, and how large the prompts become."""
    sides = zip_longest(_describe_row(a), _describe_row(b))
    yield from (Difference(SESSION, name, mine, theirs) for (name, mine), (_, theirs) in sides if mine != theirs)


def _describe_row(row: Row) -> Iterator[tuple[str, str]]:
    drops = find_drops(row)
    yield "limit of a prompt (tokens)", _format_range(row.limits)
    yield "the prompt falls at request", _list_requests([number for number, _ in drops])
    yield "tokens that go each time", _format_range([gone for _, gone in drops])
    yield "tokens that are left then", _format_range([row.sizes[number] for number, _ in drops])
    yield "largest prompt (tokens)", f"{max(row.sizes, default=0):,}"
    yield "lost references", f"{len(row.losses.hits):,}"
    yield "rules kept", row.rules_label


def _list_requests(numbers: Sequence[int]) -> str:
    named = ", ".join(map(format_request, numbers[:LISTED]))
    return f"{named} and {len(numbers) - LISTED} more" if len(numbers) > LISTED else named or "none"


def _format_range(values: Sequence[int]) -> str:
    if not values:
        return "none"
    least, most = min(values), max(values)
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"
