"""Budgets of the tap under many requests at once, of one tap and of several, and every way in which a request ends."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
import pytest
from turnscope.pricing.prices import PRICES
from turnscope.tap import spending_ledger
from turnscope.tap.answer_usage import count_prompt, measure_answer
from turnscope.tap.apis import Upstreams
from turnscope.tap.enforcement import Enforcer, Rules
from turnscope.tap.expected_costs import expect_cost
from turnscope.tap.server import Tap, run_tap
from turnscope.tap.spending import Budgets, Spending

from tests.tap.upstream import Answer, Upstream, serve, stream, wait_for, whole

WRITTEN = 60_000  # tokens of each answer
MODELS = {
    "anthropic-messages": "claude-haiku-4-5",
    "openai-chat": "gpt-4.1",
    "openai-responses": "gpt-4.1",
    "gemini": "gemini-2.5-pro",
}
PATHS = {
    "anthropic-messages": "/v1/messages",
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "gemini": "/v1beta/models/gemini-2.5-pro:{}",
}
OUTPUT = {api: PRICES.find_rates(model, 10).output * WRITTEN / 1_000_000 for api, model in MODELS.items()}  # type: ignore[union-attr]


def make_body(api: str, *, streams: bool = False, limit: int = WRITTEN) -> dict[str, Any]:
    said = [{"role": "user", "content": "Write a long story."}]
    if api == "gemini":
        content = {"role": "user", "parts": [{"text": "Write a long story."}]}
        return {"contents": [content], "generationConfig": {"maxOutputTokens": limit}}
    body: dict[str, Any] = {"model": MODELS[api]} | ({"stream": True} if streams else {})
    if api == "openai-responses":
        return body | {"input": said, "max_output_tokens": limit}
    return body | {"messages": said, "max_tokens": limit}


def make_path(api: str, *, streams: bool) -> str:
    return PATHS[api].format("streamGenerateContent?alt=sse" if streams else "generateContent")


def make_answer(api: str) -> dict[str, Any]:
    model = MODELS[api]
    if api == "anthropic-messages":
        usage = {"input_tokens": 10, "output_tokens": WRITTEN}
        about = {"id": "m", "type": "message", "role": "assistant", "model": model, "stop_reason": "end_turn"}
        return about | {"content": [{"type": "text", "text": "A story."}], "usage": usage}
    if api == "openai-chat":
        usage = {"prompt_tokens": 10, "completion_tokens": WRITTEN, "total_tokens": WRITTEN + 10}
        choice = {"index": 0, "message": {"role": "assistant", "content": "A story."}, "finish_reason": "stop"}
        return {"id": "c", "object": "chat.completion", "created": 1, "model": model, "choices": [choice], "usage": usage}
    if api == "openai-responses":
        usage = {"input_tokens": 10, "output_tokens": WRITTEN, "total_tokens": WRITTEN + 10}
        content = [{"type": "output_text", "text": "A story.", "annotations": []}]
        message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}
        return {"id": "r", "object": "response", "status": "completed", "model": model, "output": [message], "usage": usage}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": WRITTEN, "totalTokenCount": WRITTEN + 10}
    candidate = {"content": {"role": "model", "parts": [{"text": "A story."}]}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model}


def make_events(api: str) -> list[bytes]:
    """The same answer as a stream."""
    answer, model = make_answer(api), MODELS[api]
    if api == "anthropic-messages":
        begun = {**answer, "content": [], "stop_reason": None, "usage": {"input_tokens": 10, "output_tokens": 1}}
        delta = {"type": "text_delta", "text": "A story."}
        events: list[Any] = [
            {"type": "message_start", "message": begun},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": WRITTEN}},
            {"type": "message_stop"},
        ]
    elif api == "openai-chat":
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": model}
        first = {"index": 0, "delta": {"role": "assistant", "content": "A story."}, "finish_reason": None}
        last = {"index": 0, "delta": {}, "finish_reason": "stop"}
        events = [chunk | {"choices": [one]} for one in (first, last)] + [chunk | {"choices": [], "usage": answer["usage"]}]
    elif api == "openai-responses":
        begun = {**answer, "status": "in_progress", "output": [], "usage": None}
        events = [
            {"type": "response.created", "response": begun},
            {"type": "response.output_text.delta", "delta": "A story."},
            {"type": "response.completed", "response": answer},
        ]
    else:
        events = [answer]
    return [f"event: {one.get('type', '')}\ndata: {json.dumps(one)}\n\n".encode() for one in events]


def make_reply(api: str, *, streams: bool, pause: float) -> Answer:
    def wait() -> None:
        time.sleep(pause)

    if not streams:
        return [wait, *whole(json.dumps(make_answer(api)).encode())]
    first, *rest = make_events(api)
    return stream(first, wait, *rest)


def ask(address: str, api: str, *, streams: bool = False, limit: int = WRITTEN, timeout: float = 60, session: str = "") -> int:
    body, headers = make_body(api, streams=streams, limit=limit), {"x-session-id": session} if session else {}
    return httpx2.post(address + make_path(api, streams=streams), json=body, headers=headers, timeout=timeout).status_code


def ask_at_once(addresses: Sequence[str], api: str, *, streams: bool = False) -> list[int]:
    with ThreadPoolExecutor(len(addresses)) as pool:
        return [*pool.map(lambda address: ask(address, api, streams=streams), addresses)]


@contextmanager
def budgeted(path: Path, budgets: Budgets, *answers: Answer, **rules: Any) -> Iterator[tuple[Tap, Upstream]]:
    held_to = Rules(budgets=budgets, **rules)
    with serve(*answers) as upstream, run_tap(path / "log.jsonl", Upstreams(upstream.url, {}), rules=held_to) as tap:
        yield tap, upstream


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("api", MODELS)
def test_requests_at_once_never_cost_more_than_the_budget(tmp_path: Path, api: str, streams: bool) -> None:
    name = "day" if streams else "session"
    budget = OUTPUT[api] * Decimal("3.5")
    with budgeted(tmp_path, Budgets(**{name: budget}), make_reply(api, streams=streams, pause=0.05)) as (tap, upstream):
        found = ask_at_once([tap.address] * 30, api, streams=streams)
    assert found.count(200) == len(upstream.came) == 3  # all that the budget pays for, and not one more
    assert {*found} == {200, 402 if api == "anthropic-messages" else 429}


def test_requests_that_the_budget_pays_for_at_their_dearest_run_at_once(tmp_path: Path) -> None:
    together = threading.Barrier(4)
    reply = [lambda: together.wait(10), *whole(json.dumps(make_answer("openai-chat")).encode())]
    with budgeted(tmp_path, Budgets(day=OUTPUT["openai-chat"] * Decimal("4.5")), reply) as (tap, _):
        assert ask_at_once([tap.address] * 4, "openai-chat") == [200] * 4


def test_a_request_alone_may_have_a_longer_answer_than_the_budget_pays_for(tmp_path: Path) -> None:
    api = "openai-responses"  # whose clients limit no answer, most of the time
    with budgeted(tmp_path, Budgets(session=OUTPUT[api] * 3), make_reply(api, streams=False, pause=0.0)) as (tap, upstream):
        found = [ask(tap.address, api, limit=30 * WRITTEN) for _ in range(5)]
    assert found == [200, 200, 429, 429, 429]  # a third one, as dear as those before, would be over it by its prompt
    assert len(upstream.came) == 2


def spend_nothing(tap: Tap, upstream: Upstream, api: str, way: str) -> None:
    """End a request in a way in which nothing is billed."""
    if way in ("client gone", "stalled"):
        body = json.dumps(make_body(api)).encode()
        host, _, port = tap.address.removeprefix("http://").partition(":")
        head = f"POST {make_path(api, streams=False)} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {len(body)}\r\n\r\n"
        before = len(upstream.came)
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(head.encode() + body)
            wait_for(lambda: len(upstream.came) > before)
        return
    with suppress(httpx2.HTTPError):
        ask(tap.address, api, timeout=5)


BREAKS = {
    "an error": whole(b'{"error": {"message": "overloaded"}}', "529 Overloaded"),
    "too long": whole(b'{"error": {"message": "prompt is too long"}}', "400 Bad Request"),
    "client gone": [lambda: time.sleep(0.4)],
    "no answer": [lambda: (_ for _ in ()).throw(OSError())],
    "broken off": [b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n", lambda: (_ for _ in ()).throw(OSError())],
}


@pytest.mark.parametrize("way", BREAKS)
def test_requests_that_end_without_an_answer_eat_nothing_of_the_budget(tmp_path: Path, way: str) -> None:
    api, many = "anthropic-messages", 6
    good = make_reply(api, streams=False, pause=0.0)
    budgets = Budgets(session=OUTPUT[api] * Decimal("1.5"), day=OUTPUT[api] * Decimal("1.5"))
    with budgeted(tmp_path, budgets, *[BREAKS[way]] * many, good) as (tap, upstream):
        for _ in range(many):
            spend_nothing(tap, upstream, api, way)
        assert ask(tap.address, api, timeout=10) == 200
        assert ask(tap.address, api, timeout=10) == 402


def test_a_stream_that_its_client_leaves_costs_what_came_of_it(tmp_path: Path) -> None:
    api = "anthropic-messages"
    said = json.dumps({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "word " * 200}})
    first, begun, *_ = make_events(api)
    never = stream(first, begun, f"data: {said}\n\n".encode(), lambda: time.sleep(5))
    with budgeted(tmp_path, Budgets(session=OUTPUT[api]), never, make_reply(api, streams=False, pause=0.0)) as (tap, _):
        url, body = tap.address + make_path(api, streams=True), make_body(api, streams=True)
        with httpx2.stream("POST", url, json=body, timeout=9) as answer:
            next(part for part in answer.iter_bytes() if b"word" in part)
        time.sleep(0.2)
        assert ask(tap.address, api, limit=9_000) == 200
        refused = httpx2.post(tap.address + make_path(api, streams=False), json=make_body(api)).json()["error"]
    cost = Decimal(refused["turnscope"]["spent_usd"]) - OUTPUT[api]
    assert Decimal("0.0009") < cost < Decimal("0.0013")  # 200 words at $5 a million


def test_whatever_fails_in_the_tap_itself_a_request_passes_and_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = "openai-chat"
    with budgeted(tmp_path, Budgets(day=Decimal(9)), make_reply(api, streams=False, pause=0.0)) as (tap, _):
        with monkeypatch.context() as patched:
            patched.setattr(Spending, "hold", lambda *_: 1 / 0)
            assert ask(tap.address, api) == 200
        with monkeypatch.context() as patched:
            patched.setattr(Enforcer, "_learn", lambda *_: 1 / 0)
            assert [ask(tap.address, api) for _ in range(30)] == [200] * 30  # each would hold $0.48
    assert "a budget does not count a request: an error of Turnscope's own: ZeroDivisionError" in capsys.readouterr().err


def test_a_dry_run_refuses_nothing_and_says_what_it_would_have(tmp_path: Path) -> None:
    api = "anthropic-messages"
    reply = make_reply(api, streams=False, pause=0.0)
    with budgeted(tmp_path, Budgets(session=OUTPUT[api]), reply, dry_run=True) as (tap, upstream):
        assert [ask(tap.address, api) for _ in range(4)] == [200] * 4
    assert len(upstream.came) == 4


TAP = """
import sys, time
from decimal import Decimal
from pathlib import Path
from turnscope.tap.apis import Upstreams
from turnscope.tap.enforcement import Rules
from turnscope.tap.server import run_tap
from turnscope.tap.spending import Budgets
rules = Rules(budgets=Budgets(day=Decimal(sys.argv[3]))) if sys.argv[3] else None
with run_tap(Path(sys.argv[1]), Upstreams(sys.argv[2], {}), rules=rules) as tap:
    print(tap.address, flush=True)
    sys.stdin.read()
