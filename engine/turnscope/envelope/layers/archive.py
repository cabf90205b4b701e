"""Layer 5: what the model asks of the archive, and what it is granted. An odd request gets an answer, never an error.

The model asks with the tool `retrieve_conversations`; its calls are read here. Texts are made in `forms`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.layers.conversations import Split, find_current, find_first_full, get_memo, parse_id
from turnscope.envelope.layers.mentions import parse_learned, rank_related
from turnscope.envelope.rule import Ctx
from turnscope.session.index import count_before

TOOL = "retrieve_conversations"
FORMS = ("header", "summary", "full", "mixed")
PRIORITIES = ("recent", "relevant", "specific")
MIXED = ("full", "summary", "summary")  # forms of the first ids of a mixed request; all others get the header
MOST = 100  # ids of one call; further ids are ignored

Form = Literal["header", "summary", "full"]
GrantStatus = Literal["given", "superseded", "unknown", "stands in full", "over the quota", "malformed"]


class Grant(Struct, frozen=True):
    """The answer for one id of a call.

    Attributes:
        id: The id as requested.
        status: What becomes of it.
        number: The conversation; -1 = none.
        form: The form in which it is granted.
        current_id: The conversation's id now, if the requested one is superseded.
    """

    id: str
    status: GrantStatus
    number: int = -1
    form: Form = "header"
    current_id: str = ""

    @property
    def sentence(self) -> str:
        """The answer in words, for the model and the decision log."""
        if self.status == "given":
            return f"{self.id}: its {self.form} is added to the next request"
        if self.status == "superseded":
            return f"{self.id}: superseded by {self.current_id}, whose {self.form} is added to the next request"
        why = {"unknown": "there is no such conversation", "stands in full": "it is in the request in full"}
        why |= {"over the quota": "over the quota; ask again in the next turn", "malformed": "not an id of a conversation"}
        return f"{self.id}: {why[self.status]}"


def find_calls(ctx: Ctx, start: int) -> Sequence[int]:
    """Return the calls of the tool from address `start` on that belong to the request.

    Args:
        ctx: What the rule may read.
        start: Address from which to look.
    """
    known = get_memo(ctx)
    if "retrievals" not in known:
        known["retrievals"] = tuple(at for at in ctx.index.calls if ctx.session.blocks[at].name == TOOL)
    found: Sequence[int] = known["retrievals"]
    return found[count_before(found, start) : count_before(found, ctx.request.cut)]


def grant_ids(envelope: Envelope, ctx: Ctx, split: Split, request: Any, quota: int) -> Iterator[Grant]:
    """Yield a grant for each id of a call, in the order of its priority.

    Args:
        envelope: The request as it stands.
        ctx: What the rule may read.
        split: How the session is split into conversations.
        request: The input of the call.
        quota: The most ids that are given.
    """
    request = request if isinstance(request, Mapping) else {}
    ids = request.get("ids", request.get("conversation_ids"))
    rows = ids if isinstance(ids, list) else [ids]
    texts = dict.fromkeys(row if isinstance(row, str) else repr(row)[:40] for row in rows[:MOST])
    form = request.get("format") if request.get("format") in FORMS else "summary"  # small first
    first, left, taken = find_first_full(envelope, ctx, split), quota, set[int]()
    for text in _sort_ids(ctx, split, [*texts], request.get("priority")):
        number, now = parse_id(ctx, split, text)
        if number in taken:
            continue
        if number < 0:
            named = text.strip().lower().removeprefix("c").partition(".")[0].isdecimal() and text.isascii()
            yield Grant(text[:40], "unknown" if named else "malformed")
        elif number >= first:
            yield Grant(text, "stands in full", number)
        elif left <= 0:
            yield Grant(text, "over the quota", number)
        else:
            place = quota - left
            one = (MIXED[place] if place < len(MIXED) else "header") if form == "mixed" else form
            old = text.strip().lower() != now
            left -= 1
            taken.add(number)
            yield Grant(text, "superseded" if old else "given", number=number, form=one, current_id=now)  # type: ignore[arg-type]


def _sort_ids(ctx: Ctx, split: Split, ids: list[str], priority: Any) -> list[str]:
    """Ids in the requested order (specific), newest first (recent), or those most related to the prompt first (relevant)."""
    if priority == "recent":
        return sorted(ids, key=lambda text: -parse_id(ctx, split, text)[0])
    if priority == "relevant":
        score = dict(rank_related(ctx, split))
        return sorted(ids, key=lambda text: -score.get(parse_id(ctx, split, text)[0], 0))
    return ids


def predict_requests(ctx: Ctx, split: Split, most: int, learned: Sequence[str] = ()) -> tuple[int, ...]:
    """Return the conversations that the model may ask for next: those most related to the prompt and to what was learned.

    Args:
        ctx: What the rule may read.
        split: How the session is split into conversations.
        most: The most conversations.
        learned: What earlier sessions looked up again, as items `times name`.
    """
    older = (number for number, _ in rank_related(ctx, split, parse_learned(learned)) if number < find_current(ctx, split))
    return tuple(number for number, _ in zip(older, range(most), strict=False))
