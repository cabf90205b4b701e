"""What stands beside a chat: what is remembered across chats, notes, context of a folder, outputs that are read back.

Puts one chat together with them, and does what a person does to the facts that were found in it. Where they are kept is
`storage.memories`; what a request carries of them is the rules'.
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
from turnscope.planning.policy import Policy, Step, find_rule
from turnscope.session.model import JSON, Answer, Ask, AskKind
from turnscope.storage.memories import Memories

FACTS_RULE, NOTES_RULE = "insert_memories", "index_notes"


@dataclass(frozen=True, slots=True)
class InjectedContext:
    """What one chat has beside it. `memories` None: memory is switched off; `asks`: a model is asked after each answer;
    `learns`: what is looked up again is counted, and told."""

    memories: Memories | None = None
    sources: ContextSources = field(default_factory=ContextSources)
    queries_model: bool = False
    counts_retrievals: bool = True


def add_memory_rules(policy: Policy) -> Policy:
    """The policy with the rules for facts and notes in front, where it has none of its own."""
    has = {part.rule.name for part in policy.rules}
    added = (Step(rule, rule.params()) for rule in map(find_rule, (FACTS_RULE, NOTES_RULE)) if rule.name not in has)
    return replace(policy, rules=(*added, *policy.rules))


def list_tool_definitions(policy: Policy) -> Sequence[JSON]:
    """The tools that a chat under this policy begins with, for its notes and for outputs that give way to references."""
    return [*(note_tools.DEFINITIONS if _has_rule(policy, NOTES_RULE) else ()), *output_tool.list_definitions(policy)]


def attach(chat: Chat, context: InjectedContext) -> None:
    """Give a chat what stands beside it, before a turn; its sink and tools are those of the turn."""
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
    """Let a chat's next request be weighed with what stands beside it: what is at hand, each once; no network is asked."""
    memories, known = context.memories, dict[tuple[str, str, str], Answer]()

    def once(answer: Answers) -> Answers:
        def looked(ask: Ask) -> Answer:
            key = (ask.kind, ask.prompt, ask.content)
            if key not in known:
                known[key] = answer(ask)
            return known[key]

        return looked

    looks: dict[AskKind, Answers] = {"provide": once(replace(context.sources, search=None).answer)}
    if memories:
        looks["recall"] = once(memories.answer)
    if memories and context.counts_retrievals:
        looks["rank"] = once(memories.rank)
    chat.preview_answers = looks


def add_post_turn_queries(
    context: InjectedContext, turn: Callable[[Chat], Generator[Event]]
) -> Callable[[Chat], Generator[Event]]:
    """A turn after which a model is asked for facts and for what its conversation came to, where that is wished."""
    return (
        (lambda chat: run_post_turn_queries(chat, turn(chat), facts=context.memories is not None))
        if context.queries_model
        else turn
    )


def list_facts(chat: Chat) -> Iterator[tuple[Memory, bool]]:
    """The facts that were found in a chat, the newest first, each with whether it was refused; those of the last answer too."""
    if not _has_rule(chat.policy, FACTS_RULE):
        return
    session, plan = chat.live_session.session, chat.plan
    known: dict[str, Memory] = {fact.id: fact for fact in (plan.get_state(FACTS_RULE) if plan else None) or ()}
    for message in session.messages if plan else ():
        if plan and message.start >= plan.request.cut and message.role in ("user", "assistant"):
            for block in session.blocks[message.start : message.stop]:
                told = find_facts(block.role, block.text, message.sent_at, f"block {block.at}") if block.kind == "text" else ()
                known |= {fact.id: fact for fact in told if fact.id not in known}
    yield from ((fact, get_rating(session, fact.text) == "down") for fact in reversed([*known.values()]))


def refuse_fact(chat: Chat, fact: Memory, memories: Memories | None) -> None:
    """A fact is not to be remembered: no request carries it from now on, and the store gives it up."""
    chat.record_fact(make_rating(fact.text, "down"))
    if memories:
        memories.withdraw(fact.id)


def accept_fact(chat: Chat, fact: Memory, memories: Memories | None) -> None:
    """A fact is to be remembered for good. TurnscopeError: it was forgotten on request."""
    chat.record_fact(make_rating(fact.text, "up"))
    if memories:
        memories.add(fact.text, fact.owner, f"{chat.live_session.session.id} {fact.source}", fact.said, "long")


def list_notes(chat: Chat) -> Sequence[tuple[str, str, str]]:
    """The notes of a chat: id, title and text, the newest last."""
    return NoteTools.from_session(chat.live_session.session).entries


def _has_rule(policy: Policy, rule: str) -> bool:
    return any(part.rule.name == rule for part in policy.rules)
