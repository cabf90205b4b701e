"""Sessions worth a look: each kind has its reason, the strongest of each kind come first, and ordinary ones are not named."""

from __future__ import annotations

from typing import Any

from turnscope.library import find_notable
from turnscope.storage.library_index import IndexRow

PICO = 10**12


def row(name: str, usd: float | None = 1.0, **others: Any) -> IndexRow:
    pico = None if usd is None else round(usd * PICO)
    values: dict[str, Any] = dict.fromkeys(("entry", "models", "tool"), "") | dict.fromkeys(("messages", "band", "cuts"), 0)
    values |= {"path": f"/{name}", "name": name, "title": name, "project": "shop", "requests": 100, "filled": 100, "fill": 0.2}
    values |= {"peak": 50_000, "window": 200_000, "pico": pico, "started": 0.0, "ended": 0.0, "size": 1}
    return IndexRow(**{**values, **others})


ORDINARY = [row(f"ordinary-{n}") for n in range(6)]


def test_ordinary_sessions_are_not_named_and_too_few_are_not_compared() -> None:
    assert find_notable(ORDINARY) == ()
    assert find_notable([row("a"), row("b", 40.0)]) == ()


def test_a_session_that_costs_several_times_the_median_of_its_project_says_so() -> None:
    [found] = find_notable([*ORDINARY, row("dear", 14.8)])
    assert (found.row.name, found.kind, found.reason) == ("dear", "cost", "$14.80, 15 times the median of shop.")
    [found] = find_notable([*ORDINARY, row("dear", 14.8, project="alone")])
    assert found.reason == "$14.80, 15 times the median of all sessions."
    assert find_notable([*(row(f"cheap-{n}", 0.01) for n in range(6)), row("less", 0.5)]) == (), "not worth the time"


def test_each_kind_is_named_first_and_no_session_twice() -> None:
    dear = row("dear", 20.0, misses=27, missed=6 * PICO, cuts=5)
    cold, cut, full = row("cold", misses=9, missed=3 * PICO), row("cut", cuts=4), row("full", peak=199_000)
    found = find_notable([*ORDINARY, dear, cold, cut, full], 4)
    assert [(one.row.name, one.kind) for one in found] == [
        ("dear", "cost"),
        ("full", "full"),
        ("cold", "cache"),
        ("cut", "cuts"),
    ]
    assert {one.title for one in found} == {"Cost outlier", "Window 100% full", "Cache missed 9 times", "Truncated 4 times"}
    assert len(find_notable([*ORDINARY, dear, cold, cut, full])) == 3


def test_cache_misses_that_are_little_of_the_cost_are_not_named() -> None:
    assert find_notable([row("large", 100.0, misses=3, missed=2 * PICO)]) == ()
    assert find_notable([row("cheap", 0.01, cuts=30)]) == ()
    assert find_notable([row("unpriced", None, misses=3, missed=None, window=0)]) == ()
