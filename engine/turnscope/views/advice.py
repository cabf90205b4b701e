"""The result of a search over a policy's parameters: settings with their cost and lost references, and the one to take.

Holds values and how to read them. The search itself and its replays are in `library.advising`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace as replace_fields

from turnscope import notebook
from turnscope.planning import policy as policies
from turnscope.planning.policy import CHECKS, OURS, REPAIRS, Policy
from turnscope.session.model import JSON
from turnscope.views import parameters
from turnscope.views.parameters import Parameter

RANGE_FACTOR = 4  # a whole number is searched from a quarter of the file's value to four times that value
SHARE_RANGE = (0.1, 1.0)  # a share is searched between these
MIN_SAVING = 0.01  # a smaller saving, as a share of the cost, may be chance
# not searched: a replay cannot show what a longer summary or another way of counting would change
EXCLUDED = {"cap", "clip", "frame", "primer", "factor", "ratio", "output", "window", "fallback_window", "margin", "reserve"}

BUDGET_KEYS = {"share": "budget.share", "split": "budget.share", "fixed": "budget.tokens"}  # by formula: what is searched


class Axis(Struct, frozen=True):
    """One parameter of the search space. `key` is that of `parameters.group_parameters`.

    Attributes:
        words: its name for people, with its unit.
        own: its value in the policy's file.
        low, high: the range of a number.
        values: what a flag or a choice may be; () for a number.
        usual: whether it is searched where the caller names no parameters.
    """

    key: str
    words: str
    own: JSON
    low: float = 0
    high: float = 0
    values: tuple[JSON, ...] = ()
    usual: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether its values are whole numbers."""
        return isinstance(self.own, int) and not self.values


class Figures(Struct, frozen=True):
    """The result of a policy over one or more sessions.

    Attributes:
        usd: cost in dollars of the bill (`replay_cost`).
        lost: references that answers reuse and that their requests lacked.
        uses: references that answers reuse.
        unsent: requests that could not be sent: over the window, refused or rejected.
        changed: requests that the policy changed.
        requests: all requests.
        peak: the highest fill of a window, 0 to 1.
        record_usd: what the record cost, in USD.
    """

    usd: Decimal = Decimal(0)
    lost: int = 0
    uses: int = 0
    unsent: int = 0
    changed: int = 0
    requests: int = 0
    peak: float = 0.0
    record_usd: Decimal = Decimal(0)

    @property
    def factor(self) -> float | None:
        """USD as a factor of what the record cost; None where it has no price."""
        return float(self.usd / self.record_usd) if self.record_usd else None

    def __add__(self, other: Figures) -> Figures:
        return Figures(
            usd=self.usd + other.usd,
            lost=self.lost + other.lost,
            uses=self.uses + other.uses,
            unsent=self.unsent + other.unsent,
            changed=self.changed + other.changed,
            requests=self.requests + other.requests,
            peak=max(self.peak, other.peak),
            record_usd=self.record_usd + other.record_usd,
        )


class Point(Struct, frozen=True):
    """One setting: its changes against the policy's file, its figures on the searched sessions, and on those held out.

    Only points of the Pareto front have figures of held-out sessions.
    """

    changes: dict[str, Any]
    searched: Figures
    held: Figures | None = None


class OtherPolicy(Struct, frozen=True):
    """Another policy as it ships: its figures on the searched sessions, and on those held out."""

    policy: str
    searched: Figures
    held: Figures | None = None


