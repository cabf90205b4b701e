"""Google's SDK behind the protocol of a provider. No other module of the engine imports that SDK.

This one is imported when such a provider is connected. Checked with google-genai 3.6. `forms.gemini` has the form of requests
and answers.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import httpx2
from google import genai
from google.genai import errors, types

from turnscope.errors import ProviderError, TurnscopeError
from turnscope.live import provider_errors
from turnscope.live.forms import gemini
from turnscope.live.http_connections import HttpConnections, list_client_options
from turnscope.live.provider import ProviderAnswer, StreamChunk, assemble_chunks, finish_answer, get_max_tokens
from turnscope.live.secrets import register_key, scrub_logs
from turnscope.live.stream_assembler import StreamAssembler, repair_text
from turnscope.session.destination import Destination, parse_origin
from turnscope.session.model import JSON

NOT_SERVED = (404, 405, 501)  # a server does not have the endpoint
RETRIED = [408, 429, 500, 502, 503, 504]  # statuses after which a request is sent again


@dataclass(frozen=True, slots=True)
class GeminiProvider:
    """The Gemini API, or a server that speaks it.

    Args:
        client: The SDK's client.
        destination: Where the client sends requests.
        connections: Its open connections.
        headers: Further headers of each request.
        timeout: Seconds without an answer until a request fails.
        origin: The server's address, for messages.
    """

    client: genai.Client
    destination: Destination
    connections: HttpConnections = field(default_factory=HttpConnections)
    headers: Mapping[str, str] = field(default_factory=dict)
    timeout: float = 600.0
    origin: str = ""

    def with_headers(self, headers: Mapping[str, str]) -> GeminiProvider:
        """See `SupportsHeaders`."""
        return replace(self, headers=headers)

    @contextmanager
    def stream(self, body: Mapping[str, JSON]) -> Iterator[Iterator[StreamChunk]]:
        """See `Provider`. The first chunk is awaited here: the SDK sends the request when it is asked for one."""
        self.connections.start_call()
        answer = self.client.models.generate_content_stream(**self._build_arguments(body))
        first = next(answer, None)
        try:
            yield assemble_chunks(_read_events(first, answer), get_max_tokens(body))
        finally:
            cast(Any, answer).close()

    def complete(self, body: Mapping[str, JSON]) -> ProviderAnswer:
        """See `Provider`."""
        self.connections.start_call()
        assembler = StreamAssembler()
        for event in _read_events(self.client.models.generate_content(**self._build_arguments(body)), iter(())):
            for _ in assembler.add_event(event):
                pass
        for _ in assembler.flush():
            pass
        return finish_answer(assembler, get_max_tokens(body))

    def count_tokens(self, body: Mapping[str, JSON]) -> int | None:
        """See `Provider`. The system prompt and the tools are counted too, as part of a whole request."""
        body = repair_text(body)
        contents = gemini.build_contents(body)
        whole = _dump({"contents": [types.Content(**each) for each in contents]}) | _write_prefix(gemini.build_config(body))
        request = {"generateContentRequest": {"model": f"models/{body['model']}", **whole}}
        options = types.HttpOptions(extra_body=request, headers=dict(self.headers))
        self.connections.start_call()
        try:
            counted = self.client.models.count_tokens(
                model=body["model"],
                contents=cast(Any, contents),
                config=types.CountTokensConfig(http_options=options),
            )
        except errors.APIError as error:
            if error.code in NOT_SERVED:
                return None
            raise
        return counted.total_tokens or None

    def embed(self, model: str, texts: Sequence[str]) -> list[list[float]]:
        """See `SupportsEmbeddings`. Each text is a content of its own: the SDK makes one content of a list of texts."""
        contents = [types.Content(role="user", parts=[types.Part(text=text)]) for text in repair_text([*texts])]
        self.connections.start_call()
        answer = self.client.models.embed_content(model=model, contents=cast(Any, contents))
        return [list(row.values or ()) for row in answer.embeddings or ()]

    def cancel(self) -> None:
        """See `SupportsCancel`."""
        self.connections.cancel()

    def explain_error(self, error: Exception) -> ProviderError:
        """See `Provider`."""
        if isinstance(error, ProviderError):
            return error
        if isinstance(error, errors.APIError):
            location = getattr(error.response, "headers", {}).get("location", "")
            text = error.details if isinstance(error.details, str) else json.dumps(error.details)
            return provider_errors.explain_refusal(error.code or 200, text, location, "/v1beta/models")
        return provider_errors.explain_failure(error, self.timeout, self.origin or "the server")

    def _build_arguments(self, body: Mapping[str, JSON]) -> dict[str, Any]:
        body = repair_text(body)
        config = gemini.build_config(body) | {"http_options": types.HttpOptions(headers=dict(self.headers))}
        return {
            "model": body["model"],
            "contents": gemini.build_contents(body),
            "config": types.GenerateContentConfig(**config),
        }


def _read_events(first: types.GenerateContentResponse | None, rest: Iterator[types.GenerateContentResponse]) -> Iterator[JSON]:
    reader = gemini.GeminiEvents()
    if first is not None:
        yield from reader.read(_dump(first))
    for chunk in rest:
        yield from reader.read(_dump(chunk))


def _write_prefix(config: Mapping[str, Any]) -> dict[str, JSON]:
    """The system prompt and the tools of a request as the API's JSON."""
    tools = [types.Tool(**tool) for tool in config.get("tools", ())]
    made = _dump({"tools": tools}) if tools else {}
    if system := config.get("system_instruction"):
        made["systemInstruction"] = {"parts": [{"text": system}]}
    return made


def _dump(value: Any) -> dict[str, JSON]:
    """An SDK's object as JSON values under the SDK's names; a mapping of lists of objects under the API's names."""
    if isinstance(value, Mapping):
        return {
            name: [each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in items]
            for name, items in value.items()
        }
    return dict(value.model_dump(mode="json", exclude_none=True))


def connect(
    destination: Destination, url: str, key: str, *, trusted: bool, retries: int = 2, timeout: float = 600.0
) -> GeminiProvider:
    """Connect to the Gemini API. Nothing is sent yet.

    Args:
        destination: What the chat calls it.
        url: The server's address, without its version.
        key: The API key.
        trusted: Whether the address is Google's own. Any other receives the key typed for it, and nothing else.
        retries: How often the SDK repeats a failed request.
        timeout: Seconds without an answer until a request fails.

    Raises:
        TurnscopeError: There is no key.
    """
    if not key:
        raise TurnscopeError("there is no API key", hint="Type one in the settings; it stays in memory.")
    register_key(key)
    connections = HttpConnections()
    http = httpx2.Client(**list_client_options(connections, None if trusted else {"x-goog-api-key": key}))
    options = types.HttpOptions(
        base_url=url,
        timeout=round(timeout * 1_000),  # the SDK counts milliseconds
        httpx_client=cast(Any, http),
        retry_options=types.HttpRetryOptions(attempts=retries + 1, http_status_codes=RETRIED),
    )
    client = genai.Client(api_key=key, vertexai=False, http_options=options)
    scrub_logs()
    # The SDK prints values that it does not know, and a server may put a key there.
    warnings.filterwarnings("ignore", "(?s).* is not a valid ", UserWarning, r"google\.genai\b")
    return GeminiProvider(client, destination, connections, timeout=timeout, origin=parse_origin(url))
