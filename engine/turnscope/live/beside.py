"""What stands beside a chat: what is remembered across chats, notes, context of a folder, outputs that are read back.

Puts one chat together with them, and does what a person does to the facts that were found in it. Where they are kept is
`storage.memories`; what a request carries of them is the rules'.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace

from turnscope.envelope.memories import Memory, find_facts
from turnscope.envelope.wishes import get_rating, make_rating
from turnscope.live import notes, outputs
from turnscope.live.afterwards import afterwards
from turnscope.live.chat import Chat
from turnscope.live.events import Event
from turnscope.live.notes import Notes
from turnscope.live.outputs import Outputs
from turnscope.live.providing import Providing
from turnscope.live.remembering import Remembering
from turnscope.live.sinks import Sinks
from turnscope.planning.answers import Answers
from turnscope.planning.policy import Policy, Step, find
from turnscope.session.model import JSON, Answer, Ask, AskKind
from turnscope.storage.memories import Memories

FACTS, NOTES = "insert_memories", "index_notes"


@dataclass(frozen=True, slots=True)
class Beside:
    """What one chat has beside it. `memories` None: memory is switched off; `asks`: a model is asked after each answer;
    `learns`: what is looked up again is counted, and told."""

    memories: Memories | None = None
    providing: Providing = field(default_factory=Providing)
    asks: bool = False
    learns: bool = True


def with_memory(policy: Policy) -> Policy:
    """The policy with the rules for facts and notes in front, where it has none of its own."""
    has = {part.rule.name for part in policy.rules}
    added = (Step(rule, rule.params()) for rule in map(find, (FACTS, NOTES)) if rule.name not in has)
    return replace(policy, rules=(*added, *policy.rules))


def definitions(policy: Policy) -> Sequence[JSON]:
    """The tools that a chat under this policy begins with, for its notes and for outputs that give way to references."""
    return [*(notes.DEFINITIONS if _has(policy, NOTES) else ()), *outputs.offered(policy)]


def attach(chat: Chat, beside: Beside) -> None:
    """Give a chat what stands beside it, before a turn; its sink and tools are those of the turn."""
    memories = beside.memories
    chat.recall = memories.answer if memories else None
    chat.beside = {"provide": beside.providing.answer}
    if memories:
        chat.sink = Sinks(chat.sink, Remembering(memories, beside.learns), conversation=chat.growing.session.id)
        chat.beside |= {"rank": memories.rank} if beside.learns else {}
    if _has(chat.policy, NOTES):
        chat.tools = Notes.of(chat.growing.session, chat.tools)
    if outputs.offered(chat.policy):
        chat.tools = Outputs(lambda: chat.growing.session, chat.tools)


def look(chat: Chat, beside: Beside) -> None:
    """Let a chat's next request be weighed with what stands beside it: what is at hand, each once; no network is asked."""
    memories, known = beside.memories, dict[tuple[str, str, str], Answer]()

    def once(answer: Answers) -> Answers:
        def looked(ask: Ask) -> Answer:
            key = (ask.kind, ask.prompt, ask.content)
            if key not in known:
                known[key] = answer(ask)
            return known[key]

        return looked

    looks: dict[AskKind, Answers] = {"provide": once(replace(beside.providing, others=None).answer)}
    if memories:
        looks["recall"] = once(memories.answer)
    if memories and beside.learns:
        looks["rank"] = once(memories.rank)
    chat.looks = looks


def asked_after(beside: Beside, turn: Callable[[Chat], Generator[Event]]) -> Callable[[Chat], Generator[Event]]:
    """A turn after which a model is asked for facts and for what its conversation came to, where that is wished."""
    return (lambda chat: afterwards(chat, turn(chat), facts=beside.memories is not None)) if beside.asks else turn


def facts(chat: Chat) -> Iterator[tuple[Memory, bool]]:
    """The facts that were found in a chat, the newest first, each with whether it was refused; those of the last answer too."""
    if not _has(chat.policy, FACTS):
        return
    session, plan = chat.growing.session, chat.plan
    known: dict[str, Memory] = {fact.id: fact for fact in (plan.get_state(FACTS) if plan else None) or ()}
    for message in session.messages if plan else ():
        if plan and message.start >= plan.request.cut and message.role in ("user", "assistant"):
            for block in session.blocks[message.start : message.stop]:
                told = find_facts(block.role, block.text, message.sent_at, f"block {block.at}") if block.kind == "text" else ()
                known |= {fact.id: fact for fact in told if fact.id not in known}
    yield from ((fact, get_rating(session, fact.text) == "down") for fact in reversed([*known.values()]))


def refuse(chat: Chat, fact: Memory, memories: Memories | None) -> None:
    """A fact is not to be remembered: no request carries it from now on, and the store gives it up."""
    chat.note(make_rating(fact.text, "down"))
    if memories:
        memories.withdraw(fact.id)


def accept(chat: Chat, fact: Memory, memories: Memories | None) -> None:
    """A fact is to be remembered for good. TurnscopeError: it was forgotten on request."""
    chat.note(make_rating(fact.text, "up"))
    if memories:
        memories.add(fact.text, fact.owner, f"{chat.growing.session.id} {fact.source}", fact.said, "long")


def titles(chat: Chat) -> Sequence[tuple[str, str, str]]:
    """The notes of a chat: id, title and text, the newest last."""
    return Notes.of(chat.growing.session).listed


def _has(policy: Policy, rule: str) -> bool:
    return any(part.rule.name == rule for part in policy.rules)
