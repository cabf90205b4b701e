"""Logs of `turnscope tap`: every request that passed between a tool and its provider, as it was sent.

Requests of one session are joined: those that name it, and where the tap started the tool itself, all that name none. Of
these, the conversation with the most requests is the session, and the others are its subagents and side requests.
Conversations that no name joins stand for themselves. Longer than a mapping because requests of all APIs come in one log.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from turnscope.importers import Importer, Place
from turnscope.reading import anthropic_calls, google_calls, openai_calls
from turnscope.reading.calls import Exchange, as_text, describe_failure, parse_if_json
from turnscope.reading.content_blocks import as_mapping
from turnscope.reading.conversations import Call, Conversations, group_calls, hang_below_call
from turnscope.reading.responses_calls import ResponseChains, find_response
from turnscope.reading.source import Entry, Source
from turnscope.reading.tap_log import COMPLETE, TapCall, TapLog, is_tap_log, read_tap_log
from turnscope.session.model import EXACT_REQUESTS, Note, Session
from turnscope.session.thread import Thread
from turnscope.session.window_facts import find_large_beta
from turnscope.settings import DATA_VARIABLE, Machine

NAME = "tap"
ALONE = "alone"  # before the number of a conversation that no name joins to others
RUN = "run"  # the id of what a tool sent that the tap started, where its requests name no session
COUNTING = "anthropic-count"
SIDE_MESSAGES = 3  # a request without tools and with so few messages is a title, a check or a summary of a text
_PROMPTS = {"anthropic-messages": "messages", "openai-chat": "messages", "openai-responses": "input", "gemini": "contents"}
_SHAPE_ERRORS = (AttributeError, IndexError, KeyError, TypeError, ValueError)
SESSION_HEADERS = "x-claude-code-session-id session_id session-id x-session-id x-opencode-session conversation_id".split()


def sniff(source: Source) -> int:
    return 100 if is_tap_log(source) else 0


def find_places(machine: Machine) -> Iterator[Place]:
    yield Place(machine.find_folder(DATA_VARIABLE, machine.data / "turnscope") / "tap", "*.jsonl")


def list_entries(source: Source) -> Iterator[Entry]:
    for id, found in _gather(source).items():
        if id == ALONE:
            yield from (structs.replace(entry, id=f"{ALONE}~{entry.id}") for entry in found.main.list_entries())
        else:
            first = next(found.main.list_entries())
            yield structs.replace(first, id=id, requests=found.size)


def read(source: Source, entry: Entry) -> Thread:
    sessions = _gather(source)
    id, _, which = (entry.id or next(iter(sessions))).partition("~")
    found = sessions[id]
    if id == ALONE:
        return Thread(_state_exact(found.main.build_session(which, NAME)))
    first, *others = ((group, one.id) for group in found.groups for one in group.list_entries())
    name = found.main.stem
    main = structs.replace(_state_exact(first[0].build_session(first[1], NAME)), id=name)
    below = []
    for number, (group, one) in enumerate(others, 1):
        agent = structs.replace(_state_exact(group.build_session(one, NAME)), id=f"{name}~{number}")
        below.append(hang_below_call(agent, main))
    return Thread(structs.replace(main, subagents=tuple(below)))


def _state_exact(session: Session) -> Session:
    return structs.replace(session, about={**session.about, EXACT_REQUESTS: {"requests": len(session.requests), "proven": 0}})


@dataclass(frozen=True, slots=True)
class _Joined:
    """The calls of one session: those of its conversations, and side requests, which no conversation goes on from."""

    main: Conversations
    side: Conversations

    @property
    def groups(self) -> list[Conversations]:
        """Those that hold calls, the session's own first."""
        return [group for group in (self.main, self.side) if group.all]

    @property
    def size(self) -> int:
        return sum(len(one.sent) for group in self.groups for one in group.all)


def _gather(source: Source) -> dict[str, _Joined]:
    """The calls of each session by its id, the session with the most first; read once."""
    if "tap" not in source.cache:
        log, chains = read_tap_log(source), ResponseChains()
        calls: dict[str, list[Call | Note]] = {}
        for call in log.calls:
            if call.api in _PROMPTS:
                body = _find_body(call)
                calls.setdefault(_find_session(call, body, log), []).extend(_convert(call, body, chains))
        found = {id: _join(some, id, source.path.stem) for id, some in calls.items()}
        whole = {id: one for id, one in found.items() if one.main.all}
        found = dict(sorted(whole.items(), key=lambda item: -item[1].size))
        for one in [*found.values()][:1]:
            one.main.notes += [*log.notes, *_note_counts(log), *chains.list_notes()]
        source.cache["tap"] = found
    sessions: dict[str, _Joined] = source.cache["tap"]
    return sessions


