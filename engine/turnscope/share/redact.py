"""Redaction: `Session -> Session`, before anything is drawn of it. Numbers stay the same.

A field that is not known to be harmless is redacted, so a new field of a session is redacted until it is named here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from turnscope.counting.ledger import Ledger, build_ledger, make_text_key
from turnscope.encodings import iter_decoded, list_forms
from turnscope.errors import TurnscopeError
from turnscope.session.model import JSON, LazyContent, Session
from turnscope.share.private_data import SECRET_KINDS, PrivateSpan, find_private, list_values

Level = Literal["structure", "no content", "masked", "full"]
LEVELS: dict[Level, str] = {
    "structure": "Numbers alone: no text, no names of tools, no titles, no paths.",
    "no content": "Numbers and names of tools; nothing of the conversation, files or commands.",
    "masked": "Texts without secrets and pattern-matched personal data. Names of people and companies stay.",
    "full": "Everything as it is.",
}
PLACEHOLDER = "[not included]"
ADDED = "word"  # the kind of what somebody wants taken out
MIN_LINE = 20  # characters of a line of a private key that is searched by itself
MIN_SECRET = 6  # characters from which on a private value is removed everywhere, also inside a word
MIN_NAME = 3  # characters from which on it is removed as a whole word, such as the name of a user
# Texts that say nothing of a conversation: kinds, roles, names of models and rules, a provider's settings.
_PLAIN = {
    *("role", "origin", "bucket", "kind", "action", "source", "model", "asked", "stop_reason", "slot", "place", "severity"),
    *("rule", "trigger", "edit", "tag", "media_type", "type", "format", "version", "cli_version", "tool"),
}
_ENCODED = ("signature", "data", "encrypted_content")  # nobody can read these, but somebody could decode them
_OPEN = ("about", "answers", "facts", "extra", "settings", "ratings")  # a tool may write anything into these, under any name
_KEPT_KEYS = ("type", "id", "tool_use_id", "name", "is_error", "content", "text", "thinking", "input", "source", "role")


@dataclass(slots=True)
class RedactedSession:
    """A redacted session with the token counts of the original.

    Attributes:
        found: how many private parts of each kind were removed.
        values: what was removed, to check the result for it; never to be shown.
    """

    session: Session
    ledger: Ledger
    level: Level
    found: Counter[str] = field(default_factory=Counter)
    values: frozenset[str] = frozenset()


class RedactionError(TurnscopeError):
    """A result holds something that redaction removed, so nothing is written."""

    def __init__(self) -> None:
        hint = "Nothing was written. Choose a level that shows less, and report this: it is a defect."
        super().__init__("the result would show something that was to be removed", hint=hint)


def check_masked(out: str, redacted: RedactedSession) -> None:
    """Search a text for what was removed from a masked session.

    Args:
        out: The text that is to leave.
        redacted: The session that it was made of.

    Raises:
        RedactionError: A removed value of at least six characters is in it.
    """
    if redacted.level == "masked" and any(len(value) >= MIN_SECRET and value in out for value in redacted.values):
        raise RedactionError


def redact(session: Session, ledger: Ledger, level: Level, words: Sequence[str] = ()) -> RedactedSession:
    """Redact a session.

    Args:
        session: the session.
        ledger: its token counts.
        level: how much stays.
        words: further words to take out where texts stay, such as names of people and companies.
    """
    if level == "full":
        return RedactedSession(session, ledger, level)
    plain = msgspec.to_builtins(session, str_keys=True, enc_hook=LazyContent.read)
    names = _Names(level == "structure", ledger.memo)
    found: Counter[str] = Counter()
    values: set[str] = set()
    if level == "masked":
        stretches = _collect_private(plain)
        kinds = {text[one.start : one.stop]: one.kind for text, several in stretches.items() for one in several}
        kinds = {
            value: kind for text, several in stretches.items() if several for value, kind in list_values(text).items()
        } | kinds
        kinds |= dict.fromkeys(filter(None, map(str.strip, words)), ADDED)
        values, found = set(kinds), Counter(kinds.values())
        made = _walk(plain, _build_masker(stretches, kinds | _find_forms(stretches, kinds)), names)
    else:
        made = _strip_texts(plain, names)
    back = msgspec.convert(made, Session, str_keys=True)
    counts = {names.digests[digest]: count for digest, count in ledger.memo.items() if digest in names.digests}
    return RedactedSession(
        session=back,
        ledger=build_ledger(back, ledger.counter, counts | names.counts),
        level=level,
        found=found,
        values=frozenset(values),
    )


@dataclass(slots=True)
class _Names:
    """New names for identifiers: the same name for the same thing, numbered in order of appearance.

    Attributes:
        tools: whether names of tools are replaced.
        memo: the ledger's tokens of placeholders by text.
        counts: the same tokens by the text that replaces it.
    """

    tools: bool
    memo: Mapping[str, int]
    counts: dict[str, int] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    tool_names: dict[str, str] = field(default_factory=dict)

    def rename_digest(self, value: str) -> str:
        """A new name for a block's digest, from which a short text could be guessed."""
        return self.digests.setdefault(value, f"digest-{len(self.digests)}")

    def rename_id(self, value: str) -> str:
        """A new name for an identifier."""
        return self.ids.setdefault(value, f"id-{len(self.ids)}") if value else value

    def rename_text(self, old: str, new: str) -> str:
        """A text that replaces another and keeps its token count."""
        if (tokens := self.memo.get(make_text_key(old))) is None:
            return new
        new = new if new != PLACEHOLDER else f"{PLACEHOLDER} {len(self.counts) + 1}"
        self.counts[make_text_key(new)] = tokens
        return new

    def rename_tool(self, value: str) -> str:
        """A new name for a tool."""
        return self.tool_names.setdefault(value, f"tool-{len(self.tool_names) + 1}") if self.tools and value else value


