"""What was lost at a cut: held against the trace, the losses and the prices, each read here by itself."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
import turnscope
from conftest import ROOT, shared
from turnscope.planning.trace import Trace
from turnscope.views import decision_log, losses, window_cut_text, window_cuts
from turnscope.views.overview import Overview, build_overview
from turnscope.views.window_cuts import WindowCut

FIRST, SECOND = 112, 263  # the compactions of the sample


@pytest.fixture(scope="module")
def known() -> tuple[Trace, Overview, losses.Losses]:
    trace = turnscope.replay(turnscope.load(ROOT / "sample_sessions" / "tool-results-eat-the-window.jsonl"))
    return trace, build_overview(trace), losses.find_losses(trace, losses.find_references(trace.session))


@pytest.fixture(scope="module")
def cut(known: tuple[Trace, Overview, losses.Losses]) -> WindowCut:
    trace, view, _ = known
    found = window_cuts.build_window_cut(trace, view, FIRST)
    assert found is not None
    return found


def test_every_block_that_left_is_in_one_item(known: tuple[Trace, Overview, losses.Losses], cut: WindowCut) -> None:
    trace, _, _ = known
    gone = [at for item in cut.items for at in item.blocks]
    shown = [trace.explain(at, FIRST).state for at in gone]
    assert len(gone) == len(set(gone))
    assert set(shown) <= {"absent", "replaced"}
    missing = {at for at in range(trace.plans[FIRST].request.cut) if trace.explain(at, FIRST).state in ("absent", "replaced")}
    before = trace.plans[FIRST - 1].request.cut
    assert missing - set(gone) == {at for at in missing if at < before and trace.explain(at, FIRST - 1).state != "here"}


def test_the_sizes_are_those_of_the_debugger(known: tuple[Trace, Overview, losses.Losses], cut: WindowCut) -> None:
    trace, _, _ = known
    made = trace.plans[FIRST].decisions[cut.step - 1]
    assert (cut.before, cut.after) == decision_log.count_tokens(trace, made)
    assert (cut.number, cut.count, cut.stop) == (1, 2, SECOND)


def test_a_summary_that_no_block_holds_has_its_tokens_and_the_sizes_agree_with_what_left(tmp_path: Path) -> None:
    """Where Claude Code's requests are rebuilt exactly, the summary stands in the edit."""
    with tarfile.open(shared("data", "wire", "claude", "C", "transcripts.tar.xz")) as packed:
        packed.extractall(tmp_path, filter="data")
    (log,) = tmp_path.rglob("11111111-*.jsonl")
    trace = turnscope.replay(turnscope.load(log))
    view = build_overview(trace)
    (at,) = (cut.request for cut in window_cuts.list_cuts(view))
    made = window_cuts.build_window_cut(trace, view, at)
    assert made is not None
    assert len(made.summary) / 8 < made.summary_tokens < len(made.summary) / 2
    assert made.after == view.prompts[at]
    left = sum(item.tokens for item in made.items)
    assert made.before - made.after == pytest.approx(left - made.summary_tokens, rel=0.01), "what left as it was billed before"
    assert (made.before, made.after) == decision_log.count_tokens(trace, trace.plans[at].decisions[made.step - 1])


def test_needed_references_are_those_of_the_losses_until_the_next_cut(
    known: tuple[Trace, Overview, losses.Losses], cut: WindowCut
) -> None:
    _, _, lost = known
    gone = {at for item in cut.items for at in item.blocks}
    wanted = sorted((hit.request, hit.text) for hit in lost.hits if FIRST <= hit.request < SECOND and hit.block in gone)
    found = sorted(row for item in cut.items for row in zip(item.needed_at, item.needed, strict=True))
    assert found == wanted
    assert wanted


