"""Context for a question from one folder: rule files, the workspace, and the files, trees and searches that the question names.

A question names them as `@file path`, `@path/with.ending`, `@tree folder`, `@search words`, or a file by its path alone where
there is such a file. Pages and issues are texts that the user pasted, or are read where the question names them as `@url` and
`@issue` and the user allows it (`web_pages`). Only files below the folder are read. Documents are the parts of its files that
have to do with the question. Web results and instructions of an MCP server come from what the user set up (`web_search`).
Nothing else uses the network.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from turnscope.envelope.context_items import LONGEST, RULE_FILES, ContextItem, Kind
from turnscope.envelope.relevance import rank_texts
from turnscope.errors import replace_unprintable
from turnscope.live.tools import Toolbox
from turnscope.session.model import Answer, Ask

_FILE = re.compile(r"@(?:file\s+)?([\w.-]+(?:/[\w.-]+)*\.\w+)")
_PATH = re.compile(r"(?<![\w@/.:-])((?:[\w.-]+/)*[\w-]+(?:\.\w+)+)(?![\w/-])")  # without `@`, and no part of an address
_TREE = re.compile(r"@tree(?:\s+([\w./-]+))?")
_SEARCH = re.compile(r"@search\s+[\"'`]?([^\"'`\n]+)")
TREE_DEPTH = 2  # levels of folders that a tree shows
MAX_NAMES = 120  # of a tree
PASSAGE, MAX_PASSAGES, MAX_FILES = 1_200, 8, 400  # characters of a passage; passages of a question; files that are searched

ContextFinder = Callable[[Kind, str], Sequence[ContextItem]]
"""Finds items outside the folder: from a kind and the question to items; () for kinds that it does not know."""


@dataclass(frozen=True, slots=True)
class ContextSources:
    """The sources of context for the questions of one chat.

    Args:
        folder: The folder of the workspace; None = none.
        pasted: Texts that the user pasted.
        finders: Find items outside the folder, such as web results; those that use the network are not asked for previews.
    """

    folder: Path | None = None
    pasted: tuple[ContextItem, ...] = ()
    finders: tuple[ContextFinder, ...] = ()

    def answer(self, ask: Ask) -> Answer:
        """Return the items for a question: `ask.prompt` names their kinds, `ask.content` is the question."""
        found: list[ContextItem] = []
        for kind in ask.prompt.split():
            found += map(_clean_item, [*self._find(kind, ask.content)][: ask.max_tokens or None])  # type: ignore[arg-type]
        return Answer(items=tuple(msgspec.json.encode(one).decode() for one in found), source="recorded")

    def _find(self, kind: Kind, question: str) -> Iterator[ContextItem]:
        yield from (one for one in self.pasted if one.kind == kind)
        for find in self.finders:
            yield from find(kind, question)
        if kind == "document" and self.folder is not None and self.folder.is_dir():
            yield from find_documents(self.folder, question)
        elif self.folder is not None and self.folder.is_dir():
            yield from self._find_in_folder(Toolbox(self.folder), self.folder, kind, question)

    def _find_in_folder(self, box: Toolbox, folder: Path, kind: Kind, question: str) -> Iterator[ContextItem]:
        if kind == "rules":
            yield from (one for name in RULE_FILES for one in _read_rule_files(box, folder, name))
        elif kind == "workspace":
            yield ContextItem(kind, folder.name, "\n".join(_list_tree(folder, TREE_DEPTH)))
        elif kind == "file":
            named = dict.fromkeys(_FILE.findall(question))
            for path in (*named, *(path for path in dict.fromkeys(_PATH.findall(question)) if path not in named)):
                text, failed = box.run("read_file", {"path": path})
                if path in named or not failed:  # words such as "e.g" look like paths, too
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


def _clean_item(item: ContextItem) -> ContextItem:
    """Return an item that can be stored and sent: a name on one line, and no half characters."""
    return ContextItem(item.kind, replace_unprintable(item.name), item.text.encode("utf-8", "replace").decode())


def find_documents(folder: Path, question: str) -> Iterator[ContextItem]:
    """Yield the parts of the folder's files that have to do with a question, the nearest first (by BM25 over words).

    Args:
        folder: The folder; hidden files, links and folders that hold no sources are left out.
        question: The question.
    """
    passages = [(name, part) for name, text in _read_texts(folder) for part in _split_text(text)]
    for number in rank_texts(question, [f"{name} {part}" for name, part in passages])[:MAX_PASSAGES]:
        yield ContextItem("document", *passages[number])


def _read_texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield name and text of the folder's text files, up to a limit of files and of characters each."""
    read = 0
    for name, data in Toolbox(folder).read_files():
        text = "" if Path(name).name.startswith(".") or b"\x00" in data[:4096] else data.decode("utf-8", "replace")
        if text.strip():
            read += 1
            yield name, text[:LONGEST]
        if read >= MAX_FILES:
            return


def _split_text(text: str) -> Iterator[str]:
    """Yield a text in passages of whole lines."""
    held, size = list[str](), 0
    for line in text.splitlines():
        if held and size + len(line) > PASSAGE:
            yield "\n".join(held)
            held, size = [], 0
        held.append(line)
        size += len(line) + 1
    if any(line.strip() for line in held):
        yield "\n".join(held)


def _read_rule_files(box: Toolbox, folder: Path, name: str) -> Iterator[ContextItem]:
    """Yield a rule file, or the files of a folder of that name (such as `.clinerules`)."""
    at = folder / name
    for path in sorted(p for p in at.iterdir() if p.is_file())[:8] if at.is_dir() and not at.is_symlink() else [at]:
        text, failed = box.run("read_file", {"path": str(path.relative_to(folder))})
        if not failed and text.strip():
            yield ContextItem("rules", str(path.relative_to(folder)), text[:LONGEST])


def _resolve_folder(folder: Path, name: str) -> Path | None:
    found, root = (folder / name).resolve(), folder.resolve()
    return found if found.is_dir() and (found == root or root in found.parents) else None


def _list_tree(folder: Path, depth: int) -> list[str]:
    """Return the names below a folder, indented by level. Hidden files and links are left out."""
    lines: list[str] = []

    def walk(at: Path, left: int) -> None:
        for path in sorted(at.iterdir(), key=lambda p: p.name):
            if path.name.startswith(".") or path.is_symlink() or path.name in ("node_modules", "__pycache__"):
                continue
            inner = path.is_dir()
            lines.append(f"{'  ' * (depth - left)}{replace_unprintable(path.name)}{'/' if inner else ''}")
            if inner and left > 1:
                walk(path, left - 1)

    try:
        walk(folder, depth)
    except OSError as error:
        lines.append(f"[not read: {error.strerror or type(error).__name__}]")
    more = [f"[{len(lines) - MAX_NAMES} more]"] if len(lines) > MAX_NAMES else []
    return lines[:MAX_NAMES] + more
