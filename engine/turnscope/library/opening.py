"""What notebooks, scripts and pages call of a session that was read (see `loading`): ties counting and replay together.

Keeps the record of the session replayed last, which its next replays share; else nothing: `store` remembers, pages cache.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

from msgspec import structs

from turnscope.counting.ledger import Ledger, build_ledger
from turnscope.counting.media import count_media
from turnscope.counting.tokens import make_estimator
from turnscope.envelope.plan import Plan
from turnscope.errors import PolicyError
from turnscope.library.loading import get_session, pause_gc
from turnscope.library.loading import load as load  # noqa: PLC0414 - the whole way from a path to an overview, for who asks here
from turnscope.library.loading import load_all as load_all  # noqa: PLC0414
from turnscope.library.loading import thread as thread  # noqa: PLC0414
from turnscope.planning import policy as shelf
from turnscope.planning.assemble import replay_with_record
from turnscope.planning.packaged_policies import find_packaged_policies
from turnscope.planning.policy import Policy, add_wishes_rule, make_sendable
from turnscope.planning.trace import Trace, build_own_ledger, trace
from turnscope.pricing.overlay import read_overlay
from turnscope.pricing.prices import PRICES, Prices
from turnscope.session.model import CHAT, Answer, Session
from turnscope.session.thread import Thread
from turnscope.settings import find_prices_file, read_context_pairs
from turnscope.views import overview as views

AS_RECORDED = "as-recorded"
_last: tuple[Session, Prices, Trace] | None = None  # the session replayed last, as it was sent


@cache
def load_prices() -> Prices:
    """The built-in prices under the user's own file, read once. BrokenFile where that file is wrong."""
    own = find_prices_file()
    return Prices(read_overlay(own)) if own else PRICES


def load_policy(name: str, folder: Path | None = None) -> Policy:
    """A policy by name, ours or from `folder`, with what the environment sets. PolicyError where there is none."""
    return shelf.set_pairs(shelf.load(name, folder) if folder else shelf.load(name), read_context_pairs())


def policies() -> tuple[Policy, ...]:
    """Every policy that ships with Turnscope, by name, and those of installed packages (`Policy.package`).

    >>> [policy.title for policy in turnscope.policies() if policy.source.startswith("LiteLLM")]
    ['LiteLLM trim_messages']
    """
    packaged = []
    for name in find_packaged_policies():
        with suppress(PolicyError):  # it is reported
            packaged.append(load_policy(name))
    return (*map(load_policy, shelf.list_policies()), *packaged)


def find_family(session: Session, prices: Prices | None = None) -> str:
    """Tokenizer family of the model that most of a session's requests used; "" where unknown."""
    prices = prices or load_prices()
    models = Tally(request.model for request in session.requests if request.model)
    return prices.find_facts(models.most_common(1)[0][0]).family if models else ""


def count_session(
    session: Session,
    memo: dict[str, int] | None = None,
    exact: Mapping[str, int] | None = None,
    prices: Prices | None = None,
) -> Ledger:
    """Count a session with the counter of its main model.

    `memo`: tokens by digest from an earlier count, extended. `exact`: exact tokens of texts by digest, where known.
    """
    family = find_family(session, prices)
    if not exact:
        return build_ledger(session, make_estimator(family), memo)
    known = {b.digest: exact[b.digest] + count_media(b.raw, family) for b in session.blocks if b.digest in exact}
    ledger = build_ledger(session, make_estimator(family), {**(memo or {}), **known})
    counted = sum(known.get(block.digest, 0) for block in session.blocks)
    return replace(ledger, exact=counted / max(1, ledger.total[-1]))


def count_branch(session: Session, number: int, ledger: Ledger) -> Ledger:
    """Count branch `number` of a session: from where it parted, where the session's own `ledger` counts as it would."""
    branch = session.branches[number]
    return ledger.build_branch(session, number) if find_family(branch) == find_family(session) else count_session(branch)


def replay(
    session: Session | Thread | Path | str,
    policy: Policy | str = AS_RECORDED,
    ledger: Ledger | None = None,
    answers: Mapping[str, Answer] | None = None,
    prices: Prices | None = None,
) -> Trace:
    """What would be sent under `policy` (a name or a value), request by request. `answers`: known beside the session's own.

    `session`: or a path to read it from, as `load` does.

    >>> session = turnscope.load("sample_sessions/cache-goes-cold.jsonl")
    >>> trace = turnscope.replay(session, "last-5-pairs")
    >>> next(plan for plan in trace.plans if plan.is_changed)
    <Plan of request 55: 89,191 -> 64,708 tokens, drop, send>

    `prices`: what models are and cost; None = as shipped, under the user's own file. BrokenFile where that file is wrong.
    """
    prices, session = prices or load_prices(), get_session(session)
    asked, chosen = _prepare(session, policy, answers)
    if ledger:
        return trace(asked, chosen, ledger, prices)
    record = _get_record(session, prices)
    if chosen == record.policy and asked is session:
        return record
    return trace(asked, chosen, replace(record.ledger, memo={**record.ledger.memo}), record.prices, record)


def _get_record(session: Session, prices: Prices) -> Trace:
    """The session as it was really sent. What replays of one session share is made once: its counts, and the record's plans."""
    global _last
    known = _last
    if known is None or known[0] is not session or known[1] != prices:
        known = _last = (session, prices, trace(session, AS_RECORDED, count_session(session, prices=prices), prices))
    return known[2]


def begin_replay(recorded: Trace, policy: Policy, answers: Mapping[str, Answer] | None = None) -> tuple[Trace, Iterator[Plan]]:
    """A replay that is made while somebody watches: its trace without a plan, and the plans that make it whole, one by one.

    `recorded`: the same session as it was really sent, to which all that was billed belongs; so its fits are those of every
    replay. With all plans the trace equals what `replay` gives.
    """
    session, chosen = _prepare(recorded.session, policy, answers)
    ledger, prices = replace(recorded.ledger, memo={**recorded.ledger.memo}), recorded.prices  # its texts go with it
    counts, sent = build_own_ledger(session, chosen), recorded.plans if recorded.policy.name == AS_RECORDED else ()
    pairs = replay_with_record(session, chosen, ledger, counts, prices=prices, sent=sent)
    return Trace(session, chosen, ledger, (), recorded.fits, prices), (plan for plan, _ in pairs)


def _prepare(session: Session, policy: Policy | str, answers: Mapping[str, Answer] | None) -> tuple[Session, Policy]:
    """What is replayed: the session with what is known beside it, and the policy with what a person wished."""
    if answers:
        recorded = structs.replace(session.recorded, answers={**answers, **session.recorded.answers})
        session = structs.replace(session, recorded=recorded)
    chosen = load_policy(policy) if isinstance(policy, str) else policy
    if session.source == CHAT:
        chosen = make_sendable(chosen)
    elif chosen.name != AS_RECORDED and session.recorded.wishes:
        chosen = add_wishes_rule(chosen)  # what a person condensed by hand stays so under every policy
    return session, chosen


def overview(session: Session | Thread | Path | str, ledger: Ledger | None = None) -> views.Overview:
    """What the session really sent and cost, as arrays over the requests of its path. `session`: or a path to read it from.

    `view.bill` and `view.total` are the whole bill, with branches and subagents, each request once; `view.path_total` is what
    the path's own requests cost.

    >>> view = turnscope.overview(turnscope.load("sample_sessions/cache-goes-cold.jsonl"))
    >>> view.prompts[:3], view.total
    (array([18251, 18676, 19158]), Decimal('5.72862325'))
    """
    with pause_gc():
        return views.build_overview(replay(session, AS_RECORDED, ledger))
