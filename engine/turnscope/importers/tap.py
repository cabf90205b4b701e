"""Logs of `turnscope tap`: every request that passed between a tool and its provider, as it was sent.

Requests of one session are joined: those that name it, and where the tap started the tool itself, all that name none. Of
these, the conversation with the most requests is the session, and the others are its subagents and side requests.
Conversations that no name joins are joined by what they say of each other, or stand for themselves. Longer than a mapping
because requests of all APIs come in one log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from msgspec import structs

from turnscope.importers import Importer, Place
from turnscope.reading import anthropic_calls, google_calls, openai_calls
from turnscope.reading.alignment import Reason
from turnscope.reading.calls import Exchange, as_text, describe_failure, parse_if_json
from turnscope.reading.content_blocks import as_mapping, as_rows
from turnscope.reading.conversations import (
    DISTINCTIVE_CHARACTERS,
    LEAST_CHARS,
    Call,
    Conversation,
    Conversations,
    group_calls,
    hang_below_call,
)
from turnscope.reading.responses_calls import ResponseChains, find_response
from turnscope.reading.session_names import find_session_name
from turnscope.reading.side_requests import (
    SUMMARY,
    TAIL_CHARS,
    Sent,
    begins_anew,
    find_lead,
    find_side_requests,
    list_answers,
)
from turnscope.reading.source import Entry, Source
from turnscope.reading.tap_log import COMPLETE, TapCall, TapLog, is_tap_log, read_tap_log
from turnscope.session.content import extract_text
from turnscope.session.model import COUNT_REQUESTS, EXACT_REQUESTS, JSON, SIDE, UNRECORDED, Note, Session
from turnscope.session.thread import Thread
from turnscope.session.window_facts import find_large_beta
from turnscope.settings import DATA_VARIABLE, Machine

NAME = "tap"
ALONE = "alone"  # before the number of a conversation that no name joins to others
RUN = "run"  # the id of what a tool sent that the tap started, where its requests name no session
COUNTING = frozenset(("anthropic-count", "gemini-count", "openai-count"))
TURN = "x-codex-turn-metadata"
DRY_RUN = "a dry run:"  # what the reason of what was not done begins with
MAX_DEPTH = 9  # subagents below subagents
_PROMPTS = {"anthropic-messages": "messages", "openai-chat": "messages", "openai-responses": "input", "gemini": "contents"}
_SHAPE_ERRORS = (AttributeError, IndexError, KeyError, TypeError, ValueError)


def _has_calls(path: Path) -> bool:
    """Whether a recording holds a call: a tap that nothing has passed yet has written its first line alone."""
    with suppress(OSError), path.open("rb") as lines:
        lines.readline()
        return bool(lines.read(1))
    return True  # whoever opens it says what is wrong


def sniff(source: Source) -> int:
    return 100 if is_tap_log(source) else 0


def find_places(machine: Machine) -> Iterator[Place]:
    yield Place(machine.find_folder(DATA_VARIABLE, machine.data / "turnscope") / "tap", "*.jsonl", holds_session=_has_calls)


def list_entries(source: Source) -> Iterator[Entry]:
    for id, found in _gather(source).items():
        first = found.pieces[0].entry
        yield structs.replace(first, id=id, requests=sum(piece.entry.requests or 0 for piece in found.pieces))


def read(source: Source, entry: Entry) -> Thread:
    sessions = _gather(source)
    found = sessions[entry.id or next(iter(sessions))]
    first, *others = found.pieces
    main = first.build()
    main = structs.replace(main, id=found.name or main.id, about={**main.about, **found.about})
    below = []
    for number, piece in enumerate(others, 1):
        one = structs.replace(piece.build(), id=f"{main.id}~{number}")
        below.append(structs.replace(one, parent=main.id) if piece.kind else hang_below_call(one, main))
    return Thread(structs.replace(main, subagents=tuple(below)))


@dataclass(frozen=True, slots=True)
class _Piece:
    """A conversation of a log. `kind`: that of requests beside a conversation, "" = none; `agent`: a subagent's own name.

    `number`: that of a side request among those of its kind.
    """

    group: Conversations
    entry: Entry
    kind: str = ""
    agent: str = ""
    number: int = 0

    @property
    def conversation(self) -> Conversation:
        return next(one for one in self.group.all if str(one.number) == self.entry.id)

    def build(self) -> Session:
        made = self.group.build_session(self.entry.id, NAME)
        about = {**made.about, EXACT_REQUESTS: {"requests": len(made.requests), "proven": 0}}
        about |= {SIDE: self.kind} if self.kind else {"agent": self.agent} if self.agent else {}
        title = f"{self.kind}: {made.title}" if self.kind else made.title
        return structs.replace(made, title=title, about=about)


@dataclass(frozen=True, slots=True)
class _Joined:
    """The conversations of one session: its own first, then its subagents and what it sent beside them.

    `name`: its id; "" = that of its first conversation.
    """

    name: str
    pieces: list[_Piece]
    about: dict[str, JSON] = field(default_factory=dict)


@dataclass(slots=True)
class _Gathered:
    """What a session sent: its own requests and its subagents', by name of the agent, "" = its own. `counts`: of tokens."""

    sent: dict[str, list[Sent | Note]] = field(default_factory=dict)
    counts: int = 0


