"""Measures each shipped policy on the samples (see `turnscope.views.policy_figures`): `python -m tests.regenerate figures`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from turnscope.errors import TurnscopeError
from turnscope.library.calculating import Shape, build_session
from turnscope.library.comparing import compare
from turnscope.library.opening import load, replay
from turnscope.planning.assemble import AS_RECORDED
from turnscope.views.policy_figures import PolicyFigures, SampleFigures, draw_strip, fill_window, measure_row

SAMPLES = sorted((Path(__file__).resolve().parent.parent / "sample_sessions").glob("*.jsonl"))
FULL_WINDOW = Shape(window=200_000, turns=54, results=3_000)  # 217,000 tokens in the end


def measure(names: Iterable[str]) -> dict[str, PolicyFigures]:
    """The figures of each policy, by name. A sample that a policy cannot replay is left out.

    Args:
        names: names of the policies.
    """
    wanted = sorted(names)
    samples: dict[str, dict[str, SampleFigures]] = {name: {} for name in wanted}
    for path in SAMPLES:
        session = load(path)
        for name in wanted:
            try:
                samples[name][path.stem] = measure_row(compare(session, [name]).rows[0])
            except TurnscopeError:
                continue
    full = build_session(FULL_WINDOW)
    traces = {name: replay(full, name) for name in wanted if name != AS_RECORDED}
    return {name: PolicyFigures(samples[name], draw_strip(trace), fill_window(trace)) for name, trace in traces.items()}
