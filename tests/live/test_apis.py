"""A chat over each API, through the vendors' SDKs against a strict server: the chat is the same, only what is sent differs."""

from __future__ import annotations

import json
import sys
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from api_server import KEY, SEALED, SIGNED, ApiServer, Say, decode_signature
from conftest import let_go
from msgspec import structs
from turnscope import live
from turnscope.errors import ProviderError, TurnscopeError
from turnscope.live import branches, endpoints
from turnscope.live.background_turn import BackgroundTurn
from turnscope.live.chat import Chat, Settings
from turnscope.live.endpoints import Endpoint
from turnscope.live.events import (
    AnswerInterrupted,
    RequestDone,
    TextDelta,
    ThinkingDelta,
    TurnFailed,
    UnfinishedTurn,
    UsageIgnored,
)
from turnscope.live.offered_models import limit_to_place
from turnscope.live.offline import OfflineServer
from turnscope.live.provider import Provider, stream_answer, translate_errors
from turnscope.live.tools import Toolbox
from turnscope.live.trial import Trial, list_doubts
from turnscope.planning.assemble import replay
from turnscope.planning.policy import FALLBACK, Policy, limit_fallback, list_fallback_models, load, make_sendable
from turnscope.session.destination import Destination
from turnscope.session.model import Ask
from turnscope.storage.threads import Threads

APIS = ("openai", "openai-chat", "openrouter", "azure", "gemini", "chat")
READ = ("call_1", "read_file", {"path": "notes.txt"})
TURN = (
    Say("I read it.", thinking="Which file? The notes.", calls=(READ,), usage=(100, 40, 17)),
    Say("It says: buy bread.", usage=(160, 100, 9)),
)


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with let_go(ApiServer()) as api:
        yield api


@pytest.fixture
def threads(tmp_path: Path) -> Threads:
    return Threads(tmp_path / "turnscope.db")


@pytest.fixture
def box(tmp_path: Path) -> Toolbox:
    (tmp_path / "notes.txt").write_text("buy bread")
    return Toolbox(tmp_path, ("read_file",))


def connect(kind: str, server: ApiServer, key: str = KEY) -> Provider:
    made: Any = endpoints.connect_endpoint(Endpoint(kind, server.url, key), None)  # type: ignore[arg-type]
    client = made.client
    if kind == "gemini":
        return made
    return replace(made, client=client.with_options(max_retries=0))


def begin(kind: str, server: ApiServer, threads: Threads, box: Toolbox | None = None, policy: str = "balanced") -> Chat:
    made = connect(kind, server)
    thread = threads.create(title="test", place=made.destination)
    settings = Settings("gemini-3.5-flash" if kind == "gemini" else "gpt-5.5", load(policy), thinking=True, window=20_000)
    chat = branches.start_chat(
        thread, made, threads.open_writer(thread), settings, "You are brief.", list(box.definitions) if box else []
    )
    chat.tools = box
    return chat


def body(text: str = "hello", **more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": text}], **more}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", APIS)
def test_a_turn_with_thinking_and_a_tool_is_streamed_billed_stored_and_goes_on(
    kind: str, server: ApiServer, threads: Threads, box: Toolbox
) -> None:
    server.script += TURN
    chat = begin(kind, server, threads, box)
    events = [*chat.send("What is in my notes?")]
    assert server.rejected == []
    assert not [event for event in events if isinstance(event, TurnFailed | UnfinishedTurn)]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "I read it.It says: buy bread."
    assert "".join(event.text for event in events if isinstance(event, ThinkingDelta)) == "Which file? The notes."
    first, second = (event.request for event in events if isinstance(event, RequestDone))
    assert (first.usage.input_tokens, first.usage.cache_read_input_tokens, first.usage.output_tokens) == (60, 40, 17)
    assert (second.usage.prompt_tokens, second.usage.cache_read_input_tokens) == (160, 100)
    assert (first.stop_reason, second.stop_reason) == ("tool_use", "end_turn")
    assert first.id
    server.script.append(Say("You are welcome."))
    assert not [event for event in chat.send("Thanks.") if isinstance(event, TurnFailed)]
    assert server.rejected == []
    stored = threads.load(chat.live_session.session.id)
    assert stored.blocks == chat.live_session.session.blocks


