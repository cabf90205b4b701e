"""Commands that a model writes into its text, and what came back as the next message of the user: calls and results.

Knows no tool; where a command stands in a text is its importer's to say.
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
    """The messages with their commands as calls. What the tool says where an answer holds no command is no prompt.

    A message whose `origin` is "meta" stays as it is.
    """
    waiting, answered = "", False
    for number, message in enumerate(messages):
        role, held = message.get("role"), dict(message)
        if held.get("origin") == "meta":  # an example
            pass
        elif role == "assistant":
            found = None if message.get("tool_calls") else written(message)
            waiting, answered = f"command-{number}" if found else "", True
            if found:
                told = extract_text(message.get("content"))
                use = make_call(waiting, name, {"command": found[2]})
                held["content"] = [*make_text(told[: found[0]].rstrip()), use, *make_text(told[found[1] :].strip())]
        elif role == "user" and waiting:
            held |= {"role": "tool", "tool_call_id": waiting}
            waiting = ""
        elif role == "user" and answered:
            held["origin"] = "meta"
        yield held
