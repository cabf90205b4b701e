"""Advice on a policy's parameters: its front, what is chosen, sessions held out, searches that were stopped, the command."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
import turnscope
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from turnscope import cli as command
from turnscope.errors import PolicyError, TurnscopeError
from turnscope.figures import draw_front as drawn
from turnscope.library import advising
from turnscope.library.advice_job import AdviceJob, AdviceTask, run_worker
from turnscope.library.advising import Case, advise
from turnscope.library.opening import load_policy
from turnscope.library.trial_log import open_log
from turnscope.planning import policy as policies
from turnscope.planning import policy_catalog
from turnscope.planning.policy import Policy
from turnscope.views import parameters
from turnscope.views.advice import Advice, Figures, OtherPolicy, choose_point, find_pareto_front, list_axes

SAMPLES = ROOT / "sample_sessions"
COLD = SAMPLES / "cache-goes-cold.jsonl"
POINTS = st.lists(
    st.builds(Figures, usd=st.decimals(0, 9, places=0), lost=st.integers(0, 9), unsent=st.integers(0, 2)),
    min_size=1,
    max_size=30,
)


def beats(one: Figures, other: Figures) -> bool:
    """One could be sent as often, and is at least as good in both and better in one."""
    return (one.usd <= other.usd and one.lost <= other.lost) and (one.usd, one.lost) != (other.usd, other.lost)


@given(POINTS)
def test_no_point_of_the_front_is_beaten_and_whatever_is_not_on_it_is_beaten_or_equal(points: list[Figures]) -> None:
    best = find_pareto_front(points)
    fewest = min(point.unsent for point in points)
    able = [point for point in points if point.unsent == fewest]
    assert best
    for number in best:
        assert points[number].unsent == fewest
        assert not any(beats(point, points[number]) for point in able)
    for point in able:
        here = (point.usd, point.lost)
        assert any(beats(points[n], point) or (points[n].usd, points[n].lost) == here for n in best)
    assert [points[n].usd for n in best] == sorted({points[n].usd for n in best})


@given(POINTS)
def test_what_is_advised_loses_no_more_and_costs_less_than_the_file_or_is_the_file(points: list[Figures]) -> None:
    number, because = choose_point(points, find_pareto_front(points))
    assert because
    assert number is not None
    took, base = points[number], points[0]
    if number and took.unsent == base.unsent:
        assert took.lost <= base.lost
        assert took.usd < base.usd
        assert not any(p.usd < took.usd and p.lost <= base.lost and p.unsent <= took.unsent for p in points)
    assert took.unsent <= base.unsent


@pytest.fixture(scope="module")
def found() -> Advice:
    return advise(turnscope.load(COLD), "clear-tool-results", trials=16)


@pytest.mark.thorough
def test_an_advised_policy_saved_and_replayed_gives_exactly_the_figures_that_were_told(found: Advice, tmp_path: Path) -> None:
    assert found.method == "grid"
    assert found.chosen is not None
    assert len(found.front) > 1
    session = turnscope.load(COLD)
    for number, point in found.front_points:
        policy_catalog.save_policy("tried", found.to_toml(number), tmp_path)
        (row,) = turnscope.compare(session, [policies.load("tried", tmp_path)]).rows
        told = point.searched
        assert (row.usd, len(row.losses.hits)) == (told.usd, told.lost), found.describe_changes(point.changes)
        assert (row.peak[0], len(row.changed), sum(row.losses.uses)) == (told.peak, told.changed, told.uses)
    (row,) = turnscope.compare(session, ["clear-tool-results"]).rows
    assert (row.usd, len(row.losses.hits)) == (found.points[0].searched.usd, found.points[0].searched.lost)


@pytest.mark.thorough
def test_the_text_of_a_point_says_where_it_comes_from_and_claims_no_more_than_is_so(found: Advice) -> None:
    number = found.front[0]
    made = found.build_policy(number)
    assert "--trials 16 --seed 0" in made.source
    assert made.fidelity.startswith("ours")
    port = advise(turnscope.load(COLD), "swe-agent-last-5", trials=4)
    assert port.build_policy(1).fidelity.startswith("approximate")
    assert port.build_policy(0) == load_policy("swe-agent-last-5")
    assert found.build_policy(0) == load_policy("clear-tool-results")
    again = msgspec.json.decode(msgspec.json.encode(found), type=Advice)
    assert again == found
    assert "lost references" in found._repr_html_()
    numbers = [data[0] for trace in drawn(found).data if trace.customdata is not None for data in trace.customdata]
    assert {*numbers} == {*range(len(found.points))}


def test_another_policy_that_costs_less_and_loses_no_more_is_named_with_the_figures_of_a_comparison(found: Advice) -> None:
    rows = {row.policy: row for row in turnscope.compare(turnscope.load(COLD), advising.OTHERS).rows}
    assert [each.policy for each in found.others] == [*advising.OTHERS]
    for each in found.others:
        assert (each.searched.usd, each.searched.lost) == (rows[each.policy].usd, len(rows[each.policy].losses.hits))
    assert found.chosen is not None
    point = found.points[found.chosen].searched
    better = OtherPolicy("extracts", msgspec.structs.replace(point, usd=point.usd / 2))
    dear = OtherPolicy("condense-oldest", point)
    loses = OtherPolicy("clear-in-batches", msgspec.structs.replace(point, usd=Decimal(0), lost=point.lost + 1))
    made = msgspec.structs.replace(found, others=(loses, dear, better))
    assert made.better_policy == better
    assert made.other_result.startswith("Another policy does better here: extracts, as it ships, costs ")
    assert made.other_result in made.to_text()
    held = msgspec.structs.replace(made.points[found.chosen], held=Figures(Decimal(4), lost=5))
    points = tuple(held if n == found.chosen else each for n, each in enumerate(made.points))
    seen = msgspec.structs.replace(
        made, points=points, others=(msgspec.structs.replace(better, held=Figures(Decimal(2), lost=3)),)
    )
    assert seen.other_result.endswith(
        "On the sessions held out it costs 2.00 USD instead of 4.00 USD and loses 3 instead of 5."
    )
    assert msgspec.structs.replace(made, others=(loses, dear)).other_result == ""


# What a search asks for, with figures that follow from the parameters alone


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Every session and setting that is really tried, in order."""
    asked: list[tuple[str, str]] = []

    def figures(case: Case, policy: Policy) -> tuple[Figures, int]:
        values = [
            knob.value
            for group in parameters.group_parameters(policy)
            for knob in group.parameters
            if type(knob.value) in (int, float)
        ]
        weight = sum((n + 1) * value for n, value in enumerate(values)) + len(case.name)
        asked.append((case.name, policy.to_toml()))
        return Figures(Decimal(int(weight) % 97), int(weight) % 89, 100, 0, 1, 60), 0

    monkeypatch.setattr(Case, "evaluate", figures)
    return asked


