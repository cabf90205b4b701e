"""LibreChat's legacy path: the prompt begins at the newest message with a stored summary, which replaces that message."""

from turnscope.envelope.conversation import find_droppable, get_previous_cut
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, NoParams, Rule
from turnscope.ports.librechat.legacy import find_path, get_summary
from turnscope.session.index import count_before
from turnscope.session.model import Edit, Part, Span


def edits(envelope: Envelope, ctx: Ctx, params: NoParams) -> Edits:
    """Yield the edits of a request.

    Only what is new since the previous request is read: an older summary is in the envelope already.
    """
    session, starts = ctx.session, ctx.index.messages
    new = starts[count_before(starts, get_previous_cut(ctx)) : count_before(starts, ctx.request.cut)]
    ordinals = [session.blocks[at].message for at in new]
    stored = [
        {**session.messages[n].extra, "messageId": str(n), "parentMessageId": str(before)}
        for before, n in zip((-1, *ordinals), ordinals, strict=False)
    ]
    path = find_path(stored, str(ordinals[-1]) if ordinals else None, stop_at_summary=True)
    text = get_summary(path[0]) if path else ""
    if not text:
        return
    message = session.messages[int(path[0]["messageId"])]
    because = "a summary is stored with this message: it replaces the message and all before it"
    for span in find_droppable(ctx, envelope, starts[0], message.stop):
        envelope = yield Edit("condense", because, span)
    part = Part("system", "summary", text, place="system")
    yield Edit("insert", because, Span(0, 0), (part,), slot="summary", facts={"message": message.id})


RULE = Rule(
    "begin_at_stored_summary",
    "Begin at the newest message with a stored summary, and send the summary in its place.",
    edits,
    NoParams,
    source="LibreChat, api/app/clients/BaseClient.js: getMessagesForConversation",
)