def _gather(source: Source) -> dict[str, _Joined]:
    """The conversations of each session by its id, the session with the most requests first; read once."""
    if "tap" not in source.cache:
        log, chains = read_tap_log(source), ResponseChains()
        parents = dict(filter(None, map(_find_parent, log.calls)))
        gathered: dict[str, _Gathered] = {}
        for call in log.calls:
            body = _find_body(call.left)
            id, agent = _find_session(call, body, log, parents)
            if call.api in _PROMPTS:
                gathered.setdefault(id, _Gathered()).sent.setdefault(agent, []).extend(_convert(call, body, chains))
            elif call.api in COUNTING:
                gathered.setdefault(id, _Gathered()).counts += 1
        found: dict[str, _Joined] = {}
        for id, some in gathered.items():
            pieces = list(_split(some, source.path.stem if id in (ALONE, RUN) else id))
            found |= _join_by_content(pieces) if id == ALONE else _join(id, pieces, source.path.stem)
        found = dict(sorted(found.items(), key=lambda item: -sum(piece.entry.requests or 0 for piece in item[1].pieces)))
        for one in [*found.values()][:1]:
            counts = sum(some.counts for some in gathered.values())
            one.about.update({COUNT_REQUESTS: counts} if counts else {})
            one.about.update({UNRECORDED: {"requests": log.lost, "why": log.lost_because}} if log.lost else {})
            one.pieces[0].group.notes += [*log.notes, *_note_counts(counts), *chains.list_notes()]
        source.cache["tap"] = found
    sessions: dict[str, _Joined] = source.cache["tap"]
    return sessions


def _split(found: _Gathered, stem: str) -> Iterator[_Piece]:
    """Split what a session sent into its conversations, subagents and side requests, its own conversations first."""
    aside: dict[str, list[Call]] = {}
    for agent in sorted(found.sent):
        sent = [one for one in found.sent[agent] if isinstance(one, Sent)]
        kinds = {id(sent[at]): kind for at, kind in find_side_requests(sent).items()}
        own: list[Call | Note] = []
        for one in found.sent[agent]:
            kind = kinds.get(id(one), "")
            if kind and isinstance(one, Sent):
                aside.setdefault(kind, []).append(one.call)
            else:
                own.append(one.call if isinstance(one, Sent) else one)
        for name, calls in _split_agents(own, agent):
            group = group_calls(calls, stem)
            yield from (_Piece(group, entry, agent=name) for entry in group.list_entries())
    for kind, found_calls in aside.items():
        for number, again in enumerate(_split_calls(found_calls), 1):
            group = group_calls([*again], stem)
            yield from (_Piece(group, entry, kind, number=number) for entry in group.list_entries())


def _split_calls(calls: list[Call]) -> Iterator[list[Call]]:
    """Split side requests into single ones, those that failed and were sent again with what followed."""
    again: list[Call] = []
    for call in calls:
        if again and not (again[-1].error and again[-1].body == call.body):
            yield again
            again = []
        again.append(call)
    if again:
        yield again


def _split_agents(calls: list[Call | Note], agent: str) -> list[tuple[str, list[Call | Note]]]:
    """Split calls that no name tells apart: a conversation that begins with another system prompt is a subagent's.

    Some tools begin it with the same message as the session, so what they share does not tell.
    """
    leads = [find_lead(call) if isinstance(call, Call) else "" for call in calls]
    if agent or len(set(leads)) < 2:
        return [(agent, calls)]
    first = {lead: call for lead, call in reversed([*zip(leads, calls, strict=True)]) if isinstance(call, Call)}
    main = max(first, key=leads.count)
    known = list_answers(call for lead, call in zip(leads, calls, strict=True) if lead == main and isinstance(call, Call))
    apart = {lead for lead, call in first.items() if lead != main and begins_anew(call, known)}
    found: dict[str, list[Call | Note]] = {"": []}
    for lead, call in zip(leads, calls, strict=True):
        is_apart = lead in apart and isinstance(call, Call)
        found.setdefault(f"with a system prompt of its own: {lead[:40]}" if is_apart else "", []).append(call)
    return [*found.items()]


