"""From a task's files to a session: which request sent which stored messages, and what the screen alone still knows.

An `api_req_started` is shown before its message is stored. So Cline's `conversationHistoryIndex` names the message before the
one that was sent; Roo names none, and times decide. Requests whose messages an older Roo deleted when it condensed are restored
from the screen, which repeats each message in full.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from turnscope.importers.task_folder.changes import Placed, observe_changes
from turnscope.importers.task_folder.folder import Call, Folder, as_number, as_string, find_windows, get_kind
from turnscope.importers.task_folder.markup import ContentPart, find_result_tool, unfold
from turnscope.reading.calls import parse_time
from turnscope.reading.content_blocks import make_image
from turnscope.reading.nodes import SkippedRecords
from turnscope.reading.source import parse_json
from turnscope.session.builder import Builder, Draft
from turnscope.session.content import extract_text
from turnscope.session.model import JSON, Session
from turnscope.session.usage import parse_usd

NAME = "task-folder"
TITLE = 80  # characters of the first prompt that make a title
_ENVIRONMENT = "<environment_details>"
_PROMPTS = ("<task>", "<feedback>", "<user_message>", "<answer>")
_REPLIES = ("<answer>", "<user_message>", "<feedback>", "The user ", "[The user ")  # a result that a person gave begins so
_TOOL_EVENTS = frozenset({"tool", "command", "use_mcp_server", "browser_action_launch", "followup", "completion_result"})
_ANSWERS = frozenset({"plan_mode_respond", "act_mode_respond"})
_SENT = frozenset(  # what the next request repeats
    {"user_feedback", "command_output", "mcp_server_response", "browser_action_result", "subtask_result", "completion_result"}
)


@dataclass(slots=True)
class Row:
    """One message of the timeline. `stored`: its position in the history; -1 = put together from the screen.

    `place`: the position that it has in the conversation with the API, which is what masks count.
    """

    role: str
    content: JSON
    stored: int
    message: Mapping[str, JSON]
    ts: float = 0
    place: int = -1


@dataclass(slots=True)
class Plot:
    """The timeline being laid out: rows, and per request the row of its answer and how many rows were sent."""

    folder: Folder
    rows: list[Row] = field(default_factory=list)
    answers: list[int | None] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    next: int = 0  # position in the stored history
    place: int = 0  # where the next message that the screen alone knows stands in the conversation

    def store(self, until: int) -> None:
        """Add stored messages up to and without position `until`."""
        for at in range(self.next, until):
            if (message := self.folder.history[at]) and is_spoken(message):
                self.rows.append(Row(message["role"], message.get("content"), at, message, as_number(message.get("ts")), at))
        self.next = max(self.next, until)

    def say(self, role: str, content: list[JSON], ts: float, place: int) -> None:
        """Add a message that the screen alone knows.

        Args:
            role: The role of the message.
            content: Its blocks. Without any nothing is added.
            ts: When it was sent, in milliseconds since the epoch; 0 = unknown.
            place: Its position in the conversation with the API, from 0.
        """
        if content:
            self.rows.append(Row(role, content, -1, {}, ts, place))
        self.place = place + 1


def build_session(folder: Folder) -> Session:
    """The session of a task."""
    plot = lay_out(folder)
    contents = unfold([(row.role, row.content) for row in plot.rows])
    builder = Builder(folder.name, NAME, _make_title(plot.rows), tool="Roo Code" if folder.is_roo else "Cline")
    builder.notes.extend(folder.notes)
    if not folder.history:
        _note_unshown(folder, builder)
    drafts = _add_messages(builder, plot, contents)
    lost = sum(row.stored < 0 for row in plot.rows)
    if lost and folder.history:
        builder.add_note("info", 0, f"{lost} messages are no longer in the stored history; they were restored from the screen")
    requested = {answer for answer in plot.answers if answer is not None}
    if plot.answers and (unrequested := sum(row.role == "assistant" for row in plot.rows) - len(requested)):
        what = "1 stored answer has" if unrequested == 1 else f"{unrequested} stored answers have"
        what += " no request on the screen: what that cost is not known, and in no total"
        builder.add_note("warning", 0, what)
    found = find_windows(extract_text(row.content) for row in plot.rows if row.role == "user")
    builder.window = found[-1] if found else None
    rows = [_place_row(row, draft, content) for row, draft, content in zip(plot.rows, drafts, contents, strict=True)]
    return builder.build([lambda session: observe_changes(folder, rows, session)])


def lay_out(folder: Folder) -> Plot:
    """Messages in the order of the conversation, each request behind the last message that it sent."""
    plot = Plot(folder)
    places = _find_places(folder)
    for n, call in enumerate(folder.calls):
        user, after = places[n], places[n + 1] if n + 1 < len(places) else len(folder.history)
        gone = user is None
        if user is None:
            place = _get_ordinal(call, plot.place)
            if plot.answers[-1:] != [None] or plot.rows[-1:] == [] or plot.rows[-1].place != place:  # else it was tried again
                shown = [*_find_subtask_results(folder, n), *_split_shown(call.text), *_find_images(folder, n)]
                plot.say("user", shown, call.ts, place)
        else:
            plot.store(user + 1)
        plot.sent.append(len(plot.rows))
        answer = user + 1 if user is not None else -1
        stored = folder.history[answer] if 0 <= answer < len(folder.history) else {}
        if not gone and plot.next == answer and user != after and is_spoken(stored) and stored["role"] == "assistant":
            plot.store(answer + 1)
        elif gone or (after is None and plot.rows):
            following = folder.calls[n + 1].text if n + 1 < len(folder.calls) else ""
            plot.say("assistant", _make_answer(call, following, n), call.ts, plot.place)
        answered = len(plot.rows) > plot.sent[-1] and plot.rows[-1].role == "assistant"
        plot.answers.append(len(plot.rows) - 1 if answered else None)
    plot.store(len(folder.history))
    return plot


def _get_ordinal(call: Call, otherwise: int) -> int:
    """The place of the user's message of a request: behind the one that its event names."""
    before = call.event.get("conversationHistoryIndex")
    return before + 1 if isinstance(before, int) else otherwise


