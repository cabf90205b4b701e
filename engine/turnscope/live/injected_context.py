"""What is injected into a chat's prompts: remembered facts, notes, context of a folder, tool outputs.

Attaches these to a chat, and carries out what the user decides about facts. `storage.memories` stores facts; the rules
decide how much of them a request carries.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace

from turnscope.envelope.memories import Memory, find_facts
from turnscope.envelope.wishes import get_rating, make_rating
from turnscope.live import note_tools, output_tool
from turnscope.live.chat import Chat
from turnscope.live.context_sources import ContextSources
from turnscope.live.events import Event
from turnscope.live.memory_sink import MemorySink
from turnscope.live.note_tools import NoteTools
from turnscope.live.output_tool import OutputTool
from turnscope.live.post_turn import run_post_turn_queries
from turnscope.live.sinks import Sinks
from turnscope.planning.answers import Answers
from turnscope.planning.policy import Policy, Step
from turnscope.planning.rule_registry import find_rule
from turnscope.session.model import JSON, Answer, Ask, AskKind
from turnscope.storage.memories import Memories

FACTS_RULE, NOTES_RULE, REPEAT_RULE = "insert_memories", "index_notes", "repeat_user_rules"
LAST_RULES = ("fall_back_to_larger_window", "refuse_when_over", "warn_at")  # what judges a request that is complete


@dataclass(frozen=True, slots=True)
class InjectedContext:
    """What is injected into the prompts of one chat.

    Args:
        memories: The store of facts; None = memory is switched off.
        sources: files, folders and texts that a question can name.
        queries_model: Whether a model extracts facts after each answer.
        counts_retrievals: Whether retrieved conversations are counted, and their ranking learns from it.
    """

    memories: Memories | None = None
    sources: ContextSources = field(default_factory=ContextSources)
    queries_model: bool = False
    counts_retrievals: bool = True


def add_memory_rules(policy: Policy) -> Policy:
    """Return the policy with rules for facts and notes before its own, unless it has such rules."""
    has = {part.rule.name for part in policy.rules}
    added = (Step(rule, rule.params()) for rule in map(find_rule, (FACTS_RULE, NOTES_RULE)) if rule.name not in has)
    return replace(policy, rules=(*added, *policy.rules))


def repeat_user_rules(policy: Policy) -> Policy:
    """Return the policy with the rule that repeats the user's rules, behind its cuts, unless it has it."""
    if _has_rule(policy, REPEAT_RULE):
        return policy
    at = next((n for n, part in enumerate(policy.rules) if part.rule.name in LAST_RULES), len(policy.rules))
    rule = find_rule(REPEAT_RULE)
    return replace(policy, rules=(*policy.rules[:at], Step(rule, rule.params()), *policy.rules[at:]))


def remove_added_rules(policy: Policy, base: Policy) -> Policy:
    """Return the policy without the rules that its base lacks.

    Args:
        policy: The policy, such as one that a chat was sent with.
        base: The policy that rules were added to.
    """
    own = {part.rule.name for part in base.rules}
    return replace(policy, rules=tuple(part for part in policy.rules if part.rule.name in own))


def list_tool_definitions(policy: Policy) -> Sequence[JSON]:
    """Return the definitions of the note tools and of the output tool, as far as the policy uses them."""
    return [*(note_tools.DEFINITIONS if _has_rule(policy, NOTES_RULE) else ()), *output_tool.list_definitions(policy)]


def attach(chat: Chat, context: InjectedContext) -> None:
    """Attach the context to a chat before a turn: who answers its rules, its sink and its tools.

    Args:
        chat: The chat. Its sink and its tools are those of this turn.
        context: What is injected.
    """
    memories = context.memories
    chat.recall_answers = memories.answer if memories else None
    chat.injected_answers = {"provide": context.sources.answer}
    if memories:
        chat.sink = Sinks(chat.sink, MemorySink(memories, context.counts_retrievals), conversation=chat.live_session.session.id)
        chat.injected_answers |= {"rank": memories.rank} if context.counts_retrievals else {}
    if _has_rule(chat.policy, NOTES_RULE):
        chat.tools = NoteTools.from_session(chat.live_session.session, chat.tools)
    if output_tool.list_definitions(chat.policy):
        chat.tools = OutputTool(lambda: chat.live_session.session, chat.tools)


