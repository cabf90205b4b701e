"""When Cline's SDK compacts, to what size, and how: with a summary by a model, or without a model.

Pure, apart from the model, which is passed in as a function. Ported from
`extensions/context/{compaction,agentic-compaction}.ts` and `session/models/session-compaction.ts` in `sdk/packages/core/src`
(cline/cline 21cb8d2525).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from turnscope.ports.cline_sdk import messages as port
from turnscope.ports.cline_sdk.basic import compact
from turnscope.ports.cline_sdk.files import find_touched_files, render_messages
from turnscope.ports.cline_sdk.messages import Message
from turnscope.ports.cline_sdk.projection import Projection, project

LABEL = "Context summary:\n\n"
# Our wording, at the length of the original (332 characters), because it decides how much else fits.
PROMPT = (
    "Sum up this session so that work on it can go on from the summary alone. Keep to facts, be brief.\n"
    "\n"
    "## Goal\n"
    "What is being built or mended, in one sentence.\n"
    "\n"
    "## State\n"
    "- What is done\n"
    "- What is under way\n"
    "- What stands in the way\n"
    "\n"
    "## Highlights\n"
    "Decisions and findings that matter later on.\n"
    "\n"
    "## Next\n"
    "The steps that come next, .\n"
    "\n"
    "## Files\n"
)


class SummaryFailed(Exception):
    """The model could not be called for a summary, or its answer broke off."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The budget of a request, in tokens.

    Attributes:
        request: The whole request.
        messages: Its messages.
        most: Input tokens that the model takes.
        trigger: The request from which on it is compacted.
        target: The request after a compaction.
        message_trigger: The trigger, for the messages alone.
        message_target: The target, for the messages alone.
    """

    request: int
    messages: int
    most: float
    trigger: float
    target: float
    message_trigger: float
    message_target: float

    @property
    def overhead(self) -> int:
        """Tokens of the request without its messages."""
        return max(0, self.request - self.messages)


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """The question to a summariser: the whole text, its parts, and the most tokens of its answer."""

    text: str
    conversation: str
    previous: str
    files: Mapping[str, Sequence[str]]
    output: int


Summarise = Callable[[SummaryRequest], str]


def compute_budget(
    messages: Sequence[Message], model: Mapping[str, Any], request: int, mode: str = "auto", ratio: float | None = None
) -> Budget:
    """Compute the budget of a request.

    Args:
        messages: The transcript.
        model: Facts of the model: `contextWindow`, `maxInputTokens`, `maxTokens`.
        request: Tokens of the whole request.
        mode: What started the compaction: auto, manual or overflow_recovery.
        ratio: For manual: the share of the messages' tokens that may stay; None = the default.
    """
    tokens = port.sum_tokens(messages)
    overhead = max(0, request - tokens)
    known = port.compute_usable(model.get("contextWindow"), model.get("maxInputTokens"))
    most = port.DEFAULT_INPUT if known is None else known
    trigger = most * port.TRIGGER_SHARE
    message_trigger = max(1, math.floor(trigger - overhead))
    if mode == "auto":
        output = model.get("maxTokens")
        large = _count_pairs(messages) >= port.LARGE_PAIRS and isinstance(output, (int, float)) and output < most
        target = math.floor(most * port.LARGE_TARGET_SHARE) if large else math.floor(trigger * port.TARGET_SHARE)
        whole: float = max(1, min(target, most, max(1, trigger - 1)))
        part = max(1, math.floor(whole - overhead))
    else:
        share = port.MANUAL_RATIO if ratio is None else ratio
        share = min(port.MANUAL_MOST, max(port.MANUAL_LEAST, share))
        part = max(1, math.floor(min(message_trigger, tokens * share)))
        whole = overhead + part
    return Budget(
        request=request,
        messages=tokens,
        most=most,
        trigger=trigger,
        target=whole,
        message_trigger=message_trigger,
        message_target=part,
    )


def _count_pairs(messages: Sequence[Message]) -> int:
    count, pending = 0, False
    for message in messages:
        count += pending and message["role"] == "assistant"
        pending = message["role"] == "user"
    return count


def summarise_head(
    messages: Sequence[Message],
    budget: Budget,
    preserve: float,
    model: Mapping[str, Any],
    active: bool,
    now: int,
    summarise: Summarise,
) -> tuple[list[Message], Projection] | None:
    """Return the transcript with a summary in place of all but the newest messages, and its projection.

    None if there is nothing to summarise.

    Args:
        messages: The transcript.
        budget: Its budget.
        preserve: Tokens of messages that may stay.
        model: Facts of the model.
        active: Whether `model` is the model of the session, to which the budget applies.
        now: The time in milliseconds.
        summarise: Calls the model.

    Raises:
        SummaryFailed: There is no summary.
    """
    at = port.find_cut(messages, preserve) if len(messages) > 1 else 0
    if not 0 < at < len(messages):
        return None
    head = messages[:at]
    newest = next((i for i in range(at - 1, -1, -1) if port.get_kind(head[i]) == "compaction_summary"), -1)
    previous = str((head[newest].get("metadata") or {}).get("summary") or "") if newest >= 0 else ""
    fresh = head[newest + 1 :]
    room = _compute_room(budget, model, active, build_request_text(previous, "", find_touched_files(head)))
    if not fresh or room <= 0:
        return None
    done = project(fresh, max(1, room), "agentic_summary")
    if done.status == "failed":
        return None
    files, conversation = find_touched_files(done.messages), render_messages(done.messages)
    request, output = build_request_text(previous, conversation, files), _compute_output(model)
    text = summarise(SummaryRequest(request, conversation=conversation, previous=previous, files=files, output=output)).strip()
    if not text:
        return None
    return [_build_summary(_append_files(text, files), files, messages, head, now), *messages[at:]], done


def _compute_room(budget: Budget, model: Mapping[str, Any], active: bool, request: str) -> float:
    """Tokens that a conversation may have in a request for a summary; `request`: its text without one."""
    known = port.compute_usable(model.get("contextWindow"), model.get("maxInputTokens"))
    least = port.SUMMARY_LEAST
    limit = known if known is not None else max(budget.most, budget.trigger, least) if active else least
    return limit - port.estimate_tokens(port.count_units(request))


def _compute_output(model: Mapping[str, Any]) -> int:
    """Return the most tokens of a summary: what its model was set to, or else its output limit up to a maximum."""
    chosen, limit = model.get("maxOutputTokens"), model.get("maxTokens")
    if chosen is not None and port.is_positive(chosen):
        return int(chosen)
    return min(port.SUMMARY_OUTPUT, int(limit)) if limit is not None and port.is_positive(limit) else port.SUMMARY_OUTPUT


def _append_files(text: str, files: Mapping[str, Sequence[str]]) -> str:
    if re.search(r"^## Files$", text, re.IGNORECASE | re.MULTILINE):
        return text
    read, modified = ("\n".join(f"- {path}" for path in files[name] or ("none",)) for name in ("readFiles", "modifiedFiles"))
    return f"{text}\n\n## Files\nRead:\n{read}\nModified:\n{modified}"


def _build_summary(
    text: str, files: Mapping[str, Sequence[str]], messages: Sequence[Message], head: Sequence[Message], now: int
) -> Message:
    meta = {
        "kind": "compaction_summary",
        "displayRole": "system",
        "userRunSpan": sum(map(port.get_prompt_span, head)),
        "summary": text,
        "details": files,
        "tokensBefore": port.sum_tokens(messages),
        "generatedAt": now,
    }
    return {"role": "user", "content": [{"type": "text", "text": LABEL + text}], "metadata": meta}


def build_request_text(previous: str, conversation: str, files: Mapping[str, Sequence[str]]) -> str:
    """Return the text that the summariser is sent.

    Args:
        previous: The previous summary; "" = none.
        conversation: The messages as text.
        files: Paths under `readFiles` and `modifiedFiles`.
    """
    read, edited = (", ".join(files[name]) or "none" for name in ("readFiles", "modifiedFiles"))
    parts = [f"{PROMPT}Read: {read}\nEdited: {edited}"]
    parts += [f"Previous summary:\n{previous.strip()}"] if previous.strip() else []
    return "\n\n".join([*parts, f"Conversation:\n{conversation or '(empty)'}"])


def prepare(  # noqa: PLR0913, PLR0917 - what a pass of the original is given
    messages: Sequence[Message],
    budget: Budget,
    strategy: str,
    mode: str,
    preserve: float | None,
    model: Mapping[str, Any],
    active: bool,
    now: int,
    summarise: Summarise,
) -> tuple[list[Message], Projection] | None:
    """Return the shorter transcript, by the configured strategy.

    The compaction without a model follows if a summary fails, or if a provider refused the request.

    Args:
        messages: The transcript.
        budget: Its budget.
        strategy: agentic (with a model) or basic.
        mode: What started the compaction: auto, manual or overflow_recovery.
        preserve: Tokens of messages that may stay; None = the default.
        model: Facts of the model.
        active: Whether `model` is the model of the session, to which the budget applies.
        now: The time in milliseconds.
        summarise: Asks the model.
    """
    if strategy == "agentic" and mode != "overflow_recovery":
        most = min(port.PRESERVE_RECENT if preserve is None else preserve, budget.message_target)
        try:
            return summarise_head(messages, budget, most, model=model, active=active, now=now, summarise=summarise)
        except SummaryFailed:
            pass
    return compact(messages, budget.message_target, budget.message_trigger, mode)


@dataclass(frozen=True, slots=True)
class StoredCompaction:
    """A compaction that is stored with the history: how many messages it covers, their hash, and what replaces them."""

    count: int
    hash: str
    key: str
    messages: tuple[Message, ...]


def store(source: Sequence[Message], messages: Sequence[Message]) -> StoredCompaction:
    """Return the state to store.

    Args:
        source: The transcript that was compacted.
        messages: What replaces it.
    """
    return StoredCompaction(
        len(source), hash_prefix(source, len(source)), _make_key(source[-1]) if source else "", tuple(messages)
    )


def apply_stored(state: StoredCompaction, history: Sequence[Message]) -> list[Message] | None:
    """Replace the compacted start of a history; None if that start has changed.

    Args:
        state: What `store` returned.
        history: The transcript now.
    """
    if state.count > len(history) or hash_prefix(history, state.count) != state.hash:
        return None
    return [*state.messages, *history[state.count :]]


def hash_prefix(messages: Sequence[Message], count: int) -> str:
    """Return the hash of the first `count` messages, without their ids.

    Args:
        messages: The transcript.
        count: How many of its messages.
    """
    names = ("role", "content", "agent", "sessionId", "metadata", "modelInfo", "metrics")
    lines = ["cline-session-compaction-source-v2", str(count)]
    lines += (port.write_json([[name, message.get(name)] for name in names]) for message in messages[:count])
    return "sha256:" + sha256("".join(line + "\n" for line in lines).encode("utf-8", "surrogatepass")).hexdigest()


def _make_key(message: Message) -> str:
    name = str(message.get("id") or "").strip()
    if name:
        return f"id:{name}"
    ts = message.get("ts")
    return (
        f"ts:{message['role']}:{ts}" if ts is not None else f"content:{message['role']}:{port.write_json(message['content'])}"
    )
