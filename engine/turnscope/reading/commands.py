"""Commands that a model writes into its text, with the user's next message as their output: both become calls and results.

The module knows no tool. An importer says where a command stands in a text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from turnscope.reading.content_blocks import make_call, make_text
from turnscope.session.content import extract_text

CommandFinder = Callable[
    [Mapping[str, Any]], tuple[int, int, str] | None
]  # where a command stands in a message's text, and the command


def convert_commands(
    messages: Sequence[Mapping[str, Any]], written: CommandFinder, name: str = "bash"
) -> Iterator[Mapping[str, Any]]:
    """Convert commands in answers into tool calls. What the tool says after an answer without a command is no prompt.

    Args:
        messages: The messages. One with the `origin` "meta" stays as it is.
        written: Finds the command of an answer: its start and stop in the text, and the command.
        name: Name of the tool.
    """
    waiting, answered = "", False
    for number, message in enumerate(messages):
        role, converted = message.get("role"), dict(message)
        if converted.get("origin") == "meta":  # an example
            pass
        elif role == "assistant":
            found = None if message.get("tool_calls") else written(message)
            waiting, answered = f"command-{number}" if found else "", True
            if found:
                reported = extract_text(message.get("content"))
                use = make_call(waiting, name, {"command": found[2]})
                converted["content"] = [
                    *make_text(reported[: found[0]].rstrip()),
                    use,
                    *make_text(reported[found[1] :].strip()),
                ]
        elif role == "user" and waiting:
            converted |= {"role": "tool", "tool_call_id": waiting}
            waiting = ""
        elif role == "user" and answered:
            converted["origin"] = "meta"
        yield converted
