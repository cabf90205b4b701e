"""Figures and what they are made of: columns that lose no peak, colours that can be told apart, text that stays text."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
import turnscope
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from turnscope import figures
from turnscope.figures import charts
from turnscope.library.index_queries import Spending
from turnscope.library.policy_table import PolicyRow
from turnscope.palette import PALETTES, choose_ink
from turnscope.views import columns, request_summary, tables
from turnscope.views.overview import CELLS, Marker, Overview, build_overview, list_turns
from turnscope.views.shades import Ramp
from turnscope.views.total_cost import TotalCost

SAMPLE = ROOT / "sample_sessions" / "tool-results-eat-the-window.jsonl"
UNITS = ("requests", "turns")
MEASURES = ("tokens", "cost", "share")


@pytest.fixture(scope="module")
def session() -> Any:
    return turnscope.load(SAMPLE)


@pytest.fixture(scope="module")
def view(session: Any) -> Overview:
    return build_overview(turnscope.replay(session))


def make_overview(prompts: list[int], per_turn: int = 3) -> Overview:
    """An overview of requests with prompts of these sizes, all of it messages."""
    n = len(prompts)
    cells = np.zeros((n, len(CELLS)), dtype=np.int64)
    cells[:, 2] = prompts
    billed = np.zeros((n, len(CELLS), 3), dtype=np.int64)
    billed[:, 2, 2] = prompts
    usd = cells * 3e-6
    at = np.arange(n)
    return Overview(
        "s",
        "made",
        "test",
        ("m",) * n,
        at // per_turn,
        at * 60.0,
        cells,
        cells.sum(axis=1),
        np.full(n, 200_000),
        billed,
        usd,
        (None,) * n,
        np.zeros(n, dtype=np.int64),
        np.zeros(n),
        (),
        (),
        "test",
        np.zeros(n, dtype=np.int64),
        np.ones(n),
        np.ones(n),
        TotalCost(),
        (),
    )


prompts = st.lists(st.integers(1, 200_000), min_size=1, max_size=300)


@given(prompts, st.integers(1, 40))
def test_bins_lose_no_peak_and_lead_to_where_it_stands(sizes: list[int], most: int) -> None:
    grid = columns.build_grid(make_overview(sizes), "requests", "tokens", most)
    assert len(grid.values) <= most
    assert grid.values[:, 2].max() == max(sizes)
    for start, facts in zip(range(0, len(sizes), grid.width), grid.facts, strict=True):
        inside = sizes[start : start + grid.width]
        assert facts[2, 2] == max(inside)
        assert sizes[int(facts[2, 0])] == max(inside)


@given(prompts, st.integers(1, 7))
def test_a_turn_has_the_tokens_of_its_last_request_and_the_cost_of_all(sizes: list[int], per_turn: int) -> None:
    view = make_overview(sizes, per_turn)
    grid = columns.build_grid(view, "turns", "cost", len(sizes))
    for turn, facts in zip(list_turns(view), grid.facts, strict=True):
        assert facts[2, 0] == turn.stop - 1
        assert facts[2, 2] == sizes[turn.stop - 1]
        assert facts[2, 4] == pytest.approx(sum(sizes[turn.start : turn.stop]) * 3e-6)


@given(prompts, st.integers(2, 40))
def test_the_outline_keeps_the_highest_and_the_lowest_prompt_and_both_ends(sizes: list[int], most: int) -> None:
    outline = columns.build_outline(make_overview(sizes), "requests", most)
    drawn = [sizes[n] for n in outline.request]
    assert (min(drawn), max(drawn)) == (min(sizes), max(sizes))
    assert (outline.x[0], outline.x[-1]) == (0, len(sizes) - 1)
    assert (np.diff(outline.x) > 0).all()


def test_drawn_areas_end_at_the_prompt_even_where_the_estimates_are_too_high(view: Overview) -> None:
    assert (view.over > 0).any()
    areas = [trace.y for trace in figures.draw_sawtooth(view).data if trace.stackgroup]
    assert all((area >= 0).all() for area in areas)
    assert (sum(areas) == view.prompts[columns.build_outline(view, "requests", figures.MAX_COLUMNS).request]).all()


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("by", UNITS)
@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("scale", ["log", "linear"])
def test_a_heatmap_has_a_row_for_every_bucket_the_log_holds(
    view: Overview, theme: Any, by: Any, measure: Any, scale: Any
) -> None:
    figure = figures.draw_heatmap(view, by, measure, scale, theme)
    rows = {trace.name: trace for trace in figure.data if trace.type == "heatmap"}
    assert set(rows) == {"Messages", "Tool results", "Thinking", "System + tools, not in the log"}
    for row in rows.values():
        assert row.z.dtype == np.uint8
        assert row.z.shape == (1, 325 if by == "requests" else 25)


def test_a_notebook_gets_the_figure_of_the_page(session: Any, view: Overview) -> None:
    trace = turnscope.replay(session)
    page = figures.draw_heatmap(request_summary.annotate(trace, view)[0], trace=trace)
    assert figures.draw_heatmap(session).to_json() == page.to_json()


def test_hovering_says_what_a_bucket_is_made_of(session: Any) -> None:
    figure = figures.draw_heatmap(session)
    results = next(trace for trace in figure.data if trace.name == "Tool results" and trace.type == "heatmap")
    assert "Read " in results.text[0][111]
    assert "Bash " in results.text[0][111]


def test_cells_read_from_cache_are_cold_and_others_are_not() -> None:
    view = make_overview([1_000, 2_000])
    view.billed[1, 2] = [1_500, 500, 0]
    shades = figures.draw_heatmap(view, measure="tokens").data[-3].z[0]
    assert shades[0] <= figures.STEPS < shades[1]


def test_text_of_a_session_is_escaped_in_labels(view: Overview) -> None:
    evil = replace(view, markers=(Marker(3, "cut", "<a href='http://evil.example'>x</a> <b>"),))
    text = figures.draw_sawtooth(evil).to_json()
    assert "<a href" not in text
    assert "&lt;a href" in text


def test_a_figure_of_ten_thousand_requests_stays_small() -> None:
    rng = np.random.default_rng(5)
    view = make_overview(rng.integers(1_000, 190_000, 10_000).tolist())
    for by in UNITS:
        figure = figures.draw_heatmap(view, by)  # type: ignore[arg-type]
        assert len(figure.to_json()) < 350_000
        assert max(trace.z.shape[1] for trace in figure.data if trace.type == "heatmap") <= figures.MAX_COLUMNS


def test_a_figure_as_a_page_needs_no_network(view: Overview) -> None:
    page = figures.to_html(figures.draw_sawtooth(view))
    assert "<script src=" not in page
    assert "cdn.plot.ly/plotly" not in page.split("Plotly.newPlot")[-1]


def test_a_figure_as_a_page_says_how_to_read_it_and_keeps_tags_as_text(view: Overview) -> None:
    figure = figures.draw_heatmap(view)
    page = figures.to_html(figure, captions=["brightest $2.50", "<b>rows</b>"])
    drawn = page.split("Plotly.newPlot")[-1]
    assert "brightest $2.50" in drawn
    assert "\\u003cb\\u003erows" not in drawn
    assert not figure.layout.annotations, "the figure that is on the page is left as it is"


@pytest.mark.parametrize("by", UNITS)
def test_the_csv_holds_every_number_of_the_figure(view: Overview, by: Any) -> None:
    rows = list(csv.DictReader(io.StringIO(tables.overview_to_csv(view, by))))
    assert len(rows) == (325 if by == "requests" else 25)
    assert sum(float(row["usd_tool_results"]) for row in rows) == pytest.approx(float(view.usd[:, 3].sum()), abs=1e-3)
    for row in rows:
        assert sum(int(row[cell]) for cell in CELLS) == int(row["prompt"])


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours as WCAG 2.2 defines it, 1 to 21."""
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", PALETTES)
def test_colours_reach_three_to_one_on_the_background(theme: str) -> None:
    """WCAG's threshold for graphics and large text; small text (`faint`, `warn`, `bad`, text on a colour) reaches 4.5."""
    palette = PALETTES[theme]
    for name in (*figures.STACK, "warn", "bad", "good", "accent"):
        assert contrast(palette[name], palette["ground"]) >= 3, name
    for name in ("text", "faint", "warn", "bad"):
        assert contrast(palette[name], palette["panel"]) >= 4.5, name
    for name in figures.STACK:
        assert contrast(palette[name], choose_ink(palette[name])) >= 4.5, name