def iter_sessions(count: int) -> Iterator[turnscope.Session]:
    whole = turnscope.load(COLD)
    for number in range(count):
        requests = whole.requests[: 60 + number]
        yield msgspec.structs.replace(whole, id=f"s{number}", title=f"session {number}", requests=requests)


@pytest.mark.thorough
def test_a_search_that_was_stopped_goes_on_to_what_it_would_have_been(tried: list[tuple[str, str]], tmp_path: Path) -> None:
    sessions = [*iter_sessions(3)]
    whole = advise(sessions, "balanced", trials=14, seed=3)
    once = len(tried)
    tried.clear()
    half = advise(sessions, "balanced", trials=14, seed=3, folder=tmp_path, should_stop=lambda: len(tried) >= 17)
    assert half.stopped
    assert len(half.points) < len(whole.points)
    assert half.points[:3] == tuple(msgspec.structs.replace(point, held=None) for point in whole.points[:3])
    file = open_log(tmp_path, load_policy("balanced")).file
    assert file is not None
    with file.open("ab") as out:
        out.write(b'{"setting":"{\\"5.sh')  # it was killed while it wrote
    gone_on = advise(sessions, "balanced", trials=14, seed=3, folder=tmp_path)
    assert gone_on == whole
    assert len(tried) == once, "nothing is tried twice"
    assert advise(sessions, "balanced", trials=14, seed=3, folder=tmp_path) == whole
    assert len(tried) == once
    assert advise(sessions, "balanced", trials=14, seed=4, folder=tmp_path).points != whole.points


