"""Edits applied in one pass: as one after another."""

from __future__ import annotations

from random import Random

import pytest
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Splice
from turnscope.errors import RuleError
from turnscope.session.builder import Builder
from turnscope.session.model import Edit, Part, Span

BLOCKS = 300
BODIES = ((), (Part("user", "text", "short", {"type": "text", "text": "short"}),))


def make_edits(rng: Random) -> list[Edit]:
    """Many edits in address order, some of which touch each other, and a few that restore, insert, or change nothing."""
    found, at = [], 0
    while at < BLOCKS - 4:
        start = at + rng.choice((0, 1, 3))
        stop = start + rng.choice((1, 1, 2))
        kind = rng.random()
        if kind < 0.05:
            found.append(Edit("insert", "", Span(start, start), BODIES[1], slot="note"))
        elif kind < 0.1:
            found.append(Edit("restore", "", Span(start, stop), restore=True))
        elif kind < 0.12:
            found.append(Edit("keep", ""))
        else:
            found.append(Edit("truncate", "", Span(start, stop), rng.choice(BODIES)))
        at = stop
    return found


@pytest.mark.parametrize("seed", range(4))
def test_edits_in_one_pass_do_what_they_do_one_by_one(seed: int) -> None:
    rng, builder = Random(seed), Builder("a", "a")
    for n in range(BLOCKS):
        builder.add_message("user" if n % 2 else "assistant", f"word {n} " * rng.randrange(1, 9))
    ledger = build_ledger(builder.build(), CHARS)
    whole = Envelope().grow(BLOCKS, ledger)
    first = rng.randrange(2, 9)
    some = whole.replace(Edit("insert", "", Span(0, 0), BODIES[1], slot="top"), 0, ledger)[0]
    begun = [whole, some, some.replace(Edit("drop", "", Span(0, first), ()), 1, ledger)[0]]
    for envelope in begun:
        edits = [edit for edit in make_edits(rng) if edit.span is None or edit.span.start >= first]
        one, changes = envelope, list[tuple[Splice | None, int]]()
        for number, edit in enumerate(edits, 2):
            one, splice = one.replace(edit, number, ledger)
            changes.append((splice, one.tokens))
        together, same = envelope.replace_each(edits, 2, ledger)
        assert [*together.pieces] == [*one.pieces]
        assert together.counts == one.counts
        assert same == changes
        for splice, _ in reversed(same):
            together = together.undo(splice) if splice else together
        assert [*together.pieces] == [*envelope.pieces]
        assert together.counts == envelope.counts


def test_an_edit_behind_the_end_is_a_mistake_of_its_rule() -> None:
    builder = Builder("a", "a")
    builder.add_message("user", "hello")
    ledger = build_ledger(builder.build(), CHARS)
    edits = [Edit("drop", "", Span(0, 1), ()), Edit("drop", "", Span(1, 2), ())]
    with pytest.raises(RuleError, match="span 1:2"):
        Envelope().grow(1, ledger).replace_each(edits, 0, ledger)
