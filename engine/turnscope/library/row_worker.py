"""Rows of a comparison that a process of its own makes, so that the app has the use of a second core while it goes on.

A process with threads cannot be copied safely, so this one starts anew (`fork_worker` is faster where it is possible). Holds
both ends of the pipe. Whatever goes wrong there, the first process does the work itself.
"""

from __future__ import annotations

import pickle
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import IO, NamedTuple

from turnscope.counting.ledger import Ledger
from turnscope.library.comparing import replace_model
from turnscope.library.job import start_worker
from turnscope.library.loading import pause_gc
from turnscope.library.opening import begin_replay
from turnscope.planning.held_plans import HeldPlans
from turnscope.planning.policy import Policy
from turnscope.planning.rejections import SharedChecks
from turnscope.planning.trace import Trace, trace
from turnscope.pricing.prices import Prices
from turnscope.session.model import Answer, Session
from turnscope.views.comparison import Row, SharedFacts, build_row
from turnscope.views.user_rules import RuleIndex


class MadeRow(NamedTuple):
    """What the process hands back: the row, and the plans as they are held. `HeldPlans.take_over` makes them whole."""

    held: HeldPlans
    row: Row


@dataclass(frozen=True, slots=True)
class ComparisonBasis:
    """What replays of one comparison are made from.

    Attributes:
        record: the record of the session.
        model: the model that answers; "" = the recorded ones.
        answers: answers to rule queries, besides the session's own.
        read_facts: gives what all replays of the session share, any thread may ask; None = whoever needs it reads it.
    """

    record: Trace
    model: str
    answers: Mapping[str, Answer]
    read_facts: Callable[[], SharedFacts] | None = None


class _Setup(NamedTuple):
    """The first message to the process: what the record is planned from again, and how the replays differ from it."""

    session: Session
    recorded: Policy
    ledger: Ledger
    prices: Prices
    model: str
    answers: Mapping[str, Answer]
    has_facts: bool  # the facts that all replays share are the next message


class RowWorker:
    """A process that makes rows. Any thread may `kill` it; what it does then fails.

    Args:
        basis: what the replays are made from.
    """

    def __init__(self, basis: ComparisonBasis) -> None:
        self._basis: ComparisonBasis | None = basis
        self._process = start_worker(__name__)

    def make_row(self, policy: Policy) -> MadeRow | None:
        """Make the row of a policy; None where the process did not.

        Args:
            policy: the policy.
        """
        asks, replies = self._process.stdin, self._process.stdout
        assert asks is not None
        assert replies is not None
        try:
            if self._basis:
                known, self._basis = self._basis, None
                record = known.record
                has_facts = known.read_facts is not None
                setup = _Setup(
                    record.session, record.policy, record.ledger, record.prices, known.model, known.answers, has_facts
                )
                pickle.dump(setup, asks, pickle.HIGHEST_PROTOCOL)
                asks.flush()  # it plans the record while this process reads what all replays share
                if known.read_facts:
                    facts = replace(known.read_facts(), looked=SharedChecks(), rules=None)  # it makes these faster itself
                    pickle.dump(facts, asks, pickle.HIGHEST_PROTOCOL)
            pickle.dump(policy, asks, pickle.HIGHEST_PROTOCOL)
            asks.flush()
            made = pickle.load(replies)  # noqa: S301 - our own process wrote it
        except Exception:  # noqa: BLE001 - an object that cannot be pickled, a process that ended: the row is made here
            return None
        return made if isinstance(made, MadeRow) else None

    def kill(self) -> None:
        """End the process."""
        self._process.kill()

    def close(self) -> None:
        """End the process, and wait until it has ended."""
        self.kill()
        with suppress(OSError, ValueError), self._process:
            pass


def run_worker(asks: IO[bytes] | None = None, replies: IO[bytes] | None = None) -> None:
    """Make rows in this process, until nobody asks any more.

    Args:
        asks: where the setup and the policies come from; None = standard input.
        replies: where rows go; None = standard output.
    """
    asks, replies = asks or sys.stdin.buffer, replies or sys.stdout.buffer
    with pause_gc(), suppress(EOFError):
        setup: _Setup = pickle.load(asks)  # noqa: S301 - the process that started this one wrote it
        record = trace(setup.session, setup.recorded, setup.ledger, setup.prices)
        shared, basis = _read_facts(asks, setup, record), replace_model(record, setup.model)
        while True:
            policy: Policy = pickle.load(asks)  # noqa: S301 - as above
            whole, _ = begin_replay(basis, policy, setup.answers)
            row = build_row(whole, shared, sent=not setup.model)
            assert whole.held is not None
            whole.held.compact()  # planning some again is faster than to hand all over
            pickle.dump(MadeRow(whole.held, row), replies, pickle.HIGHEST_PROTOCOL)
            replies.flush()


def _read_facts(asks: IO[bytes], setup: _Setup, record: Trace) -> SharedFacts:
    """What all replays share: what the first process says of it, and the rest."""
    if not setup.has_facts:
        return SharedFacts.from_trace(record)
    rules = RuleIndex(setup.session)
    deque(rules.held, maxlen=0)  # before the wait for the other process
    deque(record.record, maxlen=0)
    facts: SharedFacts = pickle.load(asks)  # noqa: S301 - the process that started this one wrote it
    return replace(facts, rules=rules)