def _join(id: str, pieces: list[_Piece], stem: str) -> dict[str, _Joined]:
    """What names one session is one: its longest conversation, and below it all others."""
    return {id: _Joined(stem if id == RUN else id, pieces)} if pieces else {}


def _join_by_content(pieces: list[_Piece]) -> dict[str, _Joined]:
    """Hang what no name joins below the conversation that it is seen to belong to; the others stand for themselves."""
    whole = [piece for piece in pieces if not piece.kind]
    found = {_name_alone(piece): _Joined("", [piece]) for piece in pieces}
    for piece in pieces:
        belongs = (one for one in whole if one is not piece and _belongs(piece, one))
        above = max(belongs, key=lambda one: one.entry.requests or 0, default=None)
        if above is not None and (at := _name_alone(above)) in found:
            found[at].pieces.extend(found.pop(_name_alone(piece)).pieces)
    return found


def _name_alone(piece: _Piece) -> str:
    agent = f"-{crc32(piece.agent.encode('utf-8', 'replace')):x}" if piece.agent else ""
    return f"{ALONE}{'-' if piece.kind else ''}{piece.kind}{agent}~{piece.number or piece.entry.id}"


def _belongs(piece: _Piece, to: _Piece) -> bool:
    """Whether a conversation is seen to belong to another one.

    A subagent's prompt stands in a call of it. A side request begins as it does, has its prompt, or is answered with what it
    is told later.
    """
    own, other = piece.conversation, to.conversation
    if not piece.kind:
        prompts = {_squeeze(extract_text([p])) for m in own.sent[0].body.messages if m.role == "user" for p in m.parts}
        return any(given in text for given in _list_inputs(other) if len(given) >= LEAST_CHARS for text in prompts)
    texts, others = _read_texts(own), _read_texts(other)
    if any(text in others for text in texts if len(text) >= DISTINCTIVE_CHARACTERS):
        return True
    if len(other.title) >= LEAST_CHARS and any(other.title in text for text in texts):
        return True
    answers = (_squeeze(extract_text(one.answer.parts)) for one in own.sent if one.answer)
    ends = [answer[-TAIL_CHARS:] for answer in answers if len(answer) >= LEAST_CHARS]
    return any(end in text for text in others for end in ends)


def _list_inputs(conversation: Conversation) -> Iterator[str]:
    """The texts that a conversation's calls of tools were given."""
    for one in conversation.sent:
        for block in one.answer.parts if one.answer else ():
            if isinstance(block, dict) and block.get("type") == "tool_use":
                yield from (_squeeze(value) for value in as_mapping(block.get("input")).values() if isinstance(value, str))


def _read_texts(conversation: Conversation) -> set[str]:
    """All texts that were sent in a conversation."""
    sent = {id(message): message for one in conversation.sent for message in one.body.messages}
    return {_squeeze(extract_text([part])) for message in sent.values() for part in message.parts}


def _squeeze(text: str) -> str:
    return " ".join(text.split())


def _note_counts(counts: int) -> Iterator[Note]:
    if counts:
        what = "1 request was" if counts == 1 else f"{counts} requests were"
        yield Note("info", 0, f"{what} for a count of tokens: no model read them, and they are no requests here")


def _find_body(text: str) -> Mapping[str, Any]:
    """The body of a request as an object; an empty one where it is none. Code Assist wraps the body of Google's API."""
    body = as_mapping(parse_if_json(text))
    inner = as_mapping(body.get("request"))
    return {**inner, "model": body.get("model")} if "contents" in inner else body


def _find_parent(call: TapCall) -> tuple[str, str] | None:
    """A session of its own that its tool started as a subagent, and the session that did."""
    id, parent = call.headers.get("x-session-id", ""), call.headers.get("x-parent-session-id", "")
    return (id, parent) if id and parent and id != parent else None


def _find_session(call: TapCall, body: Mapping[str, Any], log: TapLog, parents: Mapping[str, str]) -> tuple[str, str]:
    """The session that a request names, and the subagent in it, "" = none.

    Where it names none, that of the tool that the tap started, or `ALONE`.
    """
    turn = _read_turn(call, body)
    thread, root = as_text(turn.get("thread_id")), as_text(turn.get("session_id"))
    found = root or find_session_name(call.headers, body)
    agent = call.headers.get("x-claude-code-agent-id", "") or (thread if thread != root else "")
    for _ in range(MAX_DEPTH):
        if found not in parents:
            break
        agent, found = agent or found, parents[found]
    return found or (RUN if log.command else ALONE), agent


