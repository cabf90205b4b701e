"""`@turnscope.trace`: what an app of one's own sends is recorded as it went over the wire, and opens."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anthropic
import pytest
import turnscope
from api_server import KEY, ApiServer, Say
from conftest import let_go
from turnscope.live.offline import OfflineServer

if TYPE_CHECKING:
    from openai import OpenAI

MESSAGES: list[Any] = [{"role": "user", "content": "What is it?"}]


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with let_go(ApiServer()) as api:
        yield api


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "calls.jsonl"


def texts(log: Path) -> list[str]:
    return [block.text for block in turnscope.load(log).blocks if block.kind == "text"]


def test_a_chat_over_anthropics_sdk_opens_with_its_requests_usage_and_growing_history(log: Path) -> None:
    with let_go(OfflineServer()) as offline:
        client = anthropic.Anthropic(api_key=KEY, base_url=offline.url)
        history: list[Any] = []

        @turnscope.trace(path=log)
        def ask(question: str) -> str:
            history.append({"role": "user", "content": question})
            answer = client.messages.create(model="offline-16k", max_tokens=50, system="Be brief.", messages=history)
            history.append({"role": "assistant", "content": answer.content[0].text})
            return answer.content[0].text

        said = [ask("What is rain?"), ask("And snow?")]
        client.messages.create(model="offline-16k", max_tokens=50, messages=MESSAGES)  # not traced
    session = turnscope.load(log)
    assert len(session.requests) == 2
    assert [request.usage.prompt_tokens > 0 for request in session.requests] == [True, True]
    assert [text for text in texts(log) if text in said] == said
    assert KEY not in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


def make_client(server: ApiServer) -> OpenAI:
    """A client of the vendor's SDK, which takes long to import."""
    from openai import OpenAI

    return OpenAI(api_key=KEY, base_url=f"{server.url}/v1", max_retries=0)


def stream_chat(client: OpenAI) -> str:
    chunks = client.chat.completions.create(
        model="gpt-5.5", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def stream_response(client: OpenAI) -> str:
    events = client.responses.create(model="gpt-5.5", input=[{"type": "message", **MESSAGES[0]}], stream=True)
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


@pytest.mark.parametrize("call", [stream_chat, stream_response])
def test_a_stream_of_openai_is_recorded_while_the_app_reads_it(call: Any, server: ApiServer, log: Path) -> None:
    server.script.append(Say("A bird, perhaps.", usage=(100, 40, 7)))
    client = make_client(server)
    assert turnscope.trace(call, path=log)(client) == "A bird, perhaps."
    session = turnscope.load(log)
    assert "A bird, perhaps." in texts(log)
    assert (session.requests[0].usage.prompt_tokens, session.requests[0].usage.cache_read_input_tokens) == (100, 40)
    assert session.requests[0].model == "gpt-5.5"


def test_a_call_of_googles_sdk_opens_with_its_model(server: ApiServer, log: Path) -> None:
    server.script.append(Say("A bird, perhaps.", usage=(100, 40, 7)))
    from google import genai
    from google.genai import types

    client = genai.Client(api_key=KEY, vertexai=False, http_options=types.HttpOptions(base_url=server.url))
    ask = turnscope.trace(path=log)(lambda: client.models.generate_content(model="gemini-2.5-pro", contents="What is it?"))
    assert ask().text == "A bird, perhaps."
    session = turnscope.load(log)
    assert "".join(texts(log)).endswith("A bird, perhaps.")
    assert session.requests[0].model == "gemini-2.5-pro"


def test_coroutines_and_generators_are_recorded_and_nothing_around_them(server: ApiServer, log: Path) -> None:
    server.script += [Say("One."), Say("Two."), Say("Three."), Say("Four.")]
    from openai import AsyncOpenAI

    client = make_client(server)
    slow = AsyncOpenAI(api_key=KEY, base_url=f"{server.url}/v1")

    @turnscope.trace(path=log)
    async def ask() -> None:
        async for _ in await slow.chat.completions.create(model="m", messages=MESSAGES, stream=True):
            pass

    @turnscope.trace(path=log)
    def ask_twice() -> Iterator[str]:
        for _ in range(2):
            yield stream_chat(client)

    asyncio.run(ask())
    for said in ask_twice():
        assert said == "Two."
        stream_chat(client)  # between two pieces, and not of the function
        break
    assert log.read_text().count("\n") == 2
    assert {"One.", "Two."} <= set("".join(texts(log)).replace(".", ". ").split()) | {*texts(log)}


def test_without_a_path_calls_are_kept_in_the_data_folder_and_errors_are_recorded_too(
    server: ApiServer, data_folder: Path
) -> None:
    server.script.append(Say(status=400, error="no"))
    from openai import BadRequestError

    client = make_client(server)

    @turnscope.trace
    def ask_once() -> None:
        stream_chat(client)

    with pytest.raises(BadRequestError):
        ask_once()
    (log,) = data_folder.rglob("ask_once.jsonl")
    assert '"status": 400' in log.read_text()
