"""Counts the tokens of prompt and tool files, now and at a commit of git: what a change adds to every request."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnscope.counting.tokens import Counter, count_texts
from turnscope.errors import TurnscopeError
from turnscope.session.content import dumps, extract_block_text
from turnscope.views.text_tables import clean_line, format_csv, format_text

COLUMNS = ("file", "part", "before", "now", "change")


@dataclass(frozen=True, slots=True)
class PartTokens:
    """A tool of a file, or a file as a whole (`part` is ""). None = it is not there."""

    file: str
    part: str
    before: int | None
    now: int | None

    @property
    def change(self) -> int:
        """Tokens that it has more than before."""
        return (self.now or 0) - (self.before or 0)


@dataclass(frozen=True, slots=True, repr=False)
class FileTokens:
    """The parts of several files, and how they were counted."""

    parts: tuple[PartTokens, ...]
    counter: str

    @property
    def growth(self) -> int:
        """Tokens that all files have more than before."""
        return sum(part.change for part in self.parts)

    def __repr__(self) -> str:
        """A table for a terminal."""
        rows = [
            (clean_line(p.file), clean_line(p.part), *map(_format_count, (p.before, p.now)), f"{p.change:+,}")
            for p in self.parts
        ]
        return f"{format_text(COLUMNS, [*rows, ('all', '', '', '', f'{self.growth:+,}')])}\n{self.counter}"

    def to_csv(self) -> str:
        """A line per part as CSV."""
        return format_csv(COLUMNS, ((p.file, p.part, p.before, p.now, p.change) for p in self.parts))

    def to_json(self) -> str:
        """The parts, their growth and the counter as JSON."""
        listed = [dict(zip(COLUMNS, (p.file, p.part, p.before, p.now, p.change), strict=True)) for p in self.parts]
        return dumps({"parts": listed, "growth": self.growth, "counter": self.counter}) + "\n"


def _format_count(tokens: int | None) -> str:
    return "" if tokens is None else f"{tokens:,}"


def count_files(paths: Sequence[Path], counter: Counter, revision: str = "") -> FileTokens:
    """Count files, each tool of a file of tools by itself.

    Args:
        paths: the files; one that is not there was deleted.
        counter: counts the tokens.
        revision: the commit to compare with; "" = none.

    Raises:
        TurnscopeError: there is no such commit, or a file cannot be read.
    """
    if revision:
        known = _run_git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
        if known.returncode:
            hint = "Run it in the repository, and name a commit or a branch."
            raise TurnscopeError(f"git knows no commit {revision!r} here", hint=hint)
    parts = [part for path in paths for part in _count_file(path, counter, revision)]
    return FileTokens(tuple(parts), counter.label)


def _count_file(path: Path, counter: Counter, revision: str) -> Iterator[PartTokens]:
    try:
        now = path.read_text("utf-8", "replace") if path.exists() else None
    except OSError as error:
        raise TurnscopeError(f"{path} cannot be read: {error.strerror}", hint="Name files, not folders.") from error
    old = _read_before(path, revision) if revision else None
    sizes = [_count_parts(text, counter) for text in (old, now)]
    for name in dict.fromkeys((*sizes[1], *sizes[0])):
        yield PartTokens(str(path), name, sizes[0].get(name), sizes[1].get(name))


def _count_parts(text: str | None, counter: Counter) -> dict[str, int]:
    """Tokens by tool; of a file that holds none, of the whole under ""."""
    if text is None:
        return {}
    texts = _split_tools(text) or {"": text}
    return dict(zip(texts, count_texts([*texts.values()], counter), strict=True))


def _split_tools(text: str) -> dict[str, str]:
    """The definitions in a JSON file, by name: a list of them, one, or an object with `tools`. None where it holds none."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    listed = value.get("tools", [value]) if isinstance(value, dict) else value
    found: dict[str, str] = {}
    for tool in listed if isinstance(listed, list) else ():
        definition = tool.get("function", tool) if isinstance(tool, dict) else None
        if not isinstance(definition, Mapping) or not isinstance(definition.get("name"), str):
            return {}
        found[definition["name"]] = extract_block_text("tool", _to_anthropic(definition))
    return found


def _to_anthropic(definition: Mapping[str, Any]) -> dict[str, Any]:
    rest = {key: value for key, value in definition.items() if key != "parameters"}
    return {**rest, "input_schema": definition["parameters"]} if "parameters" in definition else rest


def _read_before(path: Path, revision: str) -> str | None:
    """A file at a commit; None where the commit does not have it."""
    folder = path.absolute().parent
    if not folder.is_dir():
        return None
    done = _run_git("-C", str(folder), "show", "--end-of-options", f"{revision}:./{path.name}")
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def _run_git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("git")
    if program is None:
        raise TurnscopeError("git is not installed", hint="Leave --against out.")
    return subprocess.run([program, *arguments], capture_output=True, check=False)  # noqa: S603 - git alone
