"""The front door: what notebooks, scripts and pages call. Ties importers, counting and replay together.

Keeps the record of the session replayed last, which its next replays share; else nothing: `store` remembers, pages cache.
"""

from __future__ import annotations

import gc
from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from msgspec import structs

from engine import importers
from engine.counting.ledger import Ledger, build_ledger
from engine.counting.media import media_tokens
from engine.counting.tokens import estimator, prepare
from engine.envelope.plan import Plan
from engine.planning import policy as shelf
from engine.planning.assemble import beside_the_record
from engine.planning.policy import Policy, following, sendable
from engine.planning.trace import Trace, own_counts, trace
from engine.pricing.overlay import read_overlay
from engine.pricing.prices import PRICES, Prices
from engine.reading.holders import open_source
from engine.reading.source import Entry, Source
from engine.session.model import CHAT, Answer, Session
from engine.session.thread import Thread
from engine.settings import context_pairs, machine, prices_file
from engine.views import overview as views

AS_RECORDED = "as-recorded"
_last: tuple[Session, Prices, Trace] | None = None  # the session replayed last, as it was sent
LONG = 1_000_000  # bytes of a file that takes longer to be read than a vocabulary takes to be loaded


@contextmanager
def unwalked() -> Iterator[None]:
    """While a session is made: without the garbage collector, which would walk over what is read again and again.

    A third of the time that reading takes goes there, and nothing is found: what is dropped meanwhile has no cycles.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@cache
def own_prices() -> Prices:
    """The built-in prices under the user's own file, read once. BrokenFile where that file is wrong."""
    own = prices_file()
    return Prices(read_overlay(own)) if own else PRICES


def named(name: str, folder: Path | None = None) -> Policy:
    """A policy by name, ours or from `folder`, with what the environment sets. PolicyError where there is none."""
    return shelf.with_pairs(shelf.load(name, folder) if folder else shelf.load(name), context_pairs())


def policies() -> tuple[Policy, ...]:
    """Every built-in policy, by name.

    >>> [policy.title for policy in engine.policies() if policy.source.startswith("LiteLLM")]
    ['LiteLLM trim_messages']
    """
    return tuple(named(name) for name in shelf.names())


def load_all(path: Path | str) -> tuple[Session, ...]:
    """Every session of a file, the main one first. Raises `TurnscopeError` with a hint where it cannot be read.

    >>> [session.title for session in engine.load_all("sample_sessions/cache-goes-cold.jsonl")]
    ['High water an hour late since Sunday']
    """
    return importers.read(path)


def load(path: Path | str, entry: Entry | str = "") -> Session:
    """A session of a file, folder, archive or database; its subagents and branches hang from it. `TurnscopeError` with a hint.

    `entry`: which one of several, as `entries` lists them, or its id; "" = the main one.

    >>> session = engine.load("sample_sessions/tool-results-eat-the-window.jsonl")
    >>> len(session.requests), len(session.blocks), len(session.subagents)
    (325, 879, 1)
    """
    return thread(path, entry).session


def thread(path: Path | str, entry: Entry | str = "") -> Thread:
    """The same as the tree of all that was said: `.leaves`, `.path(leaf)` to each, `.messages()` once each.

    >>> engine.thread("sample_sessions/cache-goes-cold.jsonl").leaves
    ('d9487e17-7279-42b9-8e29-af6015ee7538',)
    """
    return read(open_source(Path(path)), entry.id if isinstance(entry, Entry) else entry)


def read(source: Source, entry: str = "") -> Thread:
    """Read a conversation of a source, by the id of its entry; "" = the main one. Raises `TurnscopeError`s."""
    if source.kind == "file" and source.size > LONG:
        prepare()  # its texts will be counted next
    with unwalked():
        return importers.read_entry(source, entry)


def entries(path: Path | str) -> Iterator[Entry]:
    """What can be loaded from a path, the main one first, by what is known without reading it. Lists as far as it is asked.

    >>> listed = [entry.id for entry in engine.entries("sample_sessions")]
    >>> listed[0], engine.load("sample_sessions", listed[0]).title
    ('cache-goes-cold.jsonl', 'High water an hour late since Sunday')
    """
    return importers.entries(open_source(Path(path)))


def places() -> tuple[tuple[str, importers.Place], ...]:
    """Where the tools that are known keep their sessions on this machine, each with what its sessions are called."""
    return tuple((importer.title.partition(" (")[0], place) for importer, place in importers.places(machine()))


def tool_of(source: str) -> str:
    """What a person calls the format of a session, by the name of its importer (`Session.source`)."""
    title = next((importer.title for importer in importers.importers() if importer.name == source), source)
    return title.partition(" (")[0]


