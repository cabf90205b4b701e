"""Have a model write the summaries of a replay. Without it a replay has offline summaries only.

Queries are answered in the order of the replay, because each summary changes the next query. Stores nothing.
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
    """Replay a session and ask `model` for every summary that is not recorded yet. Each summary is one billed request.

    Args:
        session: The session to replay.
        policy: The policy to replay it under.
        ledger: The token counts of the session.
        provider: Where the requests go.
        model: The model that writes the summaries.
        known: Summaries of earlier runs, by key of the query. They are not requested again.

    Yields:
        Each query with its answer, as soon as it came.

    Raises:
        TurnscopeError: The model gave no summary. Those yielded before stay valid.
    """
    fresh: list[tuple[Ask, Answer]] = []
    found_answers: dict[str, Answer] = {**known, **session.recorded.answers}

    def find_summary(key: str) -> Answer | None:
        found = found_answers.get(key)
        return None if found is None or found.failed or found.source == "offline" else found

    def add_summary(ask: Ask, answer: Answer) -> None:
        if ask.kind != "summary":
            return
        if answer.failed or not answer.text.strip():
            why = answer.failed or f"{model} returned no text"
            raise TurnscopeError(
                f"no summary was made: {why}", hint="Earlier summaries are kept. Try again, or choose another model."
            )
        found_answers[ask.key] = answer
        fresh.append((ask, answer))

    answers = make_answerer(find_summary, {"summary": partial(request_summary, provider, model)}, add_summary)
    for _ in replay(session, policy, ledger, build_own_ledger(session, policy), answers):
        yield from fresh
        fresh.clear()