def test_sessions_that_are_held_out_are_never_searched(tried: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = [*iter_sessions(7)]
    made = advise(sessions, "clear-tool-results", trials=20)
    assert len(made.held) == 2
    assert not {*made.held} & {*made.searched}
    best = {
        parameters.apply_changes(load_policy("clear-tool-results"), made.points[n].changes).to_toml() for n in {0, *made.front}
    }
    others = {load_policy(name).to_toml() for name in advising.OTHERS}
    own = [(name, text) for name, text in tried if text not in others]
    assert {text for name, text in own if name in made.held} == best
    first = next(n for n, (name, _) in enumerate(own) if name in made.held)
    assert {name for name, _ in own[first:]} == {*made.held}, "they come after all that is searched"
    before = Case.evaluate

    def otherwise(case: Case, policy: Policy) -> tuple[Figures, int]:
        figures, unpriced = before(case, policy)
        return (msgspec.structs.replace(figures, usd=Decimal(1), lost=99) if case.name in made.held else figures), unpriced

    monkeypatch.setattr(Case, "evaluate", otherwise)
    again = advise(sessions, "clear-tool-results", trials=20)
    assert (again.front, again.chosen, again.because) == (made.front, made.chosen, made.because)
    assert again.points != made.points


def test_a_small_space_is_a_grid_around_what_the_file_says_and_a_large_one_is_sampled(tried: list[tuple[str, str]]) -> None:
    (session,) = iter_sessions(1)
    grid = advise(session, "last-20-messages", trials=12)
    keeps = [point.changes.get("1.keep", 20) for point in grid.points]
    assert keeps[0] == 20
    assert min(keeps) == 5
    assert max(keeps) == 80
    assert len({*keeps}) == len(keeps) <= 12
    sampled = advise(session, "balanced", trials=12)
    assert (grid.method, sampled.method) == ("grid", "tpe")
    for point in sampled.points:
        for axis in sampled.axes:
            assert axis.low * 0.95 <= point.changes.get(axis.key, axis.own) <= axis.high * 1.05
    flags = advise(session, "last-20-messages", trials=12, keys=["1.whole_pairs"])
    assert [point.changes for point in flags.points] == [{}, {"1.whole_pairs": True}]


# What does not suffice


def test_it_says_when_the_data_are_too_few() -> None:
    session = turnscope.load(COLD)
    short = msgspec.structs.replace(session, requests=session.requests[:20])
    assert "20 requests are too few" in advise(short, "last-20-messages").too_few
    assert (
        "no session to learn from (1 with fewer than 5 requests left out)"
        in advise(list_short_sessions(), "last-20-messages").too_few
    )
    unnamed = tuple(msgspec.structs.replace(request, model="nobody-knows", usage=None) for request in session.requests)
    unpriced = msgspec.structs.replace(session, requests=unnamed)
    assert "1 with no known price" in advise(unpriced, "last-20-messages").too_few
    assert "no number that could be turned" in advise(session, "keep-everything").too_few
    idle = advise(session, "openrouter-middle-out", trials=4)
    assert idle.chosen is None
    assert "did the same under any of 4 settings: the fullest prompt fills 77%" in idle.too_few
    assert "never changed a request under any of 3 settings" in advising._explain_no_effect([Figures(peak=0.12)] * 3, False)
    with pytest.raises(PolicyError, match=r"no parameter '9\.keep'"):
        advise(session, "last-20-messages", keys=["9.keep"])
    with pytest.raises(PolicyError, match="0 settings"):
        advise(session, "last-20-messages", trials=0)


def list_short_sessions() -> list[turnscope.Session]:
    session = turnscope.load(COLD)
    return [msgspec.structs.replace(session, requests=session.requests[:3])]


def test_answers_that_take_up_nothing_say_nothing_about_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advising, "MIN_USES", 10_000)
    assert "things of earlier messages, too few" in advise(turnscope.load(COLD), "last-20-messages").too_few


