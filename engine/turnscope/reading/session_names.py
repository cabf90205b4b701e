"""The name that a request itself gives its session: in a header, in its metadata, or as the key of the prompt cache."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from turnscope.reading.calls import as_text
from turnscope.reading.content_blocks import as_mapping

SESSION_HEADERS = "x-claude-code-session-id session_id session-id x-session-id x-opencode-session conversation_id".split()


def find_session_name(headers: Mapping[str, str], body: Mapping[str, Any]) -> str:
    """Find the name; "" where there is none.

    Args:
        headers: The request's headers, in lower case.
        body: Its body.
    """
    user = as_text(as_mapping(body.get("metadata")).get("user_id"))
    try:
        named = as_text(as_mapping(json.loads(user)).get("session_id"))
    except (ValueError, RecursionError):
        named = user.rpartition("_session_")[2] if "_session_" in user else ""
    found = named or next(filter(None, (headers.get(name, "") for name in SESSION_HEADERS)), "")
    return re.sub(r"[^\w.-]", "-", found or as_text(body.get("prompt_cache_key")))[:80]
