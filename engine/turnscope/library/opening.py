"""What notebooks, scripts and pages do with a session: count it, replay it, and build its overview.

Keeps only the record of the session that was replayed last, which its next replays share.
"""

from __future__ import annotations

from collections import deque
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
from turnscope.library.loading import load as load  # noqa: PLC0414 - exported here too
from turnscope.library.loading import load_all as load_all  # noqa: PLC0414
from turnscope.library.loading import thread as thread  # noqa: PLC0414
from turnscope.library.window_choices import find_main_model, read_window_choices
from turnscope.planning import policy as shelf
from turnscope.planning.held_plans import PlanSequence, begin_plans
from turnscope.planning.packaged_policies import find_packaged_policies
from turnscope.planning.policy import Policy, add_wishes_rule, make_sendable
from turnscope.planning.trace import Trace, build_own_ledger, trace
from turnscope.pricing.overlay import read_overlay
from turnscope.pricing.prices import PRICES, Prices
from turnscope.session.model import CHAT, Answer, Session
from turnscope.session.thread import Thread
from turnscope.settings import find_data_folder, find_prices_file, read_context_pairs, read_stateless_output
from turnscope.views import overview as views

AS_RECORDED = "as-recorded"
_last: tuple[Session, Prices, Trace] | None = None  # the session that was replayed last, its prices, its record


def load_prices() -> Prices:
    """The built-in prices with the user's own file over them, and the windows that the user chose.

    BrokenFile: one of these files is wrong.
    """
    chosen = read_window_choices()
    return replace(read_own_prices(), chosen=chosen) if chosen else read_own_prices()


@cache
def read_own_prices() -> Prices:
    """The built-in prices with the user's own file over them, read once. BrokenFile: that file is wrong."""
    own = find_prices_file()
    return Prices(read_overlay(own)) if own else PRICES


def load_policy(name: str | Path, folder: Path | None = None) -> Policy:
    """Load a policy by its name or file, with the parameters that the environment sets.

    A file's policy has the name of the file with its ending, so that it is not taken for a built-in one.

    Args:
        name: a name of Turnscope's policies, of a package's or of the user's own, or the path of a TOML file.
        folder: where it lies; None = anywhere. A built-in policy precedes one of the user's own.

    Raises:
        PolicyError: there is no such policy, or its file is malformed.

    >>> load_policy("last-5-pairs").title
    'Last 5 pairs'
    """
    if isinstance(name, Path) or (folder is None and name.endswith(".toml")):
        return set_environment(shelf.parse(Path(name).name, _read_policy_file(str(name))))
    if folder is None and shelf.resolve_name(name) not in shelf.list_policies():
        own = find_data_folder() / "policies"
        folder = own if name in shelf.list_policies(own) else None
    return set_environment(shelf.load(name, folder) if folder else shelf.load(name))


