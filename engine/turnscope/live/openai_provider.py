"""OpenAI's SDK behind the protocol of a provider: Chat Completions and Responses, of OpenAI and of servers that speak them.

No other module of the engine imports that SDK, and this one is imported when such a provider is connected. Checked with openai
3.57. `forms.chat_completions` and `forms.responses` have the forms of requests and answers.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Self

import openai

from turnscope.errors import ProviderError, TurnscopeError
from turnscope.live import provider_errors
from turnscope.live.forms import chat_completions, responses
from turnscope.live.http_connections import HttpConnections, list_client_options
from turnscope.live.provider import (
    MODELS_TIMEOUT,
    ProviderAnswer,
    StreamChunk,
    assemble_chunks,
    finish_answer,
    get_max_tokens,
    is_whole,
    parse_event,
    read_events,
    read_model_names,
    split_answer,
)
from turnscope.live.secrets import register_key, scrub_logs
from turnscope.live.stream_assembler import StreamAssembler, assemble_message, repair_text
from turnscope.session.destination import Destination, parse_origin
from turnscope.session.model import JSON

NOT_SERVED = (404, 405, 501)  # a server does not have the endpoint


@dataclass(frozen=True, slots=True)
class _OpenAIProvider(ABC):
    """What both APIs share.

    Args:
        client: The SDK's client.
        destination: Where the client sends requests.
        connections: Its open connections.
        headers: Further headers of each request.
        conversation: Names the conversation for the prompt cache; "" = not known.
        dialect: Whose fields of Chat Completions are sent.
    """

    client: openai.OpenAI
    destination: Destination
    connections: HttpConnections = field(default_factory=HttpConnections)
    headers: Mapping[str, str] = field(default_factory=dict)
    conversation: str = ""
    dialect: chat_completions.Dialect = "openai"

    def with_headers(self, headers: Mapping[str, str]) -> Self:
        """See `SupportsHeaders`."""
        return replace(self, headers=headers)

    def with_conversation(self, key: str) -> Self:
        """See `SupportsConversations`."""
        return replace(self, conversation=key)

    @abstractmethod
    def _create(self, body: Mapping[str, JSON], raw: Any, *, stream: bool) -> Any:
        """Send a request; `raw` is the client with raw or streaming responses."""

    @abstractmethod
    def _make_reader(self) -> Callable[[Mapping[str, JSON]], Iterator[JSON]]:
        """Return what turns the events of one answer into events of the Messages API."""

    @contextmanager
    def stream(self, body: Mapping[str, JSON]) -> Iterator[Iterator[StreamChunk]]:
        """See `Provider`. The events are read here, because the SDK stops at the first malformed one."""
        with ExitStack() as stack:
            self.connections.start_call()
            raw = self.client.with_streaming_response
            try:
                answer = stack.enter_context(self._create(body, raw, stream=True))
            except ValueError:  # half a surrogate pair or a number that JSON does not have, from an imported session
                answer = stack.enter_context(self._create(repair_text(body), raw, stream=True))
            yield self._read_chunks(answer.http_response, get_max_tokens(body))

    def complete(self, body: Mapping[str, JSON]) -> ProviderAnswer:
        """See `Provider`."""
        self.connections.start_call()
        try:
            answer = self._create(body, self.client.with_raw_response, stream=False)
        except ValueError:
            answer = self._create(repair_text(body), self.client.with_raw_response, stream=False)
        return self._parse_answer(answer.http_response.text, get_max_tokens(body))

    def embed(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        """See `SupportsEmbeddings`."""
        self.connections.start_call()
        answer = self.client.embeddings.create(model=model, input=repair_text([*texts]), encoding_format="float")
        return [row.embedding for row in sorted(answer.data, key=lambda row: row.index)]

    def list_models(self) -> list[str]:
        """See `SupportsModels`."""
        self.connections.start_call()
        client = self.client.with_options(max_retries=0, timeout=MODELS_TIMEOUT)
        return read_model_names(client.get("/models", cast_to=object))

    def cancel(self) -> None:
        """See `SupportsCancel`."""
        self.connections.cancel()

    def explain_error(self, error: Exception) -> ProviderError:
        """See `Provider`."""
        if isinstance(error, ProviderError):
            return error
        if isinstance(error, openai.APIStatusError):
            text = error.response.text or str(error)
            location = error.response.headers.get("location", "")
            return provider_errors.explain_refusal(error.status_code, text, location, self._path)
        waited = self.client.timeout
        seconds = waited if isinstance(waited, int | float) else getattr(waited, "read", None) or 0.0
        return provider_errors.explain_failure(error, seconds, parse_origin(str(self.client.base_url)) or "the server")

    @abstractmethod
    def count_tokens(self, body: Mapping[str, JSON]) -> int | None:
        """See `Provider`."""

    @property
    @abstractmethod
    def _path(self) -> str:
        """Where the API is served below the address."""

    def _read_chunks(self, answer: Any, max_tokens: int) -> Iterator[StreamChunk]:
        if is_whole(answer):
            yield from split_answer(self._parse_answer(answer.read().decode("utf-8", "replace"), max_tokens))
            return
        read = self._make_reader()
        chunks = (chunk for chunk in map(parse_event, read_events(answer)) if isinstance(chunk, Mapping))
        yield from assemble_chunks((event for chunk in chunks for event in read(_check(chunk))), max_tokens)

    def _parse_answer(self, text: str, max_tokens: int) -> ProviderAnswer:
        try:
            raw = json.loads(text)
        except (ValueError, RecursionError):
            raise provider_errors.explain_refusal(200, text) from None
        if not isinstance(raw, Mapping) or not ("choices" in raw or "output" in raw or raw.get("error")):
            raise provider_errors.explain_refusal(200, text)
        assembler = StreamAssembler()
        for event in self._make_reader()(_check(raw)):
            for _ in assembler.add_event(event):
                pass
        for _ in assembler.flush():
            pass
        return finish_answer(assembler, max_tokens)


class ChatCompletionsProvider(_OpenAIProvider):
    """Chat Completions: OpenAI, Azure, OpenRouter, Ollama, LM Studio, llama.cpp, vLLM and others."""

    __slots__ = ()
    _path = "/v1/chat/completions"

    def count_tokens(self, body: Mapping[str, JSON]) -> int | None:
        """See `Provider`. vLLM and llama.cpp count; OpenAI does only for its Responses API."""
        if self.dialect != "server":
            return None
        arguments = chat_completions.build_arguments(repair_text(body), self.dialect)
        prompt: dict[str, Any] = {name: arguments[name] for name in ("model", "messages", "tools") if name in arguments}
        counted = self._post("tokenize", prompt | {"add_generation_prompt": True})
        if isinstance(counted.get("count"), int):  # vLLM
            return int(counted["count"]) or None
        if "tokens" not in counted:
            return None
        written = self._post("apply-template", prompt).get("prompt")  # llama.cpp
        if not isinstance(written, str):
            return None
        tokens = self._post("tokenize", {"content": written, "add_special": True, "parse_special": True}).get("tokens")
        return len(tokens) or None if isinstance(tokens, list) else None

    def _post(self, path: str, body: Mapping[str, Any]) -> Mapping[str, JSON]:
        """Return what the server answers beside its `/v1`; nothing if it has no such endpoint."""
        self.connections.start_call()
        url = f"{str(self.client.base_url).rstrip('/').removesuffix('/v1')}/{path}"
        try:
            answer = self.client.post(url, body=dict(body), cast_to=object)
        except openai.APIStatusError as error:
            if error.status_code in (*NOT_SERVED, 400, 422):
                return {}
            raise
        return answer if isinstance(answer, Mapping) else {}

    def _create(self, body: Mapping[str, JSON], raw: Any, *, stream: bool) -> Any:
        arguments = chat_completions.build_arguments(body, self.dialect, self.conversation if body.get("cache_control") else "")
        more = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        return raw.chat.completions.create(**arguments, **more, extra_headers=dict(self.headers))

    def _make_reader(self) -> Callable[[Mapping[str, JSON]], Iterator[JSON]]:
        return chat_completions.ChatCompletionsEvents(self.dialect).read


class ResponsesProvider(_OpenAIProvider):
    """The Responses API, with OpenAI's own counts of a prompt and its compaction."""

    __slots__ = ()
    _path = "/v1/responses"

    def complete(self, body: Mapping[str, JSON]) -> ProviderAnswer:
        """See `Provider`. A body that asks for a compaction goes to `/responses/compact`."""
        return self._compact(body) if body.get("compaction") else super().complete(body)

    def count_tokens(self, body: Mapping[str, JSON]) -> int | None:
        """See `Provider`."""
        arguments = responses.build_arguments(repair_text(body))
        names = ("model", "instructions", "input", "tools", "tool_choice", "reasoning")
        self.connections.start_call()
        try:
            counted = self.client.responses.input_tokens.count(**{name: arguments[name] for name in names if name in arguments})
        except openai.APIStatusError as error:
            if error.status_code in NOT_SERVED:
                return None
            raise
        return counted.input_tokens or None

    def _compact(self, body: Mapping[str, JSON]) -> ProviderAnswer:
        self.connections.start_call()
        key = self.conversation or openai.omit
        answer = self.client.with_raw_response.responses.compact(
            **responses.build_input(repair_text(body)), prompt_cache_key=key, extra_headers=dict(self.headers)
        )
        try:
            raw = json.loads(answer.http_response.text)
        except (ValueError, RecursionError):
            raise provider_errors.explain_refusal(200, answer.http_response.text) from None
        return finish_answer(assemble_message(responses.read_compaction(raw)), 0)

    def _create(self, body: Mapping[str, JSON], raw: Any, *, stream: bool) -> Any:
        arguments = responses.build_arguments(body, self.conversation if body.get("cache_control") else "")
        more = {"stream": True} if stream else {}
        return raw.responses.create(**arguments, **more, extra_headers=dict(self.headers))

    def _make_reader(self) -> Callable[[Mapping[str, JSON]], Iterator[JSON]]:
        return responses.ResponsesEvents().read


