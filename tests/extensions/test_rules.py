"""Rules and policies that do not come with Turnscope: listed, replayed, shown with their package; a broken one fails alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
import turnscope
from claude_log import Log
from conftest import ROOT
from turnscope.errors import PolicyError, RuleError
from turnscope.extensions import list_problems
from turnscope.library.opening import load_policy
from turnscope.live.trial import list_doubts, run_trial
from turnscope.planning import policy as policies
from turnscope.planning.assemble import Basis, plan_step, reconcile_plan
from turnscope.planning.policy import parse
from turnscope.planning.policy_catalog import load_catalog, load_shipped, save_policy
from turnscope.planning.rule_registry import find_rule, find_rule_package, load_rules
from turnscope.session.destination import Destination
from turnscope.session.model import Session
from turnscope.views import policy_pages
from turnscope.views.policy_groups import group_policies

from tests.pictures import test_pictures as pictures

DIARY = ROOT / "tests" / "examples" / "plugin" / "turnscope_diary"
RULE = DIARY / "say_the_task_again.py"
CASES = [case for path in sorted(DIARY.glob("*.txt")) for case in pictures.cases(path)]
PACKAGE = "turnscope-diary 1.0"

HEAD = """
from dataclasses import dataclass
from turnscope.rules import Ask, Edit, NoParams, Rule, Span
"""
POLICY = '[[rules]]\nrule = "odd"\n'


@pytest.fixture
def user_rules(fresh: Path) -> Path:
    """The user's folder of rules."""
    folder = fresh / "rules"
    folder.mkdir()
    return folder


@pytest.fixture
def session(tmp_path: Path) -> Session:
    log = Log("s1")
    for number in range(3):
        log.user(f"Question {number}")
        log.answer(f"m{number}", "An answer.", usage=(1, 2, 3, 4))
    return turnscope.load(log.save(tmp_path / "s1.jsonl"))


def add(folder: Path, edits: str, rule: str = 'Rule("odd", "An odd one.", edits, NoParams)', name: str = "odd") -> None:
    (folder / f"{name}.py").write_text(f"{HEAD}\n{edits}\nRULE = {rule}\n")


# A package's rule and policy --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_rule_does_what_its_picture_shows(plugin: Path, case: pictures.Case) -> None:
    pictures.test_a_rule_changes_an_envelope_as_its_picture_shows(case)


def test_the_rule_is_one_short_file_that_is_found_by_its_name_and_has_a_picture(plugin: Path) -> None:
    assert len(RULE.read_text(encoding="utf-8").splitlines()) < 60
    assert load_rules()[RULE.stem].name == RULE.stem
    assert find_rule_package(RULE.stem) == PACKAGE
    assert RULE.stem in {case.rule for case in CASES}


def test_its_state_comes_back_from_its_stored_form_and_planning_goes_on_from_it(plugin: Path) -> None:
    session, ledger, _ = pictures.draw_session("U1(20) A1(30) U2(50) A2(40) U3(40) A3(10) U4(10)")
    chosen = parse("example", '[[rules]]\nrule = "say_the_task_again"\nevery = 100')
    rule, basis, previous, told = find_rule("say_the_task_again"), Basis.of(session, ledger), None, []
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


def test_without_the_package_there_is_neither_the_rule_nor_the_policy(fresh: Path) -> None:
    assert RULE.stem not in load_rules()
    with pytest.raises(PolicyError, match="there is no policy 'remind-of-task'"):
        load_policy("remind-of-task")


def test_the_policy_is_listed_and_replayed_by_its_name(plugin: Path, session: Session) -> None:
    listed = {policy.name: policy.package for policy in turnscope.policies()}
    assert listed["remind-of-task"] == PACKAGE
    assert {package for name, package in listed.items() if name != "remind-of-task"} == {""}
    trace = turnscope.replay(session, "remind-of-task")
    assert len(trace.plans) == 3
    assert "say_the_task_again" in repr(trace.policy)
    assert [row.policy for row in turnscope.compare(session, ["remind-of-task"]).rows][-1] == "remind-of-task"


