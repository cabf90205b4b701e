"""Logs of Anthropic's Messages API: each recorded body is rendered again exactly; each difference between two is an edit."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import make_estimator
from turnscope.importers.anthropic_api import IMPORTER
from turnscope.planning import policy, render
from turnscope.planning.assemble import replay
from turnscope.reading.claims import claim
from turnscope.reading.containers import open_source
from turnscope.reading.contents import read_path, read_source
from turnscope.reading.recorded_body import find_common
from turnscope.reading.registry import find_importers
from turnscope.reading.source import Source
from turnscope.reading.streams import join_message
from turnscope.session.model import Session

Shared = Callable[..., Path]
USAGE = {"input_tokens": 11, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 5, "output_tokens": 3}
MARK = {"type": "ephemeral"}


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def make_answer(*content: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(content)}


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **more}


def call(id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "read", "input": {"path": id}}


def result(id: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def body(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": list(messages), **more}


def make_call(request: dict[str, Any], *content: Any, **more: Any) -> dict[str, Any]:
    response = {"type": "message", "role": "assistant", "id": "msg_1", "model": request["model"], "content": list(content)}
    return {"request": request, "response": {**response, "stop_reason": "end_turn", "usage": USAGE}, **more}


def source(data: Any, name: str = "log.jsonl") -> Source:
    lines = "\n".join(json.dumps(record) for record in data) if isinstance(data, list) else data
    return Source(Path(name), lines.encode())


def read(records: list[Any]) -> tuple[Session, ...]:
    log = source(records)
    assert claim(log) is IMPORTER
    return read_source(log)


def render_all(session: Session) -> list[dict[str, Any]]:
    plans = replay(session, policy.load("as-recorded"), build_ledger(session, make_estimator("claude-3")))
    return [render.render(plan.after, session, plan.request.settings) for plan in plans]


def exact(bodies: list[dict[str, Any]], answers: list[Any] | None = None) -> Session:
    """Read a log of one conversation, check that it renders as recorded, give the session."""
    held = answers or [None] * len(bodies)
    records = [b if a is None else make_call(b, *a) for b, a in zip(bodies, held, strict=True)]
    (session,) = read(records)
    assert render_all(session) == bodies
    return session


def changes(session: Session) -> list[tuple[int, str, str]]:
    """Observed edits as (request, action, text of the blocks that changed)."""
    found = []
    for seen in session.observed:
        assert seen.edit.span is not None
        blocks = session.blocks[seen.edit.span.start : seen.edit.span.stop]
        found.append((seen.request, seen.edit.action, " ".join(block.text for block in blocks)))
    return found


def test_a_cassette_is_rendered_again_exactly(shared: Shared) -> None:
    import yaml

    path = shared("data", "open", "anthropic-api", "vcr-anthropic-compaction.yaml")
    (session,) = read_path(path)
    bodies = [i["request"]["parsed_body"] for i in yaml.safe_load(path.read_text(encoding="utf-8"))["interactions"]]
    assert render_all(session) == bodies
    assert [block.kind for block in session.blocks] == ["system", "text", "compaction", "text", "text", "text"]
    assert session.requests[0].usage is not None
    assert session.requests[0].usage.iterations[0].input_tokens == 55196
    plans = list(replay(session, policy.load("as-recorded"), build_ledger(session, make_estimator("claude-3"))))
    assert plans[1].seen.tokens < 1000 < plans[1].after.tokens, "the server reads only what follows its own summary"


def test_a_cassette_with_bodies_as_text_skips_other_calls_and_failures_are_retries() -> None:
    one = body(user("hi"), system="Be brief.")
    answer = make_call(one, text("hello"))["response"]
    post = {"method": "POST", "uri": "https://api.anthropic.com/v1/messages"}
    count = {**post, "uri": post["uri"] + "/count_tokens", "body": json.dumps(one)}
    busy = {"body": {"string": json.dumps({"type": "error", "error": {"message": "Overloaded"}})}, "status": {"code": 529}}
    interactions = [
        {"request": count, "response": {"body": {"string": '{"input_tokens": 5}'}, "status": {"code": 200}}},
        {"request": {**post, "body": json.dumps(one)}, "response": busy},
        {
            "request": {**post, "body": json.dumps(one)},
            "response": {"body": {"string": json.dumps(answer)}, "status": {"code": 200}},
        },
        {"request": {**post, "body": json.dumps(body(user("hi"), user("again")))}, "response": busy},
    ]
    import yaml

    log = source(yaml.safe_dump({"interactions": interactions, "version": 1}), "tape.yaml")
    assert claim(log) is IMPORTER
    (session,) = read_source(log)
    assert render_all(session) == [one, body(user("hi"), user("again"))]
    assert [r.attempts for r in session.requests] == [2, 1]
    assert session.requests[1].usage is None
    assert any("Overloaded" in note.what for note in session.notes)


def test_answers_become_part_of_the_timeline_with_usage_model_and_times() -> None:
    one = body(user("hi"))
    two = body(user("hi"), make_answer(text("hello")), user("bye"))
    records = [
        make_call(one, text("hello"), timestamp="2025-06-01T12:00:00Z"),
        make_call(two, text("see you"), timestamp=1748779260000),
    ]
    (session,) = read(records)
    assert render_all(session) == [one, two]
    assert [block.text for block in session.blocks] == ["hi", "hello", "bye", "see you"]
    assert [(r.cut, r.stop, r.turn) for r in session.requests] == [(1, 2, 0), (3, 4, 1)]
    assert [r.sent_at for r in session.requests] == [1748779200.0, 1748779260.0]
    assert session.requests[0].usage is not None
    assert session.requests[0].usage.prompt_tokens == 23
    assert session.requests[0].stop_reason == "end_turn"
    assert session.observed == ()


def test_a_cleared_tool_result_is_a_placeholder_of_one_block() -> None:
    long = "line\n" * 200
    start = [user("go"), make_answer(call("a"), call("b")), user([result("a", long), result("b", long + "b")])]
    after = [*start[:2], user([result("a", "[cleared]"), result("b", long + "b")]), make_answer(text("ok")), user("go on")]
    session = exact([body(*start), body(*after)], [[text("ok")], [text("done")]])
    assert changes(session) == [(1, "clear", long)]


def test_what_was_cleared_or_dropped_and_comes_back_is_restored() -> None:
    start = [user("go"), make_answer(call("a")), user([result("a", "long " * 50)])]
    cleared = [*start[:2], user([result("a", "[cleared]")])]
    session = exact(
        [body(*start, user("1")), body(*cleared, user("1"), user("2")), body(*start, user("1"), user("2"), user("3"))]
    )
    assert [(n, action) for n, action, _ in changes(session)] == [(1, "clear"), (2, "restore")]
    session = exact([body(*start, user("1")), body(start[0], user("1")), body(*start, user("1"))])
    assert [(n, action) for n, action, _ in changes(session)] == [(1, "drop"), (2, "restore")]
    assert len(session.blocks) == 4


def test_messages_that_left_are_dropped_and_a_summary_stands_for_many() -> None:
    talk = [user("first"), *(m for i in range(4) for m in (make_answer(text(f"answer {i}")), user(f"question {i}")))]
    window = [talk[0], *talk[-2:]]
    session = exact([body(*talk), body(*window, user("more"))])
    assert [(n, action) for n, action, _ in changes(session)] == [(1, "drop")]
    summary = [talk[0], user("Summary of what was said."), *talk[-2:]]
    session = exact([body(*talk), body(*summary, user("more"))])
    (seen,) = session.observed
    assert (seen.edit.action, seen.edit.span, len(seen.edit.body or ())) == ("condense", (1, 7), 1)


def test_a_truncated_text_is_known_by_how_it_begins() -> None:
    long = "This text is long enough to be known again. " * 20
    rest = make_answer(text("I see."))
    session = exact([body(user(long), rest), body(user(long[:200] + "..."), rest, user("b"))])
    assert changes(session) == [(1, "truncate", long)]


def test_a_changed_system_prompt_or_tool_list_supersedes_the_old_one_from_the_first_difference_on() -> None:
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in "abc"]
    bodies = [
        body(user("hi"), system="One.", tools=tools[:2]),
        body(user("hi"), system="Two.", tools=tools),
        body(user("hi"), system=[text("One.")], tools=[tools[0], tools[2]]),
        body(user("hi"), tools=[]),
    ]
    session = exact(bodies)
    assert [block.text for block in session.blocks if block.bucket == "system"] == ["One.", "Two."]
    assert [block.name for block in session.blocks if block.bucket == "tools"] == ["a", "b", "c"]
    assert [(n, action) for n, action, blocks in changes(session) if "." in blocks] == [
        (1, "drop"),
        (2, "drop"),
        (2, "restore"),
        (3, "drop"),
    ]
    assert all(seen.edit.facts.get("superseded") for seen in session.observed if seen.request == 1)


def test_cache_marks_that_move_are_no_change_of_content() -> None:
    first = body(user([text("a", cache_control=MARK)]), system=[text("s", cache_control={"type": "ephemeral", "ttl": "1h"})])
    nested = user([result("x", [text("r", cache_control=MARK)], cache_control=None)])
    second = body(user("a"), make_answer(call("x")), nested, system="s", cache_control=MARK)
    third = body(
        user([text("a")]),
        make_answer(call("x")),
        user([result("x", [text("r")])]),
        user([text("z", cache_control=MARK)]),
        system="s",
    )
    assert exact([first, second, third]).observed == ()


def test_thinking_that_was_removed_is_stripped_from_its_message() -> None:
    thought = {"type": "thinking", "thinking": "hm " * 30, "signature": "sig"}
    one = body(user("hi"))
    two = body(user("hi"), make_answer(thought, text("hello")), user("more"))
    three = body(user("hi"), make_answer(text("hello")), user("more"), make_answer(text("yes")), user("end"))
    session = exact([one, two, three], [[thought, text("hello")], [text("yes")], [text("bye")]])
    assert changes(session) == [(2, "strip", thought["thinking"])]


def test_neighbours_of_one_role_stay_apart_where_the_body_keeps_them_apart() -> None:
    odd = [
        user("a"),
        user("b"),
        {"role": "system", "content": "aside"},
        make_answer(),
        make_answer(text("x")),
        user([]),
        user([{"new": 1}]),
    ]
    session = exact([body(*odd), body(odd[0], *odd[2:], user("c"))])
    assert len(session.messages) == len(odd) + 1


def test_further_blocks_of_a_message_and_messages_between_others_are_inserts() -> None:
    one = body(user("first"), make_answer(text("a")), user("second"))
    two = body(user("first"), make_answer(text("a")), user([text("second"), text("a reminder")]))
    three = body(user("first"), user("between"), make_answer(text("a")), user([text("second"), text("a reminder")]))
    four = body(user("first"), user("other"), user("between"), make_answer(text("a")), user("second"))
    five = body(user("first"), make_answer(text("a")), user("second"))
    session = exact([one, two, three, four, five])
    assert [(n, action) for n, action, _ in changes(session)] == [
        (1, "insert"),
        (2, "insert"),
        (3, "insert"),
        (3, "restore"),
        (4, "drop"),
    ]


def test_a_stream_of_events_is_assembled_into_its_message() -> None:
    events = [
        {
            "type": "message_start",
            "message": {"id": "msg_9", "type": "message", "model": "m", "content": [], "usage": {"input_tokens": 9}},
        },
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "", "signature": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "sig"}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hel"}},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "lo"}},
        {
            "type": "content_block_start",
            "index": 2,
            "content_block": {"type": "tool_use", "id": "a", "name": "read", "input": {}},
        },
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": '{"path":'}},
        {"type": "content_block_delta", "index": 2, "delta": {"type": "input_json_delta", "partial_json": ' "a"}'}},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 12}},
        {"type": "message_stop"},
    ]
    stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    two = body(user("hi"), make_answer(thought, text("Hello"), call("a")), user([result("a", "ok")]))
    (session,) = read(
        [{"request": body(user("hi")), "response": stream}, {"request": {"body": json.dumps(two)}, "response": None}]
    )
    assert render_all(session) == [body(user("hi")), two]
    assert session.observed == ()
    request = session.requests[0]
    assert (request.id, request.stop_reason, request.usage and request.usage.output_tokens) == ("msg_9", "tool_use", 12)
    assert join_message([{"type": "error", "error": {"message": "late"}}]) == {"type": "error", "error": {"message": "late"}}


@pytest.mark.parametrize(
    "response",
    [
        [{"type": "message_start", "message": {"content": []}}, {"type": "message_delta", "usage": "much"}],
        [
            {"type": "message_start", "message": {"content": []}},
            {"type": "content_block_start", "index": [], "content_block": {}},
        ],
        {"type": "message", "content": 5, "usage": []},
        {"type": "message", "content": [5, None, "bare"], "usage": {"input_tokens": "many"}, "model": 3},
        "data: {broken",
        "text",
    ],
)
def test_a_response_of_unknown_shape_never_costs_the_request(response: Any) -> None:
    (session,) = read([{"request": body(user("hi")), "response": response}])
    assert render_all(session) == [body(user("hi"))]


def test_a_compaction_delta_fills_its_block() -> None:
    stream = [
        {"type": "message_start", "message": {"type": "message", "content": []}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "compaction", "content": None}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "compaction_delta", "content": "so far"}},
    ]
    message = join_message(stream)
    assert message is not None
    assert message["content"] == [{"type": "compaction", "content": "so far"}]


def test_unrelated_conversations_in_one_file_are_sessions_of_their_own() -> None:
    long = [user("first task, described at length")]
    a1, a2 = body(*long), body(*long, make_answer(text("sure")), user("go"))
    b = body(user("make a title"))
    sessions = read([make_call(a1, text("sure")), make_call(b, text("A title")), make_call(a2, text("went"))])
    assert [len(session.requests) for session in sessions] == [2, 1]
    assert [render_all(session) for session in sessions] == [[a1, a2], [b]]
    assert len({session.id for session in sessions}) == 2


def test_an_edited_prompt_is_new_and_what_followed_the_old_one_is_dropped() -> None:
    talk = [user("hi"), make_answer(text("hello")), user("wrong question"), make_answer(text("wrong answer"))]
    session = exact([body(*talk, user("x")), body(*talk[:2], user("right question"))])
    assert session.blocks[-1].text == "right question"
    assert changes(session) == [(1, "drop", "wrong question wrong answer x")]


@pytest.mark.parametrize(
    "record",
    [
        {"messages": [{"role": "user", "content": "hi"}], "model": "gpt-4o"},
        {"messages": [{"role": "user", "content": "hi", "ts": 5}], "model": "claude-x"},
        {"messages": [{"role": "user", "content": "hi"}], "info": {}, "trajectory_format": "x"},
        {"messages": [], "model": "claude-x"},
        {"messages": [{"role": ["user"], "content": "hi"}], "model": "claude-x"},
        {"type": "user", "uuid": "u", "parentUuid": None, "sessionId": "s", "message": {"role": "user", "content": "hi"}},
    ],
)
def test_what_is_no_log_of_this_api_is_refused(record: Any) -> None:
    assert not IMPORTER.sniff(source([record]))


def test_every_shared_file_is_claimed_by_one_importer_at_most(shared: Shared) -> None:
    ours = {"anthropic-api", "openai-chat", "turnscope-json"}
    for path in sorted(p for p in shared("data", "open").rglob("*") if p.is_file() and p.suffix != ".tsv"):
        log = open_source(path)
        claims = [importer.name for importer in find_importers() if importer.sniff(log)]
        assert len(claims) <= 1, path.name
        assert not ours & set(claims) or path.parent.name == "anthropic-api", path.name


NUMBERS = st.integers(0, 3)
BLOCKS = st.one_of(
    NUMBERS.map(lambda n: text(f"text {n}" * (1 + 19 * (n % 2)))),
    NUMBERS.map(lambda n: call(f"c{n}")),
    st.builds(lambda n, long: result(f"c{n}", "long " * 40 if long else "[cleared]"), NUMBERS, st.booleans()),
    NUMBERS.map(lambda n: {"type": "thinking", "thinking": f"hm {n}", "signature": "s"}),
    NUMBERS.map(lambda n: {"unheard of": n}),
)
MARKED = st.one_of(BLOCKS, BLOCKS.map(lambda block: {**block, "cache_control": MARK}))
CONTENT = st.one_of(
    NUMBERS.map(lambda n: f"string {n}"), st.just(""), st.lists(MARKED, max_size=3), st.sampled_from([None, 5, ["bare"]])
)
MESSAGES = st.builds(
    lambda role, content: {"role": role, "content": content}, st.sampled_from(["user", "assistant", "system"]), CONTENT
)
SYSTEMS = st.sampled_from([None, "", "s", [text("s")], [text("a"), text("b")], [text("b", cache_control=MARK)]])
TOOLS = st.lists(st.sampled_from("abc").map(lambda name: {"name": name, "input_schema": {}}), max_size=3)


@st.composite
def logs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Bodies of one conversation, each made from an earlier one by cutting, altering and adding messages; some with answers."""
    opening = user("the opening of the conversation")
    lists: list[list[Any]] = [draw(st.lists(MESSAGES, max_size=4))]
    records = []
    for _ in range(draw(st.integers(1, 6))):
        messages = list(draw(st.sampled_from(lists[-2:])))
        for _ in range(draw(st.integers(0, 3))):
            start = draw(st.integers(0, len(messages)))
            stop = draw(st.integers(start, min(len(messages), start + 2)))
            messages[start:stop] = draw(st.lists(MESSAGES, max_size=2))
        request = body(opening, *messages)
        request |= {key: value for key, value in (("system", draw(SYSTEMS)), ("tools", draw(TOOLS))) if value is not None}
        if draw(st.booleans()):
            answer = draw(st.lists(BLOCKS, max_size=2))
            records.append(make_call(request, *answer))
            messages = [*messages, make_answer(*answer)]
        else:
            records.append({"request": request})
        lists.append(messages)
    return records


@given(logs())
def test_any_sequence_of_bodies_is_rendered_again_exactly(records: list[dict[str, Any]]) -> None:
    (session,) = read_source(source(records))
    assert render_all(session) == [record["request"] for record in records]


@given(st.lists(NUMBERS, max_size=30), st.lists(NUMBERS, max_size=30))
def test_common_pairs_rise_on_both_sides_and_are_alike(a: list[int], b: list[int]) -> None:
    pairs = find_common(a, b)
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(p[0] < q[0] and p[1] < q[1] for p, q in pairwise(pairs))
    assert bool(pairs) == bool(set(a) & set(b))
