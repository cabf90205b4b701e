"""A session without what is private: `Session -> Session`, before anything is drawn of it. Numbers are carried along.

What is not known to be harmless is taken out: a field that is new to a session is redacted until it is named here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from turnscope.counting.ledger import Ledger, build_ledger, make_text_key
from turnscope.session.model import JSON, LazyContent, Session
from turnscope.share.private_data import PrivateSpan, find_private

Level = Literal["structure", "no content", "masked", "full"]
LEVELS: dict[Level, str] = {
    "structure": "Numbers alone: no text, no names of tools, no titles, no paths.",
    "no content": "Numbers and names of tools; nothing that was said, written, read or run.",
    "masked": "Texts, with secrets and personal data that have a form taken out. Names of people and companies have none.",
    "full": "Everything as it is.",
}
PLACEHOLDER = "[not included]"
MIN_SECRET = 6  # characters from which on a private value is taken out wherever else it stands, alone or amid a word
MIN_NAME = 3  # alike, of what stands alone: the name of a user
# Texts that say nothing of a conversation: kinds, roles, names of models and rules, what a provider calls its settings.
_PLAIN = {
    *("role", "origin", "bucket", "kind", "action", "source", "model", "asked", "stop_reason", "slot", "place", "severity"),
    *("rule", "trigger", "edit", "tag", "media_type", "type", "format", "version", "cli_version", "tool"),
}
_ENCODED = ("signature", "data", "encrypted_content")  # what nobody can read, and a reader could decode
_OPEN = ("about", "answers", "facts", "extra", "settings", "ratings")  # whatever a tool writes there, by whatever name
_KEPT_KEYS = ("type", "id", "tool_use_id", "name", "is_error", "content", "text", "thinking", "input", "source", "role")


@dataclass(slots=True)
class RedactedSession:
    """A session to hand on, counted as it was before. `found`: how often something private was taken out, by kind.

    `values`: what was taken out, so that it can be looked for in what is made of it. Never to be shown.
    """

    session: Session
    ledger: Ledger
    level: Level
    found: Counter[str] = field(default_factory=Counter)
    values: frozenset[str] = frozenset()


def redact(session: Session, ledger: Ledger, level: Level) -> RedactedSession:
    """A session at a level. `ledger`: the counts of the same session."""
    if level == "full":
        return RedactedSession(session, ledger, level)
    plain = msgspec.to_builtins(session, str_keys=True, enc_hook=LazyContent.read)
    names = _Names(level == "structure", ledger.memo)
    found: Counter[str] = Counter()
    values: set[str] = set()
    if level == "masked":
        stretches = _collect_private(plain)
        kinds = {text[one.start : one.stop]: one.kind for text, several in stretches.items() for one in several}
        values, found = set(kinds), Counter(kinds.values())
        made = _walk(plain, _build_masker(stretches, kinds), names)
    else:
        made = _strip_texts(plain, names)
    back = msgspec.convert(made, Session, str_keys=True)
    counts = {names.digests[digest]: count for digest, count in ledger.memo.items() if digest in names.digests}
    return RedactedSession(back, build_ledger(back, ledger.counter, counts | names.counts), level, found, frozenset(values))


@dataclass(slots=True)
class _Names:
    """New names for what identifies: the same one for the same thing, numbered as they come.

    `memo`: the ledger's tokens of what stands in for blocks; `counts`: the same of what then stands in for it.
    """

    tools: bool
    memo: Mapping[str, int]
    counts: dict[str, int] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    tool_names: dict[str, str] = field(default_factory=dict)

    def rename_digest(self, value: str) -> str:
        """A block's digest, which could be guessed from a short text."""
        return self.digests.setdefault(value, f"digest-{len(self.digests)}")

    def rename_id(self, value: str) -> str:
        """An identifier."""
        return self.ids.setdefault(value, f"id-{len(self.ids)}") if value else value

    def rename_text(self, old: str, new: str) -> str:
        """A text that stands for another, counted as that one was."""
        if (tokens := self.memo.get(make_text_key(old))) is None:
            return new
        new = new if new != PLACEHOLDER else f"{PLACEHOLDER} {len(self.counts) + 1}"
        self.counts[make_text_key(new)] = tokens
        return new

    def rename_tool(self, value: str) -> str:
        """A tool's name."""
        return self.tool_names.setdefault(value, f"tool-{len(self.tool_names) + 1}") if self.tools and value else value


