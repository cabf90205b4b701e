"""What the Messages API rejects in context management: missing beta headers, malformed edits, misplaced summaries.

The sentences are the API's where they are known (public issues, documentation), else similar.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from turnscope.live.betas import (
    COMPACT_AT_THRESHOLD,
    COMPACT_EDIT,
    COMPACT_ON_DEMAND,
    CONTEXT_EDITS,
    find_compactions,
    list_betas,
)

JSON = Any
KEY = b"the built-in model's summaries"
MIN_TRIGGER = 50_000  # input tokens of a compaction's trigger
MAX_INSTRUCTIONS = 16_384  # characters, for a compaction on demand
CLEAR_USES, CLEAR_THINKING = "clear_tool_uses_20250919", "clear_thinking_20251015"
_KEYS = {
    CLEAR_USES: {"type", "trigger", "keep", "clear_at_least", "exclude_tools", "clear_tool_inputs"},
    CLEAR_THINKING: {"type", "keep"},
    COMPACT_EDIT: {"type", "trigger", "pause_after_compaction", "instructions"},
}
_COUNTS = {
    (CLEAR_USES, "trigger"): ("input_tokens", "tool_uses"),
    (CLEAR_USES, "keep"): ("tool_uses",),
    (CLEAR_USES, "clear_at_least"): ("input_tokens",),
    (CLEAR_THINKING, "keep"): ("thinking_turns",),
    (COMPACT_EDIT, "trigger"): ("input_tokens",),
}


def find_missing_beta(body: Mapping[str, JSON], features: Collection[str]) -> str:
    """Return why a body is rejected for a missing beta header; "" if none is missing.

    Args:
        body: The request body.
        features: The beta features that the request names.
    """
    missing = [name for name in list_betas(body) if name not in features]
    if not missing:
        return ""
    if COMPACT_ON_DEMAND in missing and body.get("compaction"):
        return f"compaction: requires anthropic-beta: {COMPACT_ON_DEMAND}"
    kinds = [edit.get("type") for edit in _list_edits(body)]
    if (CONTEXT_EDITS in missing) or (COMPACT_AT_THRESHOLD in missing and COMPACT_EDIT in kinds):
        return "context_management: Extra inputs are not permitted"
    return "messages: Input tag 'compaction' found using 'type' does not match any of the expected tags"


def find_errors(body: Mapping[str, JSON]) -> Iterator[str]:
    """Yield what is wrong with the edits of a body, and with the summaries that it sends back."""
    management = body.get("context_management")
    if management is not None and not isinstance(management, Mapping):
        yield "context_management: Input should be a valid dictionary"
        return
    edits = _list_edits(body)
    for i, edit in enumerate(edits):
        yield from _check_edit(edit, f"context_management.edits.{i}")
    kinds = [str(edit.get("type")) for edit in edits]
    if len(set(kinds)) < len(kinds):
        yield "context_management.edits: each strategy may be given once"
    if CLEAR_THINKING in kinds[1:]:
        yield f"context_management.edits: the `{CLEAR_THINKING}` strategy must be listed first"
    if CLEAR_THINKING in kinds and (body.get("thinking") or {}).get("type") not in ("enabled", "adaptive"):
        yield f"`{CLEAR_THINKING}` strategy requires `thinking` to be enabled or adaptive"
    yield from _check_compaction(body, management is not None)
    yield from _check_compaction_blocks(body, kinds)


def sign_summary(summary: str) -> str:
    """Return the signature of a summary that was made on demand."""
    return hmac.new(KEY, summary.encode("utf-8", "surrogatepass"), "blake2b").hexdigest()[:64]


def _check_edit(edit: Mapping[str, JSON], path: str) -> Iterator[str]:
    kind = edit.get("type")
    if kind not in _KEYS:
        yield f"{path}: Input tag {kind!r} found using 'type' does not match any of the expected tags"
        return
    for key in edit:
        if key not in _KEYS[kind]:
            yield f"{path}.{kind}.{key}: Extra inputs are not permitted"
    for (of, key), units in _COUNTS.items():
        value = edit.get(key)
        if of != kind or value is None or (kind == CLEAR_THINKING and value in ("all", {"type": "all"})):
            continue
        if not isinstance(value, Mapping) or value.get("type") not in units or not _is_count(value.get("value")):
            yield f"{path}.{kind}.{key}: Input should have `type` {' or '.join(units)} and a `value`"
        elif kind == CLEAR_THINKING and value["value"] < 1:
            yield f"{path}.{kind}.keep.value: Input should be greater than 0"
        elif kind == COMPACT_EDIT and value["value"] < MIN_TRIGGER:
            yield f"{path}.{kind}.trigger.value: Input should be greater than or equal to {MIN_TRIGGER}"
    names, inputs = edit.get("exclude_tools"), edit.get("clear_tool_inputs")
    if names is not None and not isinstance(names, list):
        yield f"{path}.{kind}.exclude_tools: Input should be a valid list"
    if inputs is not None and not isinstance(inputs, (bool, list)):
        yield f"{path}.{kind}.clear_tool_inputs: Input should be a valid boolean or list"


def _check_compaction(body: Mapping[str, JSON], edits: bool) -> Iterator[str]:
    wish = body.get("compaction")
    if wish is None:
        return
    if not isinstance(wish, Mapping) or wish.get("type") != "summarize" or wish.keys() - {"type", "instructions"}:
        yield "compaction: Input should have `type` 'summarize'"
        return
    if len(str(wish.get("instructions") or "")) > MAX_INSTRUCTIONS:
        yield f"compaction.instructions: String should have at most {MAX_INSTRUCTIONS} characters"
    if edits:
        yield "compaction: cannot be combined with `context_management`"
    choice = body.get("tool_choice")
    if body.get("stop_sequences") or (isinstance(choice, Mapping) and choice.get("type") in ("any", "tool")):
        yield "compaction: cannot be combined with `stop_sequences` or a `tool_choice` of type any or tool"


def _check_compaction_blocks(body: Mapping[str, JSON], kinds: Collection[str]) -> Iterator[str]:
    compactions = [block for block in find_compactions(body) if block.get("content") is not None]
    if any(block["content"] == "" for block in compactions):
        yield "messages: compaction content must not be empty"
    signatures = [block for block in compactions if block.get("signature")]
    if not signatures:
        return
    if len(compactions) > 1:
        yield "messages: more than one `compaction` block with content (compaction_block_ambiguous)"
    first = body["messages"][0].get("content")
    if not (isinstance(first, list) and first and first[0] is signatures[0]):
        yield "messages: the `compaction` block must be the first block of `messages` (compaction_block_misplaced)"
    if signatures[0]["signature"] != sign_summary(signatures[0]["content"]):
        yield "messages.0.content.0: the `compaction` block was changed (compaction_signature_invalid)"
    if COMPACT_EDIT in kinds:
        yield f"context_management.edits: `{COMPACT_EDIT}` cannot run on a request that carries a signed compaction block"


def _list_edits(body: Mapping[str, JSON]) -> list[Mapping[str, JSON]]:
    management = body.get("context_management")
    edits = management.get("edits") if isinstance(management, Mapping) else None
    return [edit for edit in edits if isinstance(edit, Mapping)] if isinstance(edits, list) else []


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
