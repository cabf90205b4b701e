"""Where a text appears in a session, and when it left the window and why.

Pure functions of a trace. Plain substring search, letter case ignored.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.planning.trace import Standing, Trace
from engine.session.model import Block, Span
from engine.views.labels import label

MOST = 200  # hits; more are counted, not listed
AROUND = 60  # characters of context on each side


@dataclass(frozen=True, slots=True)
class Hit:
    """A block that holds the text. `spans`: half-open ranges of requests whose prompt carried it; empty = none did.

    `out`: how it stood when it last left, or in the first request that might have carried it; None while it is still there.
    """

    at: int
    label: str
    bucket: str
    before: str
    match: str
    after: str
    spans: tuple[Span, ...]
    out: Standing | None

    @property
    def why(self) -> str:
        """How it left last, "" while it is still there."""
        if self.out is None:
            return ""
        return f"left at request {self.out.since}" + (f": {self.out.because}" if self.out.because else "")


@dataclass(frozen=True, slots=True)
class Found:
    """All that a search found. `blocks`: how many blocks hold the text; `hits` are the first of them."""

    text: str
    blocks: int
    hits: tuple[Hit, ...]


def search(trace: Trace, text: str, most: int = MOST) -> Found:
    """Every block that holds `text`, and the requests that carried it."""
    needle = text.casefold().strip()
    if not needle:
        return Found(text, 0, ())
    holding = [block for block in trace.session.blocks if needle in block.text.casefold()]
    carried = trace.carried(block.at for block in holding[:most])
    hits = (_hit(trace, block, needle, spans) for block, spans in zip(holding, carried, strict=False))
    return Found(text, len(holding), tuple(hits))


def _hit(trace: Trace, block: Block, needle: str, spans: tuple[Span, ...]) -> Hit:
    gone = spans[-1].stop if spans else trace.entered(block.at)
    out = trace.why(block.at, gone) if gone < len(trace.plans) else None
    start = max(0, block.text.casefold().find(needle))
    stop = start + len(needle)
    head, tail = block.text[max(0, start - AROUND) : start], block.text[stop : stop + AROUND]
    return Hit(block.at, label(trace.session, block), block.bucket, head, block.text[start:stop], tail, spans, out)