def _read_policy_file(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise PolicyError(
            f"the policy {path!r} cannot be read: {why}", hint="Name a policy, or the path of its TOML file."
        ) from error


def set_environment(policy: Policy) -> Policy:
    """Return the policy with the parameters that the environment sets."""
    return shelf.set_stateless_output(shelf.set_pairs(policy, read_context_pairs()), read_stateless_output())


def policies() -> shelf.Policies:
    """All policies of Turnscope, and those of installed packages (`Policy.package`), as a tuple.

    >>> [policy.title for policy in turnscope.policies() if policy.source.startswith("LiteLLM")]
    ['LiteLLM trim_messages']
    """
    packaged = []
    for name in find_packaged_policies():
        with suppress(PolicyError):  # it is reported elsewhere
            packaged.append(load_policy(name))
    return shelf.Policies((*map(load_policy, shelf.list_policies()), *packaged))


def find_family(session: Session, prices: Prices | None = None) -> str:
    """The tokenizer family of the model of most of a session's requests; "" = unknown.

    Args:
        session: the session.
        prices: facts about models; None = the built-in ones.
    """
    prices = prices or load_prices()
    model = find_main_model(session)
    return prices.find_facts(model).family if model else ""


def count_session(
    session: Session,
    memo: dict[str, int] | None = None,
    exact: Mapping[str, int] | None = None,
    prices: Prices | None = None,
    *,
    counted: bool = False,
) -> Ledger:
    """Count a session with the counter of its main model.

    Args:
        session: the session.
        memo: tokens by digest from an earlier count, which is extended.
        exact: exact tokens of texts by digest, where known.
        prices: facts about models; None = the built-in ones.
        counted: whether `memo` is the whole count of this session. Then no text is read.
    """
    family = find_family(session, prices)
    if not exact:
        return build_ledger(session, make_estimator(family), memo, counted=counted)
    known = {b.digest: exact[b.digest] + count_media(b.raw, family) for b in session.blocks if b.digest in exact}
    ledger = build_ledger(session, make_estimator(family), {**(memo or {}), **known})
    exact_tokens = sum(known.get(block.digest, 0) for block in session.blocks)
    return replace(ledger, exact=exact_tokens / max(1, ledger.total[-1]))


def count_branch(session: Session, number: int, ledger: Ledger) -> Ledger:
    """Count a branch of a session. The session's own counts are used up to the fork, if the counter is the same.

    Args:
        session: the session.
        number: which branch.
        ledger: the session's counts.
    """
    branch = session.branches[number]
    return ledger.build_branch(session, number) if find_family(branch) == find_family(session) else count_session(branch)


def replay(
    session: Session | Thread | Path | str,
    policy: Policy | Path | str = AS_RECORDED,
    ledger: Ledger | None = None,
    answers: Mapping[str, Answer] | None = None,
    prices: Prices | None = None,
) -> Trace:
    """Replay a session under a policy: what would be sent, request by request.

    Args:
        session: a session, a thread, or a path to read one from.
        policy: the policy, its name, or the path of its TOML file.
        ledger: its token counts, if known.
        answers: answers to rule queries, besides the session's own.
        prices: facts about models and their rates; None = the built-in ones with the user's own file over them.

    Raises:
        BrokenFile: the user's file of prices is wrong.
        PolicyError: there is no such policy.

    >>> session = turnscope.load("sample_sessions/cache-goes-cold.jsonl")
    >>> trace = turnscope.replay(session, "last-5-pairs")
    >>> next(plan for plan in trace.plans if plan.is_changed)
    <Plan of request 55: 89,191 -> 64,708 tokens, drop, send>
    """
    prices, session = prices or load_prices(), get_session(session)
    prepared, chosen = _prepare(session, policy, answers)
    if ledger:
        return trace(prepared, chosen, ledger, prices)
    record = _get_record(session, prices)
    if chosen == record.policy and prepared is session:
        return record
    return trace(
        prepared, chosen, ledger=replace(record.ledger, memo={**record.ledger.memo}), prices=record.prices, record=record
    )


def _get_record(session: Session, prices: Prices) -> Trace:
    """The record of a session. What its replays share is made once: its counts and the plans of the record."""
    global _last
    known = _last
    if known is None or known[0] is not session or known[1] != prices:
        known = _last = (session, prices, trace(session, AS_RECORDED, count_session(session, prices=prices), prices))
    return known[2]


def begin_replay(recorded: Trace, policy: Policy, answers: Mapping[str, Answer] | None = None) -> tuple[Trace, Iterator[Plan]]:
    """Begin a replay that is made step by step. With all plans the trace equals that of `replay`.

    Args:
        recorded: the record of the session, to which usage belongs; every replay has its fits.
        policy: the policy.
        answers: answers to rule queries, besides the session's own.

    Returns:
        The trace, whose plans become more as they are made, and its plans one by one.
    """
    session, chosen = _prepare(recorded.session, policy, answers)
    ledger = replace(recorded.ledger, memo={**recorded.ledger.memo})  # the replay's texts are added to this copy
    prices = recorded.prices
    growing = begin_plans(session, chosen, ledger, build_own_ledger(session, chosen), prices=prices, record=recorded.record)
    plans = PlanSequence(growing)
    return Trace(session=session, policy=chosen, ledger=ledger, plans=plans, fits=recorded.fits, prices=prices), growing.grow()


def replay_record(recorded: Trace, policy: Policy) -> Trace:
    """Replay the session of a record under a policy, with the fits of the record.

    Args:
        recorded: the record of the session.
        policy: the policy.
    """
    trace, plans = begin_replay(recorded, policy)
    deque(plans, maxlen=0)
    return trace


def _prepare(session: Session, policy: Policy | Path | str, answers: Mapping[str, Answer] | None) -> tuple[Session, Policy]:
    """The session with the given answers, and the policy with the wishes of a person."""
    if answers:
        recorded = structs.replace(session.recorded, answers={**answers, **session.recorded.answers})
        session = structs.replace(session, recorded=recorded)
    chosen = policy if isinstance(policy, Policy) else load_policy(policy)
    if session.source == CHAT:
        chosen = make_sendable(chosen)
    elif chosen.name != AS_RECORDED and session.recorded.wishes:
        chosen = add_wishes_rule(chosen)  # what a person condensed by hand stays so under every policy
    return session, chosen


def overview(session: Session | Thread | Path | str, ledger: Ledger | None = None) -> views.Overview:
    """Build the overview of a session: what it sent and cost, as arrays over the requests of its path.

    `view.bill` and `view.total` are the total cost with branches and subagents, each request once; `view.path_total` is the
    cost of the path's own requests.

    Args:
        session: a session, a thread, or a path to read one from.
        ledger: its token counts, if known.

    >>> view = turnscope.overview(turnscope.load("sample_sessions/cache-goes-cold.jsonl"))
    >>> view.prompts[:3], view.total
    (array([18251, 18676, 19158]), Decimal('5.72862325'))
    """
    with pause_gc():
        return views.build_overview(replay(session, AS_RECORDED, ledger))
