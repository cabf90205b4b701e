"""How exactly a session's requests are known: recorded whole and proven, partly measured, or inferred.

Holds sentences for pages and commands. It measures nothing: an importer says what its log holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from turnscope.session.model import CHAT, EXACT_REQUESTS, FROM_WIRE, Bucket, Session

API_LOGS = frozenset({"anthropic-api", "raw-bodies", "openai-chat", "openai-responses", "tap", CHAT})
# What makes later sessions of a tool exact, by the format of its log.
WAYS: Mapping[str, str] = {
    "claude-code": "exact where Claude Code (2.1.330 or later) records requests, or with OTEL_LOG_RAW_API_BODIES=file:FOLDER",
}
OTHER_WAY = "exact with `turnscope tap`, or with a log of the API's requests, as a gateway keeps it"


@dataclass(frozen=True, slots=True)
class Exactness:
    """How many of a session's `requests` are known `whole`, and how many of these are `proven` by a digest in the log.

    `static`: whether its log holds the system prompt and the tools. `source`: its format. `bodies`: how many of the whole ones
    were recorded as one body. `inferred`: requests without a record beside others that have one. `wire`: a tap recorded the
    bodies.
    """

    requests: int
    whole: int
    proven: int
    static: bool
    source: str = ""
    bodies: int = 0
    inferred: int = 0
    wire: bool = False

    @property
    def complete(self) -> bool:
        """Whether every request is in the log whole."""
        return self.requests == self.whole > 0

    @property
    def as_sent(self) -> bool:
        """Whether every request is known to be as it was sent: a body of the log, or rebuilt with an equal digest."""
        return self.complete and not self.unproven

    @property
    def unproven(self) -> int:
        """How many requests are neither bodies of the log nor rebuilt with an equal digest."""
        return self.requests - self.proven - self.bodies

    @property
    def label(self) -> str:
        """A few words for a chip."""
        if self.bodies and self.as_sent:
            return "as sent"
        if self.whole:
            known = self.proven + self.bodies
            return f"{'as sent' if self.as_sent else 'rebuilt'}, {known:,} of {self.requests:,} proven"
        return "system + tools in the log" if self.static else "system + tools inferred"

    @property
    def sentence(self) -> str:
        """What was measured, and how."""
        if self.proven:
            bodies = f", raw bodies for {self.bodies:,}" if self.bodies else ""
            return (
                f"{self.whole:,} of {self.requests:,} requests rebuilt, digests equal for {self.proven:,}{bodies}{self._others}"
            )
        if self.complete and self.wire:
            return f"a tap recorded the body of each of its {self.requests:,} requests"
        if self.complete and self.bodies == self.requests:
            return f"the log holds the body of each of its {self.requests:,} requests"
        if self.bodies:
            return f"raw bodies hold {self.bodies:,} of {self.requests:,} requests{self._others}"
        if self.complete:
            return f"{self.whole:,} requests rebuilt, none with an equal digest"
        if self.static:
            return "system prompt and tools are in the log; messages are as in its transcript"
        return "the log holds neither system prompt nor tools: their size is inferred from the billed tokens"

    @property
    def _others(self) -> str:
        return f"; {self.inferred:,} without a record are inferred" if self.inferred else ""

    @property
    def way(self) -> str:
        """From which version or setting on sessions of this tool are exact; "" where this one is."""
        return "" if self.complete else WAYS.get(self.source, OTHER_WAY)


def describe_exactness(session: Session) -> Exactness:
    """How exactly the requests of a session's own path are known."""
    recorded = session.about.get(EXACT_REQUESTS)
    counts = recorded if isinstance(recorded, dict) else {}
    requests = len(session.requests)
    whole, bodies = (requests, requests) if session.source in API_LOGS else (counts.get("requests", 0), counts.get("bodies", 0))
    proven, wire = counts.get("proven", 0), FROM_WIRE in session.about
    static = {block.bucket for block in session.blocks} >= {Bucket.SYSTEM, Bucket.TOOLS}
    return Exactness(requests, min(whole, requests), proven, static, session.source, bodies, len(list_inferred(session)), wire)


def describe_request(session: Session, number: int) -> str:
    """How the body of one request is known, as a sentence.

    Args:
        session: The session.
        number: Number of the request.
    """
    known, inferred = describe_exactness(session), list_inferred(session)
    if number in inferred:
        return "Inferred: the log has no record of this request."
    if known.as_sent or (inferred and known.unproven == known.inferred):
        return "As sent."
    return "Rebuilt, not proven." if known.complete or inferred else "Not as sent."


def list_inferred(session: Session) -> frozenset[int]:
    """Numbers of the requests that the log does not record, where it records others whole."""
    recorded = session.about.get(EXACT_REQUESTS)
    return frozenset(recorded.get("inferred") or ()) if isinstance(recorded, dict) else frozenset()


def iter_sessions(session: Session) -> Iterator[Session]:
    """A session and all subagents below it."""
    yield session
    for subagent in session.subagents:
        yield from iter_sessions(subagent)


def sum_exactness(session: Session) -> Exactness:
    """The same for a session with its subagents."""
    found = [describe_exactness(one) for one in iter_sessions(session)]
    return Exactness(
        sum(one.requests for one in found),
        sum(one.whole for one in found),
        sum(one.proven for one in found),
        all(one.static for one in found),
        session.source,
        sum(one.bodies for one in found),
        sum(one.inferred for one in found),
        FROM_WIRE in session.about,
    )