def test_its_page_names_the_package_and_shows_the_picture(plugin: Path, fresh: Path) -> None:
    shelf = load_catalog(fresh / "policies")
    assert shelf.own == frozenset()
    assert [group.names for group in group_policies(shelf) if group.title.startswith("Package")] == [("remind-of-task",)]
    page = next(page for page in policy_pages.build_pages(shelf) if page.name == "remind-of-task")
    assert page.group == f"Package {PACKAGE}"
    assert dict(page.facts)["Package"] == PACKAGE
    assert page.rules[0].source == f"an example, in {PACKAGE}"
    assert "+task 1" in page.rules[0].picture
    assert ("Every", "10000", "tokens of conversation between one reminder and the next") in page.rules[0].parameters
    assert f"- Package: {PACKAGE}" in policy_pages.to_markdown(shelf)
    assert "Package" not in policy_pages.to_markdown(load_shipped())


def test_the_users_own_policy_may_use_a_rule_of_a_package_and_needs_another_name(plugin: Path, fresh: Path) -> None:
    folder = fresh / "policies"
    folder.mkdir()
    text = '[[rules]]\nrule = "say_the_task_again"\nevery = 5\n'
    (folder / "mine.toml").write_text(text)
    (folder / "remind-of-task.toml").write_text(text)
    shelf = load_catalog(folder)
    assert shelf.own == {"mine"}
    assert shelf.policies["remind-of-task"].package == PACKAGE
    assert shelf.problems["remind-of-task"].what == f"{PACKAGE} has a policy of that name"
    with pytest.raises(PolicyError, match=f"'remind-of-task' is a policy of {PACKAGE}"):
        save_policy("remind-of-task", text, folder)


# Rules that fail --------------------------------------------------------------------------------------------------------

FAILING = {
    "at once": ("def edits(envelope, ctx, params): raise KeyError('days')", "KeyError: 'days'"),
    "after a step": (
        "def edits(envelope, ctx, params):\n    yield Edit('keep', 'so')\n    1 / 0",
        "ZeroDivisionError: division by zero",
    ),
    "after its question": (
        "def edits(envelope, ctx, params):\n    yield Ask('summary', 'k', '', 'words')\n    1 / 0",
        "ZeroDivisionError",
    ),
    "with no question": (
        "def edits(*_):\n    yield Ask('gossip', 'k', '', '')",
        "ValueError: there is no question of the kind",
    ),
    "with a question of numbers": ("def edits(*_):\n    yield Ask('rank', 'k', '', 7)", "TypeError: 'int' stands where 'str'"),
    "too deep": ("def deep(n): return deep(n)\ndef edits(*_):\n    deep(0)\n    yield", "RecursionError: maximum recursion"),
    "with words": ("def edits(*_):\n    yield 'drop'", "AttributeError: 'str' object has no attribute"),
    "with a list": ("def edits(*_): return [1]", "AttributeError: 'list' object has no attribute 'send'"),
}


@pytest.mark.parametrize("case", FAILING, ids=str)
def test_whatever_a_rule_raises_names_rule_package_policy_and_request(case: str, user_rules: Path, session: Session) -> None:
    edits, words = FAILING[case]
    add(user_rules, edits)
    with pytest.raises(RuleError) as caught:
        turnscope.replay(session, parse("mine", POLICY))
    where = user_rules / "odd.py"
    assert caught.value.what.startswith(f"the rule 'odd' of {where} failed at request 1 under the policy 'mine': {words}")
    assert str(where) in caught.value.hint
    assert len(turnscope.replay(session, "balanced").plans) == 3


def test_a_rule_that_the_server_follows_fails_in_the_same_way(user_rules: Path, session: Session) -> None:
    rule = 'Rule("odd", "An odd one.", edits, NoParams, sends=lambda *_: {}["x"])'
    add(user_rules, "def edits(*_):\n    yield from ()", rule)
    with pytest.raises(RuleError, match=r"the rule 'odd' of .*odd\.py failed in `sends`: KeyError: 'x'"):
        turnscope.replay(session, parse("mine", POLICY))


def test_a_rule_of_ours_that_fails_says_so_too(session: Session) -> None:
    def fail(*_: object) -> None:
        raise KeyError("days")

    policy = policies.load("last-5-pairs")
    broken = replace(policy.rules[0], rule=replace(policy.rules[0].rule, edits=fail))
    mine = replace(policy, name="mine", rules=(broken, *policy.rules[1:]))
    with pytest.raises(RuleError, match="the rule 'keep_last_pairs' failed at request 1 under the policy 'mine': KeyError"):
        turnscope.replay(session, mine)


