"""What system prompt and tools are taken to have where a log does not hold them, from other sessions on this machine."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from msgspec import structs

from turnscope.library.opening import find_family
from turnscope.planning.trace import Trace
from turnscope.session.model import BEGINS_MID_CONVERSATION, PROMPT_PRIOR, Bucket, Session
from turnscope.storage import prompt_sizes
from turnscope.storage.database import StorageError
from turnscope.storage.prompt_sizes import PromptSize

STATIC = frozenset((Bucket.SYSTEM, Bucket.TOOLS))


def add_prior(path: Path, session: Session) -> Session:
    """The session with a prior, where neither its log nor its first bill shows the size of system prompt and tools.

    Args:
        path: The database.
        session: The session.
    """
    version = session.about.get("version")
    first = next(iter(session.requests), None)
    has_usage = first is not None and first.usage is not None and session.about.get(BEGINS_MID_CONVERSATION) is not True
    if not isinstance(version, str) or first is None or has_usage or any(block.bucket in STATIC for block in session.blocks):
        return session
    with suppress(StorageError):
        if found := prompt_sizes.find(path, session.source, version, find_family(session)):
            tokens, sessions = found
            whose = f"{sessions} session{'' if sessions == 1 else 's'} of {session.source} {version} on this machine"
            return structs.replace(session, about={**session.about, PROMPT_PRIOR: {"tokens": tokens, "source": whose}})
    return session


def drop_prior(session: Session) -> Session:
    """The session as its log has it. What other sessions show is looked up each time it is opened."""
    about = {key: value for key, value in session.about.items() if key != PROMPT_PRIOR}
    return structs.replace(session, about=about) if PROMPT_PRIOR in session.about else session


def remember_size(path: Path, session: Session, trace: Trace) -> None:
    """Store the size of system prompt and tools where a session's log holds both at its first request with usage.

    Args:
        path: The database.
        session: The session.
        trace: The session as it was sent.
    """
    version = session.about.get("version")
    plan = next((plan for plan in trace.plans if plan.request.usage and all(plan.seen.counts[:2])), None)
    if plan is None or not isinstance(version, str):
        return
    terms = trace.get_terms(plan.request.n)
    tokens = terms.prefix + round(terms.get_scale(0) * plan.static_tokens)
    with suppress(StorageError):
        prompt_sizes.remember(path, PromptSize(session.source, version, find_family(session), session.id, tokens))
