"""How well counted tokens explain recorded ones, per file. `python tests/bench/fit_table.py [FILE ...]`.

Prediction: request k from requests before k, as planning does it (from the third request on). Unattributed: what the
session-wide fit that is shown leaves over. Default files: the Claude Code sessions kept beside the project, else the samples.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import turnscope  # noqa: E402
from turnscope.session.model import Session  # noqa: E402
from turnscope.views.overview import build_overview  # noqa: E402

WARM = 3  # requests with usage before the first prediction


@dataclass(frozen=True, slots=True)
class Row:
    """Errors as shares of the recorded prompt."""

    name: str
    requests: int
    errors: np.ndarray
    unattributed: np.ndarray
    scale: float
    prefix: int


def files() -> list[Path]:
    """Real sessions where they are, else our samples."""
    real = ROOT.parent / "shared" / "data" / "open" / "claude-code"
    return sorted(real.rglob("*.jsonl")) if real.is_dir() else sorted((ROOT / "sample_sessions").glob("*.jsonl"))


def rows(paths: list[Path]) -> Iterator[Row]:
    """One row per session with at least eight requests with usage; subagents inside a file are sessions of their own."""
    for path in paths:
        main = turnscope.load(path)
        inside = main.subagents if not path.with_suffix("").is_dir() else ()
        for session in (main, *inside):
            if sum(request.usage is not None for request in session.requests) >= 8:
                yield row(path.stem if session is main else f"{path.stem[:20]} / {session.id[:12]}", session)


def row(name: str, session: Session) -> Row:
    trace = turnscope.replay(session)
    view = build_overview(trace)
    errors = [
        abs(plan.expected_tokens - plan.request.usage.prompt_tokens) / plan.request.usage.prompt_tokens
        for plan in trace.plans
        if plan.calibration.seen >= WARM and plan.request.usage and plan.request.usage.prompt_tokens
    ]
    has = view.recorded > 0
    left = np.abs(view.cells[has, -1]) / view.recorded[has]
    return Row(name, int(has.sum()), np.array(errors), left, view.fits[-1].scale, view.fits[-1].prefix)


def main() -> int:
    found = list(rows([Path(p) for p in sys.argv[1:]] or files()))
    print(f"{'session':44} {'requests':>8} {'prediction error':>20} {'unattributed':>20} {'scale':>6} {'prefix':>8}")
    print(f"{'':44} {'':8} {'median':>10}{'p90':>10} {'median':>10}{'p90':>10}")
    for r in found:
        e, u = r.errors, r.unattributed
        print(
            f"{r.name[:44]:44} {r.requests:8} {np.median(e):10.2%}{np.quantile(e, 0.9):10.2%} "
            f"{np.median(u):10.2%}{np.quantile(u, 0.9):10.2%} {r.scale:6.3f} {r.prefix:8,}"
        )
    e, u = np.concatenate([r.errors for r in found]), np.concatenate([r.unattributed for r in found])
    print(
        f"{'pooled':44} {sum(r.requests for r in found):8} {np.median(e):10.2%}{np.quantile(e, 0.9):10.2%} "
        f"{np.median(u):10.2%}{np.quantile(u, 0.9):10.2%}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
