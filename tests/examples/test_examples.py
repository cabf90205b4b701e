"""Rules as an engineer would add them: one file each in `rules/` beside this one, found as those of the engine are found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from turnscope import rules as package
from turnscope.planning import policy
from turnscope.planning.assemble import Basis, plan_step, reconcile_plan
from turnscope.planning.policy import parse

from tests.pictures import test_pictures as pictures

HERE = Path(__file__).parent
FILES = sorted((HERE / "rules").glob("*.py"))
CASES = [case for path in sorted(HERE.glob("*.txt")) for case in pictures.cases(path)]


@pytest.fixture(autouse=True)
def _found(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A second folder of rules, on the path of their package: what is found in its own folder is found in this one."""
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(HERE / "rules")])
    _forget()
    yield
    _forget()


def _forget() -> None:
    for found in (policy._find_modules, policy.load_rules, policy.find_rule):
        found.cache_clear()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_example_does_what_its_picture_shows(case: pictures.Case) -> None:
    pictures.test_a_rule_changes_an_envelope_as_its_picture_shows(case)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_example_is_one_short_file_that_is_found_by_its_name_and_has_a_picture(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) < 60
    assert policy.load_rules()[path.stem].name == path.stem
    assert path.stem in {case.rule for case in CASES}


def test_its_state_comes_back_from_its_stored_form_and_planning_goes_on_from_it() -> None:
    session, ledger, _ = pictures.drawn("U1(20) A1(30) U2(50) A2(40) U3(40) A3(10) U4(10)")
    chosen = parse("example", '[[rules]]\nrule = "say_the_task_again"\nevery = 100')
    rule, basis, previous, told = policy.find_rule("say_the_task_again"), Basis.of(session, ledger), None, []
    for request in session.requests:
        plan = plan_step(previous, session, request, chosen, basis)
        (known,) = plan.states
        told.append((known.state.at, known.state.times))
        back = msgspec.json.decode(msgspec.json.encode(known.state), type=rule.state)
        assert back == known.state
        previous = reconcile_plan(msgspec.structs.replace(plan, states=(msgspec.structs.replace(known, state=back),)))
    assert told == [(0, 0), (3, 1), (3, 1), (7, 2)]
    assert previous
    assert [piece.slot for piece in previous.after.pieces if piece.slot] == ["task 1", "task 2"]


def test_without_their_folder_no_example_is_there() -> None:
    package.__path__ = package.__path__[:-1]
    _forget()
    assert not {path.stem for path in FILES} & set(policy.load_rules())
