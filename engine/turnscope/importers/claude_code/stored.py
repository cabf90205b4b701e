"""What the transcript stores in another form than the one that was sent: inputs of tool calls, and large results.

A block has the form that was sent. The stored form is kept in `Session.about`: inputs by call under `STORED_INPUTS`,
results by call under `STORED_RESULTS`, as a text or as the file that holds it, named from the folder of the transcript.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.session.content import extract_text
from turnscope.session.model import JSON, STORED_INPUTS, STORED_RESULTS

PREVIEW = "<persisted-output>"  # how a result begins of which only a preview was sent
_FILE = re.compile(r"saved to: [^\n]*?([\w.-]+)[/\\]tool-results[/\\]([\w.-]+)\s*$", re.MULTILINE)


def replace_inputs(content: Any, record: Mapping[str, Any]) -> Any:
    """An answer's content with the inputs that its calls were sent with; the content itself where none was sent otherwise.

    Args:
        content: The content of a line's message.
        record: The line; its `wireToolInputs` has inputs by call.
    """
    wire = record.get("wireToolInputs")
    if not isinstance(wire, dict) or not isinstance(content, list):
        return content
    sent = [{**block, "input": wire[_get_call(block)]} if _is_input(wire, block) else block for block in content]
    return content if sent == content else sent


def replace_results(content: Any, replaced: Mapping[str, str]) -> Any:
    """A message's content with the results that were sent in its place; the content itself where none was.

    Args:
        content: The content of a message of the user.
        replaced: What was sent, by call.
    """
    if not replaced or not isinstance(content, list):
        return content
    calls = [_get_result(block) for block in content]
    if replaced.keys().isdisjoint(calls):
        return content
    pairs = zip(content, calls, strict=True)
    return [{**block, "content": replaced[call]} if call in replaced else block for block, call in pairs]


def keep_stored_forms(about: dict[str, JSON], stored: Any, sent: Any) -> None:
    """Keep what a message's blocks are stored as, where they were sent in another form.

    Args:
        about: `Session.about`, which is changed.
        stored: The message's content in the transcript.
        sent: The same as it was sent.
    """
    if not isinstance(stored, list) or not isinstance(sent, list):
        return
    for key, call, form in _find_forms(stored, sent):
        about.setdefault(key, {})[call] = form


def _find_forms(stored: list[Any], sent: list[Any]) -> Iterator[tuple[str, str, JSON]]:
    for old, new in zip(stored, sent, strict=False):
        if (call := _get_call(new)) and old != new:
            yield STORED_INPUTS, call, old.get("input")
        elif call := _get_result(new):
            text = extract_text(new.get("content"))
            if old.get("content") != new.get("content"):
                yield STORED_RESULTS, call, {"text": extract_text(old.get("content"))}
            elif text.startswith(PREVIEW) and (found := _FILE.search(text)) and not {".", ".."} & {*found.groups()}:
                yield STORED_RESULTS, call, {"file": f"{found[1]}/tool-results/{found[2]}"}


def _is_input(wire: Mapping[str, Any], block: Any) -> bool:
    return bool(call := _get_call(block)) and isinstance(wire.get(call), dict)


def _get_call(block: Any) -> str:
    """The id of a tool call; "" of any other block."""
    return _get_text(block, "id") if isinstance(block, dict) and block.get("type") == "tool_use" else ""


def _get_result(block: Any) -> str:
    """The call that a result answers; "" of any other block."""
    return _get_text(block, "tool_use_id") if isinstance(block, dict) and block.get("type") == "tool_result" else ""


def _get_text(block: Mapping[str, Any], key: str) -> str:
    found = block.get(key)
    return found if isinstance(found, str) else ""
