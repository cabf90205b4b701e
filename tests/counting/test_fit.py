"""Counted against recorded tokens: the fit that planning uses, and the reconciliation that is shown."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import turnscope
from fit_table import files, rows
from hypothesis import given
from hypothesis import strategies as st
from turnscope.counting.calibration import Calibration
from turnscope.counting.reconciliation import (
    CELLS,
    Fit,
    Ints,
    Reconciliation,
    StaticHints,
    add_remainders,
    fit_requests,
    reconcile,
)
from turnscope.reading.content_blocks import make_image
from turnscope.session.builder import Builder
from turnscope.session.model import Usage
from turnscope.views.overview import build_overview

from tests.samples import files as iter_files
from tests.samples import row
from tests.wire import open_run
from tests.wire.compare import sessions

# a PNG of 1 x 1 px
PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def split(counts: Ints, recorded: Ints, known_static: bool) -> tuple[Reconciliation, tuple[Fit, ...]]:
    """One model's requests, fitted and split."""
    sizes, models = counts.sum(axis=1), ["m"] * len(recorded)
    fits = add_remainders(fit_requests(sizes, recorded, models, known_static), sizes, recorded, models)
    return reconcile(counts, recorded, fits), fits


@pytest.fixture(scope="module")
def table(shared):
    shared("data", "open", "claude-code")
    return list(rows(files()))


def test_requests_of_real_sessions_are_predicted_from_those_before(table) -> None:
    pooled = np.concatenate([row.errors for row in table])
    assert np.median(pooled) <= 0.01
    assert np.quantile(pooled, 0.9) <= 0.03
    assert {row.name: float(np.median(row.errors)) for row in table if np.median(row.errors) > 0.02} == {}


def test_little_of_real_prompts_is_unattributed(table) -> None:
    assert np.median(np.concatenate([row.unattributed for row in table])) <= 0.02


lines = st.tuples(st.integers(0, 60_000), st.floats(0.8, 1.7), st.lists(st.integers(50, 3_000), min_size=30, max_size=80))


@given(lines)
def test_a_straight_session_is_found_again(line: tuple[int, float, list[int]]) -> None:
    prefix, scale, growth = line
    counted = np.cumsum(np.array(growth) * 10)
    calibration = Calibration.start()
    for x in counted:
        calibration = calibration.learn(int(x), round(prefix + scale * x), "m")
    expected = prefix + scale * (counted[-1] + 2_000)
    assert abs(calibration.predict(int(counted[-1]) + 2_000) - expected) <= 0.01 * expected + 500


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 50_000), min_size=5, max_size=5), st.integers(-1, 300_000)), max_size=60),
    st.booleans(),
)
def test_cells_prefix_and_remainder_sum_to_what_was_recorded(rows_in: list, known: bool) -> None:
    counts = np.array([row[0] for row in rows_in], dtype=np.int64).reshape(-1, 5)
    recorded = np.array([row[1] for row in rows_in], dtype=np.int64)
    done, fits = split(counts, recorded, known)
    has = recorded >= 0
    assert (done.cells[has].sum(axis=1) == recorded[has]).all()
    assert (done.cells >= 0).all()
    assert [fit.start for fit in fits][:1] == ([0] if len(recorded) else [])
    assert all(a.stop == b.start for a, b in pairwise(fits))
    if len(recorded):
        assert fits[-1].stop == len(recorded)
    for n, terms in enumerate(done.terms):
        assert terms.predict(int(counts[n].sum())) == done.cells[n].sum()
        assert terms.hidden_tokens == done.cells[n, 5:8].sum()


def test_a_prefix_that_changes_is_fitted_in_pieces() -> None:
    counted = np.arange(1, 41) * 1_000
    prefix = np.where(np.arange(40) < 20, 20_000, 31_000)
    counts = np.zeros((40, 5), dtype=np.int64)
    counts[:, 3] = counted
    recorded = (prefix + counted).astype(np.int64)
    fits = fit_requests(counted, recorded, ["m"] * 40, known_static=False, hints=StaticHints(lambda n: n == 20))
    done = reconcile(counts, recorded, fits)
    assert [(fit.start, fit.prefix, fit.injected) for fit in fits] == [(0, 20_000, 0), (20, 31_000, 0)]
    beside = fit_requests(counted, recorded, ["m"] * 40, known_static=False)
    assert [(fit.start, fit.prefix, fit.injected) for fit in beside] == [(0, 20_000, 0), (20, 20_000, 11_000)]
    assert not done.cells[:, CELLS.index("unattributed")].any()


def test_a_model_without_recorded_requests_keeps_what_was_found_before_it() -> None:
    sizes = np.arange(1, 31) * 1_000
    recorded = np.where(np.arange(30) < 20, sizes + 20_000, -1)
    found = fit_requests(sizes, recorded, ["m"] * 20 + ["n"] * 10, known_static=False)
    assert [(fit.start, fit.stop, fit.prefix, fit.scale) for fit in found] == [(0, 20, 20_000, 1.0), (20, 30, 20_000, 1.0)]
    first = fit_requests(sizes[::-1], recorded[::-1], ["n"] * 10 + ["m"] * 20, known_static=False)
    assert (first[0].prefix, first[0].scale) == (0, 1.0), "what comes later says nothing of it"


def test_no_usage_means_no_prefix_and_no_scale_but_an_estimate() -> None:
    done, _ = split(np.full((3, 5), 10, dtype=np.int64), np.full(3, -1, dtype=np.int64), known_static=False)
    assert done.cells[:, :5].sum() == 150
    assert not done.cells[:, 5:].any()


