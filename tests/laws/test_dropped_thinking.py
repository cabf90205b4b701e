"""A model whose server drops the thinking of past turns never sees it again, whatever a policy changes in the request."""

from __future__ import annotations

import pytest
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.planning.assemble import replay
from turnscope.planning.policy import list_policies, load
from turnscope.planning.trace import build_own_ledger
from turnscope.session.builder import Builder
from turnscope.session.model import Session

MODELS = {"claude-sonnet-4-5": True, "claude-opus-4-5": False}  # whether the server drops it
TURNS, STEPS = 12, 4


def talk(model: str) -> Session:
    """Turns of some tool calls each, with thinking before every call, and results that policies cut, clear or mask."""
    builder = Builder("thinking", "bench")
    builder.add_message("system", "You are an agent. " * 20)
    for turn in range(TURNS):
        builder.add_message("user", f"Task {turn}: " + "please look into this " * 10)
        for step in range(STEPS):
            name = f"{turn}-{step}"
            content = [
                {"type": "thinking", "thinking": f"Step {name}. " * 30, "signature": "s"},
                {"type": "text", "text": name},
            ]
            call = {"type": "tool_use", "id": name, "name": "Read", "input": {"path": f"src/file{(turn + step) % 5}.py"}}
            at = builder.add_message("assistant", [*content, call] if step + 1 < STEPS else content)
            builder.set_request(at, model=model, window=16_000)
            if step + 1 < STEPS:
                text = f"line of {name}\n" * (60 + 400 * (step == 1))
                builder.add_message("user", [{"type": "tool_result", "tool_use_id": name, "content": text}])
    return builder.build()


SESSIONS = {model: talk(model) for model in MODELS}
LEDGERS = {model: build_ledger(session, CHARS) for model, session in SESSIONS.items()}


@pytest.mark.thorough(every=20)
@pytest.mark.parametrize("name", list_policies())
@pytest.mark.parametrize("model", MODELS)
def test_thinking_of_past_turns_is_dropped_from_every_request_and_nothing_else(model: str, name: str) -> None:
    session, policy = SESSIONS[model], load(name)
    prompts = [m.start for m in session.messages if m.origin == "prompt"]
    edited = any(part.rule.sends for part in policy.rules)  # the policy requests edits of its own, of thinking, too
    lost = 0
    for plan in replay(session, policy, LEDGERS[model], build_own_ledger(session, policy)):
        drops = plan.model == model and MODELS[model]
        begins = max((start for start in prompts if start < plan.request.cut), default=0)
        for at, block in enumerate(session.blocks[: plan.request.cut]):
            sent, seen = plan.after.find_piece(at).body is None, plan.seen.find_piece(at).body is None
            old = sent and drops and block.kind == "thinking" and at < begins
            lost += old
            if not edited:
                assert seen == (sent and not old), f"block {at} of request {plan.request.n}"
    if name == "keep-everything":
        assert bool(lost) == MODELS[model], "the session has such thinking"
