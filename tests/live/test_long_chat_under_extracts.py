"""300 turns of a chat under `extracts`, condensed by hand, killed and taken up again: all is sent, and each loss is told."""

from __future__ import annotations

from pathlib import Path

import pytest
import turnscope
from turnscope.live.threads import Threads

from tests.matrix import Course, drive


@pytest.mark.thorough  # 300 turns over HTTP
def test_nothing_is_rejected_and_whatever_left_was_told_with_a_reason(tmp_path: Path) -> None:
    row = drive("extracts", Course(turns=300, condense=100, paste=-1, kill=201, model="offline-16k"), tmp_path)
    assert row.right, row.why
    assert (row.turns, row.refused, row.stopped, row.condensed) == (300, 0, 0, "stands")
    threads = Threads(tmp_path / "chats.db")
    session = threads.load(threads.list()[0].id)
    trace = turnscope.replay(session, "extracts")
    cut = [decision for plan in trace.plans for decision in plan.decisions if decision.rule == "extract_old_work"]
    assert len({decision.edit.because for decision in cut}) > 1, "it cut more than once"
    for plan in trace.plans[::20]:
        gone = [piece for piece in plan.seen.pieces if piece.body is not None and piece.start < piece.stop]
        assert all(trace.explain(at, plan.request.n).because for piece in gone for at in range(piece.start, piece.stop))