@pytest.mark.parametrize("kind", APIS)
def test_the_conversation_its_policy_its_counts_and_its_replay_do_not_depend_on_the_api(
    kind: str, server: ApiServer, threads: Threads, box: Toolbox
) -> None:
    """The same script over Responses and over this API: all that differs is what each provider wants back."""
    chats = []
    for each in ("openai", kind):
        server.script += [*TURN, Say("Done. " * 900, usage=(300, 0, 1_800)), Say("Yes. " * 900, usage=(900, 0, 1_800))]
        chat = begin(each, server, threads, box, "last-20-messages")
        chat.settings = replace(chat.settings, model="gpt-5.5")
        for text in ("What is in my notes?", "More.", "And more."):
            for event in chat.send(text):
                assert not isinstance(event, TurnFailed), event
        chats.append(chat)
    one, other = (chat.live_session.session for chat in chats)
    assert [(b.role, b.kind, b.text) for b in one.blocks] == [(b.role, b.kind, b.text) for b in other.blocks]
    assert [r.usage for r in one.requests] == [r.usage for r in other.requests]
    assert chats[0].plan.decisions == chats[1].plan.decisions
    ledgers = [chat.live_session.ledger for chat in chats]
    spoken = [n for n, block in enumerate(one.blocks) if block.kind != "thinking"]
    assert [ledgers[0].count_tokens(n, n + 1) for n in spoken] == [ledgers[1].count_tokens(n, n + 1) for n in spoken]
    chosen = make_sendable(chats[1].settings.policy)
    replayed = [*replay(other, chosen, ledgers[1])]
    assert [plan.decisions for plan in replayed][-1] == chats[1].plan.decisions


def test_a_chat_goes_on_at_any_other_api_and_none_gets_what_belongs_to_another(
    server: ApiServer, threads: Threads, box: Toolbox
) -> None:
    with let_go(OfflineServer()) as offline:
        chat = begin("openai", server, threads, box, "keep-everything")
        for kind in (*APIS, "offline", *APIS):
            if kind == "offline":
                chat.provider = endpoints.connect_endpoint(Endpoint(), offline)
                chat.settings = replace(chat.settings, model="offline-16k")
            else:
                chat.provider = connect(kind, server)
                server.script += TURN
                chat.settings = replace(chat.settings, model="gemini-3.5-flash" if kind == "gemini" else "gpt-5.5")
            for event in chat.send("What is in my notes?"):
                assert not isinstance(event, TurnFailed | UnfinishedTurn), (kind, event)
        assert server.rejected == []
    last = {kind: server.bodies[-2 * (len(APIS) - n) + 1] for n, kind in enumerate(APIS)}
    assert SIGNED not in str([last["openai"], last["chat"], last["openrouter"]])
    assert SEALED not in str([last[kind] for kind in APIS if kind != "openai"])
    assert {item["encrypted_content"] for item in last["openai"]["input"] if item["type"] == "reasoning"} == {SEALED}
    signed = [part for content in last["gemini"]["contents"] for part in content["parts"] if "functionCall" in part]
    kept = [
        decode_signature(part["thoughtSignature"]) == decode_signature(SIGNED) for part in signed if "thoughtSignature" in part
    ]
    assert kept.count(True) == 2
    assert len(kept) == len(signed)
    details = [message["reasoning_details"] for message in last["openrouter"]["messages"] if "reasoning_details" in message]
    assert {detail[0]["text"] for detail in details} == {"Which file? The notes."}
    assert not [message for message in last["chat"]["messages"] if "reasoning_details" in message]


REFUSALS = (
    (Say(status=401, error="bad key"), "401: bad key", False),
    (Say(status=404, error="no such model"), "404: no such model", False),
    (Say(status=429, error="slow down"), "429: slow down", False),
    (Say(status=503, error="overloaded"), "503: overloaded", False),
    (
        Say(status=400, error="This model's maximum context length is 8192 tokens, but you requested 9000 tokens"),
        "maximum context length",
        True,
    ),
    (Say(status=400, error="The input token count (9000) exceeds the maximum number of tokens allowed (8192)."), "9000", True),
)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", APIS)
def test_a_refusal_says_what_the_provider_said_and_whether_the_prompt_was_too_long(kind: str, server: ApiServer) -> None:
    made = connect(kind, server)
    for say, words, too_long in REFUSALS:
        server.script = deque([say] * 3)
        with pytest.raises(ProviderError) as stopped, stream_answer(made, body()):
            pass
        assert words in stopped.value.what
        assert stopped.value.too_long is too_long
        assert (stopped.value.tokens, stopped.value.window) == ((9000, 8192) if too_long else (0, 0))
        assert "{path}" not in stopped.value.hint
        if say.status == 404:
            path = {"openai": "/v1/responses", "gemini": "/v1beta/models"}.get(kind, "/v1/chat/completions")
            assert path in stopped.value.hint


