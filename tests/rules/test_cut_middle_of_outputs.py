"""mini-swe-agent's outputs: cut once, and not again where its own log holds them cut."""

from __future__ import annotations

import json

import pytest
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.planning.assemble import replay
from turnscope.planning.policy import load
from turnscope.session.builder import Builder

LONG = "x" * 12_000
HEAD, TAIL = LONG[:5_000], '"' * 5_000  # quotes are two characters in JSON: what is cut has more than 10,000 again


@pytest.mark.parametrize(
    ("output", "cut"),
    [
        (LONG, True),
        ("x" * 9_999, False),
        (json.dumps({"returncode": 0, "output": LONG}), True),
        (json.dumps({"returncode": 0, "output_head": HEAD, "output_tail": TAIL, "elided_chars": 2_000}), False),
        (json.dumps({"returncode": -1, "output_head": HEAD, "output_tail": TAIL}, indent=2), False),
        (f"<returncode>0</returncode>\n<output_head>\n{HEAD}\n</output_head>\n<output_tail>\n{TAIL}\n</output_tail>", False),
    ],
    ids=["long", "short", "whole", "cut", "cut and indented", "cut by version 1"],
)
def test_an_output_is_cut_once(output: str, cut: bool) -> None:
    builder = Builder("run", "test")
    builder.add_message("user", "solve it", origin="prompt")
    call = {"type": "tool_use", "id": "c", "name": "bash", "input": {"command": "cat a"}}
    builder.set_request(builder.add_message("assistant", [call]), model="m")
    builder.add_message("user", [{"type": "tool_result", "tool_use_id": "c", "content": output}], origin="tool")
    builder.set_request(builder.add_message("assistant", "done"), model="m")
    session = builder.build()
    plans = list(replay(session, load("mini-swe-agent"), build_ledger(session, CHARS)))
    assert ("truncate" in plans[-1].actions) is cut
