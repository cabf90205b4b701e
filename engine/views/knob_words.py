"""Parameters in the words of a person: what each is called, with its unit, by rule. Holds words alone.

A parameter without a phrase here goes by its own name, so that a rule of somebody's own needs none.
"""

from __future__ import annotations

from collections.abc import Mapping

_SHARE = "share, 0 to 1"

WORDS: Mapping[str, str] = {
    "budget.formula": "How the limit is found",
    "budget.tokens": "Fixed limit (tokens)",
    "budget.window": "Window instead of the model's (tokens)",
    "budget.fallback_window": "Window of an unknown model (tokens)",
    "budget.output": "Reserve for the answer (tokens)",
    "budget.margin": f"Margin for errors ({_SHARE})",
    "budget.share": f"Part that the prompt may fill ({_SHARE})",
    "budget.reserve": "Taken off the prompt's part (tokens)",
    "budget.slots": "Limits of inserts (share by slot)",
    "budget.caps": "Limits of buckets (share by bucket)",
    "replace_duplicate_reads.trigger": f"Begin at fill of the limit ({_SHARE})",
    "replace_duplicate_reads.notice": "Text for an older reading",
    "clear_old_results.trigger": "Begin above (input tokens)",
    "clear_old_results.trigger_uses": "Begin above instead (tool uses)",
    "clear_old_results.keep": "Keep the newest (tool uses)",
    "clear_old_results.clear_at_least": "Clear at least (tokens)",
    "clear_old_results.placeholder": "Text for a cleared result",
    "clear_tool_uses_20250919.trigger": "Begin above (input tokens)",
    "clear_tool_uses_20250919.trigger_uses": "Begin above instead (tool uses)",
    "clear_tool_uses_20250919.keep": "Keep the newest (tool uses)",
    "clear_tool_uses_20250919.clear_at_least": "Clear at least (tokens)",
    "clear_thinking_20251015.keep": "Keep thinking of the newest (turns)",
    "compact_20260112.trigger": "Sum up from (input tokens, 50,000 or more)",
    "compact_on_demand.share": f"Ask above fill of the budget ({_SHARE})",
    "compact_on_demand.max_tokens": "The summary at most (tokens)",
    "strip_stale_thinking.bound": "Only for models that bind thinking to its prefix",
    "strip_old_thinking.keep": "Keep thinking of the newest (turns)",
    "condense.share": f"Condense at fill of the budget ({_SHARE})",
    "condense.pairs": "Condense above (pairs of messages)",
    "condense.fraction": f"Part that is condensed ({_SHARE})",
    "condense.keep_messages": "Keep the newest (messages)",
    "condense.keep_turns": "Keep the newest (turns)",
    "condense.clip": "Read of a tool result (characters)",
    "compact_when_over.share": f"Compact above fill of the budget ({_SHARE})",
    "compact_when_over.min_requests": "At least between two (requests)",
    "compact_when_over.min_tokens": "At least between two (tokens)",
    "compact_when_over.keep_turns": "Keep the newest (turns)",
    "refuse_when_over.share": f"Refuse above fill of the budget ({_SHARE})",
    "warn_at.share": f"Warn at fill of the budget ({_SHARE})",
    "hide_oldest_pairs.min_saved": f"Hide nothing where so much is saved ({_SHARE})",
    "hide_oldest_pairs.share": f"Begin at fill of the window ({_SHARE})",
    "cut_in_pairs.keep_first": "Keep the first (messages)",
    "cut_in_pairs.min_saved": f"No cut where so much is saved ({_SHARE})",
    "keep_last_messages.keep": "Keep the newest (messages)",
    "keep_last_messages.whole_pairs": "Begin at a prompt",
    "keep_last_pairs.pairs": "Keep the last (pairs)",
    "keep_last_pairs.reduce": "Keep fewer until it fits",
    "keep_last_pairs.refuse": "Refuse what cannot fit",
    "keep_longest_end.primer": "Primer of each list (tokens)",
    "prune_by_pressure.keep_turns": "Leave the newest alone (turns)",
    "prune_by_pressure.trim_from": "Take the middle out from age (0 newest to 1)",
    "prune_by_pressure.clear_from": "Take the whole out from age (0 newest to 1)",
    "prune_by_pressure.min_chars": "Leave alone below (characters)",
    "prune_by_pressure.max_chars": "Keep the middle up to (characters)",
    "prune_by_pressure.head": "Kept of the beginning (characters)",
    "prune_by_pressure.tail": "Kept of the end (characters)",
    "prune_by_pressure.reserve": f"Reserve of the budget ({_SHARE})",
    "prune_by_pressure.ratio": "Provider's tokens per token of ours",
    "prune_by_pressure.instructions": "Instructions (tokens, -1 = system and tools)",
    "prune_by_pressure.summary": "Summary of what was pruned (tokens)",
    "prune_by_pressure.retain_turns": "Never summarise the newest (turns)",
    "prune_by_pressure.retain_tokens": "Of them at most (tokens)",
    "keep_newest_within_budget.share": f"Fill of the limit ({_SHARE})",
    "drop_repeated_content.min_tokens": "Leave alone below (tokens)",
    "compress_old_calls.keep": "Keep the newest (tool uses)",
    "compress_old_calls.line": "Line for a call (characters)",
    "condense_to_fresh_start.threshold": "Condense at fill of the window (percent)",
    "condense_to_fresh_start.profile": "The profile's own (percent, -1 = none)",
    "condense_to_fresh_start.factor": "Counts are multiplied by",
    "hide_older_half.share": f"Part that is hidden ({_SHARE})",
    "hide_older_half.factor": "Counts are multiplied by",
    "cut_long_results.max_tokens": "Keep of a result (tokens)",
    "cut_long_results.head": f"Of it from the beginning ({_SHARE})",
    "stage_by_fill.truncate_at": f"Cut at fill of the budget ({_SHARE})",
    "stage_by_fill.keep": f"Keep of the messages then ({_SHARE})",
    "stage_by_fill.condense_at": f"Condense at fill of the budget ({_SHARE})",
    "stage_by_fill.keep_turns": "Keep the newest then (turns)",
    "stage_by_fill.warn_at": f"Warn at fill of the budget ({_SHARE})",
}
_EVERYWHERE: Mapping[str, str] = {
    "cap": "Length of the summary (tokens)",
    "pin_first": "Always keep the first message",
    "prompt": "Prompt for the summary",
    "model": "Model for the summary",
    "shape": "What the summary stands as",
    "exclude_tools": "Never these tools",
    "frame": "Frame of a message (tokens)",
    "recursive": "Build on the older summary",
    "refuse": "Refuse what cannot fit",
    "whole_pairs": "Begin at a prompt",
}


def words(rule: str, name: str) -> str:
    """What parameter `name` of a rule (or of the `budget`) is called, with its unit."""
    found = WORDS.get(f"{rule}.{name}") or _EVERYWHERE.get(name)
    return found or name.replace("_", " ").capitalize()
