"""Tells what an agent sends beside its conversation: titles, summaries, checks, tries of the quota. Pure functions.

A request is known by what it is, not by the words of one tool: it offers no tools where the others of its session do, its
answer comes back in a user's message, it asks for an answer in a set form, or its tool says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from turnscope.reading.content_blocks import as_mapping
from turnscope.reading.conversations import LEAST_CHARS, Call
from turnscope.session.content import extract_text
from turnscope.session.model import JSON

TITLE, SUMMARY, CHECK, QUOTA, RETRY, OTHER = "title", "summary", "check", "quota", "retry", "other"
TITLE_CHARS = 300  # an answer that is longer is no title
INSTRUCTION_CHARS = 400  # a request for a summary that nothing follows yet says at least so much; a person's own is shorter
HEAD_CHARS, TAIL_CHARS = 1_000, 160  # where an instruction begins; what of an answer is looked for
LEAD_CHARS = 100  # of a system prompt; what changes from request to request stands further below
AHEAD = 12  # requests after one that are searched for its answer; subagents and counts come in between
_TITLE = re.compile(r"\btitles?\b", re.IGNORECASE)
_SUMMARY = re.compile(r"summar|compact|snapshot|condens|checkpoint|handoff", re.IGNORECASE)
_TAGS = re.compile(r"\A(?:\s*<\w+>)+\s*|(?:\s*</\w+>)+\s*\Z")
# Where each API says that an answer must have a set form.
_FORMS = ("response_format", "output_format", "responseSchema", "responseJsonSchema")


@dataclass(frozen=True, slots=True)
class Sent:
    """A request with what its tool says of it.

    Attributes:
        call: The request in Anthropic's shape.
        body: Its body as it was sent.
        named: The kind that the tool itself names; "" = none.
    """

    call: Call
    body: Mapping[str, Any]
    named: str = ""


def find_side_requests(sent: Sequence[Sent]) -> dict[int, str]:
    """Find the requests beside the conversation among those of a session: kind by position.

    Args:
        sent: The requests in order.
    """
    has_tools = any(one.call.body.get("tools") for one in sent)
    kinds = ((at, _find_kind(at, sent, has_tools)) for at in range(len(sent)))
    return {at: kind for at, kind in kinds if kind}


def is_retry(call: Call, after: Call) -> bool:
    """Whether a request is sent once more, because its answer broke off.

    Args:
        call: The request.
        after: The request that follows it.
    """
    ended, sent = call.about.get("answered_at"), after.about.get("sent_at")
    follows = ended is not None and sent is not None and ended <= sent
    return call.about.get("stop_reason") == "interrupted" and follows and call.body == after.body


def find_lead(call: Call) -> str:
    """How the longest text of a system prompt begins; "" where there is none. Short ones may change from request to request."""
    system = call.body.get("system")
    texts = map(extract_text, system) if isinstance(system, list) else [extract_text(system)]
    return max(texts, key=len, default="")[:LEAD_CHARS]


def list_answers(calls: Iterable[Call]) -> set[str]:
    """List what tells that a request goes on from other ones: texts that they were answered with, and ids of calls in them."""
    found: set[str] = set()
    for call in calls:
        answer = _read_answer(call)
        found |= {answer} if len(answer) >= LEAST_CHARS else set()
        found |= _list_call_ids([{"role": "assistant", "content": _list_answer(call)}, *_list_messages(call)])
    return found


def begins_anew(call: Call, answers: AbstractSet[str]) -> bool:
    """Whether a request goes on from none of some others.

    Args:
        call: The request.
        answers: What `list_answers` lists of the others.
    """
    messages = _list_messages(call)
    spoken = {_read(message) for message in messages if message.get("role") == "assistant"}
    return answers.isdisjoint(spoken | _list_call_ids(messages))


def _list_call_ids(messages: Iterable[Mapping[str, Any]]) -> set[str]:
    listed = (content for message in messages if isinstance(content := message.get("content"), list))
    blocks = (as_mapping(block) for content in listed for block in content)
    return {str(block["id"]) for block in blocks if block.get("type") == "tool_use" and block.get("id")}


def has_come_back(call: Call, later: Sequence[Call]) -> bool:
    """Whether the end of an answer stands in what a user is made to say afterwards, in results of tools aside.

    Args:
        call: The request.
        later: Requests after it.
    """
    end = _read_answer(call)[-TAIL_CHARS:]
    if len(end) < LEAST_CHARS:
        return False
    own = {_read(message) for message in _list_messages(call)}
    texts = (_read(message) for one in later for message in _list_messages(one) if message.get("role") != "assistant")
    return any(end in text for text in texts if text not in own)


def _find_kind(at: int, sent: Sequence[Sent], has_tools: bool) -> str:
    one, later = sent[at], [each.call for each in sent[at + 1 : at + 1 + AHEAD]]
    if one.named:
        return one.named
    if _find_limit(one.body) == 1:
        return QUOTA
    if later and is_retry(one.call, later[0]):
        return RETRY
    if not has_tools or _calls_tools(one.call) or _goes_on(one.call, later):
        return ""
    if not one.call.body.get("tools"):
        return _name(one, later)
    if _read_answer(one.call) and has_come_back(one.call, later):
        return SUMMARY
    asks = _read_instruction(one.call)
    return SUMMARY if not later and len(asks) >= INSTRUCTION_CHARS and _SUMMARY.search(asks) else ""


def _name(one: Sent, later: Sequence[Call]) -> str:
    """Name a request without tools."""
    system = extract_text(one.call.body.get("system"))[:HEAD_CHARS]
    asks = _read_instruction(one.call)
    asks = f"{system} {asks[:HEAD_CHARS]} {asks[-HEAD_CHARS:]}"
    if len(_read_answer(one.call)) <= TITLE_CHARS and _TITLE.search(asks):
        return TITLE
    if _has_form(one.body):
        return CHECK
    return SUMMARY if _SUMMARY.search(asks) or has_come_back(one.call, later) else OTHER


def _goes_on(call: Call, later: Sequence[Call]) -> bool:
    """Whether a later request with tools goes on from an answer: what it was asked, and then the answer."""
    messages, answer = _list_messages(call), _read_answer(call)
    at = len(messages)
    for one in later:
        known = _list_messages(one)
        if not one.body.get("tools") or len(known) <= at or known[at].get("role") != "assistant":
            continue
        if _read(known[at]) == answer and (not at or _read(known[at - 1]) == _read(messages[at - 1])):
            return True
    return False


def _calls_tools(call: Call) -> bool:
    return any(as_mapping(block).get("type") == "tool_use" for block in _list_answer(call))


def _find_limit(body: Mapping[str, Any]) -> Any:
    """The limit of the answer, in tokens."""
    return next((body[key] for key in ("max_tokens", "max_completion_tokens", "max_output_tokens") if key in body), None)


def _has_form(body: Mapping[str, Any]) -> bool:
    inner = (body.get(key) for key in ("generationConfig", "output_config", "text"))
    places = [body, *(place for place in inner if isinstance(place, Mapping))]
    wanted = [place.get(key) for place in places for key in (*_FORMS, "format")]
    return any(form and not (isinstance(form, Mapping) and form.get("type") == "text") for form in wanted)


def _list_messages(call: Call) -> list[dict[str, Any]]:
    found = call.body.get("messages")
    return [message for message in found if isinstance(message, dict)] if isinstance(found, list) else []


def _list_answer(call: Call) -> list[JSON]:
    content = (call.answer or {}).get("content")
    return content if isinstance(content, list) else []


def _read_answer(call: Call) -> str:
    """The words of an answer, without tags around them: tools strip these."""
    return _read({"content": _list_answer(call)})


def _read(message: Mapping[str, Any]) -> str:
    """The words of a message, without thinking, and without results: in them a subagent's answer comes back."""
    content = message.get("content")
    left = ("thinking", "tool_result")
    words = [one for one in content if as_mapping(one).get("type") not in left] if isinstance(content, list) else content
    return _TAGS.sub("", extract_text(words)).strip()


def _read_instruction(call: Call) -> str:
    """What a request asks for: the last text of its last message."""
    for message in _list_messages(call)[-1:]:
        content = message.get("content")
        parts = content if isinstance(content, list) else [content]
        texts = [text for part in parts if (text := extract_text(part if isinstance(part, str) else [part]).strip())]
        return texts[-1] if texts else ""
    return ""
