"""The settings that a parameter search tries: a whole grid where the search space is small, else those that optuna suggests.

Both follow from a seed, so the same search asks for the same settings again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import product
from random import Random
from typing import Any

from turnscope.errors import TurnscopeError
from turnscope.session.model import JSON
from turnscope.views.advice import Axis, Figures

MIN_GRID = 4  # values of each parameter below which a grid is too coarse

Evaluate = Callable[[Mapping[str, JSON]], Figures | None]  # the figures of a setting; None = it is not possible


def build_grid(axes: Sequence[Axis], trials: int, seed: int) -> list[dict[str, JSON]] | None:
    """List all settings of a search space, the file's own first; None = it is too large.

    Args:
        axes: the parameters.
        trials: settings to try.
        seed: of the order.
    """
    if not axes:
        return []
    each = max(int((trials + 1e-9) ** (1 / len(axes))), 1)
    values = [_list_values(axis, each) for axis in axes]
    if each < MIN_GRID and any(len(have) < _count_values(axis) for have, axis in zip(values, axes, strict=True)):
        return None
    rest = [dict(zip((axis.key for axis in axes), row, strict=True)) for row in product(*values)]
    Random(seed).shuffle(rest)  # noqa: S311
    own = {axis.key: axis.own for axis in axes}
    return [own, *(setting for setting in rest if setting != own)]


def _count_values(axis: Axis) -> int:
    return len(axis.values) or (int(axis.high) - int(axis.low) + 1 if axis.is_whole else 1_000)


def _list_values(axis: Axis, many: int) -> list[JSON]:
    """At most `many` values of a parameter, the file's own among them: whole numbers by their ratio, shares by their
    difference.
    """
    if axis.values:
        return [*axis.values][:many]
    if many == 1:
        return [axis.own]
    steps = [step / (many - 1) for step in range(many)]
    if not axis.is_whole:
        found = {round(axis.low + (axis.high - axis.low) * step, 2) for step in steps}
    else:
        found = {_round_neatly(axis.low * (axis.high / axis.low) ** step) for step in steps}
    near = min(found, key=lambda value: abs(value - axis.own))
    return sorted(found - {near} | {axis.own})


def sample_settings(axes: Sequence[Axis], seed: int, tried: Evaluate) -> Iterator[dict[str, JSON]]:
    """Yield settings that optuna suggests, the file's own first. Each is evaluated when the next one is due.

    Args:
        axes: the parameters.
        seed: of the sampler.
        tried: evaluates a setting.
    """
    require_optuna()
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True)
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=sampler)
    study.enqueue_trial({axis.key: axis.own for axis in axes})
    while True:
        trial = study.ask()
        setting = {axis.key: _suggest(trial, axis) for axis in axes}
        yield setting
        found = tried(setting)
        if found is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            trial.set_constraint("unsent", float(found.unsent))
            study.tell(trial, (float(found.usd), float(found.lost)))


def require_optuna() -> None:
    """Raise TurnscopeError if optuna is not installed."""
    try:
        import_module("optuna")
    except ImportError as error:
        raise TurnscopeError(
            "this search needs Optuna, which is not installed",
            hint="Install it with `pip install 'turnscope[advise]'` (in a clone: `pip install -e '.[advise]'`). Without it, "
            f"one parameter can be searched with {MIN_GRID} settings or more, two with {MIN_GRID**2}.",
        ) from error


def _suggest(trial: Any, axis: Axis) -> JSON:
    if axis.values:
        return trial.suggest_categorical(axis.key, [*axis.values])
    if axis.is_whole:
        count = trial.suggest_int(axis.key, int(axis.low), int(axis.high), log=True)
        return count if count == axis.own else _round_neatly(count)
    value = trial.suggest_float(axis.key, axis.low, axis.high)
    return value if value == axis.own else round(value, 2)


def _round_neatly(count: float) -> int:
    """Round a number to two digits."""
    return int(float(f"{count:.1e}")) if count >= 100 else round(count)
