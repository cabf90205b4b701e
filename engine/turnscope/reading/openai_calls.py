"""A recorded call of OpenAI's Chat Completions, and of either API by the shape of its response.

A gateway's log holds calls of several providers. The importer of a file is chosen by its first calls; each call is converted by
what answered it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnscope.reading import anthropic_calls
from turnscope.reading.calls import Exchange, as_text
from turnscope.reading.chat_completions import convert_body, convert_content, convert_usage
from turnscope.reading.conversations import Call
from turnscope.reading.dialect import find_response_dialect
from turnscope.reading.streams import join_completion, parse_events


def convert_openai_first(found: Exchange) -> Call:
    """Convert a call of a file of Chat Completions. One that Anthropic's API answered is converted as such."""
    return (anthropic_calls.convert_call if find_response_dialect(found) == "anthropic" else convert_call)(found)


def convert_anthropic_first(found: Exchange) -> Call:
    """Convert a call of a file of Anthropic's API. One that Chat Completions answered is converted as such."""
    return (convert_call if find_response_dialect(found) == "openai" else anthropic_calls.convert_call)(found)


def convert_call(found: Exchange) -> Call:
    """A recorded call in Anthropic's shape."""
    response = join_completion(parse_events(found.response)) if isinstance(found.response, str) else found.response
    about: dict[str, Any] = {
        "model": as_text(found.body.get("model")),
        "sent_at": found.sent_at,
        "answered_at": found.answered_at,
    }
    body = convert_body(found.body)
    choices = response.get("choices") if isinstance(response, Mapping) else None
    choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], Mapping) else {}
    if not isinstance(response, Mapping) or not isinstance(choice.get("message"), Mapping):
        return Call(body, None, about, found.error, found.line)
    about |= {"usage": convert_usage(response.get("usage")), "id": as_text(response.get("id"))}
    about["model"] = as_text(response.get("model")) or about["model"]
    about["stop_reason"] = as_text(choice.get("finish_reason")) or None
    return Call(body, {"content": convert_content(choice["message"])}, about, "", found.line)
