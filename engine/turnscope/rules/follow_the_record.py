"""Do what the original tool did: the edits that the log shows, at the request where each first shows."""

from bisect import bisect_left

from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, NoParams, Rule


def edits(envelope: Envelope, ctx: Ctx, params: NoParams) -> Edits:
    observed = ctx.session.observed
    since = ctx.previous.request.n + 1 if ctx.previous else 0
    for i in range(bisect_left(observed, since, key=lambda o: o.request), len(observed)):
        if observed[i].request > ctx.request.n:
            return
        yield observed[i].edit


RULE = Rule("follow_the_record", "Do what the original tool did, as far as the log shows it.", edits, NoParams)
