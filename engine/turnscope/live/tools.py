"""Read-only tools for a live chat: read, list and search files of one folder, and a calculator.

Nothing is written or run, and no path leads out of the folder: links are resolved first. Only regular files are opened,
without waiting for them, up to a fixed size. An error becomes a result that the model can read.
"""

from __future__ import annotations

import ast
import operator
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from turnscope.session.model import JSON

MAX_FILE_BYTES = 200_000  # that are read of one file
MAX_NAMES = 400  # names of one folder
MAX_HITS = 100  # lines of one search
MAX_FILES = 5_000  # files that one search reads
MAX_DIGITS = 300  # digits of a number in the calculator
MAX_EXPRESSION = 1_000  # characters of an expression

_OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}


def _define_tool(name: str, description: str, argument: str, what: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {argument: {"type": "string", "description": what}}, "required": [argument]}
    return {"name": name, "description": description, "input_schema": schema}


DEFINITIONS: Sequence[dict[str, Any]] = (
    _define_tool("read_file", "Read a text file of the folder.", "path", "path below the folder"),
    _define_tool("list_files", "List a folder.", "path", "path below the folder; . is the folder itself"),
    _define_tool(
        "search_files",
        "Find lines that hold a text, in all files of the folder.",
        "query",
        "text to find, upper and lower case alike",
    ),
    _define_tool("calculate", "Work out an arithmetic expression.", "expression", "numbers with + - * / // % ** and brackets"),
)


class Tools(Protocol):
    """Tools that the model may call. They only read."""

    @property
    def definitions(self) -> Sequence[JSON]:
        """The tool definitions, as the Messages API takes them."""

    def run(self, name: str, arguments: Mapping[str, JSON]) -> tuple[str, bool]:
        """Run a tool.

        Args:
            name: The name of the tool.
            arguments: Its arguments.

        Returns:
            The text of the result, and whether it is an error.
        """


class ToolRefusal(Exception):
    """A tool refuses a call. Its text becomes the result."""


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Tools for one folder.

    Args:
        folder: The folder. No tool reads outside of it.
        names: The tools that may run.
    """

    folder: Path
    names: tuple[str, ...] = ("read_file", "list_files", "search_files", "calculate")

    @property
    def definitions(self) -> Sequence[dict[str, Any]]:
        """See `Tools`."""
        return [tool for tool in DEFINITIONS if tool["name"] in self.names]

    def run(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """See `Tools`."""
        tools = {"read_file": self._read, "list_files": self._list, "search_files": self._search, "calculate": calculate}
        if name not in self.names or name not in tools:
            return f"there is no tool {name!r}", True
        (wanted,) = next(tool for tool in DEFINITIONS if tool["name"] == name)["input_schema"]["required"]
        argument = arguments.get(wanted)
        if isinstance(argument, int | float) and not isinstance(argument, bool):
            argument = str(argument)
        if not isinstance(argument, str):
            return f"{name} needs {wanted!r}, a text", True
        try:
            return tools[name](argument).encode("utf-8", "replace").decode(), False  # names of files may be no text
        except ToolRefusal as error:
            return str(error), True
        except OSError as error:
            return f"not possible: {error.strerror or type(error).__name__}", True
        except (RuntimeError, ValueError) as error:  # a link that leads to itself; a name that no file can have
            return f"not possible: {error}", True

    def _find_parts(self, path: str) -> tuple[str, ...]:
        """The names that lead from the folder to a file or a folder in it, after all links."""
        if "\x00" in path:
            raise ToolRefusal("a path cannot hold a NUL character")
        root = self.folder.resolve()
        found = (root / path).resolve()
        if found != root and root not in found.parents:
            raise ToolRefusal("that path leads out of the folder")
        if not found.exists():
            raise ToolRefusal(f"there is no {path}")
        return found.relative_to(root).parts

    def _read(self, path: str) -> str:
        with _open_inside(self.folder.resolve(), self._find_parts(path)) as handle:
            data, size = _read_bytes(handle)
        text = data.decode("utf-8", "replace")
        if "\x00" in text[:4096]:
            raise ToolRefusal("that is not a text file")
        return text if size <= MAX_FILE_BYTES else f"{text}\n[cut: the first {MAX_FILE_BYTES:,} of {size:,} bytes]"

    def _list(self, path: str) -> str:
        root, parts = self.folder.resolve(), self._find_parts(path or ".")
        if not root.joinpath(*parts).is_dir():
            raise ToolRefusal(f"{path} is not a folder")
        names = _list_names(root, parts)
        more = f"\n[{len(names) - MAX_NAMES} more]" if len(names) > MAX_NAMES else ""
        return "\n".join(names[:MAX_NAMES]) + more or "(empty)"

    def _search(self, query: str) -> str:
        if not query.strip():
            raise ToolRefusal("the text to search for is missing")
        hits: list[str] = []
        for name, data in self.read_files():
            if b"\x00" in data[:4096]:
                continue
            for n, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
                if query.lower() in line.lower():
                    hits.append(f"{name}:{n}: {line.strip()[:200]}")
                    if len(hits) >= MAX_HITS:
                        return "\n".join((*hits, "[more]"))
        return "\n".join(hits) or "(nothing found)"

    def read_files(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name of each file below the folder, and its first bytes; without hidden folders and links."""
        root, seen = self.folder.resolve(), 0
        for folder, folders, files in os.walk(root, followlinks=False):
            folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
            for name in sorted(files):
                seen += 1
                if seen > MAX_FILES:
                    return
                file = Path(folder, name).relative_to(root)
                with suppress(OSError, ToolRefusal):
                    with _open_inside(root, file.parts) as handle:
                        data, _ = _read_bytes(handle)
                    yield str(file), data


