"""Who answers what rules ask, by kind of ask: one registry, for replays and for live chats.

Recorded answers come first. A replay extracts summaries offline and answers nothing else; a live chat adds functions that ask
its model and its provider (`live.answering`). A new kind is one more entry. No I/O except in the entries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from turnscope.planning.extract import extract
from turnscope.planning.reranking import rerank_texts
from turnscope.session.model import Answer, Ask, AskKind

Answers = Callable[[Ask], Answer]


def summarise_offline(ask: Ask) -> Answer:
    """Return a summary made of the text's own sentences, marked as a placeholder."""
    return Answer(extract(ask.source, ask.max_tokens), source="offline")


OFFLINE: Mapping[AskKind, Answers] = {
    "summary": summarise_offline,
    "compact": summarise_offline,
    "expect": summarise_offline,
    "rank": rerank_texts,
}


def add_answers(base: Mapping[AskKind, Answers], more: Mapping[AskKind, Answers]) -> dict[AskKind, Answers]:
    """Return who answers, with further ones in place of others. A query that names a model to rank by stays with the first.

    Args:
        base: Who answers each kind of query.
        more: Who answers in their place; of "rank", what a project's sessions look up again.
    """
    made = {**base, **more}
    if "rank" in base and "rank" in more:
        made["rank"] = lambda ask: base["rank"](ask) if ask.prompt else more["rank"](ask)
    return made


def make_answerer(
    recorded: Callable[[str], Answer | None],
    by_kind: Mapping[AskKind, Answers] = OFFLINE,
    on_answer: Callable[[Ask, Answer], object] | None = None,
) -> Answers:
    """Return the function that answers asks.

    Args:
        recorded: Looks up a recorded answer by the ask's key.
        by_kind: Answers an ask of a kind that is not recorded.
        on_answer: Called with every new answer, but not with recorded ones.

    Returns:
        A function that answers from the record, else by kind, else with a failure that says why.
    """

    def answer(ask: Ask) -> Answer:
        if (found := recorded(ask.key)) is not None:
            return found
        who = by_kind.get(ask.kind)
        made = who(ask) if who else Answer(failed=f"no answer to this {ask.kind} was recorded, and no model can be called here")
        if on_answer:
            on_answer(ask, made)
        return made

    return answer