def attach_preview(chat: Chat, context: InjectedContext) -> None:
    """Attach the context to a chat's previews. Each query is answered once, and no network is used.

    Args:
        chat: The chat.
        context: What is injected.
    """
    memories, known = context.memories, dict[tuple[str, str, str], Answer]()

    def memoize(answer: Answers) -> Answers:
        def look_up(ask: Ask) -> Answer:
            key = (ask.kind, ask.prompt, ask.content)
            if key not in known:
                known[key] = answer(ask)
            return known[key]

        return look_up

    answers: dict[AskKind, Answers] = {"provide": memoize(replace(context.sources, finders=()).answer)}
    if memories:
        answers["recall"] = memoize(memories.answer)
    if memories and context.counts_retrievals:
        answers["rank"] = memoize(memories.rank)
    chat.preview_answers = answers


def add_post_turn_queries(
    context: InjectedContext, turn: Callable[[Chat], Generator[Event]]
) -> Callable[[Chat], Generator[Event]]:
    """Return a turn after which a model is called for facts and metadata, if the context allows it.

    Args:
        context: What is injected into the chat.
        turn: Starts a turn of the chat.
    """
    return (
        (lambda chat: run_post_turn_queries(chat, turn(chat), facts=context.memories is not None))
        if context.queries_model
        else turn
    )


def list_facts(chat: Chat) -> Iterator[tuple[Memory, bool]]:
    """Yield the facts found in a chat, newest first, each with whether the user refused it."""
    if not _has_rule(chat.policy, FACTS_RULE):
        return
    session, plan = chat.live_session.session, chat.plan
    known: dict[str, Memory] = {fact.id: fact for fact in (plan.get_state(FACTS_RULE) if plan else None) or ()}
    for message in session.messages if plan else ():
        if plan and message.start >= plan.request.cut and message.role in ("user", "assistant"):
            for block in session.blocks[message.start : message.stop]:
                new = find_facts(block.role, block.text, message.sent_at, f"block {block.at}") if block.kind == "text" else ()
                known |= {fact.id: fact for fact in new if fact.id not in known}
    yield from ((fact, get_rating(session, fact.text) == "down") for fact in reversed([*known.values()]))


def refuse_fact(chat: Chat, fact: Memory, memories: Memories | None) -> None:
    """Refuse a fact: no further request carries it, and the store removes it.

    Args:
        chat: The chat in which the fact was found.
        fact: The fact.
        memories: The store of facts; None = memory is switched off.
    """
    chat.record_fact(make_rating(fact.text, "down"))
    if memories:
        memories.withdraw(fact.id)


def accept_fact(chat: Chat, fact: Memory, memories: Memories | None) -> None:
    """Accept a fact: it is remembered across chats.

    Args:
        chat: The chat in which the fact was found.
        fact: The fact.
        memories: The store of facts; None = memory is switched off.

    Raises:
        TurnscopeError: The fact was forgotten on request.
    """
    chat.record_fact(make_rating(fact.text, "up"))
    if memories:
        memories.add(fact.text, fact.owner, f"{chat.live_session.session.id} {fact.source}", fact.day, "long")


def list_notes(chat: Chat) -> Sequence[tuple[str, str, str]]:
    """Return id, title and text of each note of a chat, newest last."""
    return NoteTools.from_session(chat.live_session.session).entries


def repeats_user_rules(policy: Policy) -> bool:
    """Return whether a policy says the user's rules again once they have left."""
    return _has_rule(policy, REPEAT_RULE)


def _has_rule(policy: Policy, rule: str) -> bool:
    return any(part.rule.name == rule for part in policy.rules)
