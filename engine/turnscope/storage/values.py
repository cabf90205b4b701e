"""Single values as SQLite can hold them, and back."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")


def make_sqlite_text(value: str) -> str:
    """Replace lone surrogates, which SQLite cannot write.

    What has to come back unchanged is stored as JSON, which escapes them.
    """
    return value.encode("utf-8", "replace").decode()


def encode_value(value: Any) -> str:
    """Encode a value of our own types as JSON text."""
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, OverflowError):  # lone surrogates, huge numbers
        return json.dumps(msgspec.to_builtins(value))


def decode_value(text: str, kind: type[T]) -> T:
    """Decode what `encode_value` wrote. The standard reader keeps huge numbers and lone surrogates.

    Args:
        text: The JSON text.
        kind: The type.
    """
    return msgspec.convert(json.loads(text), kind)
