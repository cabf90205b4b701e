"""Repeat the task once much has been said since: models lose sight of what stands far above."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Struct
from turnscope.rules import Ctx, Edit, Edits, Envelope, Part, Rule, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters: the app makes its form from them."""

    every: Annotated[int, "tokens of conversation between one reminder and the next"] = 10_000


class Said(Struct, frozen=True, gc=False):
    """The state: up to which address the session reached when the task was last said, and how often it was said again."""

    at: int
    times: int = 0


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    cut = ctx.request.cut
    if not ctx.index.messages or ctx.index.messages[0] >= cut:
        return None
    start = ctx.index.messages[0]
    last: Said = ctx.state or Said(start)
    since = ctx.count_tokens(last.at, cut)
    if since < params.every:
        return last  # what is returned is found again as `ctx.state`: no reminder now, so it stays as it is
    times = last.times + 1
    task = ctx.session.blocks[start].text
    because = f"{since:,} tokens were said since the task was, {params.every:,} is the mark: reminder {times}"
    yield Edit(
        "insert", because, Span(cut, cut), (Part("user", "reminder", f"[The task is still: {task}]"),), slot=f"task {times}"
    )
    return Said(cut, times)


RULE = Rule(
    "say_the_task_again",
    "Repeat the task behind the newest message each time that much has been said.",
    edits,
    Params,
    source="an example",
    state=Said,
)
