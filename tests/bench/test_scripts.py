"""What a bench names is there: also in the scripts that it hands to a Python of its own, which no other check reads."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

BENCHES = sorted(path for path in Path(__file__).parent.glob("*.py") if path != Path(__file__))
OURS = ("turnscope", "pages", "engine")


def find_scripts(path: Path) -> Iterator[ast.Module]:
    """The file itself, and each text in it that is a script."""
    tree = ast.parse(path.read_text("utf-8"))
    yield tree
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "import " in node.value:
            try:
                yield ast.parse(node.value)
            except SyntaxError:
                continue  # a sentence


def list_imports(script: ast.Module) -> Iterator[tuple[str, str, str]]:
    """What of ours a script imports: the module, a name in it or "", and what the script calls it."""
    for node in ast.walk(script):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                found = (module, alias.name) if module else (alias.name, "")
                if found[0].partition(".")[0] in OURS:
                    yield *found, alias.asname or alias.name


def load(module: str, name: str) -> Any:
    """What an import gives; None where it is not there. A folder without `__init__.py` is no module of ours."""
    try:
        found = importlib.import_module(module)
        whole = getattr(found, "__file__", None) is not None
        return (getattr(found, name, None) or importlib.import_module(f"{module}.{name}")) if name else found if whole else None
    except ImportError:
        return None


def find_missing(script: ast.Module) -> Iterator[str]:
    """Names of ours that a script imports, or takes from a module that it imports, and that are not there."""
    known = {}
    for module, name, called in list_imports(script):
        known[called] = load(module, name)
        if known[called] is None:
            yield f"{module}.{name}".rstrip(".")
    for node in ast.walk(script):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = known.get(node.value.id)
            if isinstance(owner, ModuleType) and not hasattr(owner, node.attr):
                yield f"{node.value.id}.{node.attr}"


@pytest.mark.parametrize("path", BENCHES, ids=lambda path: path.name)
def test_every_name_is_there(path: Path) -> None:
    assert [name for script in find_scripts(path) for name in find_missing(script)] == []


def test_a_name_that_is_gone_is_found() -> None:
    script = ast.parse("import turnscope, engine\nfrom pages.parts import cache\nturnscope.load(1)\ncache.entries()")
    assert sorted(find_missing(script)) == ["cache.entries", "engine"]
