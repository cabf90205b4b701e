"""`turnscope trace`: what a server of OTLP receives, what a platform reads of it, and what opens again."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import otlp_server
import pytest
import turnscope
from claude_log import Log
from conftest import ROOT
from otlp_server import read_attributes
from turnscope.cli import main
from turnscope.telemetry import names

SAMPLE = ROOT / "sample_sessions" / "cache-goes-cold.jsonl"


@pytest.fixture(scope="module")
def received() -> otlp_server.Received:
    """The sample as a server has it, with content."""
    with otlp_server.serve() as server:
        assert main(["trace", str(SAMPLE), "--endpoint", server.url, "--header", "x-project=7", "--content"]) == 0
    return server


@pytest.fixture
def short(tmp_path: Path) -> str:
    log = Log()
    log.user("a question")
    log.answer("m1", "an answer", usage=(10, 200, 0, 4))
    return str(log.save(tmp_path / "s1.jsonl"))


def select(spans: list[Any], operation: str) -> list[dict[str, Any]]:
    return [about for about in map(read_attributes, spans) if about[names.OPERATION] == operation]


def test_a_server_gets_every_span_with_its_headers(received: otlp_server.Received, tmp_path: Path) -> None:
    out = tmp_path / "spans.jsonl"
    assert main(["trace", str(SAMPLE), str(out)]) == 0
    written = [span for line in out.read_text().splitlines() for span in _list_spans(json.loads(line))]
    assert Counter(span.span_id.hex() for span in received.spans) == Counter(span["spanId"] for span in written)
    assert {(path, head["x-project"]) for path, head, _ in received.messages} == {("/v1/traces", "7")}
    traces = [{span.trace_id for span in _list_received(message)} for _, _, message in received.messages]
    assert len(set().union(*traces)) == sum(map(len, traces)), "a trace is in one message"


def _list_spans(line: dict[str, Any]) -> list[dict[str, Any]]:
    return [span for resource in line["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"]]


def _list_received(message: Any) -> list[Any]:
    return [span for resource in message.resource_spans for scope in resource.scope_spans for span in scope.spans]


def test_address_and_headers_come_from_opentelemetrys_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    with otlp_server.serve() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20a2V5")
        assert main(["trace", str(SAMPLE)]) == 0
    assert {head["authorization"] for _, head, _ in server.messages} == {"Basic a2V5"}


def test_a_server_that_refuses_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with otlp_server.serve(401) as server:
        assert main(["trace", str(SAMPLE), "--endpoint", server.url]) == 2
    said = capsys.readouterr()
    assert "did not take the spans" in said.err
    assert "401" in said.err
    assert not said.out
    assert main(["trace", str(SAMPLE)]) == 2
    assert "--endpoint" in capsys.readouterr().err
    assert main(["trace", str(SAMPLE), "--endpoint", server.url, "--header", "no header"]) == 2


@pytest.mark.parametrize("address", ["http://me:s3cret@", "http://me:s3c/ret@", "http://me:s3cret@me:x@"])
def test_a_password_in_an_address_is_not_shown(
    address: str, short: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with otlp_server.serve(401) as server:
        assert main(["trace", short, "--endpoint", server.url.replace("http://", address)]) == 2
    said = capsys.readouterr()
    assert "did not take the spans" in said.err
    assert not {"s3c", "s3cret"} & set(re.split(r"\W+", said.out + said.err))


def test_a_password_reaches_the_server_alone(short: str, capsys: pytest.CaptureFixture[str]) -> None:
    with otlp_server.serve() as server:
        assert main(["trace", short, "--endpoint", server.url.replace("http://", "http://me:s3cret@")]) == 0
    assert {head["authorization"] for _, head, _ in server.messages} == {"Basic bWU6czNjcmV0"}
    said = capsys.readouterr().out
    assert f"at {server.url}" in said
    assert "s3cret" not in said


def test_costs_are_ours_to_the_cent(received: otlp_server.Received) -> None:
    bill = turnscope.overview(turnscope.load(SAMPLE)).bill.whole
    calls = select(received.spans, "chat")
    assert sum(each[names.COST] for each in calls) == pytest.approx(float(bill.usd), abs=1e-6)
    for each in calls:
        total, prompt, answer = (each[key] for key in names.COST_PARTS)
        assert prompt + answer == pytest.approx(total)
        assert json.loads(each[names.COST_MLFLOW])["total_cost"] == json.loads(each[names.COST_LANGFUSE])["total"] == total
        assert each[names.CACHE_WRITE] == each[names.CACHE_CREATION]


def test_messages_are_texts_and_each_is_there_once(received: otlp_server.Received, tmp_path: Path) -> None:
    calls = select(received.spans, "chat")
    told = [message for each in calls for message in json.loads(each.get(names.INPUT, "[]"))]
    assert len(told) > 80
    assert max(Counter(json.dumps(each) for each in told).values()) == 1
    sizes = []
    for whole in ([], ["--whole-prompts"]):
        out = tmp_path / "spans.jsonl"
        assert main(["trace", str(SAMPLE), str(out), "--content", *whole]) == 0
        sizes.append(out.stat().st_size)
        back = turnscope.load(out)
        assert [len(plan.after) for plan in turnscope.replay(back).plans]
    assert sizes[0] * 8 < sizes[1]


def test_turns_and_tools_say_what_went_in_and_came_out(received: otlp_server.Received) -> None:
    session = turnscope.load(SAMPLE)
    turns, tools = select(received.spans, "invoke_agent"), select(received.spans, "execute_tool")
    prompts = [block.text for block in session.blocks if block.kind == "text" and block.role == "user"]
    assert turns[0][names.VALUE_IN] in prompts
    assert all(each[names.VALUE_IN] and each[names.VALUE_OUT] for each in turns)
    calls = [block for block in session.blocks if block.kind == "tool_use" and block.pair >= 0]
    assert [each[names.TOOL_CALL] for each in tools] == [call.raw["id"] for call in calls]
    assert tools[0][names.TOOL_RESULT][:40] == session.blocks[calls[0].pair].text[:40]
    spans = {span.span_id: span for span in received.spans}
    for span in received.spans:
        above = spans.get(span.parent_span_id)
        assert above is None or above.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
        assert above is None or span.end_time_unix_nano <= above.end_time_unix_nano


def test_a_replay_is_a_session_of_its_own_with_links_to_the_record(received: otlp_server.Received) -> None:
    recorded = {span.span_id: span for span in received.spans}
    sessions = set()
    for policy in ("last-5-pairs", "balanced"):
        with otlp_server.serve() as server:
            assert main(["trace", str(SAMPLE), "--endpoint", server.url, "--policy", policy]) == 0
        sessions |= {read_attributes(span)[names.SESSION] for span in server.spans}
        for span in server.spans:
            (link,) = span.links
            assert recorded[link.span_id].trace_id == link.trace_id != span.trace_id
            about = read_attributes(span)
            assert about[names.RECORD] == read_attributes(link)[names.CONVERSATION]
            assert about.get(names.REQUEST) == read_attributes(recorded[link.span_id]).get(names.REQUEST)
    own = {read_attributes(span)[names.SESSION] for span in received.spans}
    assert sessions == {f"{one}:{policy}" for policy in ("last-5-pairs", "balanced") for one in own}
    assert len(sessions) == 2


def test_expected_tokens_and_cost_are_those_of_the_comparison(tmp_path: Path) -> None:
    (row,) = turnscope.compare(turnscope.load(SAMPLE), ["last-5-pairs"]).rows
    out = tmp_path / "spans.jsonl"
    with otlp_server.serve() as server:
        given = ["--policy", "last-5-pairs", "--expected", "--endpoint", server.url]
        assert main(["trace", str(SAMPLE), str(out), *given]) == 0
    calls = select(server.spans, "chat")
    assert sum(each[names.COST] for each in calls) == pytest.approx(float(row.cost.total), abs=1e-6)
    assert sum(each[names.CACHE_READ] for each in calls) == row.cost.cached_tokens
    assert all(each[names.EXPECTED_USAGE] for each in calls)
    assert {request.usage for request in turnscope.load(out).requests} == {None}


def write_untimed(folder: Path) -> Path:
    """A log without times, and with half of a character in what was said."""
    log = Log()
    log.user("look \ud83d around")
    log.answer("m1", "so \udc80 it is", usage=(5, 700, 0, 20))
    log.user("and now")
    log.answer("m2", "there", usage=(5, 900, 700, 20))
    path = folder / "untimed.jsonl"
    rows = [json.loads(line) for line in log.text().splitlines()]
    path.write_text("".join(json.dumps({key: row[key] for key in row if key != "timestamp"}) + "\n" for row in rows))
    return path


def test_a_log_without_times_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = write_untimed(tmp_path), tmp_path / "spans.jsonl"
    with otlp_server.serve() as server:
        assert main(["trace", str(path), str(out), "--endpoint", server.url, "--content"]) == 0
    assert "no time of 2 requests" in capsys.readouterr().err
    starts = [span.start_time_unix_nano for span in server.spans]
    assert min(starts) > 1_700_000_000 * 10**9
    assert all(each[names.UNTIMED] for each in select(server.spans, "chat"))
    back = turnscope.load(out)
    assert [request.sent_at for request in back.requests] == [None, None]
    assert [block.text for block in back.blocks] == [block.text for block in turnscope.load(path).blocks]


def test_a_span_that_is_missing_is_said(tmp_path: Path) -> None:
    out = tmp_path / "spans.jsonl"
    assert main(["trace", str(SAMPLE), str(out), "--content"]) == 0
    lines = [line for line in out.read_text().splitlines() if '"turnscope.request","value":{"intValue":"3"}' not in line]
    out.write_text("\n".join(lines))
    notes = [note.what for note in turnscope.load(out).notes]
    assert any("calls lack messages that other spans hold" in note for note in notes), notes


def test_masked_spans_are_checked_before_they_are_sent(tmp_path: Path) -> None:
    with otlp_server.serve() as server:
        given = ["--content", "--masked", "--without", "Sunday", "--endpoint", server.url]
        assert main(["trace", str(SAMPLE), *given]) == 0
    assert server.spans
    assert not any("Sunday" in str(span) for span in server.spans)
