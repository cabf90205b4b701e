"""Who answers what rules ask, by kind of ask: one registry, for replays and for live chats.

What is recorded comes first. A replay has an offline extract for summaries and nobody for the rest; a live chat brings who asks
its model and its provider (`live.rule_queries`). Another kind is one more entry. No I/O but what an entry does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from turnscope.planning.extract import extract
from turnscope.planning.reranking import rerank_texts
from turnscope.session.model import Answer, Ask, AskKind

Answers = Callable[[Ask], Answer]


def summarise_offline(ask: Ask) -> Answer:
    """A summary of the text's own sentences, marked as the stand-in that it is."""
    return Answer(extract(ask.content, ask.max_tokens), source="offline")


OFFLINE: Mapping[AskKind, Answers] = {
    "summary": summarise_offline,
    "compact": summarise_offline,
    "expect": summarise_offline,
    "rank": rerank_texts,
}


def make_answerer(
    recorded: Callable[[str], Answer | None],
    by_kind: Mapping[AskKind, Answers] = OFFLINE,
    on_answer: Callable[[Ask, Answer], object] | None = None,
) -> Answers:
    """Who answers: what is `known` by key, else whoever is there for the kind, else a failure that says so.

    `told` hears of every answer that was made here rather than known.
    """

    def answer(ask: Ask) -> Answer:
        if (found := recorded(ask.key)) is not None:
            return found
        who = by_kind.get(ask.kind)
        made = who(ask) if who else Answer(failed=f"no answer to this {ask.kind} was recorded, and nobody is here to give one")
        if on_answer:
            on_answer(ask, made)
        return made

    return answer
