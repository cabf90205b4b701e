"""The summary of a session that is stored with it: counts, overview, cache misses, findings.

It follows from the session and the prices, so it can always be made again; `get_version` says when that is needed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import genai_prices
import msgspec
import numpy as np

from turnscope.library.opened_session import Annotations
from turnscope.library.opening import count_session, replay
from turnscope.library.window_choices import read_window_choices
from turnscope.planning.first_request import get_prompt_prior
from turnscope.planning.trace import Trace
from turnscope.pricing import overlay
from turnscope.session.model import Session
from turnscope.settings import find_prices_file
from turnscope.views.findings import Finding
from turnscope.views.overview import Marker, Overview, build_overview
from turnscope.views.request_summary import annotate

VERSION = 9  # count up when counts, overviews, cache misses or findings come out differently


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """The stored summary of a session.

    Attributes:
        counts: tokens by digest.
        markers: those of the overview with cache misses among them.
        exact: see `OpenedSession`.
    """

    counts: dict[str, int]
    overview: Overview
    markers: tuple[Marker, ...]
    findings: tuple[Finding, ...]
    exact: float = 0.0

    @property
    def annotations(self) -> Annotations:
        """As `OpenedSession` has it."""
        return replace(self.overview, markers=self.markers), self.findings


def build_summary(
    session: Session,
    progress: Callable[[str, float], object],
    counts: dict[str, int] | None = None,
    exact: Mapping[str, int] | None = None,
) -> tuple[SessionSummary, Trace]:
    """Count a session, build its overview and find what stands out.

    Args:
        session: the session.
        progress: called with the current step and the share of the work, 0 to 1.
        counts, exact: see `count_session`.
    """
    progress("Counting tokens", 0.6)
    ledger = count_session(session, counts, exact)
    progress("Laying out the requests", 0.8)
    trace = replay(session, ledger=ledger)
    whole = build_overview(trace)
    view, findings = annotate(trace, whole)
    return SessionSummary(
        counts=ledger.memo, overview=whole, markers=view.markers, findings=findings, exact=ledger.exact
    ), trace


def get_version(session: Session | None = None) -> str:
    """A text that changes with the version of summaries and with the prices.

    Args:
        session: with the windows that were chosen for it and what other sessions show of it, too; None = of all sessions.
    """
    chosen = [f"{each.model}={each.window}" for each in read_window_choices() if session and each.session == session.id]
    prior = get_prompt_prior(session)[0] if session else 0
    return ":".join((str(VERSION), _digest_prices(), *chosen, *([f"prior={prior}"] if prior else ())))


@cache
def _digest_prices() -> str:
    digest = sha256(genai_prices.__version__.encode())
    for file in (Path(overlay.__file__).with_name("overlay.json"), find_prices_file()):
        digest.update(file.read_bytes() if file else b"-")
    return digest.hexdigest()[:16]


def dumps(summary: SessionSummary) -> bytes:
    """Encode a summary; `loads` gives an equal one."""
    try:
        return msgspec.msgpack.encode(summary, enc_hook=_to_builtin)
    except (UnicodeEncodeError, OverflowError):  # lone surrogates, huge numbers
        return json.dumps(msgspec.to_builtins(summary, enc_hook=_to_builtin)).encode()


def loads(packed: bytes) -> SessionSummary:
    """Decode what `dumps` wrote."""
    if packed[:1] == b"{":
        return msgspec.convert(json.loads(packed), SessionSummary, dec_hook=_to_array)
    return msgspec.msgpack.decode(packed, type=SessionSummary, dec_hook=_to_array)


def _to_builtin(value: Any) -> Any:
    """Arrays as type, shape and bytes; their numbers as numbers."""
    return (str(value.dtype), value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value.item()


def _to_array(_kind: type, packed: Any) -> Any:
    dtype, shape, data = packed
    content = base64.b64decode(data) if isinstance(data, str) else data
    return np.frombuffer(content, dtype=dtype).reshape(shape)
