"""Chats on threads: begun, taken up again, continued from another session, branched.

Ties `chat` and the store together. Keeps nothing; knows no page and no provider.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from msgspec import structs

from turnscope.counting.tokens import make_estimator
from turnscope.envelope.plan import Plan
from turnscope.errors import TurnscopeError
from turnscope.library.opening import find_family, load_prices
from turnscope.live.archive_tools import list_definitions
from turnscope.live.chat import Chat, Settings
from turnscope.live.live_session import LiveSession
from turnscope.live.provider import Provider
from turnscope.live.sinks import Sink
from turnscope.live.tools import Tools
from turnscope.planning import assemble
from turnscope.planning.extract import extract
from turnscope.planning.policy import Policy, load, make_sendable
from turnscope.planning.trace import Trace
from turnscope.pricing.prices import Prices
from turnscope.session.destination import Destination
from turnscope.session.model import JSON, Request, Session
from turnscope.session.timeline import make_block
from turnscope.storage.threads import SOURCE, Threads

MAX_SUMMARY = 800  # tokens of a summary made without a model


def start_chat(
    id: str,
    provider: Provider,
    sink: Sink,
    settings: Settings,
    system: str,
    tools: Sequence[JSON],
    destination: Destination | None = None,
) -> Chat:
    """A chat without a prompt yet: tool definitions and system prompt are said."""
    prices = load_prices()
    counter = make_estimator(prices.find_facts(settings.model).family)
    chat = Chat(LiveSession(Session(id, source=SOURCE), counter, prices), provider, sink, settings, destination=destination)
    if tools := [*tools, *list_definitions(settings.policy)]:
        chat.append_message("tools", tools, "tools")
    if system.strip():
        chat.append_message("system", system, "system")
    return chat


def resume_chat(
    session: Session,
    provider: Provider,
    sink: Sink,
    settings: Settings,
    tools: Tools | None = None,
    policies: Sequence[tuple[int, Policy]] = (),
    destination: Destination | None = None,
) -> tuple[Chat, tuple[Plan, ...]]:
    """The chat of a stored thread, and the plans of the requests it made so far. What was imported is taken as recorded.

    `policies`: from which request on which was in force (`Threads.policies`); without them the one of `settings`.
    `place`: where the thread goes (`Threads.place`).
    """
    prices = load_prices().add_proofs(session)
    growing = LiveSession(
        session, make_estimator(find_family(session, prices) or prices.find_facts(settings.model).family), prices
    )
    since = int(session.about.get("live_from", 0))
    record = load(assemble.AS_RECORDED)

    def in_force(request: Request) -> Policy:
        found = [policy for first, policy in policies if first <= request.n]
        return make_sendable(found[-1] if found else settings.policy) if request.n >= since else record

    plans = tuple(assemble.replay(session, in_force, growing.ledger, growing.get_policy_ledger, prices=prices))
    chat = Chat(growing, provider, sink, settings, tools)
    chat.plan = assemble.reconcile_plan(plans[-1]) if plans else None
    chat.destination = destination
    chat.spent_usd = sum_cost(session, prices)
    chat.prompt_tokens = [plan.seen.tokens for plan in plans]
    return chat, plans[since:]


def sum_cost(session: Session, prices: Prices) -> Decimal:
    """USD that a thread's own requests and summaries have cost; those of an imported base are not its own.

    Where no usage was told, what was counted here is priced.
    """
    since, answers = (int(session.about.get(name, 0)) for name in ("live_from", "answers_from"))
    used = [(r.usage or r.estimate, r.model, r.sent_at) for r in session.requests[since:]]
    used += [(answer.usage, answer.model, None) for answer in [*session.recorded.answers.values()][answers:]]
    costs = (prices.compute_cost(usage, model, at) for usage, model, at in used if usage)
    return sum((priced.total for priced in costs if priced), Decimal(0))


def continue_thread(
    threads: Threads, trace: Trace, request: int, about: dict[str, JSON], destination: Destination | None = None
) -> str:
    """A new thread that goes on, at `place`, where request `request` of any session was sent; gives its id."""
    base = trace.fork(request)
    kept = {"live_from": len(base.requests), "from": trace.session.id, "from_request": request}
    kept["answers_from"] = len(base.recorded.answers)
    return threads.create(
        title=f"{base.title or base.id} from request {request}", base=base, about={**about, **kept}, place=destination
    )


def replace_system_prompt(session: Session, system: str) -> Session:
    """The session with another system prompt at the same address. TurnscopeError where it has none, or more than one."""
    places = [block.at for block in session.blocks if block.role == "system" and block.kind != "tool"]
    if len(places) != 1:
        raise TurnscopeError("this chat's system prompt is not one text", hint="Begin a new chat with another one.")
    old = session.blocks[places[0]]
    new = make_block(old.at, old.message, old.turn, old.role, "", system)
    return structs.replace(session, blocks=tuple(new if block.at == old.at else block for block in session.blocks))


def find_summary(chat: Chat) -> str:
    """The newest summary that stands in a chat's requests, else one made of its own sentences, without a model."""
    pieces = list(chat.plan.after.pieces) if chat.plan else []
    for piece in reversed(pieces):
        said = "\n".join(part.text for part in piece.body or () if part.kind == "summary" and part.text)
        if said:
            return said
    blocks = (block for block in chat.live_session.session.blocks if block.role in ("user", "assistant") and block.text)
    return extract("\n".join(f"{block.role}: {block.text}" for block in blocks), MAX_SUMMARY)


def awaits_answer(session: Session) -> bool:
    """The newest message is the person's, or a tool's result: a request is due."""
    said = [m for m in session.messages if m.role in ("user", "assistant")]
    return bool(said) and said[-1].role == "user"
