"""A fixture for a team's own tests: `context_budget("session.jsonl", max_fill=90)` fails where a session breaks its budget.

pytest finds it by the entry point of the package. Imports the engine only when a test asks for the fixture.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(scope="session")
def context_budget() -> Callable[..., Any]:
    """A function that judges a session file: path, `max_fill` in percent, `max_usd`, `no_reject`, `policy` by name.

    Gives the row of the comparison; fails the test with every limit that is broken, or where the file cannot be read.
    """
    from turnscope.library.checking import Limits, check

    def hold(path: Any, *, policy: str = "as-recorded", **limits: Any) -> Any:
        __tracebackhide__ = True
        made = check(path, Limits(**limits), policy)
        if not made.ok:
            pytest.fail(f"{made.path} under {policy}: {made.error or '; '.join(made.violations)}", pytrace=False)
        return made.row

    return hold
