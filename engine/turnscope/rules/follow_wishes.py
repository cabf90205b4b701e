"""Do what a person wished for this request by hand: condense, edit a summary, undo a summary."""

from msgspec import structs

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, NoParams, Rule
from turnscope.envelope.wishes import find_wishes
from turnscope.errors import RuleError


def edits(envelope: Envelope, ctx: Ctx, params: NoParams) -> Edits:
    for wish in find_wishes(ctx.session, ctx.request.n):
        edit = wish
        try:
            envelope.replace(wish, -1, ctx.ledger)
        except RuleError as error:  # under another model or budget the envelope is different there
            why = f"{wish.because}, but it is not possible: {error.what}"
            edit = structs.replace(wish, action="keep", because=why, span=None, body=(), restore=False)
        envelope = yield edit


RULE = Rule("follow_wishes", "Do what a person wished for a request by hand.", edits, NoParams)
