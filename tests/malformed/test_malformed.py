"""Whatever a provider does wrong: what it delivered is kept once, a person is told in a sentence, and the next turn works."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from conftest import let_go
from malformed.rogue import SAID, USAGE, WORDS, Rogue, Wrong, call, events, frame, message, raw, refusal, silent, stream
from turnscope.envelope.request_outcome import INTERRUPTED
from turnscope.live.chat import Chat, Settings
from turnscope.live.events import AnswerInterrupted, Event, RequestDone, RequestRefused, TextDelta, TurnFailed, TurnStopped
from turnscope.live.live_session import LiveSession
from turnscope.live.offline.model import COUNTER
from turnscope.live.provider import AnthropicProvider, connect
from turnscope.planning.policy import load
from turnscope.session.model import Session
from turnscope.storage.threads import Threads

GOOD = events()
PYTHON = ("Traceback", "NoneType", "object has no attribute", "KeyError", "Expecting", "codec", "Errno", "<html", "list index")


def leave_out(index: int) -> list[Any]:
    return [*GOOD[:index], *GOOD[index + 1 :]]


def replace_value(path: tuple[Any, ...], value: Any, at: int = 2) -> list[Any]:
    """The good answer with one value replaced (or taken out, `...`) in the event at place `at`."""
    found = json.loads(json.dumps(GOOD))
    held = found[at]
    for name in path[:-1]:
        held = held[name]
    if value is ...:
        del held[path[-1]]
    else:
        held[path[-1]] = value
    return found


def everywhere(name: str, value: Any) -> list[Any]:
    """The good answer with a key of that name replaced (or taken out) wherever it stands."""

    def walk_value(held: Any) -> Any:
        if isinstance(held, dict):
            return {k: value if k == name else walk_value(v) for k, v in held.items() if k != name or value is not ...}
        return [walk_value(v) for v in held] if isinstance(held, list) else held

    return [walk_value(event) for event in GOOD]


def texts(found: list[Any]) -> str:
    deltas = [e["delta"] for e in found if isinstance(e, dict) and isinstance(e.get("delta"), dict)]
    return "".join(d["text"] for d in deltas if d.get("type") == "text_delta" and isinstance(d.get("text"), str))


FRAMES = [frame(event) for event in GOOD]
INSIDE = FRAMES[4 - 2].index("ü".encode()) + 1  # of the first delta: between the two bytes of a character
A_CALL = '{"at": "it"}'
CALLED = {"type": "tool_use", "id": "c", "name": "look", "input": {}}, {"type": "input_json_delta", "partial_json": A_CALL}

# name -> (what goes over the wire, the text that has to be kept; None = none came)
CASES: dict[str, tuple[Wrong, str | None]] = {}
for n, kind in enumerate(event["type"] for event in GOOD):
    swapped = [*GOOD[:n], *reversed(GOOD[n : n + 2]), *GOOD[n + 2 :]]
    CASES[f"{n} {kind} dropped"] = stream(leave_out(n)), texts(leave_out(n))
    CASES[f"{n} {kind} doubled"] = stream([*GOOD[: n + 1], *GOOD[n:]]), texts([*GOOD[: n + 1], *GOOD[n:]])
    CASES[f"{n} {kind} after the next"] = stream(swapped), texts(swapped)
    CASES[f"{n} {kind} cut amid"] = raw(b"".join(FRAMES[:n]) + FRAMES[n][: len(FRAMES[n]) // 2]), texts(GOOD[:n])
    CASES[f"{n} then closed"] = raw(b"".join(FRAMES[: n + 1])), texts(GOOD[: n + 1])
    CASES[f"{n} then reset"] = raw(b"".join(FRAMES[: n + 1]), reset=True), texts(GOOD[: n + 1])
CASES |= {
    "cut inside a character": (raw(b"".join(FRAMES[:2]) + FRAMES[2][:INSIDE]), ""),
    "half a character, then on": (raw(b"".join([*FRAMES[:3], b"data: {\xc3\n\n", *FRAMES[3:]])), WORDS[0]),
    "silent amid": (silent, WORDS[0] + WORDS[1]),
    "no usage": (stream(everywhere("usage", ...)), SAID),
    "usage null": (stream(everywhere("usage", None)), SAID),
    "usage a list": (stream(everywhere("usage", [])), SAID),
    "usage of strings": (stream(everywhere("input_tokens", "many")), SAID),
    "no id": (stream(everywhere("id", ...)), SAID),
    "id null": (stream(everywhere("id", None)), SAID),
    "id a number": (stream(everywhere("id", 7)), SAID),
    "no index": (stream(everywhere("index", ...)), SAID),
    "index null": (stream(everywhere("index", None)), SAID),
    "index beyond": (stream(replace_value(("index",), 9)), SAID),
    "index negative": (stream(replace_value(("index",), -1)), SAID),
    "index a string": (stream(everywhere("index", "0")), SAID),
    "index an object": (stream(replace_value(("index",), {})), SAID),
    "delta null": (stream(replace_value(("delta",), None)), WORDS[1] + WORDS[2]),
    "text null": (stream(replace_value(("delta", "text"), None)), WORDS[1] + WORDS[2]),
    "text a number": (stream(replace_value(("delta", "text"), 5)), WORDS[1] + WORDS[2]),
    "block null": (stream(replace_value(("content_block",), None, 1)), SAID),
    "block without a type": (stream(replace_value(("content_block", "type"), ..., 1)), SAID),
    "message null": (stream(replace_value(("message",), None, 0)), SAID),
    "content null": (stream(replace_value(("message", "content"), None, 0)), SAID),
    "content a string": (stream(replace_value(("message", "content"), "", 0)), SAID),
    "event null": (stream([*GOOD[:3], None, *GOOD[3:]]), SAID),
    "event a list": (stream([*GOOD[:3], [], *GOOD[3:]]), SAID),
    "event a number": (stream([*GOOD[:3], 5, *GOOD[3:]]), SAID),
    "event of a kind of its own": (stream([*GOOD[:3], {"type": "vendor.heartbeat"}, *GOOD[3:]]), SAID),
    "event that is no JSON": (raw(b"".join([*FRAMES[:3], b"event: x\ndata: {no\n\n", *FRAMES[3:]])), WORDS[0]),
    "events without names": (raw(b"".join(f.split(b"\n", 1)[1] for f in FRAMES)), SAID),
    "lines that end otherwise": (raw(b"".join(f.replace(b"\n", b"\r\n") for f in FRAMES)), SAID),
    "done, as others say it": (raw(b"".join(FRAMES[:-1]) + b"data: [DONE]\n\n"), SAID),
    "of another content type": (raw(b"".join(FRAMES), "text/plain"), SAID),
    "a stream of nothing": (raw(b""), None),
    "nothing": (raw(b"", "application/json"), None),
    "JSON instead of a stream": (raw(json.dumps(message()).encode(), "application/json"), SAID),
    "JSON with null content": (raw(json.dumps(message(content=None)).encode(), "application/json"), None),
    "JSON with content a string": (raw(json.dumps(message(content=SAID)).encode(), "application/json"), SAID),
    "JSON that is a list": (raw(b"[]", "application/json"), None),
    "an error with status 200": (raw(b'{"type":"error","error":{"message":"out of memory"}}', "application/json"), None),
    "a web page": (raw(b"<html><title>Log in</title></html>", "text/html"), None),
    "a web page with 502": (raw(b"<html><title>Bad Gateway</title>nginx</html>", "text/html", 502), None),
    "an error that is a string": (raw(b'{"error":"no such model"}', "application/json", 404), None),
    "an error that is a list": (raw(b"[1]", "application/json", 500), None),
    "a redirect": (raw(b"", "text/plain", 307, location="http://127.0.0.1:9/v1/messages"), None),
    "an error at once in the stream": (stream([{"type": "error", "error": {"message": "overloaded"}}]), None),
    "an error amid": (stream([*GOOD[:4], {"type": "error", "error": {"message": "overloaded"}}]), WORDS[0] + WORDS[1]),
    "an error amid, no JSON": (raw(b"".join(FRAMES[:4]) + b"event: error\ndata: boom\n\n"), WORDS[0] + WORDS[1]),
    "an error null amid": (stream([*GOOD[:4], {"type": "error", "error": None}]), WORDS[0] + WORDS[1]),
    "half a character alone": (stream(replace_value(("delta", "text"), "x\ud83d"), ascii=True), None),
    "a character in two halves": (
        stream(
            [*GOOD[:2], *(e for t in ("\ud83d", "\ude00") for e in [replace_value(("delta", "text"), t)[2]]), *GOOD[5:]],
            ascii=True,
        ),
        "\U0001f600",
    ),
    "an empty answer": (stream(events(({"type": "text", "text": ""},))), ""),
    "no block at all": (stream([GOOD[0], *GOOD[-2:]]), ""),
    "a refusal": (stream(events(reason="refusal")), SAID),
    "at its limit": (stream(events(reason="max_tokens", usage={"output_tokens": 1_024})), SAID),
    "the window was full": (stream(events(reason="model_context_window_exceeded")), SAID),
    "a call without a block": (stream(events(reason="tool_use")), SAID),
    "a call, its input a list": (stream(call("[1, 2]")), None),
    "a call, its input null": (stream(call("null")), None),
    "a call, its input no JSON": (stream(call('{"at": ')), None),
    "a call, its input doubled": (stream(call(A_CALL + A_CALL)), None),
    "a call, its input not a number": (stream(call('{"at": NaN, "by": [-Infinity]}')), None),
    "a call, its input infinite": (stream(call('{"at": 1e999}')), None),
    "a call, its input half a character": (stream(call('{"at": "\\ud800", "\\udc00": 1}')), None),
    "a call, its input a number of 5,000 digits": (stream(call('{"at": ' + "9" * 5_000 + "}")), None),
    "a call that begins with no number": (
        stream(events(({"type": "tool_use", "id": "c", "name": "look", "input": {"at": float("nan")}},), reason="tool_use")),
        None,
    ),
    "text inside a call": (
        stream(events((CALLED[0], {"type": "text_delta", "text": SAID}, CALLED[1]), reason="tool_use")),
        SAID,
    ),
    "text inside thinking": (
        stream(events(({"type": "thinking", "thinking": ""}, {"type": "text_delta", "text": SAID}))),
        SAID,
    ),
    "text inside a block of a kind of its own": (
        stream(events(({"type": "vendor_card", "title": "x"}, {"type": "text_delta", "text": SAID}))),
        SAID,
    ),
    "a call without an id": (stream(call(A_CALL, id=None)), None),
    "a call without a name": (stream(call(A_CALL, name=None)), None),
    "a call, its input a list at once": (
        stream(events(({"type": "tool_use", "id": "c", "name": "look", "input": [1]},))),
        None,
    ),
    "a call of its own tool without a result": (
        stream(
            events(({"type": "server_tool_use", "id": "s", "name": "search", "input": {}},), ({"type": "text", "text": SAID},))
        ),
        None,
    ),
    "such a call, as if it were ours": (
        stream(events(({"type": "server_tool_use", "id": "s", "name": "look", "input": {}},), reason="tool_use")),
        None,
    ),
    "two calls of one id": (stream(events(*[CALLED] * 2, reason="tool_use")), None),
    "a prompt of a million million": (stream(everywhere("input_tokens", 10**12)), SAID),
    "an answer of a million million": (stream(everywhere("output_tokens", 10**12)), SAID),
    "usage beyond all numbers": (stream(everywhere("input_tokens", 10**30)), SAID),
    "usage below nothing": (stream(everywhere("input_tokens", -5)), SAID),
    "too long by a number of 5,000 digits": (refusal(400, f"prompt is too long: {'9' * 5_000} tokens > 1"), None),
    "four hundred brackets of input": (stream(call("[" * 400 + "]" * 400)), None),
    "a reason of its own": (stream(events(reason="<script>because</script>")), SAID),
    "compressed, and is not": (raw(b"no gzip", content_encoding="gzip"), None),
    "finish_reason": (stream([*GOOD[:-2], {"type": "message_delta", "delta": {"finish_reason": "stop"}}, GOOD[-1]]), SAID),
}


class Box:
    """One tool."""

    definitions = ({"name": "look", "description": "Look.", "input_schema": {"type": "object"}},)

    def run(self, name: str, given: Any) -> tuple[str, bool]:
        return f"{name} at {given['at']}", False  # a tool that crashes at what it does not expect


@pytest.fixture(scope="module")
def rogue() -> Iterator[Rogue]:
    with let_go(Rogue()) as server:
        yield server


@pytest.fixture(scope="module")
def threads(tmp_path_factory: pytest.TempPathFactory) -> Threads:
    return Threads(tmp_path_factory.mktemp("malformed") / "chats.db")


@pytest.fixture(scope="module")
def client(rogue: Rogue) -> AnthropicProvider:
    return connect(rogue.url, "a-key-of-this-server", retries=0, timeout=1.5)


def begun(client: AnthropicProvider, threads: Threads, policy: str = "keep-everything", **more: Any) -> Chat:
    thread = threads.create()
    settings = Settings("offline-200k", load(policy), **{"count_from_share": 0.0, **more})
    talk = Chat(
        LiveSession(Session(thread, source="turnscope-chat"), COUNTER), client, threads.open_writer(thread), settings, Box()
    )
    talk.append_message("tools", list(Box.definitions), "tools")
    return talk


def sentences(happened: list[Event]) -> list[str]:
    ends = [e.error for e in happened if isinstance(e, TurnFailed | AnswerInterrupted | RequestRefused)]
    return [text for e in ends for text in (e.what, e.hint)] + [e.what for e in happened if isinstance(e, TurnStopped)]


def get_kept_text(session: Session) -> str:
    said = (b.text for b in session.blocks if b.role == "assistant" and b.kind == "text" and b.text != INTERRUPTED)
    return "".join(said)


def sendable(body: dict[str, Any]) -> None:
    """What the API asks of a body: pairs, roles in turn, objects as inputs, no empty text."""
    open_calls: set[str] = set()
    assert body["messages"][0]["role"] == "user"
    for before, said in zip([None, *body["messages"]], body["messages"], strict=False):
        assert before is None or before["role"] != said["role"]
        blocks = said["content"] if isinstance(said["content"], list) else [{"type": "text", "text": said["content"]}]
        assert {b["tool_use_id"] for b in blocks if b["type"] == "tool_result"} == open_calls
        open_calls = {b["id"] for b in blocks if b["type"] == "tool_use"}
        assert all(b["name"] and isinstance(b["input"], dict) for b in blocks if b["type"] == "tool_use")
        assert all(b["text"].strip() for b in blocks if b["type"] == "text")


@pytest.mark.thorough(every=20)
@pytest.mark.parametrize("case", CASES)
def test_what_came_is_kept_once_a_person_is_told_and_the_next_turn_works(
    case: str, rogue: Rogue, client: AnthropicProvider, threads: Threads
) -> None:
    wrong, expected = CASES[case]
    rogue.wrongs.append(wrong)
    talk = begun(client, threads)
    happened = list(talk.send("hello"))
    shown = "".join(e.text for e in happened if isinstance(e, TextDelta))
    stored = threads.load(talk.live_session.session.id)
    assert (stored.blocks, stored.requests) == (talk.live_session.session.blocks, talk.live_session.session.requests)
    request = stored.requests[0]
    first = (
        get_kept_text(stored)
        if len(stored.requests) == 1
        else "".join(b.text for b in stored.blocks[request.cut : request.stop])
    )
    if expected is not None:
        assert get_kept_text(stored).startswith(expected) if len(stored.requests) > 1 else first == expected == shown
    last = happened[-1]
    assert isinstance(last, RequestDone | TurnStopped | TurnFailed | AnswerInterrupted)
    assert all(text and not any(word in text for word in PYTHON) for text in sentences(happened)), sentences(happened)
    if not isinstance(last, RequestDone):
        assert sentences(happened)
    if request.stop > request.cut:
        assert request.usage or request.estimate
        assert threads.list_problems(stored.id).keys() == ({0} if request.stop_reason == "interrupted" else set())
    requests = len(stored.requests)
    again = list(talk.send("and now?"))
    assert isinstance(again[-1], RequestDone), again[-1]
    sendable(rogue.bodies[-1])
    stored = threads.load(stored.id)
    assert (stored.blocks, stored.requests) == (talk.live_session.session.blocks, talk.live_session.session.requests)
    assert [b.text for b in stored.blocks if b.kind == "text" and b.role == "user"] == ["hello", "and now?"]
    assert len(stored.requests) == requests + 1
    assert stored.requests[-1].usage
    assert not rogue.wrongs


def test_an_answer_that_no_window_holds_is_named_and_left_out(
    rogue: Rogue, client: AnthropicProvider, threads: Threads
) -> None:
    talk = begun(client, threads)
    talk.settings = replace(talk.settings, model="offline-16k")
    rogue.wrongs.append(stream(replace_value(("delta", "text"), "word " * 40_000)))
    assert isinstance(list(talk.send("hello"))[-1], RequestDone)
    refused = list(talk.send("and now?"))[-1]
    assert isinstance(refused, RequestRefused)
    assert re.match(r"The answer of turn 1 \([\d,]{6} tokens\) does not fit by itself", refused.error.hint)
    talk.exclude_message(refused.error.message)
    for n in range(2):
        assert isinstance(list(talk.send(f"{n}"))[-1], RequestDone)
        sendable(rogue.bodies[-1])


@pytest.mark.parametrize("lie", [10**12, 1, -4, "many", None])
def test_a_count_that_cannot_be_is_not_believed(lie: object, rogue: Rogue, client: AnthropicProvider, threads: Threads) -> None:
    rogue.counts = True
    talk = begun(client, threads, count_from_share=0.000_01)
    rogue.wrongs.append(raw(json.dumps({"input_tokens": lie}).encode(), "application/json"))
    assert isinstance(list(talk.send("hello"))[-1], RequestDone)
    rogue.wrongs.clear()
    rogue.counts = False
    assert isinstance(list(talk.send("and now?"))[-1], RequestDone)


def test_there_are_more_than_forty() -> None:
    assert len(CASES) > 100


@pytest.mark.parametrize(
    ("status", "words", "tokens"),
    [
        (400, "prompt is too long: 210883 tokens > 200000 maximum", 210_883),
        (400, "input length and `max_tokens` exceed context limit: 186433 + 20000 > 200000, decrease", 186_433),
        (400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.", 9_001),
        (400, "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in", 5_000),
        (400, "Your input exceeds the context window of this model. Please adjust your input and try again.", 0),
        (
            400,
            (
                "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context "
                "length of only 4096 tokens, which is not enough."
            ),
            9_000,
        ),
        (400, "The number of tokens to keep from the initial prompt is greater than the context length.", 0),
        (400, "request (9001 tokens) exceeds the available context size (4096 tokens), try increasing it", 9_001),
        (500, "the request exceeds the available context size. try increasing the context size", 0),
        (400, "the input length exceeds the context length", 0),
        (400, "input length exceeds maximum context length", 0),
        (413, "Request Entity Too Large", 0),
    ],
)
def test_a_false_too_long_from_a_server_that_does_not_count_ends_one_turn_at_most(
    status: int, words: str, tokens: int, rogue: Rogue, client: AnthropicProvider, threads: Threads
) -> None:
    talk = begun(client, threads, "balanced", max_tokens=1_024)
    assert isinstance(list(talk.send("hello"))[-1], RequestDone)
    calibration = talk.plan.calibration  # type: ignore[union-attr]
    rogue.wrongs += [refusal(status, words)] * 2
    happened = list(talk.send("and this?"))
    assert isinstance(happened[-1], TurnFailed | RequestRefused | RequestDone)
    said = " ".join(sentences(happened))
    needs = [e.error for e in happened if isinstance(e, RequestRefused)]
    assert all(e.projected > e.window or "is refused by the policy" in e.what for e in needs), said
    counted = [c.tokens for counts in talk.live_session.facts.counts.values() for c in counts]
    assert counted
    assert counted[0] >= max(tokens, 1_000)
    rogue.wrongs.clear()
    for n in range(3):
        assert isinstance(list(talk.send(f"and {n}?"))[-1], RequestDone)
    assert talk.plan.calibration.prefix < calibration.prefix + 1_000  # type: ignore[union-attr]
    again = threads.load(talk.live_session.session.id)
    assert again.requests[-1].usage
    assert again.requests[-1].usage.input_tokens == USAGE["input_tokens"]


def test_a_window_that_was_full_before_a_word_enters_the_ladder(
    rogue: Rogue, client: AnthropicProvider, threads: Threads
) -> None:
    full = [{"type": "text", "text": ""}]
    talk = begun(client, threads)
    rogue.wrongs.append(stream(events(full, reason="model_context_window_exceeded")))  # type: ignore[arg-type]
    happened = list(talk.send("hello"))
    assert isinstance(happened[-1], TurnFailed | RequestRefused)
    assert talk.live_session.facts.counts[0]
    assert isinstance(list(talk.send("again"))[-1], RequestDone)


def test_an_answer_that_was_cut_below_its_limit_was_cut_by_the_window(
    rogue: Rogue, client: AnthropicProvider, threads: Threads
) -> None:
    ended = {"type": "message_delta", "delta": {"finish_reason": "length"}, "usage": {"output_tokens": 9}}
    rogue.wrongs.append(stream([*GOOD[:-2], ended, GOOD[-1]]))
    talk = begun(client, threads)
    last = list(talk.send("hello"))[-1]
    assert isinstance(last, TurnStopped)
    assert last.reason == "model_context_window_exceeded"


def test_a_pause_goes_on_by_itself_and_a_loop_ends_with_a_sentence(
    rogue: Rogue, client: AnthropicProvider, threads: Threads
) -> None:
    talk = begun(client, threads)
    rogue.wrongs += [stream(events(reason="pause_turn"))] * 2
    happened = list(talk.send("hello"))
    assert [type(e) for e in happened].count(RequestDone) == 3
    assert rogue.bodies[-1]["messages"][-1]["role"] == "assistant"
    rogue.wrongs += [stream(call(A_CALL))] * 50
    happened = list(talk.send("look"))
    assert isinstance(happened[-1], TurnStopped)
    assert "same call 5 times" in happened[-1].what
    rogue.wrongs.clear()
    assert isinstance(list(talk.send("stop that"))[-1], RequestDone)
    sendable(rogue.bodies[-1])
