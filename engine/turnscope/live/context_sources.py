"""What a live chat puts beside a question, from one folder: rule files, the workspace, and what the question names.

`@file path` or `@path/with.ending`, `@tree folder`, `@search words`; texts of pages and issues are those that were pasted. It
only reads, below the folder, and asks no network: web results and documents come from whoever is handed over as `others`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from turnscope.envelope.context_items import LONGEST, RULE_FILES, ContextItem, Kind
from turnscope.live.tools import Toolbox
from turnscope.session.model import Answer, Ask

_FILE = re.compile(r"@(?:file\s+)?([\w.-]+(?:/[\w.-]+)*\.\w+)")
_TREE = re.compile(r"@tree(?:\s+([\w./-]+))?")
_SEARCH = re.compile(r"@search\s+[\"'`]?([^\"'`\n]+)")
TREE_DEPTH = 2  # folders below the workspace that its structure names
MAX_NAMES = 120  # of a structure or tree

ContextSearch = Callable[[Kind, str], Sequence[ContextItem]]
"""Who is asked for web results or documents: the kind and the question."""


@dataclass(frozen=True, slots=True)
class ContextSources:
    """What is at hand for the questions of one chat. `pasted`: texts that a person gave; `others`: by kind, who is asked."""

    folder: Path | None = None
    pasted: tuple[ContextItem, ...] = ()
    search: ContextSearch | None = None

    def answer(self, ask: Ask) -> Answer:
        """What a rule asks to be provided: `prompt` names the kinds, `content` is the question."""
        found: list[ContextItem] = []
        for kind in ask.prompt.split():
            found += [*self._find(kind, ask.content)][: ask.max_tokens or None]  # type: ignore[arg-type]
        return Answer(items=tuple(msgspec.json.encode(one).decode() for one in found), source="recorded")

    def _find(self, kind: Kind, question: str) -> Iterator[ContextItem]:
        yield from (one for one in self.pasted if one.kind == kind)
        if kind in ("web", "document"):
            yield from self.search(kind, question) if self.search else ()
        elif self.folder is not None and self.folder.is_dir():
            yield from self._find_in_folder(Toolbox(self.folder), self.folder, kind, question)

    def _find_in_folder(self, box: Toolbox, folder: Path, kind: Kind, question: str) -> Iterator[ContextItem]:
        if kind == "rules":
            yield from (one for name in RULE_FILES for one in _read_rule_files(box, folder, name))
        elif kind == "workspace":
            yield ContextItem(kind, folder.name, "\n".join(_list_tree(folder, TREE_DEPTH)))
        elif kind == "file":
            for path in dict.fromkeys(_FILE.findall(question)):
                text, failed = box.run("read_file", {"path": path})
                yield ContextItem(kind, path, f"[not read: {text}]" if failed else text[:LONGEST])
        elif kind == "tree":
            for found in _TREE.finditer(question):
                inside = _resolve_folder(folder, found[1] or ".")
                if inside:
                    yield ContextItem(kind, found[1] or ".", "\n".join(_list_tree(inside, TREE_DEPTH)))
        elif kind == "search":
            for words in dict.fromkeys(_SEARCH.findall(question)):
                text, _ = box.run("search_files", {"query": words.strip()})
                yield ContextItem(kind, words.strip(), text[:LONGEST])


def _read_rule_files(box: Toolbox, folder: Path, name: str) -> Iterator[ContextItem]:
    """A rule file; of a folder of that name (`.clinerules`) every text file in it."""
    at = folder / name
    for path in sorted(p for p in at.iterdir() if p.is_file())[:8] if at.is_dir() and not at.is_symlink() else [at]:
        text, failed = box.run("read_file", {"path": str(path.relative_to(folder))})
        if not failed and text.strip():
            yield ContextItem("rules", str(path.relative_to(folder)), text[:LONGEST])


def _resolve_folder(folder: Path, name: str) -> Path | None:
    found, root = (folder / name).resolve(), folder.resolve()
    return found if found.is_dir() and (found == root or root in found.parents) else None


def _list_tree(folder: Path, depth: int) -> list[str]:
    """Names below a folder, folders with a slash, those inside it further in; hidden ones and links are left out."""
    lines: list[str] = []

    def walk(at: Path, left: int) -> None:
        for path in sorted(at.iterdir(), key=lambda p: p.name):
            if path.name.startswith(".") or path.is_symlink() or path.name in ("node_modules", "__pycache__"):
                continue
            inner = path.is_dir()
            lines.append(f"{'  ' * (depth - left)}{path.name}{'/' if inner else ''}")
            if inner and left > 1:
                walk(path, left - 1)

    try:
        walk(folder, depth)
    except OSError as error:
        lines.append(f"[not read: {error.strerror or type(error).__name__}]")
    more = [f"[{len(lines) - MAX_NAMES} more]"] if len(lines) > MAX_NAMES else []
    return lines[:MAX_NAMES] + more
