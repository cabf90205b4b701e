"""What a search over a policy's parameters found: points of dollars against lost references, and which of them to take.

Values and their reading alone: what may be turned (`list_axes`), which points no other one beats (`find_pareto_front`), the
policy of a point. Replays and the search itself are the library's (`library.advising`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from msgspec import Struct, to_builtins

from turnscope import notebook
from turnscope.planning import policy as policies
from turnscope.planning.policy import CHECKS, OURS, REPAIRS, Policy
from turnscope.session.model import JSON
from turnscope.views import parameters
from turnscope.views.parameters import Parameter

RANGE_FACTOR = 4  # a whole number is tried from a quarter to four times what the file says
SHARE_RANGE = (0.1, 1.0)  # and a share between these
MIN_SAVING = 0.01  # share that has to be saved: less is chance
# how long a summary is and what a text is counted by: what a longer one would say is not known, so turning it proves nothing
EXCLUDED = {"cap", "clip", "frame", "primer", "factor", "ratio", "output", "window", "fallback_window", "margin", "reserve"}


class Axis(Struct, frozen=True):
    """One parameter that may be turned, by key as in `parameters.group_parameters`. Numbers lie between `low` and `high`; a
    flag or a choice has `values`. `usual`: it is turned where nobody says what is to be."""

    key: str
    words: str
    own: JSON
    low: float = 0
    high: float = 0
    values: tuple[JSON, ...] = ()
    usual: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether it counts something."""
        return isinstance(self.own, int) and not self.values


class Figures(Struct, frozen=True):
    """What a policy came to over sessions: USD, references lost of those that answers take up, requests that could not have
    been sent (over the window, refused or rejected), requests that it changed, and the fullest share of a window."""

    usd: Decimal = Decimal(0)
    lost: int = 0
    uses: int = 0
    unsent: int = 0
    changed: int = 0
    requests: int = 0
    peak: float = 0.0

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            self.usd + other.usd, self.lost + other.lost, self.uses + other.uses, self.unsent + other.unsent,
            self.changed + other.changed, self.requests + other.requests, max(self.peak, other.peak),
        )  # fmt: skip


class Point(Struct, frozen=True):
    """One setting: what differs from the policy's file, and what it came to on the sessions that were searched and, of points
    on the front, on those that were held out."""

    changes: dict[str, Any]
    searched: Figures
    held: Figures | None = None


class Advice(Struct, frozen=True):
    """What a search found. `points[0]` is the policy as its file says, `text` that file; `front`: numbers of the points that no
    other one beats, the cheapest first; `chosen`: the one to take, None where there is nothing to advise, and `because` why.

    `too_few`: why the sessions do not suffice to advise, "" where they do. `left_out`: sessions that were not looked at, by
    reason. `stopped`: it was ended before all `trials` were made.
    """

    policy: str
    title: str
    text: str
    axes: tuple[Axis, ...]
    method: str
    seed: int
    trials: int
    points: tuple[Point, ...] = ()
    front: tuple[int, ...] = ()
    chosen: int | None = None
    because: str = ""
    searched: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    left_out: dict[str, int] = {}
    impossible: int = 0
    too_few: str = ""
    stopped: bool = False

    @property
    def holdout_result(self) -> str:
        """How the advised point does on the sessions that the search never saw, in a sentence."""
        if not self.chosen:
            return ""
        if not self.held:
            return "No session was held out: there are fewer than three. So nothing shows whether this holds for others."
        base, point = self.points[0].held, self.points[self.chosen].held
        if base is None or point is None:
            return ""
        good = point.unsent <= base.unsent and point.usd <= base.usd and point.lost <= base.lost
        better = "It holds for others, too" if good else "It does not hold for others"
        return (
            f"{better}: on {_format_count(len(self.held), 'session')} that the search never saw it costs "
            f"{_format_usd(point.usd)} instead of {_format_usd(base.usd)} and loses {point.lost:,} references "
            f"instead of {base.lost:,}."
        )

    def build_policy(self, number: int) -> Policy:
        """The policy of a point. The file's own is as it stands; another says of itself where it comes from."""
        base = policies.parse(self.policy, self.text)
        point = self.points[number]
        if not point.changes:
            return base
        made = parameters.apply_changes(base, point.changes)
        found = f"{_format_usd(point.searched.usd)}, {point.searched.lost:,} lost references"
        return replace(
            made,
            doc=f"{base.doc} Turned: {self.describe_changes(point.changes)}.".strip(),
            title=f"{base.title or base.name}, {'advised' if number == self.chosen else 'tuned'}",
            source=(
                f"turnscope advise --policy {self.policy} --trials {self.trials} --seed {self.seed}: {found} over "
                f"{_format_count(len(self.searched), 'session')}, {len(self.held)} more held out"
            ),
            fidelity=base.fidelity if base.fidelity.startswith(OURS) else "approximate: parameters that are not the original's",
        )

    def to_toml(self, number: int) -> str:
        """The policy of a point as the text of a file."""
        return self.build_policy(number).to_toml()

    def describe_changes(self, changes: Mapping[str, JSON]) -> str:
        """What differs from the file, for people."""
        words = {axis.key: axis.words for axis in self.axes}
        said = (
            f"{words.get(key, key)}: {f'{value:,}' if type(value) in (int, float) else value}" for key, value in changes.items()
        )
        return "; ".join(said) or "as its file says"

    def to_json(self) -> str:
        """All of it as JSON, with the chosen policy's file."""
        value = to_builtins(self, str_keys=True) | {"generalises": self.holdout_result}
        value["toml"] = self.to_toml(self.chosen) if self.chosen is not None else None
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"

    def to_text(self) -> str:
        """All of it as text: what is advised and why, the front, and the advised policy's file."""
        told = [self.too_few or self.because, self.holdout_result]
        told += [f"Stopped before all {self.trials:,} settings were tried."] if self.stopped else []
        lines = [
            f"{'*' if number == self.chosen else ' '} {_format_usd(point.searched.usd):>14} {point.searched.lost:>7,} lost   "
            f"{self.describe_changes(point.changes)}"
            for number, point in self.front_points
        ]
        text = [self.to_toml(self.chosen)] if self.chosen else []
        return "\n\n".join(part for part in ("\n".join(filter(None, told)), "\n".join(lines), *text) if part).rstrip() + "\n"

    def _repr_html_(self) -> str:
        head = ("", "USD", "lost references", "held out: USD", "lost", "what differs")
        lines = [
            (
                "advised" if number == self.chosen else "",
                _format_usd(point.searched.usd),
                point.searched.lost,
                _format_usd(point.held.usd) if point.held else "",
                point.held.lost if point.held else "",
                self.describe_changes(point.changes),
            )
            for number, point in self.front_points
        ]
        parts = [
            notebook.render_line(self.too_few or self.because),
            notebook.render_table(head, lines),
            notebook.render_line(self.holdout_result),
        ]
        return notebook.render_card(f"Advice for {self.title}", *parts)

    @property
    def front_points(self) -> tuple[tuple[int, Point], ...]:
        """The points that no other one beats, with their numbers, the cheapest first."""
        return tuple((number, self.points[number]) for number in self.front)


