"""Traces of chats and of replays: OpenTelemetry's names and form, every request read back as it was, nothing told unasked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import otlp_server
import pytest
import turnscope
from claude_log import Log
from conftest import let_go
from msgspec import structs
from opentelemetry.proto_json.trace.v1.trace import TracesData
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util.genai.handler import TelemetryHandler
from opentelemetry.util.genai.types import FunctionToolDefinition, InputMessage, OutputMessage, TextPart
from turnscope import settings
from turnscope.cli import main
from turnscope.envelope.plan import Plan
from turnscope.live import branches, request_headers
from turnscope.live.chat import Chat, Settings
from turnscope.live.events import RequestRefused
from turnscope.live.offline import OfflineServer
from turnscope.live.provider import connect
from turnscope.live.tools import Toolbox
from turnscope.planning.policy import load
from turnscope.planning.render import build_body
from turnscope.planning.trace import Trace
from turnscope.session.model import JSON, Session, Usage
from turnscope.storage.threads import Threads
from turnscope.telemetry import names, trace_turn
from turnscope.telemetry.chats import trace_requests
from turnscope.telemetry.export import CONVERSATIONS, Exporter, PromptRuns, write_spans
from turnscope.telemetry.replays import Wanted, iter_spans
from turnscope.telemetry.spans import split_tokens

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "sample_sessions" / "cache-goes-cold.jsonl"
SECRET = "the heron stands in the reeds"


@pytest.fixture(scope="module")
def session() -> Session:
    return turnscope.load(SAMPLE)


def hold_chat(server: OfflineServer, folder: Path, policy: str, turns: int, exporting: Exporter) -> tuple[Chat, Threads]:
    project = folder / "project"
    project.mkdir()
    for n in range(4):
        (project / f"file{n}.py").write_text("".join(f"def function_{n}_{i}(x): return x + {i}\n" for i in range(120)))
    box, threads = Toolbox(project), Threads(folder / "chats.db")
    chosen = Settings("offline-16k", load(policy))
    thread = threads.create(title="traced")
    provider = connect(server.url, "secret-key-123", retries=0)
    chat = branches.start_chat(
        thread, provider, threads.open_writer(thread), chosen, f"You are brief; {SECRET}.", box.definitions
    )
    chat.tools = box
    for n in range(turns):
        text = f"read file file{n % 4}.py" if n % 3 == 0 else f"And what of point {n}? It matters because of reason {n * 7}."
        for event in trace_requests(lambda chat, text=text: chat.send(text), exporting, content=True)(chat):
            assert not isinstance(event, RequestRefused), event
    return chat, threads


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """The spans of a file; its last lines are held against OTLP's own JSON form, which takes and gives back the same."""
    told = path.read_text().splitlines()
    assert [TracesData.from_json(line).to_dict() for line in told[-6:]] == [json.loads(line) for line in told[-6:]]
    for line in told:
        for resource in json.loads(line)["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                yield from scope["spans"]


def about(holder: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes of a span or an event, each as the one value that it has."""
    return {one["key"]: next(iter(one["value"].values())) for one in holder.get("attributes", ())}


def list_content(made: Mapping[str, JSON]) -> Any:
    """What a body says, a bare text as the one block that it is, without marks for the cache."""

    def blocks(content: Any) -> Any:
        listed = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        return [{key: value for key, value in block.items() if key != "cache_control"} for block in listed]

    messages = [(message["role"], blocks(message["content"])) for message in made["messages"]]
    return messages, blocks(made.get("system")), blocks(made.get("tools"))


def list_asked(plans: Iterable[Plan], session: Session) -> list[Any]:
    return [list_content(build_body(plan, session)) for plan in plans]


@pytest.mark.thorough
def test_a_long_chat_is_read_back_as_the_same_requests(tmp_path: Path) -> None:
    exporting = Exporter(settings.Telemetry(tmp_path / "trace.jsonl"))
    with let_go(OfflineServer()) as server:
        chat, threads = hold_chat(server, tmp_path, "balanced", 80, exporting)
    exporting.close()
    stored = threads.load(chat.live_session.session.id)
    back = turnscope.load(tmp_path / "trace.jsonl")
    assert len(back.requests) == len(stored.requests) > 100
    for ours, theirs in zip(stored.requests, back.requests, strict=True):
        assert (theirs.usage, theirs.stop_reason, theirs.model) == (ours.usage, ours.stop_reason, ours.model)
        assert theirs.sent_at == pytest.approx(ours.sent_at, abs=1e-5)
    record = turnscope.replay(stored, "as-recorded")
    assert list_asked(turnscope.replay(back, "as-recorded").plans, back) == list_asked(record.plans, stored)
    spans = [*lines(tmp_path / "trace.jsonl")]
    turns = [span for span in spans if about(span)[names.OPERATION] == "invoke_agent"]
    assert len(turns) == len({span["traceId"] for span in spans}) == 80
    assert {span.get("parentSpanId", "") for span in spans} <= {"", *(span["spanId"] for span in spans)}
    assert {about(span)[names.CONVERSATION] for span in spans} == {stored.id}
    events = [event for span in spans for event in span.get("events", ())]
    assert {about(event)[names.CONVERSATION] for event in events} == {stored.id}
    assert all(about(event)[names.BECAUSE] and about(event)[names.RULE] for event in events)
    condensed = [event for event in events if event["name"] == names.COMPACTION]
    assert condensed
    assert any(about(span).get(names.COMPACTED) for span in spans)
    metrics = json.loads((tmp_path / "trace.metrics.jsonl").read_text().splitlines()[-1])
    counter = metrics["resourceMetrics"][0]["scopeMetrics"][0]["metrics"][0]
    assert counter["name"] == names.COMPACTIONS
    assert sum(int(point["asInt"]) for point in counter["sum"]["dataPoints"]) == len(condensed)


@pytest.mark.thorough
@pytest.mark.parametrize("policy", ["as-recorded", "last-5-pairs", "ladder"])
def test_a_replay_is_read_back_as_the_same_requests(session: Session, tmp_path: Path, policy: str) -> None:
    trace = turnscope.replay(session, policy)
    count = write_spans(tmp_path / "trace.jsonl", iter_spans(trace, Wanted(content=True)))
    assert count == len([*lines(tmp_path / "trace.jsonl")])
    back = turnscope.load(tmp_path / "trace.jsonl")
    assert list_asked(turnscope.replay(back, "as-recorded").plans, back) == list_asked(trace.plans, session)
    for ours, theirs in zip(session.requests, back.requests, strict=True):
        assert theirs.usage == (ours.usage if policy == "as-recorded" else None)
    decided = sum(len(plan.decisions) for plan in trace.plans)
    told = [
        about(e) for span in lines(tmp_path / "trace.jsonl") for e in span.get("events", ()) if about(e)[names.BY] == "policy"
    ]
    assert [int(one[names.DECISION]) for one in told] == [*range(decided)]


def test_no_content_is_told_that_was_not_asked_for(tmp_path: Path, session: Session) -> None:
    exporting = Exporter(settings.Telemetry(tmp_path / "trace.jsonl"))
    with let_go(OfflineServer()) as server:
        chat, _ = hold_chat(server, tmp_path, "balanced", 1, exporting)
        for _ in trace_requests(lambda chat: chat.send(SECRET), exporting)(chat):
            pass
    exporting.close()
    told = (tmp_path / "trace.jsonl").read_text().splitlines()
    assert any(SECRET in line for line in told[:2])
    assert not any(SECRET in line for line in told[-2:])
    write_spans(tmp_path / "replay.jsonl", iter_spans(turnscope.replay(session, "last-5-pairs")))
    text = (tmp_path / "replay.jsonl").read_text()
    assert not any(block.text[:40] in text for block in session.blocks if len(block.text) >= 40)


def test_a_chat_tells_each_message_once_also_where_another_process_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    exporting = Exporter(settings.Telemetry(path))
    with let_go(OfflineServer()) as server:
        chat, threads = hold_chat(server, tmp_path, "keep-everything", 4, exporting)
        exporting.close()
        begun = [about(span) for span in lines(path)]
        again = Exporter(settings.Telemetry(path))
        for text in ("And now?", "And then?"):
            assert [*trace_requests(lambda chat, text=text: chat.send(text), again, content=True)(chat)]
        again.close()
    told = [one for one in map(about, lines(path)) if names.PROMPT_START in one]
    runs = list(dict.fromkeys(one[names.PROMPT_RUN] for one in told))
    assert [runs.index(one[names.PROMPT_RUN]) for one in told] == sorted(runs.index(one[names.PROMPT_RUN]) for one in told)
    assert {one[names.PROMPT_RUN] for one in begun if names.PROMPT_RUN in one} == {runs[0]}
    assert len(runs) == 2
    for run in runs:
        mine = [one for one in told if one[names.PROMPT_RUN] == run]
        numbers = [int(one[names.PROMPT_START]) for one in mine]
        counts = [len(json.loads(one.get(names.INPUT, "[]"))) + 1 for one in mine]
        assert numbers == [sum(counts[:n]) for n in range(len(mine))], "each message has one number"
        assert sum(names.SYSTEM in one for one in mine) == 1
    stored, back = threads.load(chat.live_session.session.id), turnscope.load(path)
    assert list_asked(turnscope.replay(back).plans, back) == list_asked(turnscope.replay(stored).plans, stored)


def test_what_is_lost_is_told_again() -> None:
    runs = PromptRuns()
    first = runs.find("c", 0)
    assert runs.find("c", 1) is first
    assert runs.find("d", 1) is not first
    assert runs.find("c", 1) is not first, "it went back to a request that was told"
    now = runs.find("c", 2)
    runs.forget()
    assert runs.find("c", 3) is not now
    for n in range(CONVERSATIONS):
        runs.find(f"c{n}", 0)
    assert len(runs._known) == CONVERSATIONS


def test_nothing_is_traced_where_nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (settings.TRACES_VARIABLE, settings.ENDPOINT_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    turn = Chat.continue_turn
    assert trace_turn(turn) is turn  # type: ignore[arg-type, comparison-overlap]


def test_a_server_of_otlp_is_told_and_one_that_is_gone_harms_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=heron")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")  # seconds in which one that is gone is tried again
    with otlp_server.serve() as received, let_go(OfflineServer()) as server:
        exporting = Exporter(settings.Telemetry(endpoint=f"{received.url}/"))
        gone = Exporter(settings.Telemetry(endpoint="http://127.0.0.1:9"))
        chat, _ = hold_chat(server, tmp_path, "balanced", 2, exporting)
        assert len([*trace_requests(lambda chat: chat.send("And now?"), gone)(chat)]) > 2
        exporting.count_compaction("c", "policy", "condense_oldest")
        exporting.close()
        gone.close()
    assert received.metrics
    assert {(path, headers["x-key"]) for path, headers, _ in received.messages} == {("/v1/traces", "heron")}
    told = [otlp_server.read_attributes(span)[names.OPERATION] for span in received.spans]
    assert {one: told.count(one) for one in told} == {"invoke_agent": 2, "chat": 3, "execute_tool": 1}


def test_names_are_those_that_opentelemetry_writes(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(memory))
    monkeypatch.setenv(settings.CONTENT_VARIABLE, "SPAN_ONLY")
    handler = TelemetryHandler(tracer_provider=provider)
    call = handler.inference("anthropic", request_model="m", conversation_id="c")
    call.input_tokens = call.output_tokens = call.cache_read_input_tokens = call.cache_write_input_tokens = 1
    call.max_tokens, call.temperature, call.finish_reasons = 1, 0.5, ["stop"]
    call.response_id, call.response_model_name = "r", "m"
    call.data.conversation_compacted = True
    call.input_messages = [InputMessage("user", [TextPart("hello")])]
    call.output_messages = [OutputMessage("assistant", [TextPart("hello")])]
    call.system_instruction = [TextPart("be brief")]
    call.tool_definitions = [FunctionToolDefinition("look", "looks", {})]
    call.stop()
    (theirs,) = memory.get_finished_spans()
    tool = handler.tool("look", tool_type="function")
    tool.tool_call_id, tool.arguments, tool.tool_result = "t1", {"at": "a"}, "seen"
    tool.stop()
    run = memory.get_finished_spans()[1]
    assert run.name == "execute_tool look"
    others = {names.AGENT, names.OPERATION, names.ERROR, names.CACHE_CREATION, names.COST}  # the last two for servers
    known = {*(theirs.attributes or {}), *(run.attributes or {}), *others}
    assert {value for value in vars(names).values() if isinstance(value, str) and value.startswith("gen_ai.")} <= known
    assert theirs.name == "chat m"
    trace = turnscope.replay(session, "as-recorded")
    ours = next(span for span in iter_spans(trace, Wanted(content=True)) if span.kind == theirs.kind)
    assert ours.name == f"chat {trace.plans[0].model}"
    for key in (names.INPUT, names.OUTPUT, names.SYSTEM, names.TOOLS):
        if key not in (ours.attributes or {}):
            continue
        mine, other = (one.attributes[key] for one in (ours, theirs))  # type: ignore[index]
        assert type(mine) is type(other) is str
        mine, other = json.loads(mine), json.loads(other)
        assert other[0].keys() <= {*mine[0], "name", "finish_reason"}, key


@pytest.mark.parametrize("said", ["", "X-Session", "helicone", "none"])
def test_every_request_carries_the_conversation_in_a_header(
    said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(settings.HEADER_VARIABLE, said)
    with let_go(OfflineServer()) as server:
        seen: list[dict[str, str]] = []
        handler = server._http.RequestHandlerClass

        class Noting(handler):  # type: ignore[misc, valid-type]
            def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
                seen.append({name.lower(): value for name, value in self.headers.items()})
                super().do_POST()

        server._http.RequestHandlerClass = Noting
        threads = Threads(tmp_path / "chats.db")
        thread = threads.create(title="named")
        chosen = Settings("offline-16k", load("balanced"), count_from_share=1e-6)
        chat = branches.start_chat(thread, connect(server.url, "none"), threads.open_writer(thread), chosen, "", [])
        assert [*chat.send("Hello")]
        below = structs.replace(chat.live_session.session, id="b/é", parent=thread)
    assert len(seen) == 2, "a count and a request"
    assert [*request_headers.build_headers(below).values()] == {
        "": ["b__"],
        "X-Session": ["b__"],
        "helicone": [thread, f"/{thread}/b__"],
    }.get(said, [])
    found = {name: value for name, value in seen[0].items() if "session" in name or "conversation" in name}
    assert (
        found
        == {
            "": {"x-conversation-id": thread},
            "X-Session": {"x-session": thread},
            "helicone": {"helicone-session-id": thread, "helicone-session-path": f"/{thread}"},
            "none": {},
        }[said]
    )
    assert all(found.items() <= one.items() for one in seen)


def test_the_command_writes_a_trace_and_says_what_it_cannot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "trace.jsonl"
    assert main(["trace", str(SAMPLE), str(out), "--policy", "last-5-pairs"]) == 2
    assert "there is no folder" in capsys.readouterr().err
    out.parent.mkdir()
    assert main(["trace", str(SAMPLE), str(out), "--policy", "last-5-pairs"]) == 0
    assert "100 spans of 88 requests" in capsys.readouterr().out
    assert len([*lines(out)]) == 100
    assert main(["trace", str(SAMPLE), str(out), "--policy", "no-such-policy"]) == 2
    assert main(["trace", str(SAMPLE), str(SAMPLE / "below"), "--policy", "last-5-pairs"]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert len([*lines(out)]) == 100, "what stood there still does"


def write_session_with_branch_and_subagent(folder: Path) -> Path:
    """A prompt that was taken back and asked anew, a subagent, writes for an hour, and answers that record one token."""
    log, agent = Log(), Log(agent="helper")
    log.user("look around")
    hour = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 9_000}
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 9_000, "cache_read_input_tokens": 0, "output_tokens": 1}
    task = {"type": "tool_use", "id": "t1", "name": "Task", "input": {"prompt": "find it", "description": "find"}}
    log.answer("m1", "words " * 200, task, usage=usage | {"cache_creation": hour})
    asked = log.result("t1", "found", toolUseResult={"agentId": "helper"})
    log.answer("m2", "so it is", usage=(5, 700, 9_000, 20))
    log.user("a wrong turn")
    log.answer("m3", "words " * 300, usage=(5, 900, 9_700, 1))
    log.user("the right turn", parent=asked)
    log.answer("m4", "there", usage=(5, 800, 9_000, 30))
    agent.user("find it")
    agent.answer("a1", "words " * 100, usage=(4, 3_000, 0, 1))
    path = folder / "s1.jsonl"
    path.write_text(log.text())
    below = folder / "s1" / "subagents" / "agent-helper.jsonl"
    below.parent.mkdir(parents=True)
    below.write_text(agent.text())
    return path


def test_a_trace_holds_branches_and_subagents_and_costs_what_the_session_costs(tmp_path: Path) -> None:
    path, out = write_session_with_branch_and_subagent(tmp_path), tmp_path / "trace.jsonl"
    assert main(["trace", str(path), str(out)]) == 0
    before, back = turnscope.load(path), turnscope.load_all(out)
    assert len(back) == 1, "a branch and a subagent are no conversations of their own"
    bills = [turnscope.overview(each).bill for each in (before, back[0])]
    for part in ("path", "branches", "subagents", "whole"):
        one, two = (getattr(bill, part) for bill in bills)
        assert (one.requests, one.usd, one.counted) == (two.requests, two.usd, two.counted)
        assert one.usd
    assert bills[0].whole.counted == 3


def test_the_buckets_of_a_span_sum_to_its_prompt(tmp_path: Path) -> None:
    out = tmp_path / "trace.jsonl"
    assert main(["trace", str(write_session_with_branch_and_subagent(tmp_path)), str(out)]) == 0
    told = [about(span) for span in lines(out) if names.INPUT_TOKENS in about(span)]
    assert len(told) == 5
    for each in told:
        parts = [int(tokens) for key, tokens in each.items() if key.startswith(names.BUCKETS)]
        assert sum(parts) == int(each[names.INPUT_TOKENS])


def split_each(trace: Trace) -> list[dict[str, int]]:
    """The tokens of each prompt by bucket, and what its log does not hold."""
    sizes = [trace.count_tokens(n) for n in range(len(trace.plans))]
    return [
        split_tokens(plan.seen.buckets, trace.get_terms(n), size)
        for n, (plan, size) in enumerate(zip(trace.plans, sizes, strict=True))
    ]


def strip_bills(session: Session) -> Session:
    """The session as a tool keeps it that records neither usage nor times."""
    return structs.replace(
        session, requests=tuple(structs.replace(one, usage=None, sent_at=None, answered_at=None) for one in session.requests)
    )


@pytest.mark.parametrize("policy", ["as-recorded", "last-5-pairs"])
@pytest.mark.parametrize("billed", [True, False])
def test_a_trace_without_content_is_read_back_with_its_sizes(
    session: Session, tmp_path: Path, policy: str, billed: bool
) -> None:
    trace = turnscope.replay(session if billed else strip_bills(session), policy)
    write_spans(tmp_path / "trace.jsonl", iter_spans(trace))
    back = turnscope.load(tmp_path / "trace.jsonl")
    again = turnscope.replay(back)
    assert split_each(again) == split_each(trace)
    assert len({len(each) for each in split_each(again)}) == 1
    assert all(sum(one.values()) for one in split_each(again))
    assert [request.turn for request in back.requests] == [request.turn for request in session.requests]
    assert all(not block.text for block in back.blocks)
    assert any("no prompts: their sizes" in note.what for note in back.notes)
    measured = billed and policy == "as-recorded"
    assert [request.usage is not None for request in back.requests] == [measured] * len(session.requests)
    assert all((again.get_terms(n).error == 0) == measured for n in range(len(again.plans))), "what was not billed is estimated"


def test_a_trace_without_content_keeps_the_sizes_of_branches_and_subagents(tmp_path: Path) -> None:
    path, out = write_session_with_branch_and_subagent(tmp_path), tmp_path / "trace.jsonl"
    assert main(["trace", str(path), str(out)]) == 0
    before, back = turnscope.load(path), turnscope.load(out)
    for one, two in ((before.branches[0], back.branches[0]), (before.subagents[0], back.subagents[0])):
        sizes, again = split_each(turnscope.replay(one)), split_each(turnscope.replay(two))
        assert again == sizes[len(sizes) - len(again) :]
        assert again


def test_sizes_that_cannot_be_right_are_none(tmp_path: Path) -> None:
    out = tmp_path / "trace.jsonl"
    write_spans(out, iter_spans(turnscope.replay(strip_bills(turnscope.load(SAMPLE)))))
    keys = f'"{names.BUCKETS}messages","value":{{"intValue":"'
    out.write_text(out.read_text().replace(keys, f"{keys}-"))
    again = turnscope.replay(turnscope.load(out))
    assert {one["messages"] for one in split_each(again)} == {0}
    assert split_each(again)[-1]["tool_results"] > 0


@pytest.mark.parametrize(("usage", "told"), [(Usage(), {}), (Usage(output_tokens=25), {names.OUTPUT_TOKENS: "25"})])
def test_tokens_that_were_not_recorded_are_not_told_as_zero(
    session: Session, tmp_path: Path, usage: Usage, told: dict[str, str]
) -> None:
    first, *others = session.requests
    changed = structs.replace(session, requests=(structs.replace(first, usage=usage), *others))
    write_spans(tmp_path / "trace.jsonl", iter_spans(turnscope.replay(changed)))
    (span,) = (about(one) for one in lines(tmp_path / "trace.jsonl") if about(one).get(names.REQUEST) == "0")
    assert {key: value for key, value in span.items() if key.startswith("gen_ai.usage.") and key != names.COST} == told
    assert (names.USD in span) == bool(told)
    assert int(span[names.EXPECTED]) == turnscope.replay(changed).count_tokens(0) > 0
    back = turnscope.load(tmp_path / "trace.jsonl").requests[0].usage
    assert back == (usage if told else None)