def _read_turn(call: TapCall, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """What Codex says of a request: its session, its thread, and its kind."""
    stated = as_mapping(body.get("client_metadata")).get(TURN) or call.headers.get(TURN)
    return as_mapping(parse_if_json(stated)) if isinstance(stated, str) else {}


def _convert(call: TapCall, body: Mapping[str, Any], chains: ResponseChains) -> Iterator[Sent | Note]:
    """A call in Anthropic's shape, and notes on what of it is not whole."""
    if call.trouble:
        yield Note("warning", call.line, f"a request is not recorded whole: {call.trouble}")
    if not isinstance(body.get(_PROMPTS[call.api]), list | str):
        yield Note("error", call.line, "the body of a request is none of its API, or is cut: the request was left out")
        return
    why = call.why or (call.outcome if call.outcome != COMPLETE else "")
    why = why if call.outcome else "no end of it is recorded: it is still arriving, or the tap was stopped"
    kind = SUMMARY if _read_turn(call, body).get("request_kind") == "compaction" else ""
    for response in (call.response, None):
        try:
            found = [*_convert_call(call, dict(body), response, chains)]
        except _SHAPE_ERRORS as error:
            part = "body" if response is None else "answer"
            yield Note("error", call.line, f"the {part} of a request has an unknown shape and was left out: {error!r}")
            continue
        for one in found:
            if isinstance(one, Note):
                yield one
                continue
            _complete(one, call, why)
            _add_ruling(one, call)
            if one.answer and why:
                yield Note("warning", call.line, f"an answer is not whole: {why}")
            yield Sent(one, body, kind)
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


def _add_ruling(made: Call, call: TapCall) -> None:
    """Add what the tap ruled on a request: why something else was sent than its client believes, or would have been."""
    ruling = call.ruling
    if call.left != call.body:
        believed = next(_convert_call(call, dict(_find_body(call.body)), None, ResponseChains()), None)
        made.believed = believed.body["messages"] if isinstance(believed, Call) else ()
    made.reasons = [*_list_reasons(ruling)]
    if ruling.get("dry_run"):
        return
    if isinstance(window := ruling.get("held_to"), int):
        made.about["window"] = window
    if ruling.get("action") == "refused":
        made.about["stop_reason"] = "refused"


def _list_reasons(ruling: Mapping[str, Any]) -> Iterator[Reason]:
    """Reasons of changes; of a dry run, and where nothing was changed, remarks."""
    name, action, why = as_text(ruling.get("policy")), ruling.get("action"), as_text(ruling.get("why"))
    for made in as_rows(ruling.get("decisions")) if action == "edited" and not ruling.get("dry_run") else ():
        yield Reason(
            made["action"], f"{as_text(made.get('rule'))} of the policy {name!r}, at the tap: {as_text(made.get('because'))}"
        )
    for made in as_rows(ruling.get("decisions")):
        if made.get("action") in ("warn", "fallback"):
            yield Reason("", f"{as_text(made.get('rule'))} of the policy {name!r}, at the tap: {as_text(made.get('because'))}")
    sizes = [ruling.get(key) for key in ("uncut", "expected")]
    if ruling.get("dry_run") and action == "edited":
        size = f" ({sizes[0]:,} to {sizes[1]:,} tokens)" if all(isinstance(one, int) for one in sizes) else ""
        because = (
            "; ".join(as_text(one.get("because")) for one in as_rows(ruling.get("decisions"))) or "as at the request before"
        )
        yield Reason("", f"{DRY_RUN} the policy {name!r} would have cut this request{size}: {because}")
    elif action == "refused":
        yield Reason(
            "", f"{f'{DRY_RUN} the tap would have refused' if ruling.get('dry_run') else 'the tap refused'} this request: {why}"
        )
    elif why:
        yield Reason("", f"the tap passed this request unchanged: {why}")


def _complete(made: Call, call: TapCall, why: str) -> None:
    """Fill in what the wire shows of every API: times, and why there is no answer, or no whole one."""
    made.about |= {"sent_at": call.sent_at, "answered_at": call.ended_at}
    if made.answer is not None and not made.about.get("id"):  # by it, a request that stands in two sessions counts once
        made.about["id"] = f"{NAME}:{call.sent_at}:{call.number}"
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
    version=3,
    wants="`turnscope_tap` in its first line",
    right="every request as it was sent; answers as far as they came; sessions joined, subagents and side requests apart",
)
