"""Every golden case of a ported system passes, but for the few defects of an original that we choose not to copy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.goldens import DEFAULT, Outcome, outcomes


def _cases() -> Iterator[Outcome]:
    if DEFAULT.is_dir():
        yield from outcomes(DEFAULT)


@pytest.mark.skipif(not DEFAULT.is_dir(), reason="the golden cases are not beside the project")
@pytest.mark.parametrize("outcome", list(_cases()), ids=lambda o: f"{o.system}/{o.case}")
def test_a_case_gives_what_the_original_gave(outcome: Outcome) -> None:
    if outcome.departs:
        assert outcome.wrong, "this case passes now: take it off the list of departures"
        pytest.skip(outcome.departs)
    assert not outcome.wrong
