"""Traces as MLflow and Phoenix give them: files of their clients, answers of their servers, and their databases."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import data_of, database, list_blocks, list_claims, open_value, output_tokens, pairs, prompt_tokens, survives

TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
USE = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": "a"}'}}
ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "go"}]
LOOKS = {"role": "assistant", "content": "Looking.", "tool_calls": [USE]}
SEEN = {"role": "tool", "tool_call_id": "c", "content": "seen"}
DONE = {"role": "assistant", "content": "done"}
CALLS = [(ASKED, LOOKS, 30, 7), ([*ASKED, LOOKS, SEEN], DONE, 40, 3)]
TOLD = [
    ("tools", "tool", '{"name":"look","input_schema":{"type":"object"}}'),
    ("system", "system", "Be brief."),
    ("user", "text", "go"),
    ("assistant", "text", "Looking."),
    ("assistant", "tool_use", 'look {"at":"a"}'),
    ("user", "tool_result", "seen"),
    ("assistant", "text", "done"),
]
NANOS = 1_795_492_849_000_000_000


def mlflow_span(n: int, kind: str, **held: Any) -> dict[str, Any]:
    attributes = {"mlflow.spanType": kind, **{f"mlflow.{key}": value for key, value in held.items()}}
    return {
        "trace_id": "WQ0kErS0Z6FVms02M8Mq+Q==",
        "span_id": f"s{n}",
        "parent_span_id": "s0" if n else None,
        "name": kind.lower(),
        "start_time_unix_nano": NANOS + n * 1_000_000,
        "end_time_unix_nano": NANOS + n * 1_000_000 + 500_000,
        "events": [],
        "status": {"code": "STATUS_CODE_OK", "message": ""},
        "attributes": {key: json.dumps(value) for key, value in attributes.items()},
    }


def mlflow_call(n: int, messages: Any, answer: Any, read: int, written: int) -> dict[str, Any]:
    used = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written, "cache_read_input_tokens": 20}
    usage = {"chat.tokenUsage": used, "llm.cost": {"input_cost": 0.25, "output_cost": 0.25, "total_cost": 0.5}}
    asked, gave = {"messages": messages, "tools": [TOOL]}, {"choices": [{"message": answer, "finish_reason": "stop"}]}
    return mlflow_span(n, "CHAT_MODEL", spanInputs=asked, spanOutputs=gave, **usage, **{"llm.model": "m-x"})


MLFLOW_SPANS = [
    mlflow_span(0, "AGENT", spanInputs={"q": "go"}, spanOutputs="done"),
    *(mlflow_call(n, *call) for n, call in enumerate(CALLS, 1)),
]
MLFLOW = {
    "info": {"trace_id": "tr-1", "request_time": "2026-11-24T04:00:49Z", "trace_metadata": {"mlflow.trace.session": "chat 1"}},
    "data": {"spans": MLFLOW_SPANS},
}


def phoenix_attributes(messages: list[dict[str, Any]], answer: dict[str, Any], read: int, written: int) -> dict[str, Any]:
    held: dict[str, Any] = {"llm.model_name": "m-x", "session.id": "chat 1", "llm.tools.0.tool.json_schema": json.dumps(TOOL)}
    held |= {"llm.token_count.prompt": read, "llm.token_count.completion": written}
    for side, listed in (("input", messages), ("output", [answer])):
        for n, message in enumerate(listed):
            key = f"llm.{side}_messages.{n}.message"
            held |= {f"{key}.{name}": message[name] for name in ("role", "content", "tool_call_id") if name in message}
            for use in message.get("tool_calls", ()):
                held[f"{key}.tool_calls.0.tool_call.id"] = use["id"]
                held |= {f"{key}.tool_calls.0.tool_call.function.{name}": value for name, value in use["function"].items()}
    return held


def phoenix_span(n: int, attributes: dict[str, Any]) -> dict[str, Any]:
    about = {"name": "call", "span_kind": "LLM", "parent_id": None, "status_code": "UNSET", "status_message": "", "events": []}
    times = {"start_time": f"2026-11-24T04:02:0{n}+00:00", "end_time": f"2026-11-24T04:02:0{n}.5+00:00"}
    return {"id": f"U{n}", "context": {"trace_id": "t", "span_id": f"s{n}"}, **about, **times, "attributes": attributes}


PHOENIX = {"data": [phoenix_span(n, phoenix_attributes(*call)) for n, call in enumerate(CALLS)], "next_cursor": None}
TYPES = ("array_value", "bool_value", "int_value", "string_value")


def type_value(value: Any) -> dict[str, Any]:
    """A value of OTLP with the names of all types."""
    return {name: value if name == ("int_value" if isinstance(value, int) else "string_value") else None for name in TYPES}


OTLP = {
    "data": [
        {
            "trace_id": "t",
            "span_id": f"s{n}",
            "name": "call",
            "start_time_unix_nano": NANOS + n,
            "end_time_unix_nano": NANOS + n + 1,
            "status": {"code": 0, "message": None},
            "attributes": [
                {"key": key, "value": type_value(value)}
                for key, value in {"openinference.span.kind": "LLM", **span["attributes"]}.items()
            ],
        }
        for n, span in enumerate(PHOENIX["data"] or ())
    ],
    "next_cursor": None,
}


@pytest.mark.parametrize(
    "value",
    [MLFLOW, [MLFLOW], [{"trace_id": "tr-1", "spans": MLFLOW_SPANS}], PHOENIX, OTLP],
    ids=["mlflow", "list", "search", "phoenix", "otlp"],
)
def test_files(value: Any, tmp_path: Path) -> None:
    session = open_value(value)
    assert list_blocks(session) == TOLD
    assert (prompt_tokens(session), output_tokens(session), pairs(session)) == (70, 10, 1)
    assert [request.model for request in session.requests] == ["m-x"] * 2
    (tmp_path / "a.json").write_bytes(data_of(value))
    assert list_claims(tmp_path / "a.json") == ["otel"]


def test_mlflow_tells_dollars_cached_tokens_and_the_session() -> None:
    session = open_value(MLFLOW)
    assert session.about["conversation"] == "chat 1"
    assert [request.logged_usd for request in session.requests] == [0.5, 0.5]
    assert [request.usage.cache_read_input_tokens for request in session.requests if request.usage] == [20, 20]


def test_mlflow_of_a_framework() -> None:
    asked = [[{"type": "system", "content": "Be brief."}, {"type": "human", "content": "go"}]]
    gave = {"generations": [[{"text": "done", "message": {"type": "ai", "content": "done"}}]]}
    session = open_value({"info": {}, "data": {"spans": [mlflow_span(1, "CHAT_MODEL", spanInputs=asked, spanOutputs=gave)]}})
    assert list_blocks(session) == [TOLD[1], TOLD[2], TOLD[6]]


def nest(attributes: dict[str, Any]) -> dict[str, Any]:
    """Dotted keys as objects inside objects, and numbers as lists, as Phoenix stores them."""
    tree: dict[str, Any] = {}
    for key, value in attributes.items():
        *path, last = key.split(".")
        at = tree
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    return json.loads(json.dumps(_list_numbers(tree)))


def _list_numbers(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    if all(key.isdecimal() for key in tree):
        return [_list_numbers(value) for value in tree.values()]
    return {key: _list_numbers(value) for key, value in tree.items()}


def test_databases(tmp_path: Path) -> None:
    rows = [
        {
            "id": n,
            "trace_rowid": 1,
            "span_id": span["context"]["span_id"],
            "parent_id": None,
            "name": "call",
            "span_kind": "LLM",
            "start_time": f"2026-11-24 04:02:0{n}",
            "end_time": f"2026-11-24 04:02:0{n}.5",
            "attributes": nest(span["attributes"]),
            "events": [],
            "status_code": "OK",
            "status_message": "",
        }
        for n, span in enumerate(PHOENIX["data"] or ())
    ]
    phoenix = database(tmp_path / "phoenix.db", {"spans": rows, "traces": [{"id": 1, "trace_id": "t"}]})
    spans = [{"trace_id": "tr-1", "start_time_unix_nano": n, "content": span} for n, span in enumerate(MLFLOW_SPANS)]
    named = [{"key": "mlflow.trace.session", "value": "chat 1", "request_id": "tr-1"}]
    mlflow = database(tmp_path / "mlflow.db", {"spans": spans, "trace_request_metadata": named})
    for path in (phoenix, mlflow):
        assert list_claims(path) == ["otel"]
        (session,) = turnscope.load_all(path)
        assert list_blocks(session) == TOLD
        assert (prompt_tokens(session), output_tokens(session), session.about["conversation"]) == (70, 10, "chat 1")
    assert turnscope.load(phoenix).requests[1].sent_at == 1_795_492_921.0


@pytest.mark.parametrize("value", [MLFLOW, PHOENIX, OTLP], ids=["mlflow", "phoenix", "otlp"])
def test_nothing_breaks(value: Any) -> None:
    assert survives(value, count=40)


def dump_message(kind: str, **fields: Any) -> dict[str, Any]:
    named = {"system": "SystemMessage", "human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}[kind]
    return {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", named],
        "kwargs": {"type": kind, **fields},
    }


def run(n: int, kind: str, inputs: Any, outputs: Any, **more: Any) -> dict[str, Any]:
    about = {"id": f"r{n}", "name": kind, "run_type": kind, "trace_id": "r0", "parent_run_id": "r0" if n else None}
    times = {"start_time": f"2026-11-24T04:17:0{n}Z", "end_time": f"2026-11-24T04:17:0{n}.5Z", "error": None}
    return {**about, **times, "inputs": inputs, "outputs": outputs, **more}


LC_USE = {"name": "look", "args": {"at": "a"}, "id": "c", "type": "tool_call"}
LC_USED = {"input_tokens": 30, "output_tokens": 7, "total_tokens": 37, "input_token_details": {"cache_read": 20}}
LC_ASKED = [dump_message("system", content="Be brief."), dump_message("human", content="go")]
LC_LOOKS = dump_message(
    "ai",
    content="Looking.",
    tool_calls=[LC_USE],
    usage_metadata=LC_USED,
    response_metadata={"model_name": "m-x", "finish_reason": "tool_calls"},
)
EXTRA = {"invocation_params": {"tools": [TOOL]}, "metadata": {"ls_model_name": "m-x", "thread_id": "chat 1"}}
RUNS = [
    run(0, "chain", {"input": "go"}, {"output": "done"}),
    run(1, "llm", {"messages": [LC_ASKED]}, {"generations": [[{"text": "Looking.", "message": LC_LOOKS}]]}, extra=EXTRA),
    run(2, "tool", {"input": "{'at': 'a'}"}, {"output": "seen"}),
    run(
        3,
        "llm",
        {"messages": [[*LC_ASKED, LC_LOOKS, dump_message("tool", content="seen", tool_call_id="c")]]},
        {"generations": [[{"text": "done", "message": dump_message("ai", content="done")}]]},
        extra=EXTRA,
        prompt_tokens=40,
        completion_tokens=3,
        total_cost="0.5",
    ),
]


def test_runs_of_langchain() -> None:
    tree = {**RUNS[0], "child_runs": RUNS[1:]}
    for value, lines in ((RUNS, False), (RUNS, True), (tree, False)):
        session = open_value(value, lines=lines)
        assert list_blocks(session) == TOLD
        assert (prompt_tokens(session), output_tokens(session), pairs(session)) == (70, 10, 1)
        first, last = session.requests
        assert (first.model, first.stop_reason, last.logged_usd, session.about["conversation"]) == (
            "m-x",
            "tool_calls",
            0.5,
            "chat 1",
        )
        assert first.usage
        assert first.usage.cache_read_input_tokens == 20
    assert survives(RUNS, count=40)


def test_a_wrapped_api_is_told_as_it_was_called() -> None:
    asked = {"messages": ASKED, "model": "m-x", "tools": [TOOL]}
    gave = {"choices": [{"message": DONE}], "usage": {"prompt_tokens": 40, "completion_tokens": 3}}
    session = open_value([run(0, "llm", asked, gave)])
    assert list_blocks(session) == [TOLD[0], TOLD[1], TOLD[2], TOLD[6]]
    assert (session.requests[0].model, prompt_tokens(session)) == ("m-x", 40)


def test_what_servers_answer_with_several() -> None:
    for value, of in ((RUNS, {"runs": RUNS, "cursors": {}}), ([MLFLOW], {"traces": [MLFLOW], "next_page_token": "x"})):
        assert list_blocks(open_value(of)) == list_blocks(open_value(value))


@pytest.mark.parametrize("value", [MLFLOW, PHOENIX, RUNS], ids=["mlflow", "phoenix", "runs"])
def test_spans_that_are_there_twice_count_once(value: Any) -> None:
    once, twice = (
        open_value([value] if value is not RUNS else value),
        open_value([value, value] if value is not RUNS else [*RUNS, *RUNS]),
    )
    assert (list_blocks(twice), prompt_tokens(twice)) == (list_blocks(once), prompt_tokens(once))
    assert any("are in the file once more: each counts once" in note.what for note in twice.notes)


def test_of_a_span_that_was_sent_again_the_fuller_one_counts() -> None:
    whole = PHOENIX["data"]
    early = {**whole[1], "attributes": {"llm.model_name": "m-x"}, "end_time": None}
    assert list_blocks(open_value({"data": [early, *whole]})) == list_blocks(open_value(PHOENIX))


def test_a_list_of_observations_of_langfuse(tmp_path: Path) -> None:
    about = {"traceId": "t", "type": "GENERATION", "level": "DEFAULT", "model": "m-x", "startTime": "2026-01-01T00:00:00Z"}
    asked = {**about, "id": "a", "input": ASKED, "output": DONE, "usage": {"promptTokens": 30, "completionTokens": 7}}
    blank = {**about, "id": "b", "input": None, "output": None, "usageDetails": {"input": 5, "output": 2, "total": 7}}
    vector = {**about, "id": "c", "type": "EMBEDDING", "model": "m-y", "input": "no prompt", "usageDetails": {"input": 9}}
    path = tmp_path / "made.json"
    for value in ({"data": [asked, blank, vector], "meta": {"page": 1}}, [asked, blank, vector]):
        path.write_bytes(data_of(value))
        assert list_claims(path) == ["otel"]
        session = turnscope.load(path)
        assert (prompt_tokens(session), output_tokens(session)) == (35, 9)
        assert "no prompt" not in [block.text for block in session.blocks]


def test_what_holds_no_span_is_told() -> None:
    session = open_value([*PHOENIX["data"], {"odd": 1}])
    assert "1 records hold no span and were skipped" in [note.what for note in session.notes]


def test_a_model_that_only_the_response_names() -> None:
    spans = [json.loads(json.dumps(span)) for span in MLFLOW_SPANS]
    for span in spans:
        held = span["attributes"]
        if "mlflow.llm.model" in held:
            del held["mlflow.llm.model"]
            held["mlflow.spanOutputs"] = json.dumps({**json.loads(held["mlflow.spanOutputs"]), "model": "m-y"})
    session = open_value({**MLFLOW, "data": {"spans": spans}})
    assert {request.model for request in session.requests} == {"m-y"}


def test_runs_exported_in_bulk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Objects are texts, and times are UTC without saying so, wherever the reader is."""
    whole = open_value(RUNS)
    packed = ("inputs", "outputs", "extra")
    rows = [{key: json.dumps(value) if key in packed else value for key, value in one.items()} for one in RUNS]
    rows = [{**row, **{key: str(row[key]).removesuffix("Z") for key in ("start_time", "end_time")}} for row in rows]
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        session = open_value(rows, lines=True)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert (list_blocks(session), prompt_tokens(session)) == (list_blocks(whole), prompt_tokens(whole))
    assert [request.sent_at for request in session.requests] == [request.sent_at for request in whole.requests]
