"""Events of OpenHands as a session, one message each, and what a plan shows of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, NamedTuple

from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.condensing import get_summary
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.plan import Plan
from turnscope.planning import policy
from turnscope.planning.assemble import replay
from turnscope.planning.policy import Policy
from turnscope.session.builder import Builder
from turnscope.session.model import Answer, Session

Event = Mapping[str, Any]
OBSERVED = ("observation", "browser", "recall_result")


class Told(NamedTuple):
    """A session of events: the event of each block, and the events that a request came after."""

    session: Session
    names: tuple[str, ...]
    asked: tuple[Event, ...]


def events_session(events: Sequence[Event], source: str) -> Told:
    """A session with a request after every event that is no action. A system prompt is an event like others.

    Calls of one batch are one message, as an answer holds them.
    """
    builder = Builder("golden", source)
    names: list[str] = []
    for batch in _batches(events):
        event, kind = batch[0], batch[0]["type"]
        held: Any = event.get("text") or "-"
        if kind == "action":
            held = [part for one in batch for part in _call(one)]
            names += [str(one["id"]) for one in batch for _ in _call(one)]
        else:
            if kind in OBSERVED:
                held = [{"type": "tool_result", "tool_use_id": str(event.get("call") or event.get("cause")), "content": held}]
            names.append(str(event["id"]))
        builder.add_message("assistant" if kind in ("action", "agent") else "user", held, fence=True)
        if kind != "action":
            builder.add_unanswered()
    session = builder.build()
    assert len(session.blocks) == len(names)
    return Told(session, tuple(names), tuple(event for event in events if event["type"] != "action"))


def _batches(events: Sequence[Event]) -> Iterator[list[Event]]:
    """Neighbouring calls of one batch together, other events alone."""
    for _, group in groupby(enumerate(events), key=lambda one: one[1].get("batch") if one[1]["type"] == "action" else None):
        held = [event for _, event in group]
        together = held[0]["type"] == "action" and held[0].get("batch") is not None
        yield from ([held] if together else ([event] for event in held))


def _call(event: Event) -> list[dict[str, Any]]:
    thought = [{"type": "thinking", "thinking": "so", "signature": "s"}] if event.get("thinking") else []
    given = {"text": event.get("text") or ""}
    return [*thought, {"type": "tool_use", "id": str(event.get("call") or event["id"]), "name": "run", "input": given}]


def make_policy(name: str, **options: Any) -> Policy:
    """A policy with other parameters of its one rule."""
    chosen = policy.load(name)
    (step,) = chosen.rules
    return replace(chosen, rules=(replace(step, params=replace(step.params, cap=0, **options)),))


def replay_answered(session: Session, chosen: Policy) -> Iterator[Plan]:
    """A session replayed, each summary by its number."""
    made = iter(range(len(session.requests)))
    return replay(session, chosen, build_ledger(session, CHARS), answers=lambda _ask: Answer(f"T: summary {next(made)}"))


def list_standing(told: Told, envelope: Envelope) -> list[Any]:
    """Ids of the events that stand, in order; a summary as what was put in."""
    found: list[Any] = []
    for piece in envelope.pieces:
        if piece.body is None:
            found += dict.fromkeys(told.names[piece.start : piece.stop])
        elif text := get_summary(piece):
            found.append({"inserted": text.partition("\n")[2]})
    return found


def newly_forgotten(told: Told, plan: Plan) -> list[str]:
    """Ids of the events that a request leaves out and the one before did not, in order."""
    before, after = ({id for id in list_standing(told, one) if isinstance(id, str)} for one in (plan.before, plan.after))
    return [id for id in dict.fromkeys(told.names) if id in before - after]
