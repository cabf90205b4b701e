"""The token budget of a request: context window, output reserve and margin, by the formula that a policy names.

Pure arithmetic. The caller supplies the window (`Prices.facts`, or the window that the log records).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from msgspec import Struct

from turnscope.errors import PolicyError

WINDOW = 200_000  # tokens; assumed where log, model table and policy name no window


@dataclass(frozen=True, slots=True)
class BudgetParams:
    """The `[budget]` table of a policy. Values are tokens, or shares of the window (0 to 1)."""

    formula: Annotated[str, "window | fixed | cline | split | share"] = "window"
    tokens: Annotated[int, "fixed: the limit itself"] = 0
    window: Annotated[int, "tokens: use this window instead of the model's (0 = the model's)"] = 0
    fallback_window: Annotated[int, "tokens: window where the model's is unknown"] = WINDOW
    output: Annotated[int, "tokens reserved for the answer, at most a quarter of the window"] = 0
    margin: Annotated[float, "share of the window kept free against counting errors"] = 0.0
    share: Annotated[float, "share, split: part of the window that the prompt may fill"] = 1.0
    reserve: Annotated[int, "split: tokens of headroom, taken off what the prompt may fill"] = 0
    slots: Annotated[Mapping[str, float], "share of the limit that the inserts of a slot may take (rule hold_shares)"] = field(
        default_factory=dict
    )
    caps: Annotated[Mapping[str, float], "share of the limit that a bucket may take (rule hold_shares)"] = field(
        default_factory=dict
    )


class Budget(Struct, frozen=True, gc=False):
    """The budget of a request, in the provider's tokens.

    Attributes:
        window: The context window.
        limit: The most tokens that the prompt may have.
        max_output: The most tokens of the answer; None = no cap.
        known: True where the window is a fact, False where it is assumed.
        slots: The most tokens that the inserts of a slot may have, by slot.
        caps: The most tokens that a bucket may have, by bucket.
    """

    window: int
    limit: int
    max_output: int | None
    known: bool
    slots: Mapping[str, int] = {}  # tokens, by slot
    caps: Mapping[str, int] = {}  # tokens, by bucket


def _apply_window(params: BudgetParams, window: int) -> tuple[float, int | None]:
    reserve = min(params.output, window // 4)  # a reserve meant for large windows must not use up a small one
    return window * (1 - params.margin) - reserve, reserve or None


def _apply_fixed(params: BudgetParams, _window: int) -> tuple[float, int | None]:
    return params.tokens, params.output or None


def _apply_cline(_params: BudgetParams, window: int) -> tuple[float, int | None]:
    """The limit of Cline 3.x: `getContextWindowInfo` (core/context/context-management/context-window-utils.ts, v3.89.2)."""
    special = {64_000: 27_000, 128_000: 30_000, 200_000: 40_000}
    return (window - special[window] if window in special else max(window - 40_000, window * 0.8)), None


def _apply_split(params: BudgetParams, window: int) -> tuple[float, int | None]:
    """Prompt and answer share the window. The reserve is taken off the prompt's part; the answer's part becomes max_tokens."""
    return window * params.share - params.reserve, int(window * (1 - params.share) + 1e-6)


def _apply_share(params: BudgetParams, window: int) -> tuple[float, int | None]:
    return window * params.share, None


FORMULAS: Mapping[str, Callable[[BudgetParams, int], tuple[float, int | None]]] = {
    "window": _apply_window,
    "fixed": _apply_fixed,
    "cline": _apply_cline,
    "split": _apply_split,
    "share": _apply_share,
}


def compute_budget(params: BudgetParams, window: int | None) -> Budget:
    """Return the budget for a model.

    Args:
        params: The `[budget]` table of the policy.
        window: The model's context window in tokens; None = unknown.

    Raises:
        PolicyError: The policy names an unknown formula.

    Example:
        >>> compute_budget(BudgetParams(output=8_192), 200_000).limit
        191808
    """
    if params.formula not in FORMULAS:
        raise PolicyError(f"there is no budget formula {params.formula!r}", hint=f"Known: {', '.join(FORMULAS)}.")
    size = params.window or window or params.fallback_window
    limit, output = FORMULAS[params.formula](params, size)
    slots, caps = _convert_shares(params.slots, limit), _convert_shares(params.caps, limit)
    return Budget(size, int(limit + 1e-6), max_output=output, known=bool(params.window or window), slots=slots, caps=caps)


def _convert_shares(shares: Mapping[str, float], limit: float) -> dict[str, int]:
    return {name: int(limit * share) for name, share in shares.items()}
