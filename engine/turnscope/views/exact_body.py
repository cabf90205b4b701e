"""The exact body of a request under any policy, as a value and as text, and its difference to the previous body.

Bodies have the shape of Anthropic's Messages API. What the log does not hold is marked as such.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b

from turnscope.counting.reconciliation import Terms
from turnscope.numbering import format_request
from turnscope.planning.assemble import AS_RECORDED
from turnscope.planning.render import build_body
from turnscope.planning.session_fit import lacks_tools
from turnscope.planning.trace import Trace
from turnscope.reading.recorded_body import find_common
from turnscope.session.model import JSON

MAX_LINE = 400  # characters of a line of a difference
_ROLES = {"system": "system prompt", "tools": "tools"}


def build_exact_body(trace: Trace, request: int) -> dict[str, JSON]:
    """Build the body of a request.

    Args:
        trace: the replay.
        request: number of the request.

    Raises:
        IndexError: the trace has no such request.
    """
    made = build_body(trace.plans[request], trace.session, as_recorded=trace.policy.name == AS_RECORDED)
    terms = trace.get_terms(request)
    if lacks_tools(trace.session):
        return made | {"tools": f"<<not in the log; tools are about {terms.prefix:,} tokens>>"}
    unknown = describe_hidden(terms)
    if unknown and not made.keys() & _ROLES.keys():  # otherwise the provider adds the hidden part itself, and no body holds it
        made |= {key: f"<<not in the log; {unknown}>>" for key in ("system", "tools") if key not in made}
    return made


def describe_hidden(terms: Terms) -> str:
    """Describe what the log does not hold of a request; "" = it holds all."""
    hidden = {
        "system prompt and tools are about {:,} tokens together": terms.prefix,
        "the conversation before this file begins is about {:,} tokens": terms.earlier,
        "what the tool injected, as after a compaction, is about {:,} tokens": terms.reinjected,
    }
    return "; ".join(words.format(tokens) for words, tokens in hidden.items() if tokens)


def format_exact_body(trace: Trace, request: int) -> str:
    """Write the body of a request as JSON text that UTF-8 can encode.

    Args:
        trace: the replay.
        request: number of the request.
    """
    made = build_exact_body(trace, request)
    text = json.dumps(made, ensure_ascii=False, indent=2, default=str)
    try:
        text.encode()
    except UnicodeEncodeError:  # lone surrogates
        return json.dumps(made, indent=2, default=str)
    return text


def diff_with_previous(trace: Trace, request: int) -> str:
    """Compare the body of a request with the previous one: a line per message, `-` removed, `+` added.

    Args:
        trace: the replay.
        request: number of the request.
    """
    if not request:
        return "This is the first request: all of it is new."
    old, new = (list(_iter_lines(build_exact_body(trace, n))) for n in (request - 1, request))
    lines: list[str] = []
    done = (0, 0)
    for a, b in [*find_common([key for key, _ in old], [key for key, _ in new]), (len(old), len(new))]:
        if (a, b) != done:
            lines += _format_hunk(old, new, done, (a, b))
        done = (a + 1, b + 1)
    if not lines:
        return f"The same body as request {format_request(request - 1)}."
    return "\n".join(lines)


def _format_hunk(
    old: Sequence[tuple[bytes, str]], new: Sequence[tuple[bytes, str]], start: tuple[int, int], stop: tuple[int, int]
) -> list[str]:
    """Format one hunk of a difference, with the number of the part at which it begins."""
    gone, come = old[start[0] : stop[0]], new[start[1] : stop[1]]
    where = f"@@ part {start[1] + 1:,} of {len(new):,} @@"
    return [where, *(f"- {_clip(line)}" for _, line in gone), *(f"+ {_clip(line)}" for _, line in come)]


def _iter_lines(body: dict[str, JSON]) -> Iterator[tuple[bytes, str]]:
    """Split a body into parts that can be compared: each other key, each tool, each block of each message."""
    for key, value in body.items():
        if key == "messages":
            for message in value:
                content = message["content"]
                for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
                    yield _build_line(message["role"], block)
        elif isinstance(value, list):
            for item in value:
                yield _build_line(_ROLES.get(key, key), item)
        else:
            yield _build_line(_ROLES.get(key, key), value)


def _build_line(name: str, value: JSON) -> tuple[bytes, str]:
    text = f"{name}: {json.dumps(value, ensure_ascii=False, default=str)}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest(), text


def _clip(line: str) -> str:
    rest = len(line) - MAX_LINE
    return line if rest <= 0 else f"{line[:MAX_LINE]} … {rest:,} more characters"