def is_spoken(message: Mapping[str, JSON]) -> bool:
    """Whether a stored entry is a message of the conversation: no summary, no marker, nothing without a role."""
    if message.get("isSummary") or message.get("isTruncationMarker"):
        return False
    return message.get("role") in ("user", "assistant") and isinstance(message.get("content"), (str, list))


def _find_places(folder: Folder) -> list[int | None]:
    """Per request the stored position of the user's message that it sent; None where the history no longer holds it."""
    users = [i for i, m in enumerate(folder.history) if m and is_spoken(m) and m["role"] == "user"]
    calls = folder.calls
    named = [call.event.get("conversationHistoryIndex") for call in calls]
    if any(isinstance(index, int) for index in named):
        known = set(users)
        return [int(index) + 1 if isinstance(index, int) and index + 1 in known else None for index in named]
    if any(as_number(folder.history[i].get("ts")) for i in users):
        ends = [*(call.ts for call in calls[1:]), float("inf")]
        times = [(as_number(folder.history[i].get("ts")), i) for i in users]
        found: list[int | None] = []
        for call, end in zip(calls, ends, strict=False):
            there = [i for ts, i in times if call.ts <= ts < end]
            found.append(there[0] if there else None)
        return found
    answered = [i for i in users if i + 1 < len(folder.history) and folder.history[i + 1].get("role") == "assistant"]
    ahead = len(calls) - len(answered)  # requests and answered messages meet at the end: what is missing was deleted earlier
    return [answered[n - ahead] if n >= ahead else None for n in range(len(calls))]


