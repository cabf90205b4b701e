"""The whole bill holds each request once; no cost goes beyond what was recorded and written; windows that a session proves."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import turnscope
from claude_log import Log, call, find_billed
from conftest import ROOT, SHARED
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from turnscope.counting.tokens import count_texts, make_estimator
from turnscope.importers.anthropic_api import IMPORTER
from turnscope.library.opening import load_prices
from turnscope.library.store import Store
from turnscope.pricing.prices import PRICES
from turnscope.reading.source import Source
from turnscope.session.builder import Builder
from turnscope.session.model import Branches, Session, Usage, select_model_output
from turnscope.session.usage import parse_usage
from turnscope.views import columns, request_summary, tables
from turnscope.views.overview import Overview

from pages.parts import cards

SONNET_4 = "claude-sonnet-4-20250514"
OPEN = SHARED / "data" / "open"
CLAUDE = sorted(path for path in (OPEN / "claude-code").rglob("*.jsonl") if path.parent.name != "subagents")
OTHERS = [*(OPEN / "anthropic-api").glob("*"), *(OPEN / "roo-cline").glob("*/ui_messages.json")]
FILES = [*sorted((ROOT / "sample_sessions").glob("*.jsonl")), *CLAUDE, *sorted(OTHERS)]
PLAIN = (3, Decimal("3.75"), Decimal("0.3"), 15)  # Sonnet: input, written, read, output


def price(*use: int, rates: tuple[int | Decimal, ...] = PLAIN) -> Decimal:
    return sum((n * Decimal(rate) for n, rate in zip(use, rates, strict=True)), Decimal(0)) / 10**6


def open_log(log: Log, tmp_path: Path) -> Session:
    return turnscope.load(log.save(tmp_path / f"{log.session}.jsonl"))


def everyone(session: Session) -> Iterator[Session]:
    yield session
    for other in (*session.subagents, *session.branches):
        yield from everyone(other)


def make_left_twice() -> Log:
    """A path of three requests. One branch was left after the first; another root stands in the same file."""
    log = Log()
    log.user("an earlier beginning")
    log.answer("a1", "Once.", usage=(10, 4_000, 0, 20))
    log.user("begin", parent="")
    first = log.answer("m1", "Hello.", usage=(10, 500, 0, 20))
    log.user("one way")
    log.answer("b1", "That way.", usage=(5, 60, 500, 8))
    log.user("the other way", parent=first)
    log.answer("m2", "This way.", usage=(7, 70, 500, 9))
    return log


def test_the_whole_bill_holds_branches_and_what_stands_before_another_root(tmp_path: Path) -> None:
    view = turnscope.overview(open_log(make_left_twice(), tmp_path))
    path = price(10, 500, 0, 20) + price(7, 70, 500, 9)
    left = price(10, 4_000, 0, 20) + price(5, 60, 500, 8)
    assert (view.bill.path.usd, view.bill.branches.usd, view.bill.subagents.usd) == (path, left, None)
    assert (view.total, view.path_total) == (path + left, path)
    assert [(name, share.sessions, share.requests) for name, share in view.bill.parts] == [("path", 1, 2), ("branches", 2, 2)]
    assert sum(total for total in view.totals if total) == view.path_total


def test_a_request_that_a_branch_repeats_is_billed_once(tmp_path: Path) -> None:
    log = make_left_twice()
    log.user("told again", parent="")
    log.answer("m1", "Hello.", usage=(10, 500, 0, 20))
    log.user("and on")
    log.answer("m9", "On.", usage=(1, 1, 1, 1))
    view = turnscope.overview(open_log(log, tmp_path))
    ids = {"a1": (10, 4_000, 0, 20), "m1": (10, 500, 0, 20), "b1": (5, 60, 500, 8), "m2": (7, 70, 500, 9), "m9": (1, 1, 1, 1)}
    assert view.total == sum(price(*use) for use in ids.values())


def test_subagents_are_in_it_with_their_own_model_and_their_stubs(tmp_path: Path) -> None:
    log = Log()
    log.user("look")
    log.answer("m1", call("t1", "Task", prompt="find it"), usage=(10, 500, 0, 20))
    log.result("t1")
    log.answer("m2", "Found.", usage=(5, 60, 500, 8))
    agent = Log(agent="a1")
    agent.user("find it")
    text = "The door is on the left side of the house. " * 60
    agent.answer("x1", text, usage=(10, 300, 0, 2), model="claude-haiku-4-5-20251001")
    agent.save(tmp_path / "s1" / "subagents" / "agent-a1.jsonl")
    view = turnscope.overview(open_log(log, tmp_path))
    below, tokens = view.bill.subagents, count_texts([text], make_estimator("claude-3"))[0]
    assert below.recorded_usd == price(10, 300, 0, 2, rates=(1, Decimal("1.25"), Decimal("0.1"), 5))
    assert (below.sessions, below.requests, below.counted) == (1, 1, 1)
    assert below.counted_usd == Decimal(tokens - 2) * 5 / 10**6
    assert below.usd == turnscope.overview(turnscope.load(tmp_path / "s1.jsonl").subagents[0]).total, (
        "its own page says the same"
    )
    assert view.total == (view.path_total or 0) + (below.usd or 0)


def test_no_branch_is_put_together_to_price_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log()
    log.user("begin")
    first = log.answer("m1", "Hello.", usage=(10, 500, 0, 20))
    for n in range(300):
        log.user(f"way {n}", parent=first)
        log.answer(f"b{n}", "Gone.", usage=(5, 60, 500, 8))
    session = open_log(log, tmp_path)
    monkeypatch.setattr(Branches, "__getitem__", lambda *_: pytest.fail("a branch was put together"))
    assert turnscope.overview(session).bill.branches.usd == 299 * price(5, 60, 500, 8)


@pytest.mark.parametrize("file", CLAUDE, ids=lambda path: path.name)
def test_the_recorded_sum_of_a_real_file_is_that_of_its_lines(file: Path) -> None:
    """Every answer once, by its id, at list price; with what was counted on top it is the price shown."""
    lines = find_billed([file, *sorted(file.with_suffix("").glob("subagents/*.jsonl"))])
    wanted = Decimal(0)
    for line in lines.values():
        used = parse_usage(line["message"]["usage"])
        assert used is not None
        cost = PRICES.compute_cost(used, line["message"]["model"], datetime.fromisoformat(line["timestamp"]).timestamp())
        wanted += cost.total if cost else 0
    whole = turnscope.overview(turnscope.load(file)).bill.whole
    assert whole.recorded_usd == wanted
    assert whole.requests == len(lines)
    assert whole.usd == wanted + whole.counted_usd


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.name)
def test_no_cost_is_beyond_what_was_recorded_and_written(file: Path) -> None:
    """Law: recorded usage at list price <= what is shown <= that and the text of each answer, as counted, at output price."""
    for session in (one for every in turnscope.load_all(file) for one in everyone(every)):
        check_bounds(session, turnscope.overview(session))


def check_bounds(session: Session, view: Overview) -> None:
    prices, ledger = load_prices(), turnscope.replay(session).ledger
    for request, total in zip(session.requests, view.totals, strict=True):
        if request.usage is None:
            assert total is None
            continue
        plain = prices.compute_cost(request.usage, request.model, request.sent_at)
        rates = prices.find_rates(request.model, request.usage.prompt_tokens, request.sent_at)
        if plain is None or rates is None or total is None:
            assert (plain, rates, total) == (None, None, None)
            continue
        text = ledger.count_content(select_model_output(session.blocks[request.cut : request.stop]))
        assert plain.total <= total <= plain.total + rates.output * text / 10**6
    parts = view.usd.sum(axis=1) + view.answer_usd
    for n, total in enumerate(view.totals):
        if view.recorded[n] >= 0:
            assert parts[n] == pytest.approx(float(total or 0), rel=1e-9, abs=1e-12)


words = st.text("ab \n", min_size=1, max_size=400).map(lambda text: text * 20)
kinds = st.sampled_from(["text", "thinking", "web_search_tool_result", "code_execution_tool_result", "mcp_tool_result"])


@given(
    st.lists(st.tuples(words, kinds, words, st.integers(0, 400_000), st.integers(0, 900)), min_size=1, max_size=5),
    st.booleans(),
)
def test_the_same_bound_holds_for_any_answer(rows: list[tuple[str, str, str, int, int]], system: bool) -> None:
    builder = Builder("s", "test")
    if system:
        builder.add_message("system", "Be brief.")
    for asked, kind, said, size, out in rows:
        key = {"text": "text", "thinking": "thinking"}.get(kind, "content")
        builder.add_message("user", asked)
        answer = builder.add_message("assistant", [{"type": kind, key: said}, {"type": "text", "text": "Done."}])
        builder.set_request(answer, model=SONNET_4, usage=Usage(size, output_tokens=out))
    session = builder.build()
    check_bounds(session, turnscope.overview(session))


def make_search(results: int = 40) -> list[dict[str, Any]]:
    """An answer as a server-side web search leaves it: what came back is encrypted, long, and no output."""
    page = {"type": "web_search_result", "title": "T", "url": "https://example.com", "encrypted_content": "x" * 20_000}
    use = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "doors"}}
    back = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [page] * results}
    return [use, back, {"type": "text", "text": "It is open."}]


def make_call(content: list[dict[str, Any]], question: str, **used: int) -> dict[str, Any]:
    request = {
        "model": "claude-sonnet-4-5",
        "max_tokens": 900,
        "system": "Search.",
        "messages": [{"role": "user", "content": question}],
    }
    response = {
        "type": "message",
        "role": "assistant",
        "id": f"msg_{question}",
        "model": "claude-sonnet-4-5",
        "content": content,
    }
    return {"request": request, "response": {**response, "stop_reason": "end_turn", "usage": used}}


def test_what_a_server_side_search_brought_back_is_no_output() -> None:
    """The answer holds 800,000 characters of results and 90 tokens of output; a fit over so few requests multiplies nothing."""
    calls = [
        make_call(make_search(), "a", input_tokens=140_000, output_tokens=90),
        make_call(make_search(3), "b", input_tokens=9_000, output_tokens=40),
    ]
    source = Source(Path("log.jsonl"), "".join(json.dumps(one) + "\n" for one in calls).encode())
    for entry, used in zip(IMPORTER.entries(source), ((140_000, 90), (9_000, 40)), strict=True):
        session = IMPORTER.read(source, entry).session
        view = turnscope.overview(session)
        assert not any(request.output_stub for request in session.requests)
        assert view.total == price(used[0], 0, 0, used[1])
        assert all(1 / 3 <= fit.scale <= 3 for fit in view.fits)


def test_what_is_counted_is_said_beside_the_recorded_sum(tmp_path: Path) -> None:
    log = Log()
    log.user("write")
    log.answer("m1", "Word after word after word. " * 4_000, usage=(10, 500, 0, 2))
    log.user("and")
    log.answer("m2", "Yes.", usage=(10, 500, 500, 2))
    view = turnscope.overview(open_log(log, tmp_path))
    whole = view.bill.whole
    assert (whole.counted, whole.recorded_usd) == (1, price(10, 500, 0, 2) + price(10, 500, 500, 2))
    title = cards.render_title(view)
    assert f"of it ${whole.counted_usd:.3f} counted for 1 answer · $0.0040 as recorded" in title
    rows = {row["part"]: row for row in csv.DictReader(io.StringIO(tables.cost_to_csv(view)))}
    assert Decimal(rows["whole"]["usd"]) == view.total
    assert Decimal(rows["whole"]["usd_recorded"]) == whole.recorded_usd
    assert rows["path"]["counted_answers"] == "1"


def test_header_library_and_repr_show_one_total(tmp_path: Path) -> None:
    session = open_log(make_left_twice(), tmp_path)
    view = turnscope.overview(session)
    store = Store(tmp_path / "memory.sqlite")
    found = store.open(tmp_path / "s1.jsonl")
    assert found.overview.bill == view.bill == store.open(tmp_path / "s1.jsonl").overview.bill
    assert store.list_recent()[0].usd == str(view.total)
    assert f"${view.total:.4f}" in cards.render_title(view)
    assert f"this branch ${view.path_total:.4f}" in cards.render_title(view)
    assert f"{view.total:.2f}" in repr(view)
    assert "branches $0.0" in view._repr_html_()


def test_the_answer_has_its_own_price_and_no_part_of_the_prompt_bears_it(tmp_path: Path) -> None:
    log = Log()
    log.user("think")
    log.answer("m1", {"type": "thinking", "thinking": "Hm. " * 50, "signature": "s"}, "Done.", usage=(10, 500, 0, 300))
    view = turnscope.overview(open_log(log, tmp_path))
    now = request_summary.summarize_request(view, turnscope.replay(turnscope.load(tmp_path / "s1.jsonl")), 0)
    thinking = next(segment for segment in now.segments if segment.name == "thinking")
    assert (thinking.tokens, thinking.usd) == (0, 0)
    assert (now.answer, now.answer_usd) == (300, pytest.approx(300 * 15 / 1e6))
    assert sum(segment.usd for segment in now.segments) == pytest.approx(float(price(10, 500, 0, 0)))
    assert "Answer 300 tokens · $0.0045" in cards.render_buckets(now, "x")
    row = next(csv.DictReader(io.StringIO(tables.overview_to_csv(view))))
    assert (row["answer"], row["usd_answer"], row["usd_thinking"]) == ("300", "0.004500", "0.000000")
    assert columns.build_grid(view, "requests", "cost", 10).facts[0, 4, 8:].tolist() == [300, pytest.approx(0.0045)]


def test_what_the_log_says_is_kept_beside_our_price(tmp_path: Path) -> None:
    log = Log()
    log.user("old")
    log.answer("m1", "One.", usage=(10, 500, 0, 20), costUSD=0.0025)
    log.user("older")
    log.answer("m2", "Two.", usage=(10, 0, 500, 20), costUSD=10**400)
    session = open_log(log, tmp_path)
    view = turnscope.overview(session)
    assert [request.logged_usd for request in session.requests] == [0.0025, None]
    assert (view.bill.whole.logged, view.bill.whole.logged_usd) == (1, Decimal("0.0025"))
    assert "log says $0.0025" in cards.render_title(view)
    assert "log says $0.0025" in cards.render_buckets(
        request_summary.summarize_request(view, turnscope.replay(session), 0), "x"
    )
    assert b'"logged_usd": 0.0025' in turnscope.dumps(session)


def talk(*sizes: int, model: str = SONNET_4, answer: Any = "Done.", window: int | None = None) -> Session:
    builder = Builder("s", "test")
    builder.window = window
    for size in sizes:
        builder.add_message("user", "go on")
        builder.set_request(builder.add_message("assistant", answer), model=model, usage=Usage(1_000, 0, size - 1_000, 40))
    return builder.build()


def test_an_answered_prompt_over_the_window_proves_the_next_one_from_the_start() -> None:
    view = turnscope.overview(talk(150_000, 260_000, 312_000))
    assert view.windows.tolist() == [1_000_000] * 3
    assert [marker.kind for marker in view.markers] == []
    (found,) = view.evidence
    assert found.sentence == "a window of 1,000,000 tokens, not 200,000: request 3 was answered with a prompt of 312,000"
    assert found.sentence in cards.render_title(view)
    assert "1.0M by its prompts" in cards.render_title(view)
    assert turnscope.overview(talk(150_000)).windows.tolist() == [200_000]


def test_a_window_is_proved_by_one_prompt_alone_and_never_against_the_log() -> None:
    assert turnscope.overview(talk(150_000, 312_000, answer=make_search(1))).windows.tolist() == [200_000] * 2
    assert turnscope.overview(talk(150_000, 312_000, window=250_000)).windows.tolist() == [250_000] * 2
    assert turnscope.overview(talk(150_000, 312_000, model="offline-16k")).windows.tolist() == [16_000] * 2


def test_over_200_000_sonnet_4_bills_the_whole_request_at_its_tier_as_4_5_did() -> None:
    """Read 0.60, input 6, output 22.50 for all of it; not only for what lies above, as some tools have it."""
    view = turnscope.overview(talk(199_000, 312_000))
    high = (6, Decimal("7.5"), Decimal("0.6"), Decimal("22.5"))
    assert view.totals == (price(1_000, 0, 198_000, 40), price(1_000, 0, 311_000, 40, rates=high))
    for size in (200_000, 200_001, 900_000):
        assert PRICES.find_rates(SONNET_4, size, 1.76e9) is not None
        mine, other = (
            PRICES.compute_cost(Usage(size, output_tokens=9), name, 1.76e9) for name in (SONNET_4, "claude-sonnet-4-5")
        )
        assert mine is not None
        assert mine == other


@pytest.mark.parametrize(
    "name",
    [
        "us.anthropic.claude-sonnet-4-20250514-v1:0",
        "vertex_ai/claude-sonnet-4@20250514",
        "openrouter/anthropic/claude-sonnet-4",
        "eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
    ],
)
def test_who_else_sells_such_a_model_asks_twice_as_much_beyond_200_000_too(name: str) -> None:
    below, above = PRICES.find_rates(name, 200_000, 1.76e9), PRICES.find_rates(name, 200_001, 1.76e9)
    assert below is not None
    assert above is not None
    assert (above.input, above.cache_read) == (below.input * 2, below.cache_read * 2)
    assert above.output == below.output * Decimal("1.5")


def test_what_a_run_cost_in_all_stands_beside_ours_where_no_request_says_it(tmp_path: Path) -> None:
    log = Log()
    log.user("count the herons")
    log.answer("m1", "nine", usage=(20, 0, 0, 9))
    file = tmp_path / "run.jsonl"
    file.write_text(log.text())
    session = turnscope.load(file)
    run = structs.replace(session, about={**session.about, "run_usd": 0.75})
    view = turnscope.overview(run)
    assert view.bill.run_usd == Decimal("0.75")
    assert "log says $0.75" in cards.render_title(view)
    logged = structs.replace(run, requests=tuple(structs.replace(request, logged_usd=0.25) for request in run.requests))
    assert turnscope.overview(logged).bill.run_usd is None, "what is said of each request is nearer"
    assert "log says $0.25" in cards.render_title(turnscope.overview(logged))
