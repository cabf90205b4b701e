"""Summaries of a replay written by a real model, where without one only stand-ins are there.

Asks are answered in the order in which a replay meets them: each summary changes what is asked next. Keeps nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import anthropic

from engine.counting.ledger import Ledger
from engine.errors import TurnscopeError
from engine.live.chat import summarised
from engine.planning.assemble import recorded, replay
from engine.planning.policy import Policy
from engine.planning.trace import own_counts
from engine.session.model import Answer, Ask, Session


def asked(
    session: Session, policy: Policy, ledger: Ledger, client: anthropic.Anthropic, model: str, known: Mapping[str, Answer]
) -> Iterator[tuple[Ask, Answer]]:
    """Replay a session, ask `model` for every summary that is not `known`, and tell each as it comes: one billed call each.

    TurnscopeError where the model gives none; what was told before holds.
    """
    told: dict[str, Answer] = {}
    fresh: list[tuple[Ask, Answer]] = []
    offline = recorded({**known, **session.answers})

    def answer(ask: Ask) -> Answer:
        found = told.get(ask.key) or offline(ask)
        if ask.kind != "summary" or not (found.failed or found.source == "offline"):
            return found
        made = summarised(client, model, ask)
        if made.failed or not made.text.strip():
            why = made.failed or f"{model} gave no text"
            raise TurnscopeError(
                f"no summary was made: {why}", hint="The summaries before it are kept. Try again, or another model."
            )
        told[ask.key] = made
        fresh.append((ask, made))
        return made

    for _ in replay(session, policy, ledger, own_counts(session, policy), answer):
        yield from fresh
        fresh.clear()