def test_a_bill_after_a_compaction_that_no_scale_explains_is_of_a_smaller_prefix() -> None:
    sizes = np.array([20, 400, 900, 30, 500], dtype=np.int64)
    recorded = np.array([9_020, 9_400, 9_900, 930, 1_400], dtype=np.int64)
    before, after = (fit_requests(sizes, recorded, ["m"] * 5, False, [3])[n] for n in (0, -1))
    assert before.prefix >= 8_500
    assert after.prefix <= 930, "the whole prompt is no larger"


def make_requests(growth: list[int], billed: list[int], prefix: int) -> tuple[Ints, Ints]:
    """Counts of every request, all in the messages, and its billed prompt."""
    counts = np.zeros((len(growth), 5), dtype=np.int64)
    counts[:, 2] = np.cumsum(growth)
    return counts, (prefix + np.cumsum(billed)).astype(np.int64)


def rest(done: Reconciliation) -> list[int]:
    return done.cells[:, CELLS.index("unattributed")].tolist()


def test_what_was_billed_within_a_factor_of_two_of_its_count_is_an_error_of_counting() -> None:
    growth, billed = [1_000] * 12, [1_000] * 12
    billed[6] = 1_700
    counts, recorded = make_requests(growth, billed, 8_000)
    done, [fit] = split(counts, recorded, known_static=False)
    assert not any(rest(done))
    assert done.terms[6].scale > fit.scale
    assert fit.error is not None
    assert fit.error > 0.01, "the error holds it"


def test_what_no_error_of_counting_explains_stays_unattributed_until_it_leaves() -> None:
    growth, billed = [1_000] * 14, [1_000] * 14
    billed[6], billed[9] = 2_700, -700  # 1,700 tokens came in beside what was said, and left again
    counts, recorded = make_requests(growth, billed, 8_000)
    done, _ = split(counts, recorded, known_static=False)
    found = rest(done)
    assert not any(found[:6] + found[9:])
    assert all(1_000 < tokens <= 1_700 for tokens in found[6:9])


@pytest.mark.parametrize("images", [0, 1])
def test_what_an_image_may_have_been_billed_is_an_error_of_counting(images: int) -> None:
    builder = Builder("s", "made")
    prompt = 8_000
    for n in range(12):
        picture = [make_image(PICTURE)] if n == 6 and images else []
        builder.add_message("user", [{"type": "text", "text": f"Step {n}. " + "What comes next? " * 200}, *picture])
        prompt += 800 + 1_500 * (n == 6)
        builder.set_request(builder.add_message("assistant", "Done."), model="m", usage=Usage(prompt, output_tokens=3))
    view = build_overview(turnscope.replay(builder.build()))
    assert view.cells[:, CELLS.index("unattributed")].any() == (not images)


def test_the_shortest_request_tells_the_prefix_where_the_scale_drifts() -> None:
    growth, billed = [50] + [5_000] * 11, [50] + [4_200] * 6 + [5_600] * 5
    counts, recorded = make_requests(growth, billed, 40_000)
    done, [fit] = split(counts, recorded, known_static=False)
    assert abs(fit.prefix - 40_000) <= 50  # the median of all requests tells 38,000
    assert not any(rest(done))


def test_a_small_set_of_tools_is_prefix_where_the_log_shows_that_tools_were_loaded() -> None:
    sizes = np.arange(1, 11) * 400
    recorded = 14_000 + sizes + np.where(np.arange(10) < 5, 0, 1_600)
    loaded = fit_requests(sizes, recorded, ["m"] * 10, known_static=False, hints=StaticHints(lambda n: n == 5))
    assert [(fit.start, fit.prefix) for fit in loaded] == [(0, 14_000), (5, 15_600)]


def test_a_request_that_the_fit_did_not_see_keeps_what_is_unattributed() -> None:
    [fit] = fit_requests(np.array([100]), np.array([-1]), ["m"], known_static=True)
    assert fit.compute_terms(100, 180, 0).unattributed == 80


@pytest.mark.parametrize("run", ["gemini/C", "opencode/C"])
def test_little_is_unattributed_in_recorded_runs_with_images(run: str, shared) -> None:
    with open_run(shared("data", "wire", *run.split("/"))) as opened:
        views = [build_overview(turnscope.replay(session)) for session in sessions(opened.transcripts)]
    shares = [share for v in views for share in (v.cells[:, -1] / np.maximum(v.prompts, 1))[v.recorded > 0]]
    assert max(shares) <= 0.02


def test_little_is_unattributed_in_real_sessions_of_any_tool(shared) -> None:
    shares = [share for path in iter_files([shared("data", "open")]) if (found := row(path)) for share in found.unnamed]
    assert float(np.quantile(shares, 0.99)) <= 0.02


@pytest.mark.parametrize("of", ["anthropic-api/vcr-anthropic-compaction.yaml", "responses/model_mcp_server_tool_stream.yaml"])
def test_what_a_provider_adds_by_itself_is_named(of: str, shared) -> None:
    """A server's compaction and its hosted tools put into the prompt what no log holds."""
    view = build_overview(
        turnscope.replay(turnscope.load(shared("data", "open" if "anthropic" in of else "new", *of.split("/"))))
    )
    assert view.cells[:, CELLS.index("reinjected")].max() > 50
    assert not view.cells[:, CELLS.index("unattributed")].any()
