"""What a front end needs to hold chats: a client for a provider, a chat on a thread, branches.

Ties `live`, `threads` and `offline` together. Keeps nothing; knows no page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Literal

import anthropic
from msgspec import structs

from engine.counting.tokens import estimator
from engine.envelope.plan import Plan
from engine.errors import TurnscopeError
from engine.library.opening import family_of
from engine.live.chat import Chat, Settings, Sink, Tools
from engine.live.growing import Growing
from engine.live.offline import Offline
from engine.live.offline.model import WINDOWS
from engine.live.tools import Toolbox
from engine.planning import assemble
from engine.planning.extract import extract
from engine.planning.policy import Policy, following, load
from engine.planning.trace import Trace
from engine.pricing.prices import cost, facts
from engine.session.builder import block_of
from engine.session.model import JSON, Answer, Edit, Message, Request, Session
from engine.storage.threads import SOURCE, Threads

Client = anthropic.Anthropic
ANTHROPIC = "https://api.anthropic.com"
# `anthropic.types.Model` of SDK 2.12, the current ones; any other name may be typed.
MODELS = ("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5", "claude-sonnet-4-6", "claude-haiku-4-5")
OFFLINE = tuple(WINDOWS)
SUMMARY = 800  # tokens of a summary made without a model


@dataclass(frozen=True, slots=True)
class Provider:
    """Where requests go. `key` "" = the environment's, for the Anthropic API alone; it is never written anywhere."""

    kind: Literal["offline", "anthropic", "server"] = "offline"
    url: str = ""
    key: str = field(default="", repr=False)


def client(provider: Provider, offline: Offline) -> anthropic.Anthropic:
    """An SDK client. TurnscopeError where there is no key or no address.

    A key from the environment goes to the Anthropic API alone: an address that somebody typed never receives it. The built-in
    model's faults are shown at once; elsewhere the SDK tries again by itself.
    """
    if provider.kind == "offline":
        return anthropic.Anthropic(api_key="none", base_url=offline.url, max_retries=0, timeout=60)
    if provider.kind == "server":
        if not provider.url.startswith(("http://", "https://")):
            raise TurnscopeError("the server's address is missing", hint="Type it with http:// or https:// in the settings.")
        return anthropic.Anthropic(api_key=provider.key or "none", base_url=provider.url, timeout=600)
    try:
        made = anthropic.Anthropic(api_key=provider.key or None, base_url=ANTHROPIC, timeout=600)
    except anthropic.AnthropicError as error:
        raise TurnscopeError("there is no API key", hint="Type one in the settings; it is kept in memory only.") from error
    if not (made.api_key or made.auth_token or made.credentials):
        raise TurnscopeError("there is no API key", hint="Type one in the settings; it is kept in memory only.")
    return made


def toolbox(folder: str, names: Sequence[str]) -> Toolbox:
    """The tools that may run. Without a folder that exists, only the calculator."""
    root = Path(folder).expanduser() if folder.strip() else None
    if root is None or not root.is_dir():
        return Toolbox(Path(), tuple(name for name in names if name == "calculate"))
    return Toolbox(root, tuple(names))


def begun(id: str, client: anthropic.Anthropic, sink: Sink, settings: Settings, system: str, tools: Sequence[JSON]) -> Chat:
    """A chat without a prompt yet: tool definitions and system prompt are said."""
    counter = estimator(facts(settings.model).family)
    chat = Chat(Growing(Session(id, source=SOURCE), counter), client, sink, settings)
    if tools:
        chat.say("tools", list(tools), "tools")
    if system.strip():
        chat.say("system", system, "system")
    return chat


def resumed(
    session: Session,
    client: anthropic.Anthropic,
    sink: Sink,
    settings: Settings,
    tools: Tools | None = None,
    policies: Sequence[tuple[int, Policy]] = (),
) -> tuple[Chat, tuple[Plan, ...]]:
    """The chat of a stored thread, and the plans of the requests it made so far. What was imported is taken as recorded.

    `policies`: from which request on which was in force (`Threads.policies`); without them the one of `settings`.
    """
    growing = Growing(session, estimator(family_of(session) or facts(settings.model).family))
    since = int(session.about.get("live_from", 0))
    record = load(assemble.AS_RECORDED)

    def in_force(request: Request) -> Policy:
        found = [policy for first, policy in policies if first <= request.n]
        return following(found[-1] if found else settings.policy) if request.n >= since else record

    plans = tuple(assemble.replay(session, in_force, growing.ledger))
    chat = Chat(growing, client, sink, settings, tools)
    chat.plan = assemble.settle(plans[-1]) if plans else None
    chat.spent = spent(session)
    return chat, plans[since:]


def spent(session: Session) -> Decimal:
    """USD that a thread's own requests have cost; those of an imported base are not its own."""
    since = int(session.about.get("live_from", 0))
    costs = (cost(r.usage, r.model, r.sent_at) for r in session.requests[since:] if r.usage)
    return sum((priced.total for priced in costs if priced), Decimal(0))


def continued(threads: Threads, trace: Trace, request: int, about: dict[str, JSON]) -> str:
    """A new thread that goes on where request `request` of any session was sent; gives its id."""
    base = trace.fork(request)
    kept = {"live_from": len(base.requests), "from": trace.session.id, "from_request": request}
    return threads.create(title=f"{base.title or base.id} from request {request}", base=base, about={**about, **kept})


def reworded(session: Session, system: str) -> Session:
    """The session with another system prompt at the same address. TurnscopeError where it has none, or more than one."""
    places = [block.at for block in session.blocks if block.role == "system" and block.kind != "tool"]
    if len(places) != 1:
        raise TurnscopeError("this chat's system prompt is not one text", hint="Begin a new chat with another one.")
    old = session.blocks[places[0]]
    new = block_of(old.at, old.message, old.turn, old.role, "", system)
    return structs.replace(session, blocks=tuple(new if block.at == old.at else block for block in session.blocks))


def summary(chat: Chat) -> str:
    """The newest summary that stands in a chat's requests, else one made of its own sentences, without a model."""
    pieces = list(chat.plan.after.pieces) if chat.plan else []
    for piece in reversed(pieces):
        said = "\n".join(part.text for part in piece.body or () if part.kind == "summary" and part.text)
        if said:
            return said
    blocks = (block for block in chat.growing.session.blocks if block.role in ("user", "assistant") and block.text)
    return extract("\n".join(f"{block.role}: {block.text}" for block in blocks), SUMMARY)


class Unkept:
    """A sink that keeps nothing: for a chat that is only weighed, never sent."""

    def message(self, message: Message, blocks: Sequence[JSON], status: str) -> None:
        """Nothing is kept."""

    def request(
        self,
        request: Request,
        plan: Plan,
        answer: tuple[Message, Sequence[JSON]] | None,
        status: str,
        seconds: float,
        gone: Sequence[Edit] = (),
    ) -> None:
        """Nothing is kept."""

    def answer(self, key: str, answer: Answer) -> None:
        """Nothing is kept."""


def policy_of(session: Session) -> str:
    """Name of the policy that a thread was begun under; "" where it does not say."""
    return str(session.about.get("policy") or "")


def unanswered(session: Session) -> bool:
    """The newest message is the person's, or a tool's result: a request is due."""
    said = [m for m in session.messages if m.role in ("user", "assistant")]
    return bool(said) and said[-1].role == "user"
