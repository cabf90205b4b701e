"""Inspect's compaction handler: its threshold, how often it tries, and its strategies with their defaults.

Pure, ported from `inspect_ai/model/_compaction/_compaction.py` (PyPI inspect-ai 0.3.285). The rule keeps what the handler
carries from call to call. The provider merges neighbours of one role.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from turnscope.ports.inspect_ai import strategies as port

Message = Mapping[str, Any]
Strategy = Callable[[Sequence[Message]], tuple[list[Message], Message | None]]
WINDOW = 128_000  # tokens, if the model's window is unknown
MORE_PASSES = 3
PRESERVED = 0.8  # share that the strategy trim keeps


def compute_threshold(threshold: float, window: int | None) -> int:
    """Return the tokens above which Inspect compacts.

    Args:
        threshold: A number of tokens, or a share of the window.
        window: The window in tokens; None = unknown.
    """
    return int(threshold) if isinstance(threshold, int) or threshold > 1 else int(threshold * (window or WINDOW))


def build_strategy(options: Mapping[str, Any], summarise: port.Summarise) -> Strategy:
    """Return the strategy `options["type"]` with its options, with Inspect's defaults.

    Args:
        options: The type and the options of the strategy.
        summarise: Asks a model for a summary.
    """
    kind, memory = options["type"], options.get("memory", True)
    if kind == "summary":
        return lambda messages: port.replace_by_summary(messages, summarise)
    if kind == "trim":
        share = options.get("preserve", PRESERVED)

        def trim(messages: Sequence[Message]) -> tuple[list[Message], Message | None]:
            kept = port.trim(messages, share)
            return [port.strip_saved(m) for m in kept] if memory else kept, None

        return trim
    thinking = options.get("keep_thinking_turns", 1)
    uses, inputs = options.get("keep_tool_uses", 3), options.get("keep_tool_inputs", True)
    exclude = options.get("exclude_tools") or ()
    return lambda messages: (
        port.clear_old(messages, None if thinking == "all" else thinking, uses, inputs, exclude, memory),
        None,
    )