def _collect_private(value: JSON) -> dict[str, list[PrivateSpan]]:
    """Every text of a session with its private parts."""
    found: dict[str, list[PrivateSpan]] = {}

    def look(text: str) -> str:
        if text not in found:
            found[text] = find_private(text)
        return text

    _walk(value, look, None)
    return found


def _find_forms(texts: Mapping[str, object], kinds: Mapping[str, str]) -> dict[str, str]:
    """What else the texts hold of known secrets: their other forms, encoded runs around them, and lines of a key."""
    secrets = {value: kind for value, kind in kinds.items() if kind in SECRET_KINDS and len(value) >= MIN_SECRET}
    lines = {line.strip(): kind for value, kind in secrets.items() if "\n" in value for line in value.splitlines()}
    secrets |= {line: kind for line, kind in lines.items() if len(line) >= MIN_LINE and not line.startswith("-----")}
    whole = "\0".join(texts)
    found = {value: kind for value, kind in lines.items() if value in secrets}
    forms = {form: kind for value, kind in secrets.items() for form in list_forms(value) if len(form) >= MIN_SECRET}
    found |= {form: kind for form, kind in forms.items() if form in whole}
    for text in texts:
        for start, stop, plain in iter_decoded(text):
            kind = next((kind for value, kind in secrets.items() if value in plain), "")
            if kind:
                found[text[start:stop]] = kind
    return found


def _build_masker(stretches: Mapping[str, Sequence[PrivateSpan]], kinds: Mapping[str, str]) -> Callable[[str], str]:
    """A function that removes private parts from a text: those found in it, and those found anywhere else."""
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
    """Change all texts of a value, keys of objects included. Without `names` it is only read."""
    if isinstance(value, str):
        if key == "digest":
            return names.rename_digest(value) if names else value
        if key in _ENCODED:
            return PLACEHOLDER if names else value
        if key in _PLAIN or key in ("id", "tool_use_id"):
            return value
        return names.rename_text(value, change(value)) if names and key == "text" else change(value)
    if isinstance(value, Mapping):
        return {change(name): _walk(item, change, names, name) for name, item in value.items()}
    return [_walk(item, change, names, key) for item in value] if isinstance(value, (list, tuple)) else value


def _strip_texts(value: Any, names: _Names, key: str = "") -> Any:
    """Remove every text of a session's fields that is not known to be harmless."""
    if key == "raw":
        return _strip_content(value, names)
    if isinstance(value, str):
        return value if key in _PLAIN or not value else _rename_value(value, names, key)
    if isinstance(value, Mapping):
        if key in _OPEN:
            return {name: item for name, item in value.items() if isinstance(item, (int, float)) and name.isidentifier()}
        return {name: _strip_texts(item, names, name) for name, item in value.items()}
    return [_strip_texts(item, names, key) for item in value] if isinstance(value, (list, tuple)) else value


def _rename_value(value: str, names: _Names, key: str) -> str:
    renaming = {"digest": names.rename_digest, "id": names.rename_id, "parent": names.rename_id, "name": names.rename_tool}
    if key in renaming:
        return renaming[key](value)
    return names.rename_text(value, PLACEHOLDER) if key == "text" else PLACEHOLDER


def _strip_content(raw: Any, names: _Names) -> Any:
    """A block as it was sent, with its structure only."""
    if not isinstance(raw, Mapping):
        return PLACEHOLDER
    made: dict[str, Any] = {}
    for key in _KEPT_KEYS:
        if key not in raw:
            continue
        content = raw[key]
        if key == "input":
            made[key] = {}
        elif key == "source":
            kind, media = (content.get(name, "") if isinstance(content, Mapping) else "" for name in ("type", "media_type"))
            made[key] = {"type": kind, "media_type": media, "data": ""}
        elif key in ("id", "tool_use_id"):
            made[key] = names.rename_id(str(content))
        elif key == "name":
            made[key] = names.rename_tool(str(content))
        else:
            made[key] = content if key in ("type", "role", "is_error") else PLACEHOLDER
    return made
