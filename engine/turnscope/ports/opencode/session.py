"""One prompt in an opencode session: what is sent to a model, and what is stored, until there is an answer or an error.

Pure, apart from the model, which is passed in as a function. From the released program (npm opencode-ai 1.18.33), sources
`packages/opencode/src/session/{prompt,compaction,overflow}.ts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from turnscope.ports.opencode import history as port
from turnscope.ports.opencode.limits import compute_keep, compute_max_output, compute_usable, count_used

Reply = Mapping[str, Any]
"""`text` and `usage` (prompt, answer), or `refused`: "long" where the prompt was too long, "error" for anything else."""
Ask = Callable[[dict[str, Any]], Reply]
CURRENT = ""  # the model that is asked; a stored answer names only another one
LONG, FAILED = "ContextOverflowError", "APIError"


@dataclass(slots=True)
class Conversation:
    """A session that grows: its model's limits, its settings, and everything that is stored."""

    model: Mapping[str, Any]
    settings: Mapping[str, Any]
    stored: list[dict[str, Any]]
    ids: Iterator[str]
    current: list[dict[str, Any]] = field(default_factory=list)  # the messages that this prompt stored

    @property
    def auto(self) -> bool:
        return self.settings.get("auto") is not False

    @property
    def room(self) -> int:
        model = self.model
        return compute_usable(model["context"], model["output"], model.get("input"), self.settings.get("reserved"))

    def store(self, role: str, parts: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """Store a message, and count it to those of this prompt.

        Args:
            role: The role of the message.
            parts: Its parts.
            **more: Further fields of the message.
        """
        message = {"id": next(self.ids), "role": role, "parts": parts, **more}
        self.stored.append(message)
        self.current.append(message)
        return message


def answer_prompt(talk: Conversation, text: str, ask: Ask) -> str | None:
    """Answer a prompt. Return the error that ended it; None if there was none. `talk.current` holds what was stored.

    Args:
        talk: The session.
        text: The prompt.
        ask: Asks the model.
    """
    talk.current = []
    question = talk.store("user", [{"type": "text", "text": text}])
    error = _answer_until_done(talk, question, ask)
    if talk.settings.get("prune"):
        for part in port.find_clearable(talk.stored):
            part["compacted"] = True
    return error


def _answer_until_done(talk: Conversation, question: dict[str, Any], ask: Ask) -> str | None:
    while True:
        if _is_over(talk):
            error = _compact(talk, None, ask)
            if error:
                return error
            question = talk.current[-1]
        reply = ask({"type": "main", "messages": port.build_messages(port.select_view(talk.stored), CURRENT)})
        answer = talk.store("assistant", [], parent=question["id"], finish=None)
        if not reply.get("refused"):
            answer["parts"] = [{"type": "step-start"}, *([{"type": "text", "text": reply["text"]}] if reply["text"] else [])]
            answer["finish"] = "stop"
            answer["tokens"] = {"input": reply["usage"][0], "output": reply["usage"][1]}
            if not _is_over(talk):
                return None
            if error := _compact(talk, None, ask, overflow=False):
                return error
            question = talk.current[-1]
            continue
        if reply["refused"] != "long" or not talk.auto:
            answer["error"] = LONG if reply["refused"] == "long" else FAILED
            return str(answer["error"])
        if error := _compact(talk, question, ask, overflow=True):
            return error
        question = talk.current[-1]


def _is_over(talk: Conversation) -> bool:
    """Return whether the newest finished answer says that the next prompt is too long. A summary never does."""
    newest = next((m for m in reversed(talk.stored) if m["role"] == "assistant" and m.get("finish", "stop")), None)
    if not newest or newest.get("summary") or not talk.auto or not talk.model["context"]:
        return False
    return count_used(newest.get("tokens") or {"input": 10, "output": 5}) >= talk.room


def _compact(talk: Conversation, refused: dict[str, Any] | None, ask: Ask, overflow: bool | None = None) -> str | None:
    """Store a compaction: its mark, its summary, and the follow-up prompt. Return the error that ended it.

    Args:
        talk: The session.
        refused: The prompt that a provider called too long.
        ask: Calls the model.
        overflow: Whether a provider called the prompt too long, as noted on the mark; None = before a prompt.
    """
    seen, replay = port.select_view(talk.stored), None
    if refused:
        at = next(i for i, m in enumerate(seen) if m["id"] == refused["id"])
        if any(m["role"] == "user" and not port.is_mark(m) for m in seen[:at]):
            seen, replay = seen[:at], refused
    compaction: dict[str, Any] = {"type": "compaction", "auto": True, **({} if overflow is None else {"overflow": overflow})}
    mark = talk.store("user", [compaction])
    done = port.find_summaries(seen)
    hidden = {*done, *(m["id"] for m in done.values())}
    previous = [get_summary_text(done[m["id"]]) for m in seen if m["id"] in done]
    rest = [m for m in seen if m["id"] not in hidden]
    keep = compute_keep(talk.room, talk.settings.get("preserve_recent_tokens"))
    tail = port.find_tail_start(rest, keep, talk.settings.get("tail_turns"), CURRENT)
    compaction["tail_start"] = None if tail is None else rest[tail]["id"]
    reply = ask(
        {
            "type": "summary",
            "max_tokens": compute_max_output(talk.model["output"]),
            "conversation": port.write_conversation(rest[:tail]),
            "previous": previous[-1] if previous and previous[-1] else None,
        }
    )
    summary = talk.store("assistant", [], parent=mark["id"], summary=True, finish=None)
    if reply.get("refused"):
        summary["error"] = LONG if reply["refused"] == "long" else FAILED
        if reply["refused"] == "long":
            compaction["tail_start"] = None
        return str(summary["error"])
    summary["parts"] = [{"type": "step-start"}, *([{"type": "text", "text": reply["text"]}] if reply["text"] else [])]
    summary |= {"finish": "stop", "tokens": {"input": reply["usage"][0], "output": reply["usage"][1]}}
    if replay:
        talk.store("user", [_replay_part(part) for part in replay["parts"] if part["type"] != "compaction"])
    else:
        text = port.CONTINUE_AFTER_MEDIA if refused else port.CONTINUE
        talk.store("user", [{"type": "text", "text": text, "synthetic": True}])
    return None


def _replay_part(part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] != "file" or not port.is_media(part["mime"]):
        return dict(part)
    return {"type": "text", "text": port.format_attachment(part)}


def get_summary_text(message: Mapping[str, Any]) -> str:
    """Return the text of a summary, without blank ends of its parts."""
    return "\n\n".join(filter(None, (part["text"].strip() for part in message["parts"] if part["type"] == "text")))