def list_axes(policy: Policy) -> tuple[Axis, ...]:
    """Every parameter of a policy that may be turned, the budget's first. Zero and less switch something off, and are left."""
    found = []
    for group in parameters.group_parameters(policy):
        for knob in group.parameters:
            if axis := _build_axis(knob, group.title in (*REPAIRS, *CHECKS), policy.budget.formula):
                found.append(axis)
    return tuple(found)


def _build_axis(knob: Parameter, aside: bool, formula: str) -> Axis | None:
    of_budget = knob.key.startswith("budget.")
    usual = not aside and knob.name not in EXCLUDED
    if of_budget and knob.key not in {"share": ("budget.share",), "split": ("budget.share",), "fixed": ("budget.tokens",)}.get(
        formula, ()
    ):
        return None
    if knob.kind == "whole" and knob.value > 0:
        return Axis(
            knob.key, knob.label, knob.value, max(1, knob.value // RANGE_FACTOR), knob.value * RANGE_FACTOR, usual=usual
        )
    if knob.kind == "real" and 0 < knob.value <= 1:
        return Axis(knob.key, knob.label, knob.value, min(SHARE_RANGE[0], knob.value), SHARE_RANGE[1], usual=usual)
    if knob.kind in ("flag", "choice") and not of_budget:
        return Axis(knob.key, knob.label, knob.value, values=(False, True) if knob.kind == "flag" else knob.choices)
    return None


def find_pareto_front(points: Sequence[Figures]) -> tuple[int, ...]:
    """Numbers of the points that no other one beats in dollars and in lost references, the cheapest first; of equal ones the
    first. Only points count that leave the fewest requests unsent: one that could not be sent is no choice."""
    if not points:
        return ()
    fewest = min(point.unsent for point in points)
    order = sorted(
        (number for number, point in enumerate(points) if point.unsent == fewest),
        key=lambda number: (points[number].usd, points[number].lost, number),
    )
    found: list[int] = []
    for number in order:
        if not found or points[number].lost < points[found[-1]].lost:
            found.append(number)
    return tuple(found)


def choose_point(points: Sequence[Figures], best: Iterable[int]) -> tuple[int | None, str]:
    """Which point of the front to take, and why: the cheapest that loses no more than the policy as its file says.

    Where the file's own leaves requests unsent that others do not, it is no yardstick: then it is the one that loses least.
    """
    numbers = [*best]
    if not numbers:
        return None, ""
    base, first = points[0], numbers[0]
    if points[first].unsent < base.unsent:
        last = numbers[-1]
        least = points[last]
        return last, (
            f"As its file says, {base.unsent:,} requests could not have been sent; with this setting {least.unsent:,}. Of "
            f"those like it, it loses least: {least.lost:,} references, for {_format_usd(least.usd)}."
        )
    number = next(n for n in numbers if points[n].lost <= base.lost)
    point = points[number]
    saved = float(1 - point.usd / base.usd) if base.usd else 0.0
    if saved < MIN_SAVING:
        return 0, (
            f"Leave it as its file says: {_format_usd(base.usd)}, {base.lost:,} lost references. Nothing that was tried "
            f"costs at least {MIN_SAVING:.0%} less and loses no more."
        )
    return number, (
        f"{_format_usd(point.usd)} instead of {_format_usd(base.usd)}, {saved:.0%} less, and {point.lost:,} lost references "
        f"instead of {base.lost:,}: the cheapest setting that loses no more than its file says."
    )


def _format_usd(usd: Decimal) -> str:
    return f"{usd:,.2f} USD"


def _format_count(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
