"""Laws of the tiling: whatever is edited, pieces tile the timeline, counts equal a recount, and undoing gives what was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from law_sessions import ledger_of, sessions
from turnscope.counting.ledger import Ledger
from turnscope.envelope.envelope import CHUNK, Envelope
from turnscope.errors import RuleError
from turnscope.session.model import Edit, Part, Session, Span


def recount(envelope: Envelope, ledger: Ledger) -> tuple[int, ...]:
    counts = [0] * 5
    for piece in envelope.pieces:
        fresh = ledger.count_by_bucket(piece.start, piece.stop) if piece.body is None else ledger.count_placeholder(piece.body)
        counts = [a + b for a, b in zip(counts, fresh, strict=True)]
    return tuple(counts)


def check(envelope: Envelope, ledger: Ledger, stop: int) -> None:
    place = 0
    for piece in envelope.pieces:
        assert piece.start == place
        assert piece.stop >= piece.start
        assert piece.stop > piece.start or piece.slot
        place = piece.stop
    assert place == envelope.stop == stop
    assert envelope.counts == recount(envelope, ledger)
    assert all(0 < len(chunk.pieces) <= CHUNK for chunk in envelope.chunks)
    sent = [any(piece.body != () and piece.start < piece.stop for piece in chunk.pieces) for chunk in envelope.chunks]
    assert [chunk.is_sent for chunk in envelope.chunks] == sent


@st.composite
def edits(draw: st.DrawFn, session: Session) -> list[tuple[str, int, int, str]]:
    n = len(session.blocks)
    one = st.tuples(
        st.sampled_from(["drop", "clear", "restore", "insert", "remove", "grow"]),
        st.integers(0, n),
        st.integers(0, n),
        st.sampled_from("ab"),
    )
    return draw(st.lists(one, max_size=25))


@given(st.data())
def test_any_edits_keep_the_tiling_and_its_counts_and_undo_gives_back_what_was(data: st.DataObject) -> None:
    session = data.draw(sessions)
    ledger = ledger_of(session)
    envelope = Envelope().grow(max(1, len(session.blocks) // 2), ledger)
    history = []
    for kind, one, other, slot in data.draw(edits(session)):
        a, b = sorted((one, other))
        if kind == "grow":
            envelope, history = envelope.grow(max(a, envelope.stop), ledger), []
            continue
        body = {"clear": (Part(text="cleared " * 3),), "insert": (Part(text=f"memo {a}"),)}.get(kind, ())
        span = Span(a, a) if kind in ("insert", "remove") else Span(a, b)
        edit = Edit("drop" if kind == "remove" else kind, "because", span, body, kind == "restore", slot)
        try:
            changed, splice = envelope.replace(edit, len(history), ledger)
        except RuleError:
            check(envelope, ledger, envelope.stop)
            continue
        if splice is None:
            assert changed == envelope
        else:
            history.append((envelope, splice))
            assert [*changed.undo(splice).pieces] == [*envelope.pieces]
            assert [*envelope.redo(splice).pieces] == [*changed.pieces]
        envelope = changed
        check(envelope, ledger, envelope.stop)
    for before, splice in reversed(history):
        envelope = envelope.undo(splice)
        assert [*envelope.pieces] == [*before.pieces]
        assert envelope.counts == before.counts


def test_a_placeholder_cannot_be_cut_but_can_be_swallowed_or_restored(ten: tuple[Session, Ledger]) -> None:
    _, ledger = ten
    whole = Envelope().grow(10, ledger)
    stood, _ = whole.replace(Edit("condense", "b", Span(2, 6), (Part(text="sum"),)), 0, ledger)
    with pytest.raises(RuleError, match="cannot be cut"):
        stood.replace(Edit("drop", "b", Span(4, 8)), 1, ledger)
    assert [p.start for p in stood.replace(Edit("drop", "b", Span(1, 7)), 1, ledger)[0].pieces] == [0, 1, 7]
    back, _ = stood.replace(Edit("restore", "b", Span(2, 6), restore=True), 1, ledger)
    assert back.counts == whole.counts


def test_a_dropped_piece_can_be_restored_in_part(ten: tuple[Session, Ledger]) -> None:
    _, ledger = ten
    gone, _ = Envelope().grow(10, ledger).replace(Edit("drop", "b", Span(2, 8)), 0, ledger)
    back, _ = gone.replace(Edit("restore", "b", Span(4, 5), restore=True), 1, ledger)
    assert [(p.start, p.stop, p.body) for p in back.pieces] == [
        (0, 2, None),
        (2, 4, ()),
        (4, 5, None),
        (5, 8, ()),
        (8, 10, None),
    ]


def test_one_slot_holds_one_piece_and_slots_stand_in_the_order_they_came(ten: tuple[Session, Ledger]) -> None:
    _, ledger = ten
    envelope = Envelope().grow(10, ledger)
    for slot, text in (("a", "one"), ("b", "two"), ("a", "three")):
        envelope, _ = envelope.replace(Edit("insert", "b", Span(4, 4), (Part(text=text),), slot=slot), 0, ledger)
    assert [(p.slot, p.body[0].text) for p in envelope.pieces if p.slot] == [("a", "three"), ("b", "two")]
    envelope, _ = envelope.replace(Edit("drop", "b", Span(4, 4), (), slot="a"), 1, ledger)
    assert [p.slot for p in envelope.pieces if p.slot] == ["b"]


def test_a_splice_copies_the_chunks_it_touches_and_shares_the_rest() -> None:
    from law_sessions import make

    session = make([[("tool", 10)] * 4] * 120)
    ledger = ledger_of(session)
    envelope = Envelope().grow(len(session.blocks), ledger)
    copied = 0
    for at in range(2, len(session.blocks), 3):
        changed, _ = envelope.replace(Edit("clear", "b", Span(at, at + 1), (Part(text="x"),)), at, ledger)
        shared = {id(chunk) for chunk in envelope.chunks}
        copied += sum(len(chunk.pieces) for chunk in changed.chunks if id(chunk) not in shared)
        envelope = changed
    edits_made = len(range(2, len(session.blocks), 3))
    assert copied <= edits_made * 2 * CHUNK
    check(envelope, ledger, len(session.blocks))


@pytest.fixture
def ten() -> tuple[Session, Ledger]:
    from law_sessions import make

    session = make([[("tool", 50)], [("tool", 50)], [("say", 9)]])
    assert len(session.blocks) >= 10
    return session, ledger_of(session)
