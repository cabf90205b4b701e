"""Policies side by side: rows, where two part, what a request differs in, the command, and a budget held in CI."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import turnscope
from conftest import ROOT
from msgspec import structs
from turnscope import cli as command
from turnscope.errors import PolicyError, UnknownEntry
from turnscope.figures import PALETTES, draw_fill, draw_losses, draw_pareto, mark_policies
from turnscope.library.checking import Limits, check, to_junit
from turnscope.library.comparing import resize_budget
from turnscope.library.opening import load_policy
from turnscope.views.comparison import COLUMNS, Comparison, Row, find_drops, find_pareto_optimal
from turnscope.views.phrases import format_usd
from turnscope.views.position import classify_position, compute_share
from turnscope.views.recommendation import recommend

COLD = ROOT / "sample_sessions" / "cache-goes-cold.jsonl"
NAMES = ("as-recorded", "keep-everything", "last-5-pairs")


@pytest.fixture(scope="module")
def made() -> Comparison:
    return turnscope.compare(turnscope.load(COLD), NAMES)


def test_a_row_says_what_its_replay_came_to(made: Comparison) -> None:
    for row, trace in zip(made.rows, made.traces, strict=True):
        assert row.sizes == tuple(trace.count_tokens(n) for n in range(len(trace.plans)))
        assert row.peak[0] == max(row.sizes) / trace.plans[0].budget.window
        assert row.kept_share == sum(row.sizes) / trace.uncut_tokens
        assert row.changed == tuple(plan.request.n for plan in trace.plans if plan.is_changed)
        assert sum(row.decisions.values()) >= len(row.changed)
        assert {*row.rejected} <= {*row.unsent}
        assert max(row.over_window, row.refusals) <= len(row.unsent) <= row.over_window + row.refusals + len(row.rejected)
    record, whole, cut = made.rows
    assert cut.kept_share < whole.kept_share <= 1
    assert whole.losses.hits == ()
    assert cut.losses.hits
    assert record.billed == turnscope.overview(made.session).path_total
    assert record.usd == record.billed
    assert record.calibration.startswith("Calibrated: ")
    assert record.record.counted_usd == 0
    assert "estimated" not in record.calibration
    assert whole.billed is None
    assert whole.calibration == ""


def test_two_policies_part_where_one_first_changes_something_and_differ_block_by_block(made: Comparison) -> None:
    at = made.find_divergence("keep-everything", "last-5-pairs")
    assert at == made.rows[2].changed[0]
    found = made.list_differences("keep-everything", "last-5-pairs", at)
    plan = made.get_trace("last-5-pairs").plans[at]
    gone = {block for piece in plan.seen.pieces if piece.body == () for block in range(piece.start, piece.stop)}
    assert {each.at for each in found} == gone
    assert {each.how for each in found} == {"only in A"}
    assert {each.how for each in made.list_differences("last-5-pairs", "keep-everything", at)} == {"only in B"}
    assert found[0].where == "head"
    assert made.list_differences("keep-everything", "last-5-pairs", at - 1) == ()
    assert made.find_divergence("keep-everything", "keep-everything") is None
    with pytest.raises(UnknownEntry, match="'roo' is not compared here"):
        made.get_trace("roo")


def test_each_kept_block_has_its_place_in_the_prompt_of_either_policy(made: Comparison) -> None:
    at = made.find_divergence("keep-everything", "last-5-pairs")
    assert at is not None
    found = made.list_placements("keep-everything", "last-5-pairs", at)
    gone = {each.at for each in made.list_differences("keep-everything", "last-5-pairs", at)}
    assert [each.at for each in found] == sorted(each.at for each in found)
    assert {each.at for each in found if each.how == "only in A"} == gone
    assert {each.at for each in found if each.how == "in both"} == {*range(made.session.requests[at].cut)} - gone
    for name, of in (("keep-everything", "a"), ("last-5-pairs", "b")):
        trace = made.get_trace(name)
        stand = {each.at: getattr(each, of) for each in found if getattr(each, of)}
        assert stand == {block: classify_position(compute_share(trace, at, block)) for block in stand}
        assert set(stand.values()) == {"head", "middle", "tail"}


def test_a_policy_that_goes_beyond_its_own_limit_alone_could_have_been_sent(made: Comparison) -> None:
    own = resize_budget(load_policy("clear-tool-results"), 0, 30_000)
    tight, small = turnscope.compare(made.session, [own, resize_budget(load_policy("keep-everything"), 64_000)]).rows
    assert (tight.overflows > 0, tight.over_window, tight.sendable) == (True, 0, True)
    assert small.over_window == sum(size > 64_000 for size in small.sizes) > 0
    assert not small.sendable


def test_what_a_provider_without_known_rules_would_reject_is_not_said(made: Comparison) -> None:
    (row,) = turnscope.compare(made.session, ["last-5-pairs"], model="deepseek-chat").rows
    assert (row.unjudged, row.rejected, row.rejected_count) == (len(row.sizes), (), None)
    assert (made.rows[2].unjudged, made.rows[2].rejected_count) == (0, 0)
    assert "not judged" in repr(Comparison(made.session, (row,), ()))


def test_asking_again_gives_the_same_values(made: Comparison) -> None:
    again = turnscope.compare(made.session, reversed(NAMES))
    assert [row is other for row, other in zip(again.rows, reversed(made.rows), strict=True)] == [True] * 3
    with pytest.raises(PolicyError):
        turnscope.compare(made.session, ["no-such"])


def test_the_table_is_the_same_in_csv_json_and_html(made: Comparison, capsys: pytest.CaptureFixture[str]) -> None:
    lines = list(csv.DictReader(io.StringIO(made.to_csv())))
    assert [line["policy"] for line in lines] == list(NAMES)
    assert command.main(["compare", str(COLD), "--policies", ",".join(NAMES), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["policies"]
    assert [(str(each["tokens"]), str(each["lost"])) for each in told] == [(line["tokens"], line["lost"]) for line in lines]
    assert set(COLUMNS) < set(told[0])
    assert sum(told[0]["sizes"]) == told[0]["tokens"]
    table, told_ = repr(made).split("\n\n")
    head, *lines_ = table.splitlines()
    assert (head.split()[0], len(lines_)) == ("policy", len(NAMES))
    assert [line.startswith(row.title) for line, row in zip(lines_, made.rows, strict=True)] == [True] * len(NAMES)
    assert len({len(line) for line in (head, *lines_)}) == 1
    assert told_.startswith("Answers are taken as recorded")
    html = made._repr_html_()
    assert all(row.title in html for row in made.rows)
    assert "Answers are taken as recorded" in html
    assert command.main(["compare", str(COLD), "--policies", "no-such"]) == 2
    assert "no-such" in capsys.readouterr().err


def test_who_is_beaten_by_nobody_and_what_fell(made: Comparison) -> None:
    best = find_pareto_optimal(made.rows)
    assert best
    cheapest = min(made.rows, key=lambda row: (row.usd or 0, len(row.losses.hits)))
    assert cheapest.policy in best
    assert cheapest.policy not in find_pareto_optimal([replace(cheapest, unsent=(0,))])
    assert find_pareto_optimal([replace(cheapest, overflows=1)]) == (
        cheapest.policy,
    )  # beyond its own limit, and sent all the same
    row = made.rows[2]
    assert find_drops(row)
    assert all(row.sizes[n] < 0.9 * row.sizes[n - 1] and row.sizes[n - 1] - row.sizes[n] == gone for n, gone in find_drops(row))


def test_a_policy_is_sized_for_another_window_and_the_record_is_not(made: Comparison) -> None:
    small = turnscope.compare(made.session, [resize_budget(load_policy("half-in-pairs"), 64_000)]).rows[0]
    assert set(small.windows) == {64_000}
    assert resize_budget(load_policy("as-recorded"), 8_000) == load_policy("as-recorded")


def test_the_figure_has_a_line_per_policy_that_ends_in_its_name_and_an_axis_that_fits(made: Comparison) -> None:
    figure = draw_fill(made.rows)
    lines = [trace for trace in figure.data if trace.mode == "lines"]
    marks = mark_policies(made.rows)
    assert [line.name for line in lines] == [f"{mark.text} {row.title}" for row, mark in zip(made.rows, marks, strict=True)]
    assert max(lines[1].y) == max(made.rows[1].sizes)
    assert (lines[0].x[0], lines[0].x[-1]) == (1, len(made.rows[0].sizes)), "requests count from 1"
    assert {line.name for line in lines} == {note.text for note in figure.layout.annotations}
    largest = max(max(row.sizes) for row in made.rows)
    assert largest <= figure.layout.yaxis.range[1] < 1.1 * made.rows[0].windows[0], "near its limit, which is drawn"
    small = [replace(row, windows=tuple(10 * size for size in row.windows)) for row in made.rows]
    assert draw_fill(small).layout.yaxis.range[1] < 1.1 * largest


def test_what_does_not_fit_stands_compressed_above_the_limit_and_says_since_when(made: Comparison) -> None:
    record, whole, cut = made.rows
    limit = whole.windows[0]
    sizes = (*whole.sizes[:60], *(8 * limit + n for n in range(len(whole.sizes) - 60)))
    large = replace(whole, sizes=sizes, unsent=tuple(range(60, len(sizes))))
    figure = draw_fill([record, large, cut])
    line = next(trace for trace in figure.data if trace.name and "Keep everything" in trace.name)
    assert max(line.y) == pytest.approx(limit * 4 / 3)
    assert max(line.customdata) == max(sizes)
    assert line.line.color == PALETTES["dark"]["bad"]
    said = [trace.hovertemplate or "" for trace in figure.data]
    assert any("does not fit from request 61 on" in text for text in said)
    *_, window, top = figure.layout.yaxis.ticktext
    assert f"window {limit // 1000}k" in window
    assert top == f"{max(sizes) / 1e6:.1f}M"


def test_cost_against_losses_has_a_point_per_policy_and_the_front(made: Comparison) -> None:
    best = find_pareto_optimal(made.rows)
    figure = draw_pareto(made.rows, best)
    points = [trace for trace in figure.data if trace.mode == "markers"]
    assert [point.x[0] for point in points] == [row.factor for row in made.rows]
    assert [point.y[0] for point in points] == [len(row.losses.hits) for row in made.rows]
    (front,) = (trace for trace in figure.data if trace.mode == "lines")
    assert {row.factor for row in made.rows if row.policy in best} < {*front.x}
    assert not [trace for trace in draw_pareto(made.rows, ()).data if trace.mode == "lines"]


def test_policies_at_one_point_share_a_label_that_says_how_many_more_there_are(made: Comparison) -> None:
    record, whole, cut = made.rows
    twins = tuple(replace(cut, policy=f"twin-{n}", title=f"Twin {n}") for n in range(3))
    labels = [note.text for note in draw_pareto((record, whole, *twins), ()).layout.annotations]
    assert len(labels) == 3
    assert sum("Twin" in label for label in labels) == 1
    assert any("Twin 0 + 2 more" in label for label in labels)


def test_the_answer_names_the_cheapest_policy_that_loses_no_more_than_the_record(made: Comparison) -> None:
    record, whole, cut = made.rows
    assert record.usd is not None
    lost, hits = len(cut.losses.hits), cut.losses.hits * (1 + len(record.losses.hits))
    cheap = _change_price(cut, record.usd / 2)
    assert recommend([record]) is None
    assert recommend([whole, cut]) is None
    found = recommend([record, cheap, _change_price(whole, record.usd * 2)])
    assert found
    allowed = lost <= len(record.losses.hits)
    assert (found.best == cheap) == allowed
    none = recommend([replace(record, losses=whole.losses), cheap])
    assert none
    assert none.best is None
    assert none.text == "No policy here is cheaper than the record without losing more."
    assert none.more.startswith(f"{cut.title} is cheapest (${record.usd / 2:,.2f}, 50% less), but loses {lost} references")
    both = recommend([record, _change_price(whole, record.usd * 9 / 10), replace(cheap, losses=replace(cut.losses, hits=hits))])
    assert both
    assert both.best
    usd = format_usd(both.best.usd)
    assert both.text == f"Keep everything would have cost {usd}, 10% less, and lost no reference."
    assert f"{cut.title} is cheapest" in both.more
    other = recommend([_change_price(record, record.usd / 4), cheap], "claude-haiku-4-5")
    assert other
    usd = format_usd(record.usd / 4)
    start = f"With claude-haiku-4-5, where the record would have cost {usd}: No policy here is cheaper"
    assert other.text.startswith(start), "both ask the other model"
    over = recommend([record, replace(cheap, unsent=(3,))])
    assert over
    assert over.text == "None of these policies keeps every request within the window."


def _change_price(row: Row, usd: Decimal) -> Row:
    """The same for another price, all of it at the first request."""
    rest = tuple(Decimal(0) for _ in row.cost.usd[1:])
    return replace(row, cost=replace(row.cost, usd=(usd, *rest)))


def test_drops_of_the_recorded_tool_s_own_summaries_are_named() -> None:
    made = turnscope.compare(turnscope.load(COLD), ["as-recorded", "keep-everything"]).rows
    assert (made[0].foreign_summaries, made[1].foreign_summaries) == (0, made[1].decisions["drop"])
    assert made[1].foreign_summaries == 1


@pytest.mark.thorough
def test_a_budget_is_held_or_broken_in_words_and_exit_codes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert check(COLD, Limits(max_fill=90, max_usd=100)).ok
    broken = check(COLD, Limits(max_fill=10, max_usd=1), "last-5-pairs")
    assert len(broken.violations) == 2
    assert "of its window, more than 10 %" in broken.violations[0]
    assert "more than 1" in broken.violations[1]
    missing = tmp_path / "none.jsonl"
    report = tmp_path / "report.xml"
    assert command.main(["check", str(COLD), "--max-fill", "90", "--no-reject"]) == 0
    assert command.main(["check", str(COLD), "--max-fill", "10"]) == 1
    assert command.main(["check", str(COLD), str(missing), "--max-fill", "10", "--junit", str(report)]) == 2
    assert command.main(["check", str(COLD), "--policy", "no-such"]) == 2
    assert command.main(["check", str(COLD.parent), "--max-fill", "100"]) == 0
    assert command.main(["check", str(COLD)]) == 0
    out = capsys.readouterr()
    assert "FAILED" in out.out
    assert out.out.count(f"ok {COLD.parent}") == 1 + len([*COLD.parent.glob("*.jsonl")]) + 1
    assert "cache-goes-cold.jsonl: 88 requests, fills 64.3% at most, 5.73 USD" in out.out
    assert "No limit was given" in out.err
    assert "no-such" in out.err
    (suite,) = ET.parse(report).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "1")
    assert [[part.tag for part in case] for case in suite] == [["failure"], ["error"]]
    assert ET.fromstring(to_junit([check(missing, Limits())], "\x00")).get("errors") == "1"


def test_a_bar_says_what_each_request_lacked(made: Comparison) -> None:
    row = made.rows[2]
    (bars,) = draw_losses(row).data
    assert dict(zip(bars.x, bars.y, strict=True)) == {n + 1: many for n, many in enumerate(row.losses.per_request) if many}
    assert sum(bars.y) == len(row.losses.hits)
    assert draw_losses(made.rows[1]).data[0].y == ()


def test_what_is_counted_of_a_bill_is_said_to_be_estimated() -> None:
    session = turnscope.load(COLD)
    last = session.requests[-1]
    assert last.usage is not None
    stub = structs.replace(last, output_stub=True, usage=structs.replace(last.usage, output_tokens=1))
    record = turnscope.compare(structs.replace(session, requests=(*session.requests[:-1], stub)), NAMES[:1]).rows[0]
    assert record.record.counted_usd > 0
    assert f"({format_usd(record.record.counted_usd)} of it estimated" in record.calibration


@pytest.mark.thorough
def test_check_holds_the_whole_cost_to_the_limit_subagents_too() -> None:
    sample = ROOT / "sample_sessions" / "tool-results-eat-the-window.jsonl"
    view = turnscope.overview(turnscope.load(sample))
    assert view.path_total is not None
    assert view.total is not None
    assert view.path_total < view.total == check(sample, Limits()).usd
    assert turnscope.compare(turnscope.load(sample), ["as-recorded"]).rows[0].usd == view.path_total
    between = float((view.path_total + view.total) / 2)
    assert not check(sample, Limits(max_usd=between)).ok
