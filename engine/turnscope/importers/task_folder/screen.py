"""Which message of the conversation each event of the screen belongs to.

The screen shows an answer while it is written, and what a person or a tool says before it is sent. So an event after a request
belongs to its answer or to the message behind that; what the tool alone has to say, such as a checkpoint, belongs to none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from turnscope.importers.task_folder.folder import as_string, get_kind, open_folder
from turnscope.importers.task_folder.timeline import Plot, lay_out
from turnscope.reading.source import Source
from turnscope.session.model import JSON

_REQUEST = "api_req_started"
_OF_ANSWER = frozenset(
    "text reasoning tool command completion_result followup plan_mode_respond act_mode_respond task_progress new_task"
    " use_mcp_server mcp_server_request_started browser_action_launch browser_action".split()
)
_OF_NEXT = frozenset(
    "user_feedback user_feedback_diff command_output mcp_server_response browser_action_result subtask_result".split()
)


class ScreenEvent(NamedTuple):
    """An event of the screen. `request` and `message`: numbers in the session; -1 = before the first, belongs to none."""

    event: Mapping[str, JSON]
    name: str
    text: str
    request: int
    message: int


def read_events(source: Source) -> list[ScreenEvent]:
    """Read what the screen of a task showed, in order.

    Args:
        source: one of the task's files, or its folder.
    """
    return [*_place_events(lay_out(open_folder(source)))]


def _place_events(plot: Plot) -> Iterator[ScreenEvent]:
    calls = plot.folder.calls
    sent = [rows - 1 for rows in plot.sent]
    request = -1
    for event in plot.folder.screen:
        name, text = get_kind(event), as_string(event.get("text"))
        if event.get("say") == _REQUEST:  # as the calls are found
            request += 1
            yield ScreenEvent(event, name, calls[request].text or text, request, sent[request])
        elif request < 0:
            yield ScreenEvent(event, name, text, request, sent[0] if sent else -1)
        elif name in _OF_NEXT:
            yield ScreenEvent(event, name, text, request, _find_next(plot, request))
        else:
            answer = plot.answers[request] if name in _OF_ANSWER else None
            yield ScreenEvent(event, name, text, request, -1 if answer is None else answer)


def _find_next(plot: Plot, request: int) -> int:
    """The user's message behind the answer to a request; -1 = there is none."""
    if request + 1 < len(plot.sent):
        return plot.sent[request + 1] - 1
    behind = plot.answers[request]
    return behind + 1 if behind is not None and behind + 1 < len(plot.rows) else -1