@pytest.mark.parametrize("theme", PALETTES)
def test_buckets_differ_for_colour_blind_eyes_too(theme: str) -> None:
    """Simulated as Viénot, Brettel and Mollon (1999) do; distance in CIE L*a*b*."""
    palette = PALETTES[theme]
    for kind in ("normal", "protan", "deutan"):
        for one, other in combinations(figures.ROWS, 2):
            assert _distance(palette[one], palette[other], kind) >= 12, (kind, one, other)


VIENOT = {
    "protan": [[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]],
    "deutan": [[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]],
    "normal": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
}
TO_XYZ = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]


def _distance(one: str, other: str, kind: str) -> float:
    return float(np.linalg.norm(_lab(one, kind) - _lab(other, kind)))


def _lab(colour: str, kind: str) -> Any:
    srgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(VIENOT[kind]) @ linear, 0, 1)
    x, y, z = (np.array(TO_XYZ) @ seen) / [0.9505, 1, 1.089]
    f = [v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def test_an_empty_session_gives_an_empty_figure_not_an_error() -> None:
    assert json.loads(figures.draw_heatmap(make_overview([5])).to_json())["data"]


def test_a_stretch_is_drawn_in_full_with_the_numbers_of_the_whole() -> None:
    view = make_overview([*range(1_000, 3_000)])
    figure = figures.draw_heatmap(view, measure="tokens", span=(100, 160))
    cells = next(row for row in figure.data if row.type == "heatmap")
    assert (cells.x0, cells.dx, len(cells.z[0])) == (100, 1, 60), "no bins, though the whole has some"
    assert list(figure.layout.xaxis2.range) == [99.5, 159.5]
    assert figure.layout.xaxis2.ticktext[0] == "101"
    assert [int(fact[0]) for fact in cells.customdata[0]] == [*range(100, 160)]
    areas = [area for area in figure.data if area.type == "scatter" and area.stackgroup]
    assert {int(area.x[0]) for area in areas} == {100}


@given(sizes=prompts, start=st.integers(0, 299), many=st.integers(1, 300))
def test_the_largest_cells_are_those_of_the_stretch(sizes: list[int], start: int, many: int) -> None:
    view = make_overview(sizes)
    span = (start, min(len(sizes), start + many))
    found = columns.list_top_cells(view, "tokens", 5, span)
    if span[0] >= span[1]:
        assert found == ()
        return
    values = sorted((int(v) for v in view.cells[span[0] : span[1]].ravel() if v > 0), reverse=True)
    assert [cell.tokens for cell in found] == values[:5]
    assert all(span[0] <= cell.request < span[1] for cell in found)
    assert all(view.cells[cell.request, CELLS.index(cell.name)] == cell.tokens for cell in found)


@pytest.mark.parametrize(
    ("first", "stop", "numbers"), [(0, 5, ["1", "2", "3", "4", "5"]), (0, 325, ["1", "50", "100"]), (99, 130, ["100", "105"])]
)
def test_an_axis_is_numbered_from_one(first: int, stop: int, numbers: list[str]) -> None:
    figure = figures.Figure()
    charts.number_axis(figure, first, stop)
    assert list(figure.layout.xaxis.ticktext)[: len(numbers)] == numbers
    assert all(first <= place < stop for place in figure.layout.xaxis.tickvals)


def test_values_that_hardly_differ_keep_one_shade_on_a_logarithmic_scale() -> None:
    values = np.array([[1.0], [1.01], [1.02], [1.0]])
    ramp = Ramp.from_values(values, "log")
    shades = ramp.to_bytes(values[:, 0], np.zeros(4, dtype=bool))
    assert int(shades.max()) - int(shades.min()) <= 2
    wide = Ramp.from_values(np.array([[1.0], [10.0], [100.0]]), "log")
    assert int(wide.to_bytes(np.array([100.0]), np.zeros(1, dtype=bool))[0]) == figures.STEPS


def spend(day: str, model: str, usd: float) -> Spending:
    return Spending(day, model, "shop", "Tool", 3, round(usd * 10**12))


def test_spending_has_a_bar_for_each_day_week_or_month_and_names_real_dates() -> None:
    days = figures.draw_spending([spend("2026-05-30", "a", 2), spend("2026-06-02", "b", 1), spend("", "a", 9)])
    assert [trace.name for trace in days.data] == ["a", "b"]
    assert [*days.data[0].y] == [2, 0, 0, 0], "days without a request stand as well"
    assert [*days.layout.xaxis.ticktext] == ["30 May<br>2026", "31 May", "1 Jun", "2 Jun"]
    weeks = figures.draw_spending([spend("2026-01-01", "a", 2), spend("2026-06-02", "a", 1)]).data[0]
    assert weeks.customdata[0] == "week of 29 Dec 2025"
    assert sum(weeks.y) == 3
    months = figures.draw_spending([spend("2024-01-15", "a", 2), spend("2026-06-02", "a", 1)]).data[0]
    assert (months.customdata[0], len(months.y)) == ("January 2024", 30)
    many = figures.draw_spending([spend("2026-05-30", f"m{n}", n + 1) for n in range(9)])
    assert [trace.name for trace in many.data] == ["m8", "m7", "m6", "m5", "m4", "4 more"]
    assert sum(many.data[-1].y) == 4 + 3 + 2 + 1
    lone = figures.draw_spending([spend("2026-05-30", "a", 2), spend("2026-05-30", "b", 1)])
    assert all(bar.width > 0 for bar in lone.data), "Plotly draws a lone bar without a width"
    assert not figures.draw_spending([]).data
    assert [*figures.draw_trend([("2026-01-05", 2), ("2026-01-12", 0)]).layout.xaxis.ticktext] == ["5 Jan<br>2026", "12 Jan"]


def test_policies_over_sessions_are_points_with_their_intervals() -> None:
    base = PolicyRow("p", 3, 0.8, 0.7, 0.95, 1.0, 0.02, 0.5, 0.0, 0.0, 1.0, ())
    table = [
        replace(base, policy="<b>best</b>"),
        replace(base, policy="dear", cost=2.0, low=1.5, high=3.0),
        replace(base, policy="refused", unsent=0.1),
        replace(base, policy="as-recorded", cost=1.0, low=1.0, high=1.0),
    ]
    figure = figures.draw_policy_table(table, {"<b>best</b>", "as-recorded"})
    drawn = {each.name: each for each in figure.data}
    low, high = figure.layout.yaxis.range
    assert low < -0.05 * (high - low), "what loses nothing stands clear of the factors below the axis"
    assert [list(drawn[name].x) for name in ("would be refused somewhere", "fits", "as recorded")] == [[0.8], [2.0], [1.0]]
    best = drawn["no other one beats it"]
    assert (best.error_x.array[0], best.error_x.arrayminus[0]) == pytest.approx((0.15, 0.1))
    assert "<b>" not in best.text[0], "a name is text"
    assert not any(drawn["fits"].text), "of the others the pointer tells the name"