def _join(calls: list[Call | Note], id: str, stem: str) -> _Joined:
    """Tell side requests from the others: short ones without tools, in a session whose other requests have some."""
    has_tools = any(isinstance(call, Call) and call.body.get("tools") for call in calls)
    own: list[Call | Note] = []
    aside: list[Call | Note] = []
    for call in calls:
        is_aside = has_tools and id != ALONE and isinstance(call, Call) and _is_short(call)
        (aside if is_aside else own).append(call)
    name = stem if id in (ALONE, RUN) else id
    return _Joined(group_calls(own, name), group_calls(aside, name))


def _is_short(call: Call) -> bool:
    return not call.body.get("tools") and len(call.body["messages"]) <= SIDE_MESSAGES


def _note_counts(log: TapLog) -> Iterator[Note]:
    if counts := sum(call.api == COUNTING for call in log.calls):
        what = "1 request was" if counts == 1 else f"{counts} requests were"
        yield Note("info", 0, f"{what} for a count of tokens: no model read them, and they are no requests here")


def _find_body(call: TapCall) -> Mapping[str, Any]:
    """The body of a request as an object; an empty one where it is none. Code Assist wraps the body of Google's API."""
    body = as_mapping(parse_if_json(call.body))
    inner = as_mapping(body.get("request"))
    return {**inner, "model": body.get("model")} if "contents" in inner else body


def _find_session(call: TapCall, body: Mapping[str, Any], log: TapLog) -> str:
    """The session that a request names; else that of the tool that the tap started, or `ALONE`."""
    user = as_text(as_mapping(body.get("metadata")).get("user_id"))
    try:
        named = as_text(as_mapping(json.loads(user)).get("session_id"))
    except (ValueError, RecursionError):
        named = user.rpartition("_session_")[2] if "_session_" in user else ""
    headers = (call.headers.get(name, "") for name in SESSION_HEADERS)
    found = named or next(filter(None, headers), "") or as_text(body.get("prompt_cache_key"))
    return re.sub(r"[^\w.-]", "-", found)[:80] or (RUN if log.command else ALONE)


def _convert(call: TapCall, body: Mapping[str, Any], chains: ResponseChains) -> Iterator[Call | Note]:
    """A call in Anthropic's shape, and notes on what of it is not whole."""
    if call.trouble:
        yield Note("warning", call.line, f"a request is not recorded whole: {call.trouble}")
    if not isinstance(body.get(_PROMPTS[call.api]), list | str):
        yield Note("error", call.line, "the body of a request is none of its API, or is cut: the request was left out")
        return
    why = call.why or (call.outcome if call.outcome != COMPLETE else "")
    why = why if call.outcome else "no end of it is recorded: it is still arriving, or the tap was stopped"
    for response in (call.response, None):
        try:
            found = [*_convert_call(call, dict(body), response, chains)]
        except _SHAPE_ERRORS as error:
            part = "body" if response is None else "answer"
            yield Note("error", call.line, f"the {part} of a request has an unknown shape and was left out: {error!r}")
            continue
        for one in found:
            if isinstance(one, Call):
                _complete(one, call, why)
                if one.answer and why:
                    yield Note("warning", call.line, f"an answer is not whole: {why}")
            yield one
        return


def _convert_call(call: TapCall, body: dict[str, Any], response: Any, chains: ResponseChains) -> Iterator[Call | Note]:
    found = Exchange(body, response, call.line, call.sent_at, call.ended_at, call.status)
    found.error = describe_failure(found)
    match call.api:
        case "anthropic-messages":
            large = find_large_beta(call.headers.get("anthropic-beta", "").replace(" ", "").split(","))
            named = {"betas": [large]} if large and "betas" not in body else {}  # it makes the window larger
            found.body = body | named
            yield anthropic_calls.convert_call(found)
        case "openai-chat":
            yield openai_calls.convert_call(found)
        case "openai-responses":
            yield from chains.convert(body, find_response(response), {}, call.line)
        case _:
            yield google_calls.convert_call(body, google_calls.join_answer(response), call.line, call.model)


def _complete(made: Call, call: TapCall, why: str) -> None:
    """Fill in what the wire shows of every API: times, and why there is no answer, or no whole one."""
    made.about |= {"sent_at": call.sent_at, "answered_at": call.ended_at}
    failure = describe_failure(Exchange({}, call.response, call.line, status=call.status))
    if made.answer is None:
        made.error = failure or why or made.error or "the answer holds nothing"
    elif why:
        made.about["stop_reason"] = made.about.get("stop_reason") or "interrupted"


IMPORTER = Importer(
    NAME,
    "Tap log (JSON lines of `turnscope tap`)",
    sniff,
    read,
    list_entries,
    find_places,
    suffixes=(".jsonl",),
    wants="`turnscope_tap` in its first line",
    right="every request as it was sent; answers as far as they came; sessions joined, subagents and side requests apart",
)