"""


@contextmanager
def another_tap(log: Path, upstream: Upstream, budget: Decimal | str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-c", TAP, str(log), upstream.url, str(budget)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield process.stdout.readline().strip(), process
        process.kill()


@pytest.mark.thorough  # it starts three processes
def test_two_taps_share_the_budget_of_the_day_with_what_a_third_one_recorded(tmp_path: Path) -> None:
    api = "openai-chat"
    budget = OUTPUT[api] * Decimal("5.5")
    with serve(make_reply(api, streams=False, pause=0.05)) as upstream:
        with another_tap(tmp_path / "c.jsonl", upstream, "") as (address, process):
            assert ask(address, api) == 200
            process.communicate("")
        with (
            another_tap(tmp_path / "a.jsonl", upstream, budget) as (a, first),
            another_tap(tmp_path / "b.jsonl", upstream, budget) as (b, _),
        ):
            assert ask_at_once([a, b] * 12, api).count(200) == 4
            assert len(upstream.came) == 5
            first.communicate("")  # from now on its log says what it spent
            assert ask(b, api) == 429


def test_a_tap_that_is_killed_holds_nothing_any_more(tmp_path: Path) -> None:
    api = "openai-chat"
    budget = OUTPUT[api] * Decimal("1.5")
    ended = threading.Event()
    silent, good = [lambda: ended.wait(20)], make_reply(api, streams=False, pause=0.0)
    with serve(silent, good) as upstream, another_tap(tmp_path / "b.jsonl", upstream, budget) as (b, _):
        with another_tap(tmp_path / "a.jsonl", upstream, budget) as (a, process):
            threading.Thread(target=lambda: suppress_all(lambda: ask(a, api)), daemon=True).start()
            wait_for(lambda: len(upstream.came) == 1)
            with pytest.raises(httpx2.TimeoutException):
                ask(b, api, timeout=0.8)  # it waits for the other tap
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert ask(b, api, timeout=5) == 200
        ended.set()


def test_a_session_that_goes_on_behind_another_tap_has_one_budget(tmp_path: Path) -> None:
    api = "openai-chat"
    reply, budgets = make_reply(api, streams=False, pause=0.0), Budgets(session=OUTPUT[api] * Decimal("2.5"))
    with budgeted(tmp_path / "1", budgets, reply) as (tap, _):
        assert [ask(tap.address, api, session="one") for _ in range(2)] == [200, 200]
        assert ask(tap.address, api) == 200  # names no session: it is one of this tap alone
        wait_for(lambda: read_spent(tmp_path / "1", "one") > 2 * OUTPUT[api])
    shutil.copy(tmp_path / "1" / spending_ledger.FILE, tmp_path)
    with budgeted(tmp_path, budgets, reply) as (tap, upstream):
        assert ask(tap.address, api, session="one") == 429
        assert [ask(tap.address, api, session="another"), ask(tap.address, api)] == [200, 200]
        assert len(upstream.came) == 2


def test_taps_that_run_at_once_share_the_budget_of_a_session(tmp_path: Path) -> None:
    api = "openai-chat"
    budgets = Budgets(session=OUTPUT[api] * Decimal("3.5"))
    with serve(make_reply(api, streams=False, pause=0.05)) as upstream:
        places, rules = Upstreams(upstream.url, {}), Rules(budgets=budgets)
        with (
            run_tap(tmp_path / "a.jsonl", places, rules=rules) as a,
            run_tap(tmp_path / "b.jsonl", places, rules=rules) as b,
            ThreadPoolExecutor(12) as pool,
        ):
            found = [*pool.map(lambda tap: ask(tap.address, api, session="one"), [a, b] * 6)]
    assert found.count(200) == len(upstream.came) == 3


def read_spent(folder: Path, session: str) -> Decimal:
    with closing(sqlite3.connect(folder / spending_ledger.FILE)) as database:
        ((spent,),) = database.execute("select coalesce(sum(spent), 0) from sessions where session = ?", (session,))
    return Decimal(spent) / 10**12


def suppress_all(work: Any) -> None:
    with suppress(Exception):
        work()


def test_without_its_database_a_tap_counts_what_it_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    api = "openai-chat"
    (tmp_path / spending_ledger.FILE).mkdir()
    with budgeted(tmp_path, Budgets(day=OUTPUT[api] * Decimal("1.5")), make_reply(api, streams=False, pause=0.0)) as (tap, _):
        assert [ask(tap.address, api) for _ in range(3)] == [200, 429, 429]
    assert capsys.readouterr().err.count("the spending of other taps is not counted") == 1


def test_what_an_answer_without_usage_costs_is_counted_by_what_it_says() -> None:
    events = b"".join(make_events("openai-chat")[:1]).decode()
    _, usage = measure_answer("openai-chat", lambda: 7, events)
    assert (usage.input_tokens, usage.output_tokens) == (7, 3)
    _, usage = measure_answer("openai-responses", lambda: 7, b"".join(make_events("openai-responses")[:2]).decode())
    assert (usage.input_tokens, usage.output_tokens) == (7, 3)


def test_a_picture_counts_as_a_picture_and_a_pdf_by_its_pages() -> None:
    body = json.dumps({"messages": [{"role": "user", "content": [{"source": {"data": "iVBO" * 100_000}}]}]})
    assert 4_784 < count_prompt(body) < 4_900
    assert 2_250 < count_prompt(body.replace("iVBO" * 100_000, "JVBERi" + "A" * 90_000)) < 2_400


@pytest.mark.parametrize("api", MODELS)
def test_what_a_request_may_cost_is_its_prompt_as_new_and_its_longest_answer(api: str) -> None:
    cost = expect_cost(json.dumps(make_body(api)), MODELS[api], PRICES, time.time())
    assert cost
    assert cost.most - cost.prompt == OUTPUT[api]
    assert 0 < cost.prompt < Decimal("0.001")
    assert expect_cost("{}", "a model of nobody", PRICES, time.time()) is None
