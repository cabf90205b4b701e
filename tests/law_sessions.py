"""Random sessions for the laws: small, with tools, thinking, system blocks, and counts that need no tokenizer."""

from __future__ import annotations

from hypothesis import strategies as st
from turnscope.counting.ledger import Ledger, build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.session.builder import Builder
from turnscope.session.model import Session, Usage


def make(turns: list[list[tuple[str, int]]], system: bool = False, usage: bool = True) -> Session:
    """A session from its turns: each step is a kind of exchange and a size in characters."""
    builder = Builder("law", "test")
    if system:
        builder.add_message("tools", [{"name": "read", "input_schema": {}, "description": "d" * 40}])
        builder.add_message("system", "You are careful. " * 4)
    calls = 0
    for n, steps in enumerate(turns):
        builder.add_message("user", f"prompt {n} " + "p" * 20, origin="prompt")
        for kind, size in [*steps, ("say", 30)]:
            content = []
            if kind == "think":
                content.append({"type": "thinking", "thinking": f"t{calls}" + "t" * size, "signature": "s"})
            results = []
            if kind in ("tool", "two"):
                for _ in range(1 + (kind == "two")):
                    calls += 1
                    content.append({"type": "tool_use", "id": f"c{calls}", "name": "read", "input": {"path": f"f{calls % 3}"}})
                    results.append({"type": "tool_result", "tool_use_id": f"c{calls}", "content": f"r{calls}" + "r" * size})
            if not content or kind == "say":
                content.append({"type": "text", "text": f"a{calls}" + "a" * size})
            answer = builder.add_message("assistant", content)
            tokens = 1_000 + sum(len(str(d.parts)) for d in builder.drafts) // 4
            billed = Usage(input_tokens=tokens, output_tokens=50) if usage else None
            builder.set_request(answer, model="claude-opus-4-5", usage=billed)
            if results:
                builder.add_message("user", results)
    return builder.build()


steps = st.lists(st.tuples(st.sampled_from(["say", "tool", "two", "think"]), st.integers(0, 400)), max_size=4)
sessions = st.builds(make, st.lists(steps, min_size=1, max_size=6), st.booleans(), st.booleans())


def ledger_of(session: Session) -> Ledger:
    return build_ledger(session, CHARS)
