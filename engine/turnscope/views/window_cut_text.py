"""What was lost at a cut of the window, as Markdown to hand on. Text of the session is escaped."""

from __future__ import annotations

from collections.abc import Iterator

from turnscope.numbering import format_request
from turnscope.views.decision_log import escape_inline
from turnscope.views.phrases import format_usd, spell_times
from turnscope.views.window_cuts import CutItem, WindowCut

MAX_ITEMS = 40  # of a group
MAX_LABEL = 160  # characters


def to_markdown(cut: WindowCut) -> str:
    """Write a cut as Markdown: its numbers, the summary, and what it replaced by kind.

    Args:
        cut: the cut.
    """
    return "\n".join((*_iter_head(cut), *_iter_groups(cut), ""))


def _iter_head(cut: WindowCut) -> Iterator[str]:
    yield f"# What was lost at request {format_request(cut.request)}"
    yield ""
    yield f"Cut {cut.number} of {cut.count}: {escape_inline(cut.because)}."
    yield ""
    yield f"- Tokens: {cut.before:,} before, {cut.after:,} after"
    cost = cut.cost
    if cost.before is not None and cost.after is not None:
        yield f"- Prompt of a request: {format_usd(cost.before)} before, {format_usd(cost.after)} after (medians)"
        yield f"- Saved until request {format_request(cut.stop - 1)}: {format_usd(cost.saved[-1])}"
    if cut.sentences:
        yield f"\n## The summary, {cut.summary_tokens:,} tokens\n"
        yield from (f"{n}. {escape_inline(text)}" for n, text in enumerate(cut.sentences, 1))


def _iter_groups(cut: WindowCut) -> Iterator[str]:
    for group in cut.groups:
        yield f"\n## {group.title}, {group.tokens:,} tokens\n"
        yield "| left | tokens | sentence | used by later answers |"
        yield "| --- | --- | --- | --- |"
        yield from (_write_row(item) for item in group.items[:MAX_ITEMS])
        if len(group.items) > MAX_ITEMS:
            yield f"\nand {len(group.items) - MAX_ITEMS:,} more"


def _write_row(item: CutItem) -> str:
    uses = []
    if item.needed:
        uses.append(f"needed {spell_times(len(item.needed))}, first at request {format_request(item.needed_at[0])}")
    if item.read_again:
        uses.append(f"fetched again {spell_times(len(item.read_again))}")
    if item.returned:
        uses.append("attached again")
    numbers = ", ".join(map(str, item.sentences)) or "-"
    return f"| {escape_inline(item.label[:MAX_LABEL])} | {item.tokens:,} | {numbers} | {'; '.join(uses) or 'not used again'} |"
