"""Every golden case of a ported system passes, but for the few defects of an original that we choose not to copy.

There are two folders of cases: those of the originals, which lie beside the project, and a few of our own, worked out by hand
from what is documented of each system or by running it, so that a clone without the others holds every port to something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.goldens import DEFAULT, OWN, adapters, cases, judge

ABSENT = pytest.param((), marks=pytest.mark.skip("the golden cases are not beside the project"), id="none")


def iter_cases(folder: Path) -> Iterator[Any]:
    for module, case, file in cases(folder):
        yield pytest.param((module, case, file), id=f"{file['system']}/{case['id']}")


@pytest.mark.parametrize("case", list(iter_cases(DEFAULT)) or [ABSENT])
def test_a_case_gives_what_the_original_gave(case: Any) -> None:
    outcome = judge(*case)
    if outcome.departs:
        assert outcome.wrong, "this case passes now: take it off the list of departures"
        pytest.xfail(outcome.departs)
    assert not outcome.wrong


@pytest.mark.parametrize("case", list(iter_cases(OWN)))
def test_a_case_of_our_own_gives_what_was_worked_out_by_hand(case: Any) -> None:
    assert not judge(*case).wrong


def test_every_port_has_cases_of_our_own_that_say_why() -> None:
    own = list(cases(OWN))
    assert set(adapters()) == {system for system, count in Counter(file["system"] for _, _, file in own).items() if count >= 3}
    assert [case["id"] for _, case, _ in own if not case["why"]] == []
