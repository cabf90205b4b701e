"""What is thought of a session as a whole, to be stored beside it: counts, overview, cache breaks, findings.

It follows from the session and from prices, so it can always be formed again; `version` says when it has to be.
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

from turnscope.library.opened import Annotated
from turnscope.library.opening import ledger_of, replay
from turnscope.planning.trace import Trace
from turnscope.pricing import overlay
from turnscope.session.model import Session
from turnscope.settings import find_prices_file
from turnscope.views.findings import Finding
from turnscope.views.one_request import annotated
from turnscope.views.overview import Marker, Overview, overview

VERSION = 4  # count up when counts, overviews, cache breaks or findings come out differently


@dataclass(frozen=True, slots=True)
class Opinion:
    """`counts`: tokens by digest; `markers`: those of the overview with cache breaks among them; `exact`: see `Opened`."""

    counts: dict[str, int]
    overview: Overview
    markers: tuple[Marker, ...]
    findings: tuple[Finding, ...]
    exact: float = 0.0

    @property
    def annotated(self) -> Annotated:
        """As `Opened` wants it."""
        return replace(self.overview, markers=self.markers), self.findings


def formed(
    session: Session,
    tell: Callable[[str, float], object],
    counts: dict[str, int] | None = None,
    exact: Mapping[str, int] | None = None,
) -> tuple[Opinion, Trace]:
    """Count, lay out and look over a session; `tell` is told how far that is. `counts`, `exact`: see `ledger_of`."""
    tell("Counting tokens", 0.6)
    ledger = ledger_of(session, counts, exact)
    tell("Laying out the requests", 0.8)
    trace = replay(session, ledger=ledger)
    whole = overview(trace)
    view, findings = annotated(trace, whole)
    return Opinion(ledger.memo, whole, view.markers, findings, ledger.exact), trace


@cache
def version() -> str:
    """Differs where another version of Turnscope or other prices would form another opinion."""
    digest = sha256(genai_prices.__version__.encode())
    for file in (Path(overlay.__file__).with_name("overlay.json"), find_prices_file()):
        digest.update(file.read_bytes() if file else b"-")
    return f"{VERSION}:{digest.hexdigest()[:16]}"


def dumps(opinion: Opinion) -> bytes:
    """An opinion as bytes; `loads` gives it back equal."""
    try:
        return msgspec.msgpack.encode(opinion, enc_hook=_plain)
    except (UnicodeEncodeError, OverflowError):  # lone surrogates, huge numbers
        return json.dumps(msgspec.to_builtins(opinion, enc_hook=_plain)).encode()


def loads(packed: bytes) -> Opinion:
    """What `dumps` wrote."""
    if packed[:1] == b"{":
        return msgspec.convert(json.loads(packed), Opinion, dec_hook=_array)
    return msgspec.msgpack.decode(packed, type=Opinion, dec_hook=_array)


def _plain(value: Any) -> Any:
    """Arrays as type, shape and bytes; numbers of theirs as numbers."""
    return (str(value.dtype), value.shape, value.tobytes()) if isinstance(value, np.ndarray) else value.item()


def _array(_kind: type, packed: Any) -> Any:
    dtype, shape, data = packed
    held = base64.b64decode(data) if isinstance(data, str) else data
    return np.frombuffer(held, dtype=dtype).reshape(shape)
