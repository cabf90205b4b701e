"""Shows a session in a notebook."""

from __future__ import annotations

from pathlib import Path

from turnscope.library.opening import AS_RECORDED, replay
from turnscope.planning.policy import Policy
from turnscope.planning.trace import Trace
from turnscope.session.model import Session
from turnscope.session.thread import Thread
from turnscope.views.slider import EnvelopeSlider


def show(session: Session | Thread | Trace | Path | str, policy: Policy | str = AS_RECORDED) -> EnvelopeSlider:
    """Show what filled each request of a session, with a slider, in Jupyter, VS Code or marimo.

    Args:
        session: A session, a thread, a replay, or a path to read one from.
        policy: The policy that it is replayed under.

    Raises:
        TurnscopeError: It cannot be read, or there is no such policy.

    >>> turnscope.show("sample_sessions/cache-goes-cold.jsonl", "last-5-pairs").trace.policy.name
    'last-5-pairs'
    """
    return EnvelopeSlider(session if isinstance(session, Trace) else replay(session, policy))