def family_of(session: Session, prices: Prices | None = None) -> str:
    """Tokenizer family of the model that most of a session's requests used; "" where unknown."""
    prices = prices or own_prices()
    models = Tally(request.model for request in session.requests if request.model)
    return prices.facts(models.most_common(1)[0][0]).family if models else ""


def ledger_of(
    session: Session,
    memo: dict[str, int] | None = None,
    exact: Mapping[str, int] | None = None,
    prices: Prices | None = None,
) -> Ledger:
    """Count a session with the counter of its main model.

    `memo`: tokens by digest from an earlier count, extended. `exact`: exact tokens of texts by digest, where known.
    """
    family = family_of(session, prices)
    if not exact:
        return build_ledger(session, estimator(family), memo)
    known = {b.digest: exact[b.digest] + media_tokens(b.raw, family) for b in session.blocks if b.digest in exact}
    ledger = build_ledger(session, estimator(family), {**(memo or {}), **known})
    counted = sum(known.get(block.digest, 0) for block in session.blocks)
    return replace(ledger, exact=counted / max(1, ledger.total[-1]))


def ledger_of_branch(session: Session, number: int, ledger: Ledger) -> Ledger:
    """Count branch `number` of a session: from where it parted, where the session's own `ledger` counts as it would."""
    branch = session.branches[number]
    return ledger.branch(session, number) if family_of(branch) == family_of(session) else ledger_of(branch)


def replay(
    session: Session,
    policy: Policy | str = AS_RECORDED,
    ledger: Ledger | None = None,
    answers: Mapping[str, Answer] | None = None,
    prices: Prices | None = None,
) -> Trace:
    """What would be sent under `policy` (a name or a value), request by request. `answers`: known beside the session's own.

    >>> session = engine.load("sample_sessions/cache-goes-cold.jsonl")
    >>> trace = engine.replay(session, "last-5-pairs")
    >>> next(plan for plan in trace.plans if plan.changed)
    <Plan of request 55: 89,191 -> 64,708 tokens, drop, send>

    `prices`: what models are and cost; None = as shipped, under the user's own file. BrokenFile where that file is wrong.
    """
    prices = prices or own_prices()
    asked, chosen = _asked(session, policy, answers)
    if ledger:
        return trace(asked, chosen, ledger, prices)
    record = _record(session, prices)
    if chosen == record.policy and asked is session:
        return record
    return trace(asked, chosen, replace(record.ledger, memo={**record.ledger.memo}), record.prices, record)


def _record(session: Session, prices: Prices) -> Trace:
    """The session as it was really sent. What replays of one session share is made once: its counts, and the record's plans."""
    global _last
    known = _last
    if known is None or known[0] is not session or known[1] != prices:
        known = _last = (session, prices, trace(session, AS_RECORDED, ledger_of(session, prices=prices), prices))
    return known[2]


def begun(recorded: Trace, policy: Policy, answers: Mapping[str, Answer] | None = None) -> tuple[Trace, Iterator[Plan]]:
    """A replay that is made while somebody watches: its trace without a plan, and the plans that make it whole, one by one.

    `recorded`: the same session as it was really sent, to which all that was billed belongs; so its fits are those of every
    replay. With all plans the trace equals what `replay` gives.
    """
    session, chosen = _asked(recorded.session, policy, answers)
    ledger, prices = replace(recorded.ledger, memo={**recorded.ledger.memo}), recorded.prices  # its texts go with it
    counts, sent = own_counts(session, chosen), recorded.plans if recorded.policy.name == AS_RECORDED else ()
    pairs = beside_the_record(session, chosen, ledger, counts, prices=prices, sent=sent)
    return Trace(session, chosen, ledger, (), recorded.fits, prices), (plan for plan, _ in pairs)


def _asked(session: Session, policy: Policy | str, answers: Mapping[str, Answer] | None) -> tuple[Session, Policy]:
    """What is replayed: the session with what is known beside it, and the policy with what a person wished."""
    if answers:
        recorded = structs.replace(session.recorded, answers={**answers, **session.recorded.answers})
        session = structs.replace(session, recorded=recorded)
    chosen = named(policy) if isinstance(policy, str) else policy
    if session.source == CHAT:
        chosen = sendable(chosen)
    elif chosen.name != AS_RECORDED and session.recorded.wishes:
        chosen = following(chosen)  # what a person condensed by hand stays so under every policy
    return session, chosen


def overview(session: Session, ledger: Ledger | None = None) -> views.Overview:
    """What the session really sent and cost, as arrays over the requests of its path.

    `view.bill` and `view.total` are the whole bill, with branches and subagents, each request once; `view.path_total` is what
    the path's own requests cost.

    >>> view = engine.overview(engine.load("sample_sessions/cache-goes-cold.jsonl"))
    >>> view.prompts[:3], view.total
    (array([18251, 18676, 19158]), Decimal('5.72862325'))
    """
    with unwalked():
        return views.overview(replay(session, AS_RECORDED, ledger))