@contextmanager
def _open_inside(root: Path, parts: Sequence[str]) -> Iterator[int]:
    """Open what the names lead to, each below the handle of the folder before it, and follow no link.

    A folder that is replaced by a link after its path was checked is therefore not left. Windows has no such handles: there
    the path is resolved again once the file is open.
    """
    if os.open not in os.supports_dir_fd:
        path = root.joinpath(*parts)
        handle = os.open(path, os.O_RDONLY)
        if path.resolve() != path:
            os.close(handle)
            raise ToolRefusal("that path leads out of the folder")
    else:
        handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in parts if os.open in os.supports_dir_fd else ():
            inner = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def _list_names(root: Path, parts: Sequence[str]) -> list[str]:
    if os.scandir not in os.supports_fd:
        return sorted(map(_name_entry, os.scandir(root.joinpath(*parts))))
    with _open_inside(root, parts) as handle, os.scandir(handle) as entries:
        return sorted(map(_name_entry, entries))


def _name_entry(entry: os.DirEntry[str]) -> str:
    with suppress(OSError):  # a link that leads to itself
        return entry.name + ("/" if entry.is_dir() else "")
    return entry.name


def _read_bytes(handle: int) -> tuple[bytes, int]:
    """Return the first bytes of a regular file, and its size. Refuse a pipe or a device without waiting for it."""
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        raise ToolRefusal("that is not a regular file")
    with os.fdopen(os.dup(handle), "rb") as opened:
        return opened.read(MAX_FILE_BYTES), status.st_size


def calculate(expression: str) -> str:
    """Return the value of an arithmetic expression.

    Raises:
        ToolRefusal: The text is something else, or its value is too large.

    >>> calculate("2 ** 10 / 4")
    '256.0'
    """
    try:
        if len(expression.strip()) > MAX_EXPRESSION:
            raise ToolRefusal(f"the expression is longer than {MAX_EXPRESSION:,} characters; nothing was worked out")
        value = _evaluate(ast.parse(expression.strip(), mode="eval").body)
        return str(value)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, MemoryError, RecursionError, TypeError) as error:
        raise ToolRefusal(f"not an expression that can be worked out: {error}") from error


def _evaluate(node: ast.AST) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return node.value
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_evaluate(node.operand))
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _evaluate(node.left), _evaluate(node.right)
        if isinstance(node.op, ast.Pow) and (abs(right) > MAX_DIGITS or abs(left) > 10**MAX_DIGITS):
            raise ValueError("the power is too large")
        value = _OPERATORS[type(node.op)](left, right)
        if isinstance(value, int) and abs(value) > 10 ** (MAX_DIGITS * 10):
            raise ValueError("the number is too large")
        return value
    raise ValueError("only numbers, + - * / // % ** and brackets")