def _collect_private(value: JSON) -> dict[str, list[PrivateSpan]]:
    """Every text of a session with what is private in it."""
    found: dict[str, list[PrivateSpan]] = {}

    def look(text: str) -> str:
        if text not in found:
            found[text] = find_private(text)
        return text

    _walk(value, look, None)
    return found


def _build_masker(stretches: Mapping[str, Sequence[PrivateSpan]], kinds: Mapping[str, str]) -> Callable[[str], str]:
    """A function that takes what is private out of a text: what was found there, and what was found elsewhere."""
    long = sorted((value for value in kinds if len(value) >= MIN_NAME), key=len, reverse=True)
    alone = [
        re.escape(value) if len(value) >= MIN_SECRET and kinds[value] != "user name" else rf"(?<!\w){re.escape(value)}(?!\w)"
        for value in long
    ]
    known = re.compile("|".join(alone)) if alone else None

    def mask(text: str) -> str:
        parts, at = [], 0
        for one in stretches[text]:
            parts += [text[at : one.start], f"[{one.kind}]"]
            at = one.stop
        made = "".join([*parts, text[at:]])
        return known.sub(lambda match: f"[{kinds[match[0]]}]", made) if known else made

    return mask


def _walk(value: Any, change: Callable[[str], str], names: _Names | None, key: str = "") -> Any:
    """A value with all its texts changed, keys of objects among them; without `names` it is only looked at."""
    if isinstance(value, str):
        if key == "digest":
            return names.rename_digest(value) if names else value
        if key in _ENCODED:
            return PLACEHOLDER if names else value
        if key in _PLAIN or key in ("id", "tool_use_id"):
            return value
        return names.rename_text(value, change(value)) if names and key == "text" else change(value)
    if isinstance(value, Mapping):
        return {change(name): _walk(held, change, names, name) for name, held in value.items()}
    return [_walk(held, change, names, key) for held in value] if isinstance(value, (list, tuple)) else value


def _strip_texts(value: Any, names: _Names, key: str = "") -> Any:
    """A session's fields with every text gone that is not known to be harmless."""
    if key == "raw":
        return _strip_content(value, names)
    if isinstance(value, str):
        return value if key in _PLAIN or not value else _rename_value(value, names, key)
    if isinstance(value, Mapping):
        if key in _OPEN:
            return {name: held for name, held in value.items() if isinstance(held, (int, float)) and name.isidentifier()}
        return {name: _strip_texts(held, names, name) for name, held in value.items()}
    return [_strip_texts(held, names, key) for held in value] if isinstance(value, (list, tuple)) else value


def _rename_value(value: str, names: _Names, key: str) -> str:
    renaming = {"digest": names.rename_digest, "id": names.rename_id, "parent": names.rename_id, "name": names.rename_tool}
    if key in renaming:
        return renaming[key](value)
    return names.rename_text(value, PLACEHOLDER) if key == "text" else PLACEHOLDER


def _strip_content(raw: Any, names: _Names) -> Any:
    """A block as it was sent, with its form alone."""
    if not isinstance(raw, Mapping):
        return PLACEHOLDER
    made: dict[str, Any] = {}
    for key in _KEPT_KEYS:
        if key not in raw:
            continue
        held = raw[key]
        if key == "input":
            made[key] = {}
        elif key == "source":
            kind, media = (held.get(name, "") if isinstance(held, Mapping) else "" for name in ("type", "media_type"))
            made[key] = {"type": kind, "media_type": media, "data": ""}
        elif key in ("id", "tool_use_id"):
            made[key] = names.rename_id(str(held))
        elif key == "name":
            made[key] = names.rename_tool(str(held))
        else:
            made[key] = held if key in ("type", "role", "is_error") else PLACEHOLDER
    return made
