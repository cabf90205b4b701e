"""Sizes of system prompt and tools, by tool and version, as sessions on this machine show them whose logs hold both.

A log of the same tool and version that does not hold them takes one as a prior. Makes no opinion of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median_low

from turnscope.storage.database import begin_write, open_database
from turnscope.storage.values import make_sqlite_text


@dataclass(frozen=True, slots=True)
class PromptSize:
    """System prompt and tools of a session's first request, in the provider's tokens. `family`: the model's tokenizer."""

    tool: str
    version: str
    family: str
    session: str
    tokens: int


def remember(path: Path, size: PromptSize) -> None:
    """Store the size that a session shows. StorageError: it cannot be written.

    Args:
        path: The database.
        size: The size.
    """
    row = [*map(make_sqlite_text, (size.tool, size.version, size.family, size.session)), size.tokens]
    with begin_write(path) as db:
        db.conn.execute("insert or replace into prompt_sizes values (?, ?, ?, ?, ?)", row)


def find(path: Path, tool: str, version: str, family: str) -> tuple[int, int] | None:
    """Find the usual size for a tool's version: tokens at the median session, and how many sessions show it; None = none does.

    Args:
        path: The database.
        tool: Name of the importer.
        version: Version of the tool, as its log names it.
        family: The tokenizer of the session's model.
    """
    if not path.exists():
        return None
    sql = "select tokens from prompt_sizes where tool = ? and version = ? and family = ?"
    with open_database(path) as db:
        found = [row[0] for row in db.conn.execute(sql, [*map(make_sqlite_text, (tool, version, family))])]
    return (median_low(found), len(found)) if found else None
