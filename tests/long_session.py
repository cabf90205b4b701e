"""A session of many short conversations about a program, with facts planted in some of them: made, not recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from turnscope.session.builder import Builder
from turnscope.session.model import Session

MODEL = "claude-opus-4-5"
FILES = "render cache parser store router queue mailer login search export import report".split()
WORK = "fix rename improve test document split cache retry log review".split()
EVERY = 17  # conversations from one planted fact to the next
NAMES = (
    "falcon heron osprey kestrel merlin harrier condor buzzard eagle hawk owl raven swift tern wren crane stork ibis".split()
)
NONE: Mapping[int, tuple[str, Any]] = {}


def facts(conversations: int) -> dict[int, tuple[str, str]]:
    """By number of the conversation: what a fact is about, and what has to be known later."""
    return {n: (NAMES[k], f"key-{n:03}-{(n * 7919) % 10_007}") for k, n in enumerate(range(3, conversations, EVERY))}


def make_long_session(conversations: int, asking: Mapping[int, tuple[str, Any]] = NONE, lines: int = 60) -> Session:
    """A session of so many turns, each of two requests. `asking`: by number of a turn its prompt, and what its first answer
    gives to the tool `retrieve_conversations`."""
    builder, planted = Builder("long", "test"), facts(conversations)
    builder.add_message("system", "You are a careful programmer. " * 10)
    for n in range(conversations):
        file, work = FILES[n % len(FILES)], WORK[n % len(WORK)]
        prompt = f"Please {work} the {file} in src/{file}.py, step {n}."
        if n in planted:
            what, key = planted[n]
            prompt = f"The deploy key of project {what} is {key}. Remember it for the release. {prompt}"
        call: dict[str, Any] = {"type": "tool_use", "id": f"t{n}", "name": "Read", "input": {"path": f"src/{file}.py"}}
        if n in asking:
            prompt, given = asking[n]
            call |= {"name": "retrieve_conversations", "input": given}
        builder.add_message("user", prompt, origin="prompt", sent_at=1_700_000_000.0 + 600 * n)
        builder.set_request(
            builder.add_message("assistant", [{"type": "text", "text": f"I look at {file}."}, call]), model=MODEL
        )
        text = "\n".join(f"{i}: def {file}_{i}(value): return value + {i * n}" for i in range(lines))
        builder.add_message("user", [{"type": "tool_result", "tool_use_id": f"t{n}", "content": text}], origin="tool")
        said = (
            f"We decided to {work} {file}_{n} first, it is called most. The tests pass now. Shall I go on with {file}_{n + 1}?"
        )
        builder.set_request(builder.add_message("assistant", said), model=MODEL)
    return builder.build()
