"""Laws of edits that did not last: what a fresh rule did to one request and not to the next stands again, everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from law_sessions import ledger_of, sessions

from engine.envelope.budget import BudgetParams
from engine.envelope.difference import lapsed
from engine.envelope.envelope import Envelope
from engine.envelope.plan import Plan
from engine.envelope.rule import Ctx, Edits, Memory, Rule
from engine.planning.assemble import replay
from engine.planning.policy import Policy, Step
from engine.planning.render import render
from engine.session.model import Edit, Part, Session, Span


@dataclass(frozen=True, slots=True)
class Cut:
    """What is done to a request: a share of the conversation, that many blocks, and what stands for them ("" = nothing)."""

    at: float
    blocks: int
    text: str


@dataclass(frozen=True, slots=True)
class Cuts:
    """What is done to each request, by its number."""

    cuts: Mapping[int, Cut] = field(default_factory=dict)


def _cut(envelope: Envelope, ctx: Ctx, params: Cuts) -> Edits:
    cut = params.cuts.get(ctx.request.n)
    if cut is None:
        return
    start = int(ctx.request.cut * cut.at)
    for span in ctx.index.talk(start, min(start + cut.blocks, ctx.request.cut)):
        if all(envelope.at(at).body is None for at in range(*span)):
            yield Edit("truncate" if cut.text else "drop", "law", span, (Part(text=cut.text),) if cut.text else ())
            yield Edit("insert", "law", Span(span.start, span.start), (Part(text="note"),), slot="note")


CUTS = st.dictionaries(
    st.integers(0, 6), st.builds(Cut, st.floats(0, 0.9), st.integers(1, 5), st.sampled_from(["", "in short"])), max_size=5
)
MEMORIES = st.lists(st.sampled_from(["fresh", "monotone", "remembers"]), min_size=1, max_size=2)


def planned(session: Session, cuts: list[Mapping[int, Cut]], memories: list[Memory]) -> list[Plan]:
    steps = tuple(Step(Rule("cut", "Cut.", _cut, Cuts, memory), Cuts(cut)) for cut, memory in zip(cuts, memories, strict=False))
    return [*replay(session, Policy("law", "", "", "", "", budget=BudgetParams(), rules=steps), ledger_of(session))]


@given(sessions, st.lists(CUTS, min_size=2, max_size=2), MEMORIES)
def test_the_model_sees_what_is_sent_where_its_server_leaves_nothing_out(
    session: Session, cuts: list[Mapping[int, Cut]], memories: list[Memory]
) -> None:
    left_out = False
    for plan in planned(session, cuts, memories):
        left_out = left_out or bool(plan.server)
        assert left_out or render(plan.seen, session) == render(plan.after, session)
        assert left_out or plan.seen.counts == plan.after.counts


@given(sessions, st.lists(CUTS, min_size=2, max_size=2), MEMORIES)
def test_what_lapsed_is_told_by_edits_that_put_it_back(
    session: Session, cuts: list[Mapping[int, Cut]], memories: list[Memory]
) -> None:
    ledger = ledger_of(session)
    for old, new in pairwise(planned(session, cuts, memories)):
        stands = old.after.grow(new.request.cut, ledger)
        for edit in lapsed(old.after, new.before):
            stands = stands.replace(edit, 0, ledger)[0]
        assert render(stands, session) == render(new.before, session)
        assert stands.counts == new.before.counts
