"""What holds for every importer: it is short, or says why it is not."""

from __future__ import annotations

import ast
from pathlib import Path

import turnscope.importers

ROOT = Path(turnscope.importers.__file__).parent
SHORT = 100  # lines of a mapping


def test_an_importer_is_short_or_says_why_it_is_not() -> None:
    files = {path.stem: [path] for path in ROOT.glob("*.py") if path.stem != "__init__"}
    folders = {path.parent.name: sorted(path.parent.glob("*.py"), key=_first) for path in ROOT.glob("*/__init__.py")}
    long = {name: paths[0] for name, paths in (files | folders).items() if sum(map(_lines, paths)) > SHORT}
    assert [name for name, path in long.items() if "onger than a mapping" not in _doc(path)] == [], "say why"


def _first(path: Path) -> bool:
    return path.stem != "__init__"


def _lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def _doc(path: Path) -> str:
    return " ".join((ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split())
