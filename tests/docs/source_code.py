"""The source code of the engine and the pages, read and parsed once for all tests of a process."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from conftest import ROOT


@cache
def read_modules() -> dict[Path, str]:
    """The text of each module, by its path."""
    paths = (path for folder in ("engine", "pages") for path in (ROOT / folder).rglob("*.py"))
    return {path: path.read_text("utf-8") for path in sorted(paths)}


@cache
def parse_module(path: Path) -> ast.Module:
    """The syntax tree of one of them."""
    return ast.parse(read_modules()[path])