def _check(chunk: Mapping[str, JSON]) -> Mapping[str, JSON]:
    """Return a chunk. Raise a `ProviderError` if it reports an error, as servers do in the middle of a stream."""
    error = responses.find_failure(chunk) or chunk.get("error")
    if error:
        code = error.get("code") if isinstance(error, Mapping) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 200
        raise provider_errors.explain_refusal(status, json.dumps({"error": error}))
    return chunk


def connect(
    destination: Destination,
    url: str,
    key: str,
    *,
    trusted: bool,
    dialect: chat_completions.Dialect | None = "server",
    retries: int = 2,
    timeout: float = 600.0,
) -> _OpenAIProvider:
    """Connect to a server of Chat Completions or of the Responses API. Nothing is sent yet.

    Args:
        destination: What the chat calls it.
        url: The server's address, with its `/v1`.
        key: The API key.
        trusted: Whether the address is a vendor's own. Any other receives the key typed for it, and nothing else.
        dialect: Whose fields of Chat Completions are sent; None = the Responses API.
        retries: How often the SDK repeats a failed request.
        timeout: Seconds without an answer until a request fails.

    Raises:
        TurnscopeError: There is no key.
    """
    if not key:
        raise TurnscopeError("there is no API key", hint="Type one in the settings; it stays in memory.")
    register_key(key)
    connections = HttpConnections()
    azure = {"api-key": key} if destination.kind == "azure" else {}
    options = list_client_options(connections, None if trusted else {"authorization": f"Bearer {key}", **azure})
    http = openai.DefaultHttpxClient(**options)
    client = openai.OpenAI(
        api_key=key, base_url=url, max_retries=retries, timeout=timeout, http_client=http, default_headers=azure or None
    )
    scrub_logs()
    if dialect is None:
        return ResponsesProvider(client, destination, connections)
    return ChatCompletionsProvider(client, destination, connections, dialect=dialect)
