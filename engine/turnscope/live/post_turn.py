"""Questions to a chat's model after a turn: facts, and metadata of its conversation. Never before a request.

Each answer is recorded, so the next request and every replay find it. After a turn that failed no question is sent. If the user
stops, the rest is not sent.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from turnscope.envelope import fact_extraction
from turnscope.envelope.layers import model_metadata
from turnscope.live.archive_tools import find_turn_conversations
from turnscope.live.chat import Chat
from turnscope.live.events import Event, QueryAnswered, UnfinishedTurn
from turnscope.live.rule_queries import request_summary
from turnscope.session.model import Ask


def run_post_turn_queries(chat: Chat, turn: Generator[Event], facts: bool = True, layers: bool = True) -> Generator[Event]:
    """Run a turn, then ask the model about it.

    Args:
        chat: The chat.
        turn: The events of the turn.
        facts: Whether to ask for facts.
        layers: Whether to ask for metadata of the layered chat's conversations.

    Yields:
        The events of the turn, then one `QueryAnswered` for each query.
    """
    before, ended = len(chat.live_session.session.requests), False
    try:
        for event in turn:
            ended = ended or isinstance(event, UnfinishedTurn)
            yield event
    finally:
        turn.close()
    if ended or len(chat.live_session.session.requests) == before:
        return
    for ask in list_due_queries(chat, facts, layers):
        if ask.key not in chat.live_session.facts.answers:
            model = chat.settings.summary_model or chat.settings.model
            answer = request_summary(chat.active_provider, model, ask)
            chat.record_answer(ask, answer)
            yield QueryAnswered(ask, answer)


def list_due_queries(chat: Chat, facts: bool = True, layers: bool = True) -> Iterator[Ask]:
    """Yield the queries about the last answered turn that the policy in force needs.

    Args:
        chat: The chat.
        facts: Whether to ask for facts.
        layers: Whether to ask for metadata of the layered chat's conversations.
    """
    session, index = chat.live_session.session, chat.live_session.basis.index
    rules = {part.rule.name for part in chat.policy.rules}
    if not index.turns:
        return
    if (
        facts
        and "insert_memories" in rules
        and (ask := fact_extraction.build_facts_ask(session, index.turns[-1], len(session.blocks)))
    ):
        yield ask
    yield from (
        ask for blocks in find_turn_conversations(chat) if layers and (ask := model_metadata.build_metadata_ask(blocks))
    )