class Advice(Struct, frozen=True):
    """The result of a search. `points[0]` is the policy as in its file.

    Attributes:
        text: the policy's file.
        front: numbers of the Pareto-optimal points, the cheapest first.
        chosen: number of the advised point; None = there is nothing to advise.
        because: why this point is advised.
        searched, held: names of the sessions that were searched, and of those held out.
        left_out: sessions that were not used, by reason.
        impossible: settings that a rule or a missing price ruled out.
        others: other policies on the same sessions.
        too_few: why the sessions do not suffice; "" = they do.
        stopped: whether the search ended before all `trials` were made.
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
    others: tuple[OtherPolicy, ...] = ()
    too_few: str = ""
    stopped: bool = False

    @property
    def holdout_result(self) -> str:
        """How the advised point does on the held-out sessions, in one sentence; "" where there is nothing to say."""
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

    @property
    def better_policy(self) -> OtherPolicy | None:
        """The cheapest other policy that costs less than the advised point, loses no more and leaves no more unsent."""
        if self.chosen is None:
            return None
        point = self.points[self.chosen].searched
        good = (
            each
            for each in self.others
            if each.searched.usd <= point.usd * Decimal(1 - MIN_SAVING)
            and each.searched.lost <= point.lost
            and each.searched.unsent <= point.unsent
        )
        return min(good, key=lambda each: each.searched.usd, default=None)

    @property
    def other_result(self) -> str:
        """Which other policy does better than all that was tried, in a sentence or two; "" where none does."""
        better = self.better_policy
        if better is None or self.chosen is None:
            return ""
        point = self.points[self.chosen]
        text = (
            f"Another policy does better here: {better.policy}, as it ships, costs {_format_usd(better.searched.usd)}"
            f" instead of {_format_usd(point.searched.usd)} and loses {better.searched.lost:,} references"
            f" instead of {point.searched.lost:,}."
        )
        if better.held is None or point.held is None:
            return text
        return (
            f"{text} On the sessions held out it costs {_format_usd(better.held.usd)} instead of {_format_usd(point.held.usd)} "
            f"and loses {better.held.lost:,} instead of {point.held.lost:,}."
        )

    def build_policy(self, number: int) -> Policy:
        """Build the policy of a point. Where it differs from the file, its doc and source say so."""
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
        """Write the policy of a point as TOML."""
        return self.build_policy(number).to_toml()

    def describe_changes(self, changes: Mapping[str, JSON]) -> str:
        """Describe the changes of a setting for people."""
        words = {axis.key: axis.words for axis in self.axes}
        listed = (
            f"{words.get(key, key)}: {f'{value:,}' if type(value) in (int, float) else value}" for key, value in changes.items()
        )
        return "; ".join(listed) or "as its file says"

    def to_json(self) -> str:
        """Write all of it as JSON, with the TOML of the chosen policy."""
        value = to_builtins(self, str_keys=True) | {"generalises": self.holdout_result, "another": self.other_result}
        value["toml"] = self.to_toml(self.chosen) if self.chosen is not None else None
        return json.dumps(value, indent=2, ensure_ascii=False) + "\n"

    def to_text(self) -> str:
        """Write the advice, the Pareto front and the TOML of the advised policy as plain text."""
        sentences = [self.too_few or self.because, self.holdout_result, self.other_result]
        sentences += [f"Stopped before all {self.trials:,} settings were tried."] if self.stopped else []
        lines = [
            f"{'*' if number == self.chosen else ' '} {_format_usd(point.searched.usd):>14} {point.searched.lost:>7,} lost   "
            f"{self.describe_changes(point.changes)}"
            for number, point in self.front_points
        ]
        text = [self.to_toml(self.chosen)] if self.chosen else []
        sections = ("\n".join(filter(None, sentences)), "\n".join(lines), *text)
        return "\n\n".join(filter(None, sections)).rstrip() + "\n"

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
            notebook.render_line(self.other_result),
        ]
        return notebook.render_card(f"Advice for {self.title}", *parts)

    @property
    def front_points(self) -> tuple[tuple[int, Point], ...]:
        """The Pareto-optimal points with their numbers, the cheapest first."""
        return tuple((number, self.points[number]) for number in self.front)


def list_axes(policy: Policy) -> tuple[Axis, ...]:
    """List every parameter that can be searched, those of the budget first.

    A number of zero or below switches something off, so it is not searched.
    """
    found = []
    for group in parameters.group_parameters(policy):
        for parameter in group.parameters:
            if axis := _build_axis(parameter, group.title in (*REPAIRS, *CHECKS), policy.budget.formula):
                found.append(axis)
    return tuple(found)


def _build_axis(parameter: Parameter, auxiliary: bool, formula: str) -> Axis | None:
    """The axis of a parameter; None = it cannot be searched. `auxiliary`: its rule only repairs or checks."""
    of_budget, value = parameter.key.startswith("budget."), parameter.value
    if of_budget and parameter.key != BUDGET_KEYS.get(formula):
        return None
    usual = not auxiliary and parameter.name not in EXCLUDED
    axis = Axis(key=parameter.key, words=parameter.label, own=value)
    if parameter.kind == "whole" and value > 0:
        return replace_fields(axis, low=max(1, value // RANGE_FACTOR), high=value * RANGE_FACTOR, usual=usual)
    if parameter.kind == "real" and 0 < value <= 1:
        return replace_fields(axis, low=min(SHARE_RANGE[0], value), high=SHARE_RANGE[1], usual=usual)
    if parameter.kind in ("flag", "choice") and not of_budget:
        return replace_fields(axis, values=(False, True) if parameter.kind == "flag" else parameter.choices)
    return None


def find_pareto_front(points: Sequence[Figures]) -> tuple[int, ...]:
    """Find the points that no other point beats in both USD and lost references.

    Only points with the fewest unsent requests count. Of equal points the first one counts.

    Returns:
        Numbers of the points, the cheapest first.

    >>> find_pareto_front([Figures(Decimal(9), lost=0), Figures(Decimal(5), lost=2), Figures(Decimal(7), lost=2)])
    (1, 0)
    """
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
    """Choose a point of the Pareto front: the cheapest that loses no more than the policy as in its file.

    Where the policy itself leaves more requests unsent, it is no baseline: then the point that loses least is chosen.

    Args:
        points: all points; the first one is the policy as in its file.
        best: numbers of the Pareto-optimal points, the cheapest first.

    Returns:
        The number of the point, None where there is none, and why it is chosen.
    """
    numbers = [*best]
    if not numbers:
        return None, ""
    base, first = points[0], numbers[0]
    if points[first].unsent < base.unsent:
        last = numbers[-1]
        least = points[last]
        return last, (
            f"With defaults, {base.unsent:,} requests could not have been sent; with this setting {least.unsent:,}. Of "
            f"those like it, it loses least: {least.lost:,} references, for {_format_usd(least.usd)}."
        )
    number = next(n for n in numbers if points[n].lost <= base.lost)
    point = points[number]
    saved = float(1 - point.usd / base.usd) if base.usd else 0.0
    if saved < MIN_SAVING:
        return 0, (
            f"Keep defaults: {_format_usd(base.usd)}, {base.lost:,} lost references. Nothing that was tried "
            f"costs at least {MIN_SAVING:.0%} less and loses no more."
        )
    return number, (
        f"{_format_usd(point.usd)} instead of {_format_usd(base.usd)}, {saved:.0%} less, and {point.lost:,} lost references "
        f"instead of {base.lost:,}: the cheapest setting that loses no more than the defaults."
    )


def _format_usd(usd: Decimal) -> str:
    return f"{usd:,.2f} USD"


def _format_count(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