def _split_shown(text: str) -> list[JSON]:
    """A user's message as the screen repeats it: the text, and the environment after it."""
    prompt, mark, environment = text.partition(f"\n\n{_ENVIRONMENT}")
    parts = [prompt, mark.strip() + environment if mark else ""]
    return [{"type": "text", "text": part} for part in parts if part.strip()]


def _make_answer(call: Call, following: str, n: int) -> list[JSON]:
    """An answer as the screen showed it. `following`: the next message, whose header names the tool that was called."""
    blocks = [block for event in call.after for block in _convert_shown(event)]
    name = find_result_tool(following)
    events = [e for e in call.after if _TOOL_EVENTS & {str(e.get("ask")), str(e.get("say"))} and as_string(e.get("text"))]
    if name and events:
        arguments = _parse_input(as_string(events[0].get("text")))
        blocks.append({"type": "tool_use", "id": f"screen-{n}", "name": name, "input": arguments})
    elif events:
        blocks.append({"type": "text", "text": as_string(events[0].get("text"))})
    ended = {as_string(event.get("text")) for event in events[1:] if event.get("say") == "completion_result"}
    return blocks + [{"type": "text", "text": text} for text in sorted(ended - {as_string(e.get("text")) for e in events[:1]})]


def _convert_shown(event: Mapping[str, JSON]) -> list[JSON]:
    """What the model wrote of an event: its reasoning, a text, or the response of the plan mode."""
    text = as_string(event.get("text"))
    if not text.strip():
        return []
    if event.get("say") == "reasoning":
        return [{"type": "thinking", "thinking": text}]
    if event.get("say") == "text":
        return [{"type": "text", "text": text}]
    if get_kind(event) in _ANSWERS:
        return [{"type": "text", "text": as_string(_parse_input(text).get("response")) or text}]
    return []


def _find_subtask_results(folder: Folder, n: int) -> list[JSON]:
    """What subtasks gave before request `n`. Roo sends it as a message of its own, which no request on the screen repeats."""
    ahead = folder.calls[n - 1].after if n else ()
    results = (as_string(event.get("text")) for event in ahead if get_kind(event) == "subtask_result")
    return [{"type": "text", "text": text} for text in results if text.strip() and text not in folder.calls[n].text]


def _note_unshown(folder: Folder, builder: Builder) -> None:
    """Count the events that have a text and give nothing to messages that are put together from the screen."""
    passed = SkippedRecords()
    for n, call in enumerate(folder.calls):
        last, tool = n + 1 == len(folder.calls), ""
        for event in call.after:
            kind, text = get_kind(event), as_string(event.get("text"))
            if not text.strip() and not event.get("contextCondense"):
                continue
            if kind in _TOOL_EVENTS - _SENT:
                tool = tool or text
                shown = text == tool
            else:
                shown = kind in ("text", "reasoning") or kind in _ANSWERS or (kind in _SENT and not last)
            if not shown and kind != "completion_result":
                passed.add(kind, dict(event))
    passed.add_notes(builder)


def _find_images(folder: Folder, n: int) -> list[JSON]:
    """The images that the user sent with request `n`, as far as the screen holds them."""
    first = next((at for at, event in enumerate(folder.screen) if event is folder.calls[0].event), 0)
    ahead = folder.calls[n - 1].after if n else folder.screen[:first]
    shown = [event for event in ahead if event.get("say") in ("user_feedback", "text", "task") or event.get("type") == "ask"]
    lists = [images for event in shown if isinstance(images := event.get("images"), list)]
    return [make_image(one) for images in lists for one in images if isinstance(one, str) and one.startswith("data:image/")]


def _parse_input(text: str) -> dict[str, JSON]:
    value = parse_json(text.encode("utf-8", "replace"))
    return {key: v for key, v in value.items() if key not in ("tool", "type")} if isinstance(value, dict) else {"text": text}


