"""A made-up bike-sharing company: a year of memberships with two causes of leaving hidden in it, and ways to look at it.

Holds numbers and tables. The analyst's words are in `analyst_story`.
"""

# ruff: noqa: S311 - the dice are seeded on purpose

from __future__ import annotations

import random
from typing import NamedTuple

WARDS = ("Dockside", "Old Mint", "Harbour Hill", "Lindenfeld", "Station", "Quarry Lake", "Westgate", "University")
PLANS = ("annual", "monthly", "student", "company")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
REASONS = (
    "no bike at the dock",
    "dock full on arrival",
    "price",
    "moved away",
    "winter",
    "app trouble",
    "bought a bike",
    "no answer",
)


class Cell(NamedTuple):
    """One plan in one ward in one month."""

    members: int
    left: int
    rides: int
    empty: int  # minutes with an empty dock, per dock and day

    @property
    def rate(self) -> float:
        return 100 * self.left / self.members


def make() -> dict[tuple[str, str, int], Cell]:
    """Draw the year. Dockside and Station run out of bikes from April on; the price of annual plans rises in June."""
    rng = random.Random("bikes")
    out: dict[tuple[str, str, int], Cell] = {}
    for ward in WARDS:
        for plan in PLANS:
            members = rng.randint(180, 1900)
            for month in range(12):
                starved = ward in ("Dockside", "Station") and month >= 3
                rate = rng.uniform(1.3, 2.4) + (0.9 if month in (10, 11, 0) else 0)
                rate += 3.1 + 0.25 * (month - 3) if starved else 0
                rate += 0.7 if plan == "annual" and month in (5, 6) else 0
                left = round(members * rate / 100)
                rides = round(members * (rng.uniform(5, 9) + 6 * (3 <= month <= 8)))
                out[ward, plan, month] = Cell(members, left, rides, rng.randint(90, 190) if starved else rng.randint(4, 31))
                members += rng.randint(5, 60) - left // 2
    return out


DATA = make()


def grid(column: str, plan: str = "annual", months: range = range(12)) -> str:
    """Print one figure per ward and month, as the SQL tool would."""
    rows = [" | ".join(["ward".ljust(13), *(MONTHS[m].rjust(6) for m in months)])]
    rows.append("-+-".join(["-" * 13, *("-" * 6 for _ in months)]))
    for ward in WARDS:
        values = [getattr(DATA[ward, plan, m], column) for m in months]
        rows.append(" | ".join([ward.ljust(13), *(f"{v:6.2f}" if isinstance(v, float) else f"{v:6d}" for v in values)]))
    return "\n".join([*rows, f"({len(WARDS)} rows)"])


def by_plan(ward: str, months: range = range(12)) -> str:
    """Print members, leavers and empty minutes of one ward, a row per plan and month."""
    rows = [
        "plan     | month | members | left | rate % | rides | empty_min",
        "---------+-------+---------+------+--------+-------+----------",
    ]
    for plan in PLANS:
        for m in months:
            c = DATA[ward, plan, m]
            rows.append(
                f"{plan:<8} | {MONTHS[m]:<5} | {c.members:>7} | {c.left:>4} | {c.rate:>6.2f} | {c.rides:>5} | {c.empty:>9}"
            )
    return "\n".join([*rows, f"({len(PLANS) * len(months)} rows)"])


def reasons(seed: str) -> str:
    """Print what leavers answered in the exit form, per ward."""
    rng = random.Random(seed)
    rows = ["ward          | reason               |  n", "--------------+----------------------+----"]
    for ward in WARDS:
        for reason in REASONS:
            starved = ward in ("Dockside", "Station") and reason.startswith(("no bike", "dock full"))
            rows.append(f"{ward:<13} | {reason:<20} | {rng.randint(61, 140) if starved else rng.randint(2, 38):>3}")
    return "\n".join([*rows, f"({len(WARDS) * len(REASONS)} rows)"])
