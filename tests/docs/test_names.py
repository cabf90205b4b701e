"""Names of the engine and the pages: words of the glossary, and functions that fit on a screen."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import Path

from conftest import ROOT

LINES = 45
OLDER = re.compile(r"(^|_)(told|said|beside|stand_?in|put_back|amid|knobs?|settled?|mended|asked)(_|$)", re.IGNORECASE)


@cache
def read_modules() -> dict[Path, str]:
    paths = (path for folder in ("engine", "pages") for path in (ROOT / folder).rglob("*.py"))
    return {path.relative_to(ROOT): path.read_text("utf-8") for path in sorted(paths)}


def test_no_name_is_an_older_word() -> None:
    """The glossary has the word of today for each."""
    found = [
        f"{path}:{token.start[0]} {token.string}"
        for path, text in read_modules().items()
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.NAME and OLDER.search(token.string)
    ]
    assert found == []


def test_no_function_is_longer_than_a_screen() -> None:
    found = [
        f"{path}:{node.lineno} {node.name}"
        for path, text in read_modules().items()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno + 1 > LINES
    ]
    assert found == []
