"""Names of the engine and the pages: words of the glossary, and functions that fit on a screen."""

from __future__ import annotations

import ast
import io
import re
import tokenize

from conftest import ROOT

from tests.docs.source_code import parse_module, read_modules

LINES = 45
WORDS = "told|said|beside|stand_?in|put_back|amid|knobs?|settled?|mended|asked"
OLDER = re.compile(rf"(^|_)({WORDS})(_|$)", re.IGNORECASE)
ANYWHERE = re.compile(rf"(?<![^\W_])({WORDS})(?![^\W_])", re.IGNORECASE)  # also in comments and texts: a tenth of the modules


def test_no_name_is_an_older_word() -> None:
    """The glossary has the word of today for each."""
    found = [
        f"{path.relative_to(ROOT)}:{token.start[0]} {token.string}"
        for path, text in read_modules().items()
        if ANYWHERE.search(text)
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.NAME and OLDER.search(token.string)
    ]
    assert found == []


def test_no_function_is_longer_than_a_screen() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
        for path in read_modules()
        for node in ast.walk(parse_module(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (node.end_lineno or 0) - node.lineno + 1 > LINES
    ]
    assert found == []
