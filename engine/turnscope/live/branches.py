"""Start a chat, resume one, continue another session as a chat, and branch.

Connects `chat` with the store. Stores nothing itself; knows no page and no provider.
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
from turnscope.numbering import format_request
from turnscope.planning import assemble
from turnscope.planning.extract import extract
from turnscope.planning.policy import Policy, limit_fallback, load, make_sendable
from turnscope.planning.trace import Trace
from turnscope.pricing.prices import Prices
from turnscope.session.destination import Destination
from turnscope.session.model import JSON, Request, Session
from turnscope.session.timeline import make_block
from turnscope.storage.threads import SOURCE, Threads

MAX_SUMMARY = 800  # tokens of an offline summary


def start_chat(
    id: str,
    provider: Provider,
    sink: Sink,
    settings: Settings,
    system: str,
    tools: Sequence[JSON],
    destination: Destination | None = None,
) -> Chat:
    """Start a chat: its tool definitions and its system prompt are stored, and there is no prompt yet.

    Args:
        id: The id of its thread.
        provider: Where requests go.
        sink: What stores the chat.
        settings: The settings of the first request.
        system: The system prompt; "" = none.
        tools: The tool definitions. Those of the archive are added if the policy keeps one.
        destination: Where the chat goes; None = anywhere.
    """
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
    """Resume the chat of a stored thread.

    Args:
        session: The thread's session.
        provider: Where requests go.
        sink: What stores the chat.
        settings: The settings of the next request.
        tools: The tools that the model may call.
        policies: From which request on which policy was in force (`Threads.policies`); empty = that of `settings`.
        destination: Where the chat goes (`Threads.place`).

    Returns:
        The chat, and the plans of the requests that it made itself. Imported requests are planned as recorded.
    """
    prices = load_prices().add_evidence(session)
    live_session = LiveSession(
        session, make_estimator(find_family(session, prices) or prices.find_facts(settings.model).family), prices
    )
    since = int(session.about.get("live_from", 0))
    record = load(assemble.AS_RECORDED)

    def in_force(request: Request) -> Policy:
        found = [policy for first, policy in policies if first <= request.n]
        if request.n < since:
            return record
        chosen = limit_fallback(found[-1] if found else settings.policy, {request.model} if request.requested_model else ())
        return make_sendable(chosen)

    plans = tuple(assemble.replay(session, in_force, live_session.ledger, live_session.get_policy_ledger, prices=prices))
    chat = Chat(live_session, provider, sink, settings, tools)
    chat.plan = assemble.reconcile_plan(plans[-1]) if plans else None
    chat.destination = destination
    chat.spent_usd = sum_cost(session, prices)
    chat.prompt_tokens = [plan.seen.tokens for plan in plans]
    return chat, plans[since:]


def sum_cost(session: Session, prices: Prices) -> Decimal:
    """Return what a thread's own requests and summaries cost in USD. Those of an imported session are not included.

    Args:
        session: The thread's session. A request without reported usage counts with its estimate.
        prices: The prices of the models.
    """
    since, answers = (int(session.about.get(name, 0)) for name in ("live_from", "answers_from"))
    used = [(r.usage or r.estimate, r.model, r.sent_at) for r in session.requests[since:]]
    used += [(answer.usage, answer.model, None) for answer in [*session.recorded.answers.values()][answers:]]
    costs = (prices.compute_cost(usage, model, at) for usage, model, at in used if usage)
    return sum((priced.total for priced in costs if priced), Decimal(0))


def continue_thread(
    threads: Threads, trace: Trace, request: int, about: dict[str, JSON], destination: Destination | None = None
) -> str:
    """Create a thread that continues any session from one of its requests.

    Args:
        threads: The store.
        trace: The replayed session.
        request: The number of the request.
        about: Metadata of the new thread.
        destination: Where the new thread goes.

    Returns:
        The id of the new thread.
    """
    base = trace.fork(request)
    origin = {"live_from": len(base.requests), "from": trace.session.id, "from_request": request}
    origin["answers_from"] = len(base.recorded.answers)
    return threads.create(
        title=f"{base.title or base.id} from request {format_request(request)}",
        base=base,
        about={**about, **origin},
        place=destination,
    )


def replace_system_prompt(session: Session, system: str) -> Session:
    """Return the session with another system prompt at the same address.

    Args:
        session: The session.
        system: The new system prompt.

    Raises:
        TurnscopeError: The session has no system prompt, or more than one.
    """
    places = [block.at for block in session.blocks if block.role == "system" and block.kind != "tool"]
    if len(places) != 1:
        what = "this chat has no system prompt, or more than one"
        raise TurnscopeError(what, hint="Start a new chat with another system prompt.")
    old = session.blocks[places[0]]
    new = make_block(old.at, old.message, old.turn, old.role, "", system)
    return structs.replace(session, blocks=tuple(new if block.at == old.at else block for block in session.blocks))


def find_summary(chat: Chat) -> str:
    """Return the newest summary in the chat's last request; without one, an offline summary of the conversation."""
    pieces = list(chat.plan.after.pieces) if chat.plan else []
    for piece in reversed(pieces):
        text = "\n".join(part.text for part in piece.body or () if part.kind == "summary" and part.text)
        if text:
            return text
    blocks = (block for block in chat.live_session.session.blocks if block.role in ("user", "assistant") and block.text)
    return extract("\n".join(f"{block.role}: {block.text}" for block in blocks), MAX_SUMMARY)


def awaits_answer(session: Session) -> bool:
    """Return whether the next step is a request: the newest message is a prompt or a tool result."""
    messages = [m for m in session.messages if m.role in ("user", "assistant")]
    return bool(messages) and messages[-1].role == "user"
