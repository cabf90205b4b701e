"""Layer 4: for what the prompt names, the conversations that speak of it: a pointer each, no text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

from msgspec import Struct

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.layers.caps import fit_points
from turnscope.envelope.layers.conversations import Split, find_first_full, format_id
from turnscope.envelope.layers.forms import list_completed, make_counter
from turnscope.envelope.layers.mentions import LEARNED, find_mentions, find_prompt_names, parse_learned
from turnscope.envelope.layers.places import REFERENCES, find_current_start, find_insert, put_texts, remove_outdated_insert
from turnscope.envelope.rule import Ctx, Edits, Rule

HEAD = "[Where what is asked about was spoken of before; any can be retrieved by its id]"
NEWEST = 6  # conversations named for one name
RARE = 3  # a word that no more conversations hold is a name, too


@dataclass(frozen=True, slots=True)
class Params(Split):
    """Parameters."""

    cap: Annotated[int, "tokens that the references may have"] = 120
    learn: Annotated[bool, "what earlier sessions of the project looked up again is named first"] = True


class ReferenceState(Struct, frozen=True, gc=False):
    """Where the references are, and what earlier sessions looked up again, as it was known when this one began."""

    at: int
    learned: tuple[str, ...] = ()


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    state: ReferenceState | None = ctx.state
    if not list_completed(ctx, params):
        return state
    was, at = state.at if state else None, find_current_start(ctx, params)
    if was == at and (ctx.count_envelope(envelope) <= ctx.limit or not find_insert(envelope, at, REFERENCES)):
        return state
    learned = state.learned if state else (yield LEARNED).items if params.learn else ()
    for edit in remove_outdated_insert(envelope, was, at, REFERENCES):
        envelope = yield edit
    rows = _find_rows(ctx, params, find_first_full(envelope, ctx, params), parse_learned(learned)) if was != at else []
    text = fit_points(HEAD, [(name, " ", ids) for name, ids in rows], params.cap, make_counter(ctx)) if rows else ""
    if "\n" not in text or make_counter(ctx)([text])[0] > ctx.limit - ctx.count_envelope(envelope):
        text = ""
    because = f"{len(rows)} names in the prompt were spoken of before" if text else "there is no room for references"
    facts = {"names": [name for name, _ in rows], "cap": params.cap}
    yield from put_texts(envelope, at, REFERENCES, (text,) if text else (), because=because, facts=facts)
    return ReferenceState(at, learned)


def _find_rows(ctx: Ctx, params: Params, first: int, learned: Mapping[str, int]) -> list[tuple[str, tuple[str, ...]]]:
    """What the prompt names, what was looked up most often before first; with the conversations before `first` that name it
    too, the newest first.
    """
    return sorted(_find_named(ctx, params, first), key=lambda row: -learned.get(row[0], 0))


def _find_named(ctx: Ctx, params: Params, first: int) -> Iterator[tuple[str, tuple[str, ...]]]:
    named = find_prompt_names(ctx, params)
    words = (word for word in named.concepts if not any(word in entity.lower() for entity in named.entities))
    for name in dict.fromkeys((*named.entities, *words)):
        numbers = [number for number in find_mentions(ctx, params, name) if number < first]
        if numbers and (name in named.entities or len(numbers) <= RARE):
            yield name, tuple(format_id(ctx, params, number) for number in numbers[: -NEWEST - 1 : -1])


RULE = Rule(
    "insert_references",
    "Name the earlier conversations that speak of the files, functions and errors in the prompt.",
    edits,
    Params,
    source="Smart Context Management for AI Code Assistants: layer 4, reference index, lightweight pointers",
    state=ReferenceState,
)