@pytest.mark.parametrize(
    ("edits", "rule", "words"),
    [
        ("import no_such_module", "7", "ModuleNotFoundError"),
        ("", "7", "TypeError: 'int' stands where 'Rule' belongs"),
        ("", 'Rule("even", "", print, NoParams)', "ValueError: it calls itself 'even'"),
        ("", 'Rule("odd", "", print, dict)', "TypeError: its `params` is no dataclass"),
        ("", 'Rule("odd", "", print, NoParams())', "TypeError: 'NoParams' stands where 'type' belongs"),
        ("", 'Rule("odd", "", print, NoParams, "forever")', "ValueError: its `memory` is 'forever'"),
        ("@dataclass\nclass Params:\n    x: 'Missing'", 'Rule("odd", "", print, Params)', "NameError: name 'Missing' is not"),
    ],
)
def test_a_rule_that_cannot_be_loaded_is_reported_once_and_fails_only_policies_that_name_it(
    edits: str, rule: str, words: str, user_rules: Path, session: Session
) -> None:
    add(user_rules, edits, rule)
    assert "odd" not in load_rules()
    assert len(load_rules()) > 20
    with pytest.raises(PolicyError, match=r"the rule 'odd' of .*odd\.py cannot be loaded"):
        parse("mine", POLICY)
    (problem,) = list_problems()
    assert problem.startswith(f"The rule 'odd' of {user_rules / 'odd.py'} cannot be loaded: {words}")
    assert len(turnscope.replay(session, "balanced").plans) == 3


def test_of_two_rules_of_one_name_the_second_is_left_out_and_both_are_load_policy(plugin: Path, fresh: Path) -> None:
    folder = fresh / "rules"
    folder.mkdir()
    for name in ("repair", "say_the_task_again"):
        (folder / f"{name}.py").write_text(RULE.read_text())
    assert find_rule_package("say_the_task_again") == PACKAGE
    assert find_rule_package("repair") == ""
    assert find_rule("repair").source != "an example"
    assert list_problems() == (
        f"The rule 'repair' of {folder / 'repair.py'} is left out: Turnscope itself has one of that name.",
        f"The rule 'say_the_task_again' of {folder / 'say_the_task_again.py'} is left out: {PACKAGE} has one of that name.",
    )


def test_policies_of_a_package_that_clash_or_cannot_be_read_are_reported_and_the_others_are_there(
    plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "packages"
    info, module = packages / "worse-2.0.dist-info", packages / "turnscope_diary_worse"
    for folder in (info, module):
        folder.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: worse\nVersion: 2.0\n")
    points = "worse = turnscope_diary_worse\nnone = turnscope_diary_none\n"
    (info / "entry_points.txt").write_text(f"[turnscope.policies]\n{points}")
    for name, text in (("balanced", ""), ("remind-of-task", ""), ("torn", "rules = 3 ["), ("lost", POLICY), ("fine", "")):
        (module / f"{name}.toml").write_text(text)
    monkeypatch.syspath_prepend(packages)
    assert load_policy("fine").package == "worse 2.0"
    assert {"fine", "remind-of-task"} <= {policy.name for policy in turnscope.policies()}
    shelf = load_catalog(tmp_path / "none")
    assert not {"torn", "lost"} & set(shelf.policies)
    assert shelf.problems == {}
    assert shelf.policies["balanced"].package == ""
    with pytest.raises(PolicyError, match=r"policy 'torn' is not valid TOML: .* It comes from worse 2\.0"):
        load_policy("torn")
    missing, *rest = list_problems()
    assert missing.startswith("The policies 'none' of worse 2.0 cannot be loaded: ModuleNotFoundError")
    assert rest[:2] == [
        "The policy 'balanced' of worse 2.0 is left out: Turnscope itself has one of that name.",
        f"The policy 'remind-of-task' of worse 2.0 is left out: {PACKAGE} has one of that name.",
    ]
    assert rest[2].startswith("Policy 'lost': there is no rule 'odd'. It comes from worse 2.0.")
    assert rest[3].startswith("Policy 'torn' is not valid TOML: ")
    assert len(rest) == 4


def test_a_policy_whose_rule_fails_is_doubted_before_a_chat_is_sent_under_it(user_rules: Path) -> None:
    add(user_rules, "def edits(*_):\n    raise KeyError('days')\n    yield")
    policy = parse("mine", POLICY)
    (doubt,) = list_doubts(policy, Destination("offline", model="offline-16k"), run_trial(policy), summaries=True)
    assert doubt.startswith("It cannot plan a request: the rule 'odd' of ")
    assert doubt.endswith("KeyError: 'days'.")
