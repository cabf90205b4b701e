"""An opened session: its overview at once, its texts and its requests on demand.

A page shows one request, so a stored session is not read as a whole: blocks come without their texts (`storage.packing`), plans
are made up to the requested one, and the findings of the whole session are stored with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from turnscope.counting.ledger import Ledger
from turnscope.counting.reconciliation import Fit
from turnscope.library.opening import AS_RECORDED, count_session, load_policy, load_prices
from turnscope.planning.held_plans import LazyPlans, begin_plans
from turnscope.planning.trace import Trace
from turnscope.session.model import Session
from turnscope.views.findings import Finding
from turnscope.views.overview import Overview
from turnscope.views.request_summary import annotate

Annotations = tuple[Overview, tuple[Finding, ...]]
"""The overview with cache breaks among its markers, and what stands out in the session."""


@dataclass(slots=True)
class OpenedSession:
    """A session that was opened. `overview` is there at once; session and trace are made on demand.

    Attributes:
        key: names its content.
        load_session, load_counts: make the session, and its token counts by digest.
        exact: share of the tokens that were counted with the model's own tokenizer.
        counted: all that can be counted so was.
    """

    key: str
    overview: Overview
    load_session: Callable[[], Session]
    load_counts: Callable[[], dict[str, int]]
    _session: Session | None = None
    _trace: Trace | None = None
    _annotated: Annotations | None = None
    exact: float = 0.0
    counted: bool = False

    @property
    def session(self) -> Session:
        """The session, loaded when it is first used."""
        if self._session is None:
            self._session = self.load_session()
        return self._session

    @property
    def trace(self) -> Trace:
        """The record: what was really sent, request by request."""
        if self._trace is None:
            self._trace = replay_record(self.session, self.build_ledger(), self.overview.fits)
        return self._trace

    @property
    def annotations(self) -> Annotations:
        """The overview with cache misses among its markers, and the findings."""
        if self._annotated is None:
            self._annotated = annotate(self.trace, self.overview)
        return self._annotated

    def build_ledger(self) -> Ledger:
        """Build the ledger of the session from its stored counts."""
        return replace(count_session(self.session, self.load_counts(), counted=True), exact=self.exact)


def replay_record(session: Session, ledger: Ledger, fits: tuple[Fit, ...]) -> Trace:
    """Build the trace of the record. Each plan is made when it or a later one is read.

    Args:
        session: the session.
        ledger: its token counts.
        fits: its calibration.
    """
    policy, prices = load_policy(AS_RECORDED), load_prices().add_evidence(session)
    plans = LazyPlans(begin_plans(session, policy, ledger, prices=prices), len(session.requests))
    return Trace(session=session, policy=policy, ledger=ledger, plans=plans, fits=fits, prices=prices)
