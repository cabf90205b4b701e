"""A tool with which the model reads a tool output that the policy replaced by a reference.

Outputs are the results in the chat itself; nothing else is stored. An address is that of the tidied text, as in the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnscope.envelope.conversation import get_result_text
from turnscope.envelope.tool_outputs import make_address, tidy_output
from turnscope.live.tools import Tools
from turnscope.planning.policy import Policy
from turnscope.session.model import JSON, Session

READ_TOOL, TIDY_RULE = "read_output", "tidy_tool_results"
MAX_LINES = 400  # that one call returns

DEFINITION: dict[str, Any] = {
    "name": READ_TOOL,
    "description": "Read back the output of a tool that a reference stands for, by its address, from a line on.",
    "input_schema": {
        "type": "object",
        "properties": {"address": {"type": "string"}, "line": {"type": "integer", "description": "first line, from 1"}},
        "required": ["address"],
    },
}


def list_definitions(policy: Policy) -> Sequence[JSON]:
    """Return the definition of the tool; none if the policy tidies no tool output."""
    return (DEFINITION,) if any(part.rule.name == TIDY_RULE for part in policy.rules) else ()


@dataclass(frozen=True, slots=True)
class OutputTool:
    """Reads tool outputs of one chat. Other tools run through it too.

    Args:
        session: Returns the session at the moment when the tool runs.
        other_tools: The further tools of the chat.
    """

    session: Callable[[], Session]
    other_tools: Tools | None = None

    @property
    def definitions(self) -> Sequence[JSON]:
        """See `Tools`."""
        return [*(self.other_tools.definitions if self.other_tools else ()), DEFINITION]

    def run(self, name: str, arguments: Mapping[str, JSON]) -> tuple[str, bool]:
        """See `Tools`."""
        if name != READ_TOOL:
            return self.other_tools.run(name, arguments) if self.other_tools else (f"there is no tool {name!r}", True)
        wanted, line = str(arguments.get("address", "")), arguments.get("line", 1)
        first = line if isinstance(line, int) and line > 0 else 1
        for block in self.session().blocks:
            text = tidy_output(get_result_text(block) or "") if block.kind == "tool_result" and block.name != READ_TOOL else ""
            if text and make_address(text) == wanted:
                return _format_lines(text.split("\n"), first)
        return f"no output of this chat has the address {wanted[:40]!r}", True


def _format_lines(lines: Sequence[str], first: int) -> tuple[str, bool]:
    part = lines[first - 1 : first - 1 + MAX_LINES]
    left = len(lines) - (first - 1) - len(part)
    more = f"\n[{left:,} more lines, from line {first + MAX_LINES:,}]" if left > 0 else ""
    return ("\n".join(part) + more, False) if part else (f"it has {len(lines):,} lines", True)
