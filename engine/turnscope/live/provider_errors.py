"""What a provider's error means: its own message, a hint what to do, and whether the prompt was too long.

Pure functions from a status and a text, or from an exception, to a `ProviderError`. They use no SDK.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from turnscope.errors import ProviderError
from turnscope.live.secrets import scrub

MAX_CHARS = 400  # characters of a provider's message that are shown
MAX_BODY = 50_000  # characters of an error's body that are read
MAX_DIGITS = 12  # digits of a number of tokens; a longer one is not believed
_HINTS = {
    401: "Check the API key; it is kept in memory only.",
    403: "Check the API key and what it may do; it is kept in memory only.",
    404: "Check the address, where {path} must be served, and the model's name.",
    413: "The request is larger than the provider takes; let the policy cut more, or shorten the message.",
    429: "Wait a little, or choose another model.",
    529: "The provider is overloaded; send again in a moment.",
}
_RETRY_HINT = "Change the request, or send it again."
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_HTML = re.compile(r"^\s*<(?:!doctype|html|head|body)", re.IGNORECASE)
# (pattern of the message, its group with the prompt's tokens, its group with the window), in this order: Anthropic; OpenAI and
# vLLM; LM Studio; llama.cpp; Ollama; Gemini. Group 0 = the message does not say.
_TOO_LONG_PATTERNS: tuple[tuple[re.Pattern[str], int, int], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), tokens, window)
    for pattern, tokens, window in (
        (r"prompt is too long: (\d+) tokens > (\d+)", 1, 2),
        (r"exceed context limit: (\d+) \+ \d+ > (\d+)", 1, 2),
        (r"maximum context length is (\d+) tokens.{0,80}?(?:resulted in|requested(?: about)?) (\d+) tokens", 2, 1),
        (r"maximum context length (?:is|of) (\d+)", 0, 1),
        (r"context_length_exceeded|exceeds? the (?:model's )?context (?:window|length)", 0, 0),
        (r"keep the first (\d+) tokens when context the overflows.*?context length of only (\d+)", 1, 2),
        (r"(?:number of )?tokens to keep from the initial prompt is greater than the context length", 0, 0),
        (r"request \((\d+) tokens\) exceeds the available context size \((\d+)", 1, 2),
        (r'"n_prompt_tokens":\s*(\d+).*?"n_ctx":\s*(\d+)', 1, 2),
        (r"request \((\d+) tokens\) exceeds", 1, 0),
        (r"exceeds? the available context size|exceed_context_size_error", 0, 0),
        (r"input length.{0,20}exceeds.{0,20}(?:maximum )?context length", 0, 0),
        (r"prompt (?:is )?too long|context (?:length|window|size) (?:was |is )?exceeded|model_context_window_exceeded", 0, 0),
        (r"input token count (?:\((\d+)\) )?exceeds the maximum number of tokens allowed \((\d+)\)", 1, 2),
        (r"too many tokens in (?:the )?(?:prompt|request)", 0, 0),
    )
)


def parse_too_long(text: str) -> tuple[bool, int, int]:
    """Read from an error message whether the prompt was too long.

    Returns:
        Whether it was, the tokens of the prompt, and the tokens of the window. 0 = the message does not say.

    >>> parse_too_long("prompt is too long: 210883 tokens > 200000 maximum")
    (True, 210883, 200000)
    """
    for pattern, tokens, window in _TOO_LONG_PATTERNS:
        if found := pattern.search(text):
            return True, _parse_tokens(found, tokens), _parse_tokens(found, window)
    return False, 0, 0


def _parse_tokens(found: re.Match[str], group: int) -> int:
    """Return the number that a group of a match holds; 0 if it holds none, or one that is too long to be true."""
    digits = (found[group] or "") if group else ""
    return int(digits) if 0 < len(digits) <= MAX_DIGITS else 0


def explain_refusal(status: int, text: str, redirect_url: str = "", path: str = "/v1/messages") -> ProviderError:
    """Explain an error response of a provider.

    Args:
        status: The HTTP status. 200 = the error came as an event of a stream.
        text: The body of the response.
        redirect_url: The address that a redirect points to.
        path: Where the API is served.
    """
    text = scrub(text[:MAX_BODY])
    long, tokens, window = parse_too_long(text)
    if 300 <= status < 400:
        to = f" to {scrub(redirect_url)[:MAX_CHARS]}" if redirect_url else ""
        hint = "Neither the request nor the key was sent there. If the server is there, choose that address."
        return ProviderError(f"the server redirects{to}: redirects are not followed", hint=hint)
    what = extract_message(text)
    about = "the provider broke off its answer" if status == 200 else f"the provider answered {status}"
    hint = _HINTS.get(status, _RETRY_HINT if status < 500 else "The server failed; send again in a moment.")
    return ProviderError(
        f"{about}: {what}" if what else about,
        hint=hint.format(path=path),
        too_long=long or status == 413,
        tokens=tokens,
        window=window,
    )


def extract_message(text: str) -> str:
    """Return the part of an error body that is meant for people.

    That is the message of an error object, or the title of a web page, or else the first characters of the text.

    >>> extract_message('{"error": {"type": "not_found_error", "message": "model: gpt-9"}}')
    'model: gpt-9'
    """
    if _HTML.search(text):
        title = _TITLE.search(text)
        return f"a web page instead of an answer{f' ({shorten(title[1])})' if title else ''}"
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return shorten(text)
    if isinstance(value, Mapping):
        inner = value.get("error", value)
        words = inner if isinstance(inner, str) else inner.get("message") if isinstance(inner, Mapping) else None
        words = words or value.get("message") or value.get("detail")
        if isinstance(words, str) and words.strip():
            return shorten(words)
    return shorten(text)


def shorten(text: str) -> str:
    """Put a text on one line of at most 400 characters."""
    line = " ".join(text.split())
    return line if len(line) <= MAX_CHARS else f"{line[:MAX_CHARS]}..."


def explain_failure(error: Exception, seconds: float, host: str) -> ProviderError:
    """Explain an exception of the HTTP client: no answer came, or the connection broke.

    Args:
        error: The exception. It is recognised by the names of its classes, so that no SDK has to be imported.
        seconds: The client's timeout in seconds.
        host: The server's address, for the message.
    """
    hint = "Nothing was lost; send again."
    names = {kind.__name__ for kind in type(error).__mro__}
    cause = error.__cause__ or error.__context__
    if isinstance(cause, ProviderError):
        return cause
    names |= {kind.__name__ for kind in type(cause).__mro__} if cause else set()
    if names & {"APITimeoutError", "TimeoutException", "TimeoutError"}:
        return ProviderError(f"no answer: {host} was silent for {seconds:,.0f} seconds", hint=hint)
    if names & {"ConnectError", "ConnectionRefusedError", "UnsupportedProtocol"}:
        hint = "Check that the server runs and that the address is right; then send again."
        return ProviderError(f"no answer: {host} cannot be reached", hint=hint)
    if names & {"TransportError", "RemoteProtocolError", "ReadError", "APIConnectionError", "StreamError", "ConnectionError"}:
        return ProviderError(f"no answer: the connection to {host} broke off", hint=hint)
    if names & {"UnicodeDecodeError", "DecodingError", "ValueError", "JSONDecodeError"}:
        return ProviderError(f"no answer: {host} sent something that cannot be read", hint=hint)
    return ProviderError(f"no answer: the request to {host} failed ({type(error).__name__})", hint=hint)