@pytest.mark.parametrize("kind", APIS)
def test_an_answer_that_breaks_off_is_kept_as_far_as_it_came(kind: str, server: ApiServer, threads: Threads) -> None:
    chat = begin(kind, server, threads)
    for fault in ({"cut": True}, {"error": "the model crashed"}, {"broken": True}):
        server.script = deque([Say("The first half, and the second half.", **fault), Say("It goes on.")])
        before = len(chat.live_session.session.blocks)
        events = [*chat.send("Tell me.")]
        assert isinstance(events[-1], AnswerInterrupted), events
        assert KEY not in str(events[-1])
        assert "the first ha" in "".join(block.text for block in chat.live_session.session.blocks[before:]).lower()
        assert not [event for event in chat.send("Go on.") if isinstance(event, TurnFailed | AnswerInterrupted)]
    assert server.rejected == []


@pytest.mark.parametrize("kind", APIS)
def test_stop_ends_an_answer_at_once(kind: str, server: ApiServer, threads: Threads) -> None:
    held = threading.Event()
    server.script.append(Say("The first half, and the second half.", wait=held))
    chat = begin(kind, server, threads)
    turn = BackgroundTurn(chat.send("Tell me."), chat)
    while not turn.text:
        assert not turn.is_done
        turn.wait(0.02)
    turn.stop()
    assert turn.wait(5)
    held.set()
    (request,) = chat.live_session.session.requests
    assert request.stop_reason == "interrupted"


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        *(("openai-chat", number) for number in (float("nan"), float("inf"), -5, 1e30, 0.5)),
        *(("openai", number) for number in (float("nan"), float("-inf"), -5)),
        ("gemini", -5),  # other numbers are refused by the vendor's SDK, and the answer breaks off
    ],
)
def test_usage_that_cannot_be_right_is_said_and_estimated_not_a_measured_zero(
    kind: str, number: float, server: ApiServer, threads: Threads
) -> None:
    server.script.extend([Say("Yes.", usage=(number, 40, 7)), Say("Yes.", usage=(100, 40, number))])
    chat = begin(kind, server, threads)
    for _ in range(2):
        events = [*chat.send("hello")]
        (said,) = (event.what for event in events if isinstance(event, UsageIgnored))
        assert "cannot be right" in said
        done = chat.live_session.session.requests[-1]
        assert done.usage is None
        assert done.estimate
        assert done.estimate.prompt_tokens > 0
        assert done.estimate.output_tokens > 0


@pytest.mark.parametrize("kind", APIS)
def test_the_end_of_an_answer_has_its_reason(kind: str, server: ApiServer) -> None:
    made = connect(kind, server)
    for reason, stop in (("length", "max_tokens"), ("", "end_turn")):
        server.script += [Say("Half of", reason=reason, usage=(50, 0, 99))]
        with stream_answer(made, body(max_tokens=100)) as chunks:
            *_, answer = chunks
        assert answer.stop_reason == stop


@pytest.mark.parametrize("kind", APIS)
def test_a_whole_answer_is_read_as_a_stream_is(kind: str, server: ApiServer) -> None:
    server.script += [Say("All at once.", usage=(50, 20, 9))]
    answer = connect(kind, server).complete(body())
    assert [block["text"] for block in answer.content] == ["All at once."]
    assert (answer.usage.prompt_tokens, answer.usage.cache_read_input_tokens, answer.usage.output_tokens) == (50, 20, 9)


@pytest.mark.parametrize(
    ("kind", "counts", "counted"),
    [
        ("openai", "yes", True),
        ("openai", "", False),
        ("gemini", "yes", True),
        ("gemini", "", False),
        ("chat", "vllm", True),
        ("chat", "llama.cpp", True),
        ("chat", "", False),
        ("openai-chat", "yes", False),
    ],
)
def test_a_provider_counts_a_prompt_with_its_system_prompt_and_tools_where_it_can(
    kind: str, counts: str, counted: bool, server: ApiServer
) -> None:
    server.counts = counts
    tools = [{"name": "f", "description": "", "input_schema": {"type": "object", "properties": {}}}]
    made = connect(kind, server)
    small = made.count_tokens(body())
    large = made.count_tokens(body(system="Be brief. " * 100, tools=tools))
    assert (small is not None) is counted
    assert not counted or large > small + 200