def test_what_was_fetched_again_has_the_same_subject(known: tuple[Trace, Overview, losses.Losses], cut: WindowCut) -> None:
    trace, _, _ = known
    files = next(group for group in cut.groups if group.name == "files")
    largest = files.items[0]
    assert largest.label.endswith("auth/sessions.py")
    for request in largest.read_again:
        came = trace.session.blocks[trace.plans[request - 1].request.cut : trace.plans[request].request.cut]
        calls = [trace.session.blocks[block.pair] for block in came if block.kind == "tool_result"]
        assert any(str(call.raw["input"].get("file_path")) == largest.label for call in calls if isinstance(call.raw, dict))  # type: ignore[union-attr, index]


def test_a_sentence_that_names_a_file_covers_it(cut: WindowCut) -> None:
    files = next(group for group in cut.groups if group.name == "files")
    for item in files.items:
        named = {n for n, text in enumerate(cut.sentences, 1) if item.label.rpartition("/")[2] in text}
        assert named <= set(item.sentences)
    assert any(item.sentences for item in files.items)


def test_the_saving_is_the_cached_price_of_what_left_less_the_summary(
    known: tuple[Trace, Overview, losses.Losses], cut: WindowCut
) -> None:
    trace, view, _ = known
    rates = trace.prices.find_rates(trace.plans[FIRST].model, view.get_prompt(FIRST), trace.plans[FIRST].request.sent_at)
    assert rates is not None
    assert cut.cost.summary is not None
    each = (cut.before - cut.after) * float(rates.cache_read / Decimal(10**6))
    first = float(view.usd[FIRST].sum()) - view.get_prompt(FIRST) * float(rates.cache_read / Decimal(10**6))
    many = SECOND - FIRST
    assert cut.cost.saved[-1] == pytest.approx(many * each - cut.cost.summary - max(0.0, first))
    assert len(cut.cost.saved) == many
    even = cut.cost.break_even
    assert even is not None
    assert cut.cost.saved[even] >= 0 > cut.cost.saved[even - 1]


def test_an_earlier_summary_is_not_what_the_user_said(known: tuple[Trace, Overview, losses.Losses]) -> None:
    trace, view, _ = known
    found = window_cuts.build_window_cut(trace, view, SECOND)
    assert found is not None
    groups = {group.name: group for group in found.groups}
    assert [trace.session.blocks[at].kind for item in groups["summaries"].items for at in item.blocks] == ["summary"]
    assert all(trace.session.blocks[at].kind != "summary" for item in groups["user"].items for at in item.blocks)


def test_as_markdown_it_has_every_number_and_no_markup_of_the_session(cut: WindowCut) -> None:
    text = window_cut_text.to_markdown(cut)
    assert text.startswith("# What was lost at request 113\n")
    assert f"{cut.before:,} before, {cut.after:,} after" in text
    rows = [line for line in text.splitlines() if line.startswith("| ") and not line.startswith(("| left ", "| --- "))]
    assert len(rows) == sum(min(len(group.items), window_cut_text.MAX_ITEMS) for group in cut.groups)
    hostile = replace(cut.groups[0].items[0], label="<img src=x onerror=alert(1)> | [a](http://b)\n# head")
    changed = replace(cut, groups=(replace(cut.groups[0], items=(hostile,)),))
    line = next(line for line in window_cut_text.to_markdown(changed).splitlines() if "onerror" in line)
    assert line.startswith("| \\<img")
    assert line.count(" | ") == 3
    assert "\\[a\\]" in line


def test_a_request_without_a_cut_has_none(known: tuple[Trace, Overview, losses.Losses]) -> None:
    trace, view, _ = known
    assert window_cuts.build_window_cut(trace, view, FIRST + 1) is None


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("# Title\n\n1. One thing is done.\n2. Another: app.py\n", ("One thing is done.", "Another: app.py")),
        ("First it failed. Then it ran.", ("First it failed.", "Then it ran.")),
        ("Files:\n- a_file.py", ("a_file.py",)),
        ("", ()),
    ],
)
def test_a_summary_is_split_into_sentences(text: str, sentences: tuple[str, ...]) -> None:
    assert window_cuts.split_sentences(text) == sentences
