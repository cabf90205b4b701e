"""Traces: each way to export spans, and each convention for what a model was sent and said."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import turnscope
from formats import data_of, list_blocks, list_claims, open_value, output_tokens, pairs, prompt_tokens, survives, texts, threads
from turnscope.errors import BrokenFile
from turnscope.importers.otel import IMPORTER
from turnscope.session.model import Session

AT = 1_767_225_600
TOOL = {"type": "function", "name": "look", "description": "Looks.", "parameters": {"type": "object"}}
ASKED: list[Any] = [{"role": "user", "parts": [{"type": "text", "content": "go"}]}]
CALLED: list[Any] = [
    {
        "role": "assistant",
        "parts": [
            {"type": "reasoning", "content": "hm"},
            {"type": "tool_call", "id": "c", "name": "look", "arguments": {"at": "a"}},
        ],
        "finish_reason": "tool_call",
    }
]
BACK: list[Any] = [{"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "seen"}]}]
DONE: list[Any] = [{"role": "assistant", "parts": [{"type": "text", "content": "done"}]}]
SEEN = [
    ("tools", "tool", '{"name":"look","description":"Looks.","input_schema":{"type":"object"}}'),
    ("system", "system", "Be brief."),
    ("user", "text", "go"),
    ("assistant", "thinking", "hm"),
    ("assistant", "tool_use", 'look {"at":"a"}'),
    ("user", "tool_result", "seen"),
    ("assistant", "text", "done"),
]
BARE = [row for row in SEEN if row[0] != "tools" and row[1] != "thinking"]


def type_value(value: Any) -> dict[str, Any]:
    """A value as OTLP writes it."""
    if isinstance(value, list):
        return {"arrayValue": {"values": [type_value(one) for one in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": [{"key": key, "value": type_value(one)} for key, one in value.items()]}}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": value}


def span(number: int, attributes: dict[str, Any], parent: str = "root", events: Any = (), **more: Any) -> dict[str, Any]:
    return {
        "traceId": "t",
        "spanId": f"s{number}",
        "parentSpanId": parent,
        "name": "chat m",
        "startTimeUnixNano": str((AT + number) * 10**9),
        "endTimeUnixNano": str((AT + number) * 10**9 + 5 * 10**8),
        "attributes": [{"key": key, "value": type_value(value)} for key, value in attributes.items()],
        "events": [
            {"name": name, "attributes": [{"key": k, "value": type_value(v)} for k, v in held.items()]} for name, held in events
        ],
        **more,
    }


def export(*spans: dict[str, Any], holder: str = "resourceSpans", scope: str = "scopeSpans") -> dict[str, Any]:
    return {holder: [{"resource": {}, scope: [{"scope": {"name": "x"}, "spans": list(spans)}]}]}


def genai(structured: bool = False) -> list[dict[str, Any]]:
    """The attributes of two calls after today's conventions; `structured`: as values instead of JSON text."""
    packed: Callable[[Any], Any] = (lambda value: value) if structured else json.dumps
    common = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "m",
        "gen_ai.system_instructions": packed([{"type": "text", "content": "Be brief."}]),
        "gen_ai.tool.definitions": packed([TOOL]),
    }
    usage = {"gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 7, "gen_ai.usage.cache_read.input_tokens": 20}
    return [
        {
            **common,
            **usage,
            "gen_ai.input.messages": packed(ASKED),
            "gen_ai.output.messages": packed(CALLED),
            "gen_ai.response.id": "r1",
            "gen_ai.response.model": "m-1",
            "gen_ai.response.finish_reasons": ["tool_call"],
        },
        {
            **common,
            **usage,
            "gen_ai.input.messages": packed([*ASKED, *CALLED, *BACK]),
            "gen_ai.output.messages": packed(DONE),
            "gen_ai.response.id": "r2",
        },
    ]


def check_session(session: Session, usage: tuple[int, int] = (60, 14), seen: Any = SEEN) -> Session:
    assert list_blocks(session) == list(seen)
    assert (len(session.requests), pairs(session)) == (2, 1)
    assert (prompt_tokens(session), output_tokens(session)) == usage
    return session


@pytest.mark.parametrize("structured", [False, True], ids=["texts", "values"])
def test_the_conventions_of_today(structured: bool) -> None:
    first, second = genai(structured)
    session = check_session(open_value(export(span(1, first), span(2, second))))
    request = session.requests[0]
    assert request.usage
    assert (request.usage.input_tokens, request.usage.cache_read_input_tokens) == (10, 20), (
        "cached tokens are part of the input"
    )
    assert (request.model, request.stop_reason, request.sent_at, request.answered_at) == ("m-1", "tool_call", AT + 1, AT + 1.5)


def test_every_holder_of_spans() -> None:
    rows = [span(n, held) for n, held in enumerate(genai(), 1)]
    check_session(open_value([export(row) for row in rows]))
    check_session(open_value([export(row) for row in rows], lines=True))
    check_session(open_value({"trace": export(*rows, holder="batches", scope="instrumentationLibrarySpans")}))
    jaeger = [
        {
            "traceID": "t",
            "spanID": f"s{n}",
            "operationName": "chat",
            "startTime": (AT + n) * 10**6,
            "duration": 500_000,
            "tags": [{"key": key, "type": "string", "value": value} for key, value in held.items()],
        }
        for n, held in enumerate(genai(), 1)
    ]
    assert check_session(open_value({"data": [{"traceID": "t", "spans": jaeger}]})).requests[0].answered_at == AT + 1.5
    console = [
        {
            "name": "chat",
            "context": {"trace_id": "0xt", "span_id": f"0x{n}"},
            "parent_id": None,
            "start_time": f"2026-01-01T00:00:0{n}Z",
            "end_time": f"2026-01-01T00:00:0{n}.5Z",
            "attributes": held,
            "status": {"status_code": "OK"},
        }
        for n, held in enumerate(genai(), 1)
    ]
    assert check_session(open_value(console, lines=True)).requests[0].sent_at == AT + 1
    check_session(open_value(console))
    node = [{**row, "startTime": [AT + n, 5], "traceId": "t", "id": str(n)} for n, row in enumerate(console)]
    check_session(
        open_value([{k: v for k, v in row.items() if k not in ("context", "start_time", "end_time")} for row in node])
    )


def openinference(nested: bool) -> list[dict[str, Any]]:
    """The same calls as OpenInference writes them; `nested`: as Phoenix keeps them."""
    call = {"tool_call": {"id": "c", "function": {"name": "look", "arguments": '{"at": "a"}'}}}
    system = {"message": {"role": "system", "content": "Be brief."}}
    user = {"message": {"role": "user", "contents": [{"message_content": {"type": "text", "text": "go"}}]}}
    called = {"message": {"role": "assistant", "tool_calls": [call]}}
    back = {"message": {"role": "tool", "content": "seen", "tool_call_id": "c"}}
    done = {"message": {"role": "assistant", "content": "done"}}
    found = []
    for asked, answer in (([system, user], called), ([system, user, called, back], done)):
        llm = {
            "model_name": "m",
            "input_messages": asked,
            "output_messages": [answer],
            "tools": [{"tool": {"json_schema": json.dumps({"type": "function", "function": TOOL})}}],
            "token_count": {"prompt": 30, "completion": 7, "prompt_details": {"cache_read": 20}},
            "cost": {"total": 0.5},
        }
        tree = {"openinference": {"span": {"kind": "LLM"}}, "llm": llm}
        found.append(tree if nested else dict(leaves(tree)))
    return found


def leaves(value: Any, path: str = "") -> Any:
    """Every value inside a value with its dotted path."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if items is None:
        yield path, value
    for key, one in items or ():
        yield from leaves(one, f"{path}.{key}" if path else str(key))


def test_openinference_flat_and_nested() -> None:
    seen = [row for row in SEEN if row[1] != "thinking"]
    flat = [span(n, held) for n, held in enumerate(openinference(False), 1)]
    session = check_session(open_value(export(*flat)), seen=seen)
    assert session.requests[0].logged_usd == 0.5
    rows = [
        {
            "name": "x",
            "context": {"trace_id": "t", "span_id": str(n)},
            "start_time": f"2026-01-01T00:00:0{n}+00:00",
            "attributes": held,
        }
        for n, held in enumerate(openinference(True), 1)
    ]
    check_session(open_value(rows, lines=True), seen=seen)


def test_openllmetry_and_its_old_names() -> None:
    asked = {
        "gen_ai.system": "Anthropic",
        "llm.request.type": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": "Be brief.",
        "gen_ai.prompt.1.role": "user",
        "gen_ai.prompt.1.content": "go",
        "llm.request.functions.0.name": "look",
        "llm.request.functions.0.description": "Looks.",
        "llm.request.functions.0.input_schema": '{"type": "object"}',
        "gen_ai.usage.prompt_tokens": 10,
        "gen_ai.usage.completion_tokens": 7,
        "gen_ai.usage.cache_read_input_tokens": 20,
    }
    call = {"tool_calls.0.id": "c", "tool_calls.0.name": "look", "tool_calls.0.arguments": '{"at": "a"}'}
    first = {**asked, "gen_ai.completion.0.role": "assistant", **{f"gen_ai.completion.0.{k}": v for k, v in call.items()}}
    second = {
        **asked,
        "gen_ai.prompt.2.role": "assistant",
        **{f"gen_ai.prompt.2.{k}": v for k, v in call.items()},
        "gen_ai.prompt.3.role": "tool",
        "gen_ai.prompt.3.content": "seen",
        "gen_ai.prompt.3.tool_call_id": "c",
        "gen_ai.completion.0.content": "done",
    }
    seen = [row for row in SEEN if row[1] != "thinking"]
    session = check_session(open_value(export(span(1, first), span(2, second))), seen=seen)
    assert session.requests[0].usage
    assert session.requests[0].usage.input_tokens == 10, "more was cached than the input: it does not hold the cache"


def test_events_of_messages() -> None:
    call = json.dumps([{"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": "a"}'}}])
    system, user = ("gen_ai.system.message", {"content": "Be brief."}), ("gen_ai.user.message", {"content": "go"})
    bedrock = json.dumps([{"toolUse": {"toolUseId": "c", "name": "look", "input": {"at": "a"}}}])
    back = ("gen_ai.tool.message", {"content": "seen", "id": "c", "role": "tool"})
    usage = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 7}
    first = span(1, usage, events=[system, user, ("gen_ai.choice", {"message": bedrock, "finish_reason": "tool_use"})])
    said = ("gen_ai.assistant.message", {"tool_calls": call})
    done = ("gen_ai.choice", {"event_body": json.dumps({"message": {"role": "assistant", "content": "done"}})})
    check_session(open_value(export(first, span(2, usage, events=[system, user, said, back, done]))), seen=BARE)


def bodies(kind: str) -> list[tuple[Any, Any]]:
    """The two calls as the bodies of an API."""
    if kind == "bedrock":
        use = {"role": "assistant", "content": [{"toolUse": {"toolUseId": "c", "name": "look", "input": {"at": "a"}}}]}
        back = {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "c", "content": [{"text": "seen"}], "status": "success"}}],
        }
        done = {"role": "assistant", "content": [{"text": "done"}]}
        asked: list[Any] = [{"role": "user", "content": [{"text": "go"}]}]
        lead: dict[str, Any] = {"system": [{"text": "Be brief."}]}
        return [
            ({**lead, "messages": asked}, {"output": {"message": use}}),
            ({**lead, "messages": [*asked, use, back]}, {"output": {"message": done}}),
        ]
    use = {"role": "model", "parts": [{"functionCall": {"id": "c", "name": "look", "args": {"at": "a"}}}]}
    back = {"role": "user", "parts": [{"functionResponse": {"id": "c", "name": "look", "response": "seen"}}]}
    asked = [{"role": "user", "parts": [{"text": "go"}]}]
    lead = {"systemInstruction": {"parts": [{"text": "Be brief."}]}}
    done = {"role": "model", "parts": [{"text": "done"}]}
    return [
        ({**lead, "contents": asked}, {"candidates": [{"content": use}]}),
        ({**lead, "contents": [*asked, use, back]}, {"candidates": [{"content": done}]}),
    ]


@pytest.mark.parametrize("kind", ["bedrock", "google"])
def test_bodies_of_bedrock_and_google(kind: str) -> None:
    usage = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 7}
    rows = [{**usage, "input.value": json.dumps(asked), "output.value": json.dumps(back)} for asked, back in bodies(kind)]
    check_session(open_value(export(*(span(n, held) for n, held in enumerate(rows, 1)))), seen=BARE)


def test_events_in_an_attribute_and_prompts_that_are_texts() -> None:
    usage = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 30, "gen_ai.usage.output_tokens": 7}
    rows = [{"event.name": "gen_ai.user.message", "role": "user", "content": "go"}]
    rows.append({"event.name": "gen_ai.choice", "message": {"role": "assistant", "content": "done"}})
    assert texts(open_value(export(span(1, {**usage, "events": json.dumps(rows)})))) == ["go", "done"]
    generations = [[{"text": "done", "message": {"lc": 1, "kwargs": {"content": "done"}}}]]
    plain = {"openinference.span.kind": "LLM", "input.value": "go", "output.value": json.dumps({"generations": generations})}
    assert texts(open_value(export(span(1, plain)))) == ["go", "done"]


def test_vercel_counts_a_call_once() -> None:
    asked: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "go"}]},
    ]
    use = [{"type": "tool-call", "toolCallId": "c", "toolName": "look", "args": {"at": "a"}}]
    back = [{"type": "tool-result", "toolCallId": "c", "toolName": "look", "output": {"type": "text", "value": "seen"}}]
    inner = {"ai.operationId": "ai.generateText.doGenerate", "ai.model.id": "m", "ai.usage.promptTokens": 30}
    inner |= {"ai.usage.completionTokens": 7, "gen_ai.request.model": "m"}
    first = {
        **inner,
        "ai.prompt.messages": json.dumps(asked),
        "ai.response.toolCalls": json.dumps([{**use[0], "input": {"at": "a"}}]),
    }
    more = [*asked, {"role": "assistant", "content": use}, {"role": "tool", "content": back}]
    second = {**inner, "ai.prompt.messages": json.dumps(more), "ai.response.text": "done"}
    outer = {"ai.operationId": "ai.generateText", "ai.usage.promptTokens": 60, "gen_ai.request.model": "m"}
    rows = [span(0, outer, ""), span(1, first, "s0"), span(2, second, "s0")]
    check_session(open_value(export(*rows)), seen=BARE)


def test_a_call_that_two_instrumentations_tell_of_is_one() -> None:
    first, second = genai()
    outer = {**first, "gen_ai.usage.input_tokens": 99}
    bare = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 30}
    session = open_value(export(span(0, outer), span(1, first, "s0"), span(2, second), span(3, bare, "s2")))
    assert [request.usage.prompt_tokens for request in session.requests if request.usage] == [30, 30]


def test_other_spans_are_counted_and_groups_are_sessions_of_their_own() -> None:
    first, second = genai()
    tool = span(5, {"gen_ai.operation.name": "execute_tool"})
    other = {
        **first,
        "gen_ai.conversation.id": "b",
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"text": "x"}]}]),
    }
    made = threads(data_of(export(span(1, first), span(2, second), tool, span(6, other, traceId="u"))))
    one, two = (thread.session for thread in made)
    assert [note.what for note in one.notes] == ["1 spans are no call of a model of their own"]
    assert (one.id, two.id, texts(two)[2]) == ("made", "made~1", "x")


def test_a_langfuse_trace_that_lost_prompts_is_pieced_together() -> None:
    def make_observation(number: int, kind: str, name: str, asked: Any, said: Any) -> dict[str, Any]:
        at = f"2026-01-01T00:00:0{number}Z"
        usage = {"input": 5, "output": 2, "input_cache_read": 3, "total": 10} if kind == "GENERATION" else {}
        held = {"input": json.dumps(asked), "output": json.dumps(said), "usageDetails": usage, "totalCost": 0.1}
        about = {"type": kind, "startTime": at, "endTime": at, "name": name, "traceId": "t", "id": f"o{number}"}
        return {**about, **held, "parentObservationId": "r", "model": "m" if usage else None, "metadata": "{}"}

    use = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "look", "input": {"at": "a"}}]}
    rows = [
        make_observation(1, "GENERATION", "turn", {"role": "user", "content": "go"}, use),
        make_observation(2, "TOOL", "look", {"input": {"at": "a"}}, {"content": [{"type": "text", "text": "seen"}]}),
        make_observation(3, "GENERATION", "turn", {"content": "role"}, {"role": "assistant", "content": "done"}),
    ]
    trace = {"id": "t", "name": "n", "input": json.dumps(json.dumps({"system": "Be brief.", "prompt": "go"}))}
    session = check_session(open_value({"trace": trace, "observations": rows}), (16, 4), BARE)
    assert session.requests[0].usage
    assert (session.requests[0].usage.input_tokens, session.requests[0].logged_usd) == (5, 0.1)
    assert survives({"trace": trace, "observations": rows}, count=30)


def generation(number: int, asked: Any, said: Any, usage: dict[str, int], parent: str = "", **more: Any) -> dict[str, Any]:
    at, end = (f"2026-01-01T00:00:{n:02}Z" for n in (number, number + 1))
    about = {"type": "GENERATION", "startTime": at, "endTime": end, "name": "turn", "traceId": "t", "model": "m"}
    held = {"input": asked and json.dumps(asked), "output": said and json.dumps(said), "usageDetails": usage}
    return {**about, "id": f"g{number}", "parentObservationId": parent or None, **held, **more}


def langfuse(*observations: dict[str, Any], asked: Any = "go") -> dict[str, Any]:
    return {"trace": {"id": "t", "name": "n", "input": json.dumps(asked)}, "observations": list(observations)}


GO, DO = [{"role": "user", "content": "go"}], {"role": "assistant", "content": "done"}


def test_a_generation_without_text_is_counted() -> None:
    for rows in (
        [generation(1, None, None, {"input": 900, "output": 50, "total": 950}), generation(3, GO, DO, {"input": 20})],
        [generation(1, None, None, {"input": 900, "output": 50, "total": 950}), generation(2, GO, DO, {"input": 20}, "g1")],
        [generation(1, GO, DO, {"input": 20}), generation(2, None, None, {"input": 900, "output": 50}, "g1")],
    ):
        session = open_value(langfuse(*rows))
        assert (prompt_tokens(session), output_tokens(session), len(session.requests)) == (920, 50, 2)
        assert [block.text for block in session.blocks if block.text] == ["go", "done"]
        assert "1 calls have no answer in the trace, only what they took" in [note.what for note in session.notes]


def test_a_generation_without_text_doubles_no_answer() -> None:
    function = {"name": "look", "arguments": "{}"}
    said = {"role": "assistant", "content": "x", "tool_calls": [{"id": "c", "type": "function", "function": function}]}
    again = [*GO, said, {"role": "tool", "content": "seen", "tool_call_id": "c"}]
    rows = [generation(1, GO, said, {"input": 10}), generation(3, again, DO, {"input": 20})]
    session = open_value(langfuse(*rows, generation(5, None, None, {"input": 900, "output": 50})))
    assert [block.kind for block in session.blocks][:5] == ["text", "text", "tool_use", "tool_result", "text"]
    assert (prompt_tokens(session), pairs(session)) == (930, 1)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input": 142, "output": 24, "total": 166, "input_cache_read": 0, "output_reasoning": 0}, (142, 24)),
        ({"input": 179, "output": 35, "total": 278, "input_cache_read": 0, "output_reasoning": 64}, (179, 99)),
        ({"input": 179, "output": 99, "total": 278, "input_cache_read": 100, "output_reasoning": 64}, (179, 99)),
        ({"input": 79, "output": 35, "total": 278, "input_cache_read": 100, "output_reasoning": 64}, (179, 99)),
        (
            {"input": 70, "input_audio": 9, "output": 35, "total": 278, "input_cache_read": 100, "output_reasoning": 64},
            (179, 99),
        ),
    ],
)
def test_the_total_tells_which_keys_stand_beside_each_other(usage: dict[str, int], tokens: tuple[int, int]) -> None:
    session = open_value(langfuse(generation(1, GO, DO, usage)))
    assert (prompt_tokens(session), output_tokens(session)) == tokens


def test_a_result_whose_role_is_the_tools_name_or_that_lost_its_id_answers_its_call() -> None:
    use = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"at": "a"}'}}
    called = {"role": "assistant", "content": "", "tool_calls": [use]}
    for back in ({"role": "look", "content": "seen"}, {"role": "tool", "content": "seen"}, {"role": "x", "tool_call_id": "c"}):
        session = open_value(langfuse(generation(1, [*GO, called, {"content": "seen", **back}], DO, {"input": 5})))
        assert (pairs(session), texts(session)[2]) == (1, "seen")


def test_of_twins_the_richer_one_counts_and_a_response_tells_its_usage() -> None:
    response = {"id": "r", "choices": [{"message": DO}], "usage": {"prompt_tokens": 163, "completion_tokens": 20}}
    outer = generation(1, {"messages": [{"role": "system", "content": "s"}, *GO]}, response, {"input": 542}, totalCost=0.5)
    inner = generation(1, "system: s user: go", "done", {"input": 163, "output": 20}, "g1", id="g2")
    session = open_value(langfuse(outer, inner))
    assert list_blocks(session) == [("system", "system", "s"), ("user", "text", "go"), ("assistant", "text", "done")]
    assert (prompt_tokens(session), output_tokens(session), session.requests[0].logged_usd) == (163, 20, None)


def test_events_of_one_call_are_one_request() -> None:
    rows = [
        generation(1, GO, None, {"input": 30, "total": 30}, name="backend.chat.start-16"),
        generation(2, None, DO, {"output": 7}, name="backend.chat.success-16"),
        generation(3, None, None, {}, name="backend.chat.finish-16"),
    ]
    session = open_value(langfuse(*rows))
    assert (texts(session), len(session.requests)) == (["go", "done"], 1)
    assert (prompt_tokens(session), output_tokens(session)) == (30, 7)


def test_contents_of_dotnet_and_messages_as_python_prints_them() -> None:
    thought = {"type": "Microsoft.Extensions.AI.TextReasoningContent", "content": {"text": "hm", "protectedData": "enc"}}
    call = {"$type": "functionCall", "callId": "c", "name": "look", "arguments": {"at": "a"}}
    back = {"role": "tool", "contents": [{"$type": "functionResult", "callId": "c", "result": "seen"}]}
    rows = [*GO, {"role": "assistant", "parts": [thought, call]}, back]
    session = open_value(langfuse(generation(1, rows, DO, {"input": 5})))
    assert (texts(session), pairs(session)) == (["go", "hm", 'look {"at":"a"}', "seen", "done"], 1)
    printed = [
        "role='user' content='go' name=None metrics=Metrics(tokens=3, timer=<Timer object at 0x3>) created_at=1",
        "role='assistant' content=None tool_calls=[{'id': 'c', 'function': {'name': 'look', 'arguments': '{\"at\": \"a\"}'}}]",
        "role='tool' content='it\\'s seen' tool_call_id='c' tool_args={'at': 'a'} tool_call_error=False",
    ]
    session = open_value(langfuse(generation(1, {"messages": printed}, DO, {"input": 5})))
    assert (texts(session), pairs(session)) == (["go", 'look {"at":"a"}', "it's seen", "done"], 1)


def test_a_call_that_one_message_tells_of_twice_is_one() -> None:
    """As OpenInference writes Anthropic's answers: in the content without an id, and beside it."""
    use = {"id": "c", "function": {"name": "look", "arguments": '{"at": "a"}'}}
    said = {"role": "assistant", "content": [{"type": "tool_use", "name": "look", "input": {}}], "tool_calls": [use]}
    back = {"role": "tool", "tool_call_id": "c", "content": "seen"}
    session = open_value(langfuse(generation(1, [*GO, said, back], DO, {"input": 5})))
    assert (texts(session), pairs(session)) == (["go", 'look {"at":"a"}', "seen", "done"], 1)


def test_spans_go_on_from_a_previous_response() -> None:
    rows = [
        generation(1, {"input": "go"}, {"id": "r1", **DO}, {"input": 5}),
        generation(
            3, {"input": "on", "previous_response_id": "r1"}, {"id": "r2", "role": "assistant", "content": "yes"}, {"input": 9}
        ),
    ]
    session = open_value(langfuse(*rows))
    assert (texts(session), len(session.requests)) == (["go", "done", "on", "yes"], 2)


def test_embeddings_are_no_conversation() -> None:
    row = generation(1, "some text", None, {"input": 5}, model="text-embedding-3-small")
    with pytest.raises(BrokenFile, match="holds no message"):
        open_value(langfuse(row))
    assert len(open_value(langfuse(row, generation(3, GO, DO, {"input": 5}))).requests) == 1


@pytest.mark.parametrize("lines", [False, True])
def test_nothing_breaks(lines: bool) -> None:
    rows = [export(span(n, held)) for n, held in enumerate(genai(structured=lines), 1)]
    assert survives(rows, lines=lines, count=30)
    nested = [
        {"context": {"span_id": str(n)}, "start_time": AT + n, "attributes": a} for n, a in enumerate(openinference(True))
    ]
    assert survives(nested, lines=lines, count=30)


def test_the_real_otlp_export_is_what_it_says(shared: Callable[..., Path]) -> None:
    path = shared("data", "open", "otel", "otlp-openinference-smol-agent.json")
    assert list_claims(path) == [IMPORTER.name]
    sessions = turnscope.load_all(path)
    assert [len(session.requests) for session in sessions] == [2, 2, 1, 1], "two agents, and a plan for each"
    assert sum(map(prompt_tokens, sessions)) == 941 + 2711 + 1453 + 2912 + 3841 + 6094
    assert sum(map(output_tokens, sessions)) == 1202 + 730 + 1410 + 490 + 1896 + 1394
    assert [block.kind for block in sessions[1].blocks].count("tool") == 9
    assert {request.model for session in sessions for request in session.requests} == {"o1-2024-12-17"}


def test_the_real_langfuse_trace_is_what_it_says(shared: Callable[..., Path]) -> None:
    path = shared("data", "open", "otel", "langfuse-claude-agent.trace.json")
    assert list_claims(path) == [IMPORTER.name]
    (session,) = turnscope.load_all(path)
    assert (len(session.requests), pairs(session)) == (4, 2)
    assert (prompt_tokens(session), output_tokens(session)) == (34, 232)
    assert sum(request.logged_usd or 0 for request in session.requests) == pytest.approx(0.003582)
    assert texts(session)[0] == "You are a friendly travel assistant who helps with weather information."


@pytest.mark.parametrize(
    ("name", "tokens", "calls"),
    [("langfuse-agno-2025-06-11.json", (163 + 663, 20 + 225), 1), ("langfuse-langgraph-js-2025-10-30.json", (321, 123), 1)],
)
def test_real_langfuse_exports_of_frameworks(shared: Callable[..., Path], name: str, tokens: Any, calls: int) -> None:
    """Each token that the provider reported, each call with its result; texts as the last prompt and answer hold them."""
    path = shared("data", "new", "otel", name)
    (session,) = turnscope.load_all(path)
    assert (len(session.requests), pairs(session)) == (2, calls)
    assert (prompt_tokens(session), output_tokens(session)) == tokens
    rows = [row for row in json.loads(path.read_text())["observations"] if row["type"] == "GENERATION"]
    last = json.loads(max((row for row in rows if row["output"][:1] == "{"), key=lambda row: row["startTime"])["output"])
    assert texts(session)[-1] == last.get("choices", [{"message": last}])[0]["message"]["content"]
