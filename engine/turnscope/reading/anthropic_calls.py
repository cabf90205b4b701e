"""A recorded call of Anthropic's Messages API: body, answer, usage, and the server's own edits.

Any recorder may have written it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnscope.reading.calls import Exchange, as_text
from turnscope.reading.conversations import Call
from turnscope.reading.streams import join_message, parse_events
from turnscope.session.usage import parse_applied_edits, parse_cache_miss, parse_usage


def convert_call(found: Exchange) -> Call:
    """Convert a recorded call. It has Anthropic's shape already."""
    response = found.response
    if isinstance(response, str):
        response = join_message(parse_events(response))
    elif isinstance(response, list):
        response = join_message(event for event in response if isinstance(event, dict))
    about: dict[str, Any] = {
        "model": as_text(found.body.get("model")),
        "sent_at": found.sent_at,
        "answered_at": found.answered_at,
    }
    answer = response if isinstance(response, Mapping) else {}
    if answer.get("type") == "error" or not isinstance(answer.get("content"), (list, str)):
        error = answer.get("error")
        what = as_text(error.get("message")) if isinstance(error, Mapping) else ""
        return Call(found.body, None, about, found.error or what, found.line)
    about |= {"usage": parse_usage(answer.get("usage")), "id": as_text(answer.get("id"))}
    about["cache_miss"] = parse_cache_miss(answer.get("diagnostics"))
    about["applied"] = parse_applied_edits(answer.get("context_management"))
    about["model"] = as_text(answer.get("model")) or about["model"]
    about["stop_reason"] = as_text(answer.get("stop_reason")) or None
    return Call(found.body, {"content": answer["content"]}, about, "", found.line)
