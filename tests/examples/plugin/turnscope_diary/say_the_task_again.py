"""Repeat the task after much further conversation: models lose sight of text far above."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Struct
from turnscope.rules import Ctx, Edit, Edits, Envelope, Part, Rule, Span


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters: the app makes its form from them."""

    every: Annotated[int, "tokens of conversation between one reminder and the next"] = 10_000


class Reminded(Struct, frozen=True, gc=False):
    """The state: the address at which the task was last repeated, and how often it was repeated."""

    at: int
    times: int = 0


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    cut = ctx.request.cut
    if not ctx.index.messages or ctx.index.messages[0] >= cut:
        return None
    start = ctx.index.messages[0]
    last: Reminded = ctx.state or Reminded(start)
    since = ctx.count_tokens(last.at, cut)
    if since < params.every:
        return last  # what is returned is found again as `ctx.state`: no reminder now, so it stays as it is
    times = last.times + 1
    task = ctx.session.blocks[start].text
    because = f"{since:,} tokens followed the task, {params.every:,} is the mark: reminder {times}"
    yield Edit(
        "insert", because, Span(cut, cut), (Part("user", "reminder", f"[The task is still: {task}]"),), slot=f"task {times}"
    )
    return Reminded(cut, times)


RULE = Rule(
    "say_the_task_again",
    "Repeat the task after the newest message, once for each stretch of so much conversation.",
    edits,
    Params,
    source="an example",
    state=Reminded,
)
