"""SWE-agent's last_n_observations: an older observation becomes one line, which says how many lines were left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from turnscope.envelope.conversation import get_previous_cut
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.errors import PolicyError
from turnscope.ports.rows import Row, build_content, memoize_by_ledger, read_rows, replace_text
from turnscope.ports.swe_agent.texts import KEEP, REMOVE, build_placeholder, find_elided_stop
from turnscope.session.index import Index, count_before
from turnscope.session.model import Edit, Session

OBSERVED = "observation"


@dataclass(frozen=True, slots=True)
class Params:
    """The options of the original."""

    n: Annotated[int, "number of newest observations that stay; the task is one of them"] = 5
    polling: Annotated[int, "number of new observations after which more are left out, so that the prompt cache lasts"] = 1
    keep_tags: Annotated[tuple[str, ...], "observations with such a tag stay"] = (KEEP,)
    remove_tags: Annotated[tuple[str, ...], "observations with such a tag never stay, which wins"] = (REMOVE,)

    def __post_init__(self) -> None:
        if self.n <= 0:
            raise PolicyError(f"n = {self.n}: at least one observation must stay", hint="Set n to 1 or more.")


class _Seen(NamedTuple):
    rows: tuple[Row, ...]
    starts: tuple[int, ...]
    tagged: tuple[int, ...]  # numbers of the observations with tags
    others: tuple[tuple[int, frozenset[str]], ...]  # where other messages with tags begin, and their tags


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. State: how many observations have become old."""
    seen, done = _find_observations(ctx), ctx.state or 1
    if any(
        not tags.isdisjoint(params.remove_tags) for at, tags in seen.others if get_previous_cut(ctx) <= at < ctx.request.cut
    ):
        why = "a message that is no observation has a tag that removes it: the original fails here"
        yield Edit("keep", why, facts={"error": "assertion"})
    there = count_before(seen.starts, ctx.request.cut)
    old = max(done, find_elided_stop(there, params.n, max(1, params.polling)))
    new = {*range(done, old)}
    first = count_before(seen.starts, get_previous_cut(ctx))
    for number in seen.tagged:
        tags = _get_tags(ctx.session, seen.rows[number])
        if number in new and not tags.isdisjoint(params.keep_tags):
            new.discard(number)
        if first <= number < there and not tags.isdisjoint(params.remove_tags):
            new.add(number)
    because = f"of {there:,} observations the newest {params.n:,} stay whole"
    for number in sorted(new):
        row = seen.rows[number]
        if row.start < ctx.request.cut and envelope.find_piece(row.start).body is not None:
            continue  # another placeholder is there already
        text = build_placeholder(*_read_observation(ctx.session, row))
        for edit in replace_text(ctx.session, row, text, "clear", because, {"observation": number}):
            if edit.span and edit.span.start < ctx.request.cut:
                yield edit
    return old


def _read_observation(session: Session, row: Row) -> tuple[list[str], int]:
    """Return the texts of an observation, and the number of its images."""
    content = build_content(session, row)
    parts = [content] if isinstance(content, str) else content or []
    texts = [part if isinstance(part, str) else str(part.get("text") or "") for part in parts]
    return texts, sum(not isinstance(part, str) and part.get("type") in ("image", "image_url") for part in parts)


@memoize_by_ledger
def _find_observations(session: Session, _index: Index, _own: object) -> _Seen:
    """Return tool results, and messages tagged as observations, after the user's first message, which is the task."""
    found: list[Row] = []
    others: list[tuple[int, frozenset[str]]] = []
    for row in read_rows(session).rows:
        message = session.messages[session.blocks[row.start].message]
        kind = message.extra.get("message_type")
        task = row.role == "user" and not found
        if (kind == OBSERVED if kind else row.role == "tool" or task) and not message.extra.get("is_demo"):
            found.append(row)
        elif tags := _get_tags(session, row):
            others.append((row.start, tags))
    tagged = (i for i, row in enumerate(found) if _get_tags(session, row))
    return _Seen(tuple(found), tuple(row.start for row in found), tuple(tagged), tuple(others))


def _get_tags(session: Session, row: Row) -> frozenset[str]:
    return frozenset(session.messages[session.blocks[row.start].message].extra.get("tags") or ())


RULE = Rule(
    "elide_old_observations",
    "Replace older observations (tool results) by one line, which says how many lines were left out.",
    edits,
    Params,
    source="SWE-agent 3ea751c0 (v1.1.0-177), sweagent/agent/history_processors.py: LastNObservations",
    state=int,
)