def _add_message(builder: Builder, n: int, row: Row, content: str | list[ContentPart], before: str) -> Draft:
    """Add a message; what the tool says about the environment is a reminder."""
    about: dict[str, Any] = {
        "id": f"m{n}",
        "origin": _infer_origin(row.role, content),
        "sent_at": parse_time(row.ts),
        "fence": row.role == before and builder.about.get("tool") != "Roo Code",
    }
    if isinstance(content, str) or not content:
        return builder.add_message(row.role, content if isinstance(content, str) else [], **about)
    draft = None
    for piece in content:
        text = as_string(piece.raw.get("text")) if isinstance(piece.raw, Mapping) else ""
        draft = builder.add_message(row.role, [piece.raw], kind="reminder" if text.startswith(_ENVIRONMENT) else "", **about)
    assert draft is not None
    return draft


def _infer_origin(role: str, content: str | list[ContentPart]) -> str:
    """A prompt is a person's text, in a message of their own or as the result of a tool with a question."""
    if role != "user":
        return "answer"
    pieces = [ContentPart({"type": "text", "text": content}, 0)] if isinstance(content, str) else content
    results = [extract_text(p.raw) for p in pieces if isinstance(p.raw, Mapping) and p.raw.get("type") == "tool_result"]
    texts = [extract_text(p.raw) for p in pieces if isinstance(p.raw, Mapping) and p.raw.get("type") == "text"]
    texts = [text for text in texts if text.strip() and not text.startswith(_ENVIRONMENT)]
    if any(text.partition("Result:")[2].lstrip().startswith(_REPLIES) for text in results):
        return "prompt"
    if any(tag in text for text in texts for tag in _PROMPTS):
        return "prompt"
    return "tool" if results else "meta" if texts and texts[0].lstrip().startswith("[") else "prompt"


def _add_messages(builder: Builder, plot: Plot, contents: list[str | list[ContentPart]]) -> list[Draft]:
    """Add every message, and each request at its answer, or behind what it sent."""
    about = list(_iter_request_fields(plot))
    answering = {row: fields for row, fields in zip(plot.answers, about, strict=True) if row is not None}
    drafts: list[Draft] = []
    n = 0
    for number_, row in enumerate((*plot.rows, None)):
        while n < len(about) and plot.sent[n] == number_:
            if plot.answers[n] is None:
                builder.add_unanswered(**about[n])
            n += 1
        if row is None:
            break
        draft = _add_message(builder, number_, row, contents[number_], plot.rows[number_ - 1].role if number_ else "")
        if number_ in answering or (row.role == "assistant" and not about):
            builder.set_request(draft, **answering.get(number_, {}))  # without a screen each answer is taken for a request's
        drafts.append(draft)
    return drafts


def _iter_request_fields(plot: Plot) -> Iterator[dict[str, Any]]:
    """What is known about each request."""
    model = ""
    for n, call in enumerate(plot.folder.calls):
        answer = plot.answers[n]
        row = plot.rows[answer] if answer is not None else None
        text = extract_text(plot.rows[plot.sent[n] - 1].content) if plot.sent[n] else call.text
        model = plot.folder.find_model(call, text, row.message if row else {}) or model
        yield {
            "model": model,
            "usage": plot.folder.find_usage(call),
            "logged_usd": parse_usd(call.info.get("cost")),
            "sent_at": parse_time(call.ts),
            "answered_at": parse_time(row.ts) if row and row.ts > call.ts else None,
            "stop_reason": as_string(call.info.get("cancelReason")) or None,
        }


def _place_row(row: Row, draft: Draft, content: str | list[ContentPart]) -> Placed:
    blocks = [range(1)] if isinstance(content, str) else [range(p.block, p.block + p.took) for p in content]
    return Placed(row.stored, row.message, draft, tuple(blocks), row.place)


def _make_title(rows: list[Row]) -> str:
    first = next((extract_text(row.content) for row in rows if row.role == "user"), "")
    task = first.partition("</task>")[0].removeprefix("<task>").partition(_ENVIRONMENT)[0]
    return " ".join(task.split())[:TITLE]