@pytest.mark.parametrize("kind", ["openai", "openai-chat", "azure"])
def test_the_prompt_cache_of_openai_is_told_which_requests_belong_together(
    kind: str, server: ApiServer, threads: Threads
) -> None:
    chats = [begin(kind, server, threads) for _ in range(2)]
    for chat in (*chats, *chats):
        for _ in chat.send("Hello."):
            pass
    keys = [asked["prompt_cache_key"] for asked in server.bodies]
    assert keys[:2] == keys[2:]
    assert keys[0] != keys[1]
    assert not {chat.live_session.session.id for chat in chats} & set(keys)
    chats[0].settings = replace(chats[0].settings, cache="")
    for _ in chats[0].send("Hello."):
        pass
    assert "prompt_cache_key" not in server.bodies[-1]


def test_openrouter_marks_what_claude_shall_cache_and_nothing_elsewhere(server: ApiServer, threads: Threads) -> None:
    chat = begin("openrouter", server, threads)
    for model in ("anthropic/claude-sonnet-5.5", "openai/gpt-5.5"):
        chat.settings = replace(chat.settings, model=model)
        for _ in chat.send("Hello."):
            pass
    marked, plain = server.bodies
    assert str(marked).count("cache_control") == 2
    assert marked["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in str(plain)
    assert plain["reasoning"] == {"effort": "medium"}


@pytest.mark.parametrize("kind", APIS)
def test_a_typed_address_gets_the_typed_key_and_nothing_of_the_environment(
    kind: str, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENROUTER_API_KEY", "AZURE_OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, "secret-of-the-environment")
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "private-organization")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    connect(kind, server).complete(body())
    sent = str(server.asked)
    assert KEY in sent
    assert "secret-of-the-environment" not in sent
    assert "private-organization" not in sent
    made = Endpoint(kind, server.url)  # type: ignore[arg-type]
    if kind in ("azure", "chat"):
        return  # such a server may need none
    with pytest.raises(TurnscopeError, match="there is no API key"):
        endpoints.connect_endpoint(made, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", APIS)
def test_a_redirect_is_not_followed_and_a_key_in_an_error_is_not_shown(kind: str, server: ApiServer) -> None:
    server.script.append(Say(status=307, error="moved", location=f"{server.url}/elsewhere"))
    made = connect(kind, server)
    with pytest.raises(ProviderError, match="redirects"), translate_errors(made):
        made.complete(body())
    assert len(server.asked) == 1
    wrong = connect(kind, server, "another-key-of-mine")
    with pytest.raises(ProviderError) as stopped, translate_errors(wrong):
        wrong.complete(body())
    assert "another-key-of-mine" not in str(stopped.value)


@pytest.mark.parametrize(("kind", "package"), [("openai", "openai"), ("chat", "openai"), ("gemini", "google.genai")])
def test_without_the_package_of_an_api_a_sentence_says_what_to_type(
    kind: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("openai_provider", "gemini_provider"):
        monkeypatch.delitem(sys.modules, f"turnscope.live.{name}", raising=False)
        monkeypatch.delattr(live, name, raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(TurnscopeError, match="which is not installed") as stopped:
        endpoints.connect_endpoint(Endpoint(kind, "http://127.0.0.1:1", KEY), None)  # type: ignore[arg-type]
    assert f"turnscope[{package.partition('.')[0].replace('google', 'gemini')}]" in stopped.value.hint


def test_an_address_is_completed_for_the_api(server: ApiServer) -> None:
    for kind, typed, path in (
        ("chat", server.url, "/v1/chat/completions"),
        ("chat", f"{server.url}/v1/", "/v1/chat/completions"),
        ("openrouter", server.url, "/api/v1/chat/completions"),
        ("azure", server.url, "/openai/v1/chat/completions"),
        ("openai", f"{server.url}/proxy/v1", "/proxy/v1/responses"),
    ):
        endpoints.connect_endpoint(Endpoint(kind, typed, KEY), None).complete(body())  # type: ignore[arg-type]
        assert server.asked[-1][0] == path


def test_openai_compacts_on_demand_and_the_chat_goes_on_from_its_items(server: ApiServer, threads: Threads) -> None:
    server.script += [Say("word " * 300, usage=(400 * n, 0, 300)) for n in range(1, 10)]
    chat = begin("openai", server, threads, policy="server-compaction-on-demand")
    assert list_doubts(chat.settings.policy, chat.provider.destination, Trial(), summaries=True) == ()
    assert list_doubts(chat.settings.policy, Destination("chat"), Trial(), summaries=True)
    chat.settings = replace(chat.settings, window=3_000, max_tokens=200)
    for n in range(7):
        for event in chat.send(f"Tell me of point {n}."):
            assert not isinstance(event, TurnFailed), event
    assert server.rejected == []
    compacted = next(n for n, (path, _, _) in enumerate(server.asked) if path.endswith("/compact"))
    after = server.asked[compacted + 1][2]["input"]
    sealed = next(n for n, item in enumerate(after) if item["type"] == "compaction")
    assert {item["role"] for item in after[:sealed]} == {"user"}
    assert after[sealed]["encrypted_content"] == SEALED
    assert "word word" not in str(after)
    answer = next(answer for answer in chat.live_session.facts.answers.values() if answer.items)
    assert (answer.usage.prompt_tokens, answer.usage.cache_read_input_tokens, answer.usage.output_tokens) == (90, 10, 20)
    chat.provider = connect("chat", server)
    for event in chat.send("And elsewhere?"):
        assert not isinstance(event, TurnFailed), event
    assert SEALED not in str(server.bodies[-1])
    assert "Tell me of point 0." in str(server.bodies[-1])


@pytest.mark.parametrize("kind", ["openai", "chat", "gemini"])
def test_a_chat_compares_texts_with_the_providers_own_embeddings(kind: str, server: ApiServer, threads: Threads) -> None:
    chat = begin(kind, server, threads)
    texts = ["Which colour?", "We store it in Postgres.", "The colour is teal."]
    ask = Ask("rank", f"rerank:{kind}", f"provider:embedding-of-{kind}", json.dumps(texts))
    answer = chat.build_answers()(ask)
    assert answer.failed == ""
    postgres, teal = map(float, answer.items)
    assert teal > postgres + 0.5
    asked = len(server.asked)
    assert chat.build_answers()(ask) == answer, "recorded"
    assert len(server.asked) == asked


@pytest.mark.parametrize(
    ("served", "sent"), [(None, "gpt-4o"), (("gpt-4o",), "gpt-4o"), (("gpt-4o", "gpt-4.1"), "gpt-4.1"), ((), "gpt-4o")]
)
def test_a_chat_falls_back_to_a_larger_model_only_where_its_place_offers_it(
    served: tuple[str, ...] | None, sent: str, server: ApiServer, threads: Threads
) -> None:
    server.models = served
    made = connect("chat", server)
    thread = threads.create(title="test", place=made.destination)
    settings = Settings("gpt-4o", load("ladder"), window=12_000, condense=False)
    chat = branches.start_chat(thread, made, threads.open_writer(thread), settings, "", [], made.destination)
    chat.destination = structs.replace(made.destination, model="gpt-4o")
    for n in range(4):
        server.script.append(Say(f"Answer {n}."))
        [*chat.send(f"Point {n}. " + "Some words that fill the window. " * 600)]
    assert server.bodies
    assert {body["model"] for body in server.bodies} == {"gpt-4o", sent}
    again, plans = branches.resume_chat(
        threads.load(thread), made, threads.open_writer(thread), settings, destination=chat.destination
    )
    assert [plan.model for plan in plans] == [request.model for request in again.live_session.session.requests]


def test_a_vendor_offers_its_own_models() -> None:
    policy = load("ladder")

    def at(kind: str, url: str = "") -> Policy:
        return limit_to_place(policy, Destination(kind, url), ())

    assert list_fallback_models(at("anthropic")) == {"claude-haiku-5-5", "claude-sonnet-5-5", "claude-opus-5-5"}
    assert list_fallback_models(at("openai")) == {"gpt-4.1"}
    assert list_fallback_models(at("offline")) == {"offline-64k", "offline-200k"}
    assert list_fallback_models(at("openrouter")) == list_fallback_models(at("server", "http://a.test")) == set()
    assert limit_to_place(policy, None, ()) is policy
    limited = next(part for part in limit_fallback(policy, {"offline-200k"}).rules if part.rule.name == FALLBACK)
    larger = {"offline-16k": "offline-200k", "offline-64k": "offline-200k"}  # over the one between them
    assert limited.params.models == larger  # type: ignore[attr-defined]