def test_every_built_in_policy_with_a_number_can_be_turned_within_its_range() -> None:
    for policy in turnscope.policies():
        for axis in list_axes(policy):
            if axis.usual and not axis.values:
                assert axis.low <= axis.own <= axis.high, (policy.name, axis.key)
                parameters.apply_changes(policy, {axis.key: int(axis.high) if axis.is_whole else axis.high})


# The command, and the process of the page


def test_the_command_advises_saves_and_says_what_is_wrong(
    capsys: pytest.CaptureFixture[str], data_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "sessions"
    folder.mkdir()
    (folder / "cold.jsonl").write_bytes(COLD.read_bytes())
    (folder / "bad.json").write_text('{"nothing": "known"}')
    asked = ["advise", str(folder), "--policy", "clear-tool-results", "--trials", "5"]
    assert command.main([*asked, "--turn", "1.keep", "--save", "mine", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["left_out"] == {"not readable": 1}
    saved = policies.load("mine", data_folder / "policies")
    assert saved.rules[0].params.keep == {"1.keep": 3, **told["points"][told["chosen"]]["changes"]}["1.keep"]
    assert len([*(data_folder / "advice").iterdir()]) == 1 + len(advising.OTHERS)
    assert command.main(["advise", str(folder), "--policy", "mine", "--trials", "2", "--turn", "1.keep"]) == 0
    assert "USD" in capsys.readouterr().out
    assert command.main(["advise", str(folder), "--policy", "no-such"]) == 2
    assert command.main(["advise", str(tmp_path / "absent"), "--policy", "balanced"]) == 2
    assert command.main(["advise", str(COLD), "--policy", "keep-everything"]) == 1


@pytest.mark.thorough
def test_the_process_of_a_page_is_stopped_goes_on_and_comes_to_the_same(tmp_path: Path) -> None:
    session, policy = turnscope.load(COLD), load_policy("clear-tool-results")
    task = AdviceTask("", policy.name, policy.to_toml(), str(tmp_path), 10, keys=("1.keep",))
    job = AdviceJob(task, session)
    until = time.monotonic() + 60
    while job.done < 2 and time.monotonic() < until:
        time.sleep(0.005)
    job.cancel()
    job.wait(30)
    assert job.state == "cancelled"
    assert job.advice is None
    lines = [line for file in tmp_path.iterdir() for line in file.read_bytes().splitlines()]
    assert len(lines) >= 2
    job.resume()
    job.wait(60)
    assert job.state == "done", job.error
    kept = open_log(tmp_path, policy).file
    assert kept is not None
    again = kept.read_bytes().splitlines()
    assert again[: len(lines) - 1] == lines[:-1], "what was tried is kept"
    assert job.advice == advise(session, policy, trials=10, keys=["1.keep"], folder=tmp_path)
    assert {*tmp_path.iterdir()} == {open_log(tmp_path, load_policy(name)).file for name in (policy.name, *advising.OTHERS)}
    said = io.BytesIO()
    run_worker(io.BytesIO(msgspec.json.encode(msgspec.structs.replace(task, path=str(tmp_path / "absent")))), said)
    told = json.loads(said.getvalue())
    assert told["advice"] is None
    assert "absent cannot be read" in told["failed"]
    assert told["hint"]


def test_a_file_that_cannot_be_read_is_an_error_where_it_is_the_only_one(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text('{"nothing": "known"}')
    with pytest.raises(TurnscopeError):
        advise(tmp_path / "bad.json", "balanced")
