"""What is put in has its place in bar, gauge and heatmap: named by its slot, a part of its bucket, totals as before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import turnscope
from claude_log import Log, call
from conftest import let_go
from long_session import make_long_session
from turnscope import figures
from turnscope.live import branches, injected_context
from turnscope.live.chat import Chat, Settings
from turnscope.live.context_sources import ContextSources
from turnscope.live.injected_context import InjectedContext
from turnscope.live.offline import OfflineServer
from turnscope.live.provider import connect
from turnscope.planning.policy import load
from turnscope.planning.trace import Trace
from turnscope.storage.memories import Memories
from turnscope.storage.threads import Threads
from turnscope.views import columns, divergence, request_summary
from turnscope.views.overview import Overview, build_overview
from turnscope.views.slots import Slots, build_slots, count_slot_tokens, split_by_slot


def split_slots(trace: Trace) -> tuple[Overview, Slots, Overview]:
    view = build_overview(trace)
    found = build_slots(trace, view)
    assert found
    return view, found, split_by_slot(view, found)


def check_totals(view: Overview, apart: Overview) -> None:
    assert (apart.cells >= 0).all()
    assert (apart.billed >= 0).all()
    assert (apart.cells.sum(axis=1) == view.cells.sum(axis=1)).all()
    assert (apart.billed.sum(axis=1) == view.billed.sum(axis=1)).all()
    assert np.allclose(apart.usd.sum(axis=1), view.usd.sum(axis=1))
    assert (apart.billed.sum(axis=2)[:, :5] <= view.cells[:, :5] + 1).all()


def test_layers_have_rows_below_their_bucket_whose_tokens_are_those_of_the_envelope() -> None:
    trace = turnscope.replay(make_long_session(40), "layered")
    view, found, apart = split_slots(trace)
    check_totals(view, apart)
    assert set(found.names) == {"headers", "summaries", "context", "references"}
    last = trace.plans[-1]
    held = {slot: sum(counts) * float(view.scales[-1]) for slot, counts in count_slot_tokens(last.seen).items()}
    shown = dict(zip(found.names, found.tokens[-1].sum(axis=1).tolist(), strict=True))
    assert all(abs(shown[slot] - size) <= 1 for slot, size in held.items())
    rows = [
        row
        for row in figures.draw_heatmap(view, measure="tokens", trace=trace, rows=figures.RowStyle(parts=found)).data
        if row.type == "heatmap"
    ]
    names = [row.name for row in rows]
    at = names.index("Messages")
    assert names[at + 1 : at + 1 + len(found.names)] == [*found.labels]
    whole = {row.name: row for row in figures.draw_heatmap(view, measure="tokens", trace=trace).data if row.type == "heatmap"}
    tokens = np.sum([row.customdata[0][:, 2] for row in rows[at : at + 1 + len(found.names)]], axis=0)
    assert (tokens == whole["Messages"].customdata[0][:, 2]).all(), "together they are the bucket"
    assert len({tuple(shade.values) for shade in figures.compute_shades(view, each=False, parts=found)}) == 1, (
        "one scale for all of them"
    )


def test_two_policies_that_differ_in_what_they_put_in_differ_by_slot() -> None:
    session = make_long_session(12)
    whole, layered = (turnscope.replay(session, name) for name in ("keep-everything", "layered"))
    at = divergence.find_divergence(whole, layered)
    assert at == 2
    found = divergence.list_differences(whole, layered, at)
    assert [(each.label, each.how) for each in found] == [("Context summary", "only in B"), ("Headers", "only in B")]
    assert all(each.tokens > 0 for each in found)
    assert {each.how for each in divergence.list_differences(layered, whole, at)} == {"only in A"}
    assert divergence.list_differences(layered, layered, at) == ()
    kept = {each.label: (each.a, each.b) for each in divergence.list_placements(layered, layered, 20)}
    assert kept["Headers"] == kept["Context summary"]
    assert all(kept["Summaries"])


def test_every_cut_and_every_retrieval_is_marked_as_what_it_is() -> None:
    trace = turnscope.replay(make_long_session(12, {9: ("Tell me more.", {"ids": ["c2"], "format": "full"})}), "layered")
    marks = {(marker.request, marker.kind) for marker in build_overview(trace).markers}
    left = {p.request.n for p in trace.plans for d in p.decisions if d.rule == "keep_recent_conversations" and d.splice}
    assert {n for n, kind in marks if kind == "cut"} >= left > {12}, "also where an insert moved afterwards"
    assert {n for n, kind in marks if kind == "back"} == {19}
    assert not {n for n, kind in marks if kind == "clear"}
    assert sum(count_slot_tokens(trace.plans[19].seen)["retrieved"]) > 100, "its blocks stand in a slot of their own"


def test_what_a_log_says_that_its_tool_put_in_has_rows_too_and_bears_a_part_of_the_price(tmp_path: Path) -> None:
    log = Log()
    log.user("Read the file.")
    log.line("attachment", attachment={"type": "skill_listing", "content": "- review: reads what was changed\n" * 40})
    for n in range(4):
        log.answer(f"m{n}", f"Answer {n}.", call(f"t{n}"), usage=(50, 400, 900 * n + 300, 20))
        log.result(f"t{n}", "line\n" * 300)
    trace = turnscope.replay(turnscope.load(log.save(tmp_path / "s1.jsonl")))
    view = build_overview(trace)
    found = build_slots(trace, view)
    assert found
    assert found.labels == ("Skills",)
    assert (found.tokens[:, 0].sum(axis=1) > 100).all()
    apart = split_by_slot(view, found)
    check_totals(view, apart)
    assert apart.usd[:, view.cells.shape[1] :].sum() > 0
    for by in ("requests", "turns"):
        whole, more = (columns.build_grid(of, by, "cost", 10_000).values.sum() for of in (view, apart))  # type: ignore[arg-type]
        assert np.isclose(whole, more)


def begun(server: OfflineServer, path: Path, policy: str) -> Chat:
    threads = Threads(path)
    thread = threads.create(title="test")
    provider = connect(server.url, "secret-key-123", retries=0, timeout=10)
    return branches.start_chat(
        thread, provider, threads.open_writer(thread), Settings("offline-64k", load(policy)), "Be brief.", []
    )


def test_a_request_that_is_only_weighed_shows_what_will_be_put_in_and_keeps_nothing(tmp_path: Path) -> None:
    folder, path = tmp_path / "falcon", tmp_path / "db"
    folder.mkdir()
    (folder / "CLAUDE.md").write_text("Answer in French.")
    store = Memories(path)
    store.add("The user's name is Ada.")
    said = "What is my name?"
    with let_go(OfflineServer()) as server:
        chat = begun(server, path, "context-providers")
        stands = InjectedContext(store, ContextSources(folder))
        assert not count_slot_tokens(chat.preview(said).after), "nobody was asked"
        injected_context.attach_preview(chat, stands)
        before, growing = chat.preview(said), chat.live_session
        assert {*count_slot_tokens(before.after)} == {"memory", "project_rules", "workspace"}
        assert chat.live_session is growing
        assert not growing.facts.answers
        injected_context.attach(chat, stands)
        [*chat.send(said)]
    assert chat.plan
    assert count_slot_tokens(chat.plan.after) == count_slot_tokens(before.after), "as it was shown, it is sent"
    shown = request_summary.summarize_request(
        build_overview(trace := turnscope.replay(chat.live_session.session, "context-providers")), trace, 0
    )
    assert {slot for slot, _, _ in shown.inserts} == {"Memory", "Project rules", "Workspace"}
