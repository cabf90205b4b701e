"""Summaries of a replay written by a real model, where without one only stand-ins are there.

Asks are answered in the order in which a replay meets them: each summary changes what is asked next. Keeps nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from turnscope.counting.ledger import Ledger
from turnscope.errors import TurnscopeError
from turnscope.live.provider import Provider
from turnscope.live.rule_queries import request_summary
from turnscope.planning.answers import make_answerer
from turnscope.planning.assemble import replay
from turnscope.planning.policy import Policy
from turnscope.planning.trace import build_own_ledger
from turnscope.session.model import Answer, Ask, Session


def request_summaries(
    session: Session, policy: Policy, ledger: Ledger, provider: Provider, model: str, known: Mapping[str, Answer]
) -> Iterator[tuple[Ask, Answer]]:
    """Replay a session, ask `model` for every summary that is not `known`, and tell each as it comes: one billed call each.

    TurnscopeError where the model gives none; what was told before holds.
    """
    fresh: list[tuple[Ask, Answer]] = []
    found_answers: dict[str, Answer] = {**known, **session.recorded.answers}

    def real(key: str) -> Answer | None:
        found = found_answers.get(key)
        return None if found is None or found.failed or found.source == "offline" else found

    def made(ask: Ask, answer: Answer) -> None:
        if ask.kind != "summary":
            return
        if answer.failed or not answer.text.strip():
            why = answer.failed or f"{model} gave no text"
            raise TurnscopeError(
                f"no summary was made: {why}", hint="The summaries before it are kept. Try again, or another model."
            )
        found_answers[ask.key] = answer
        fresh.append((ask, answer))

    answers = make_answerer(real, {"summary": partial(request_summary, provider, model)}, made)
    for _ in replay(session, policy, ledger, build_own_ledger(session, policy), answers):
        yield from fresh
        fresh.clear()
