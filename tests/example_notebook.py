"""The executed notebook of the documentation: its cells run here in order, and what the last line of each gives is kept.

No Jupyter is needed for that: a value's HTML is what `_repr_html_` gives, as Jupyter asks for it.
"""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "engine" / "turnscope" / "docs" / "notebook.ipynb"
CELLS = (
    "# Turnscope in a notebook\n\nEvery value draws itself, without a server and without anything that is loaded from afar.",
    'import turnscope\n\nsession = turnscope.load("sample_sessions/chat-forgets-first-instruction.jsonl")\nsession',
    "What filled each request: move the slider.",
    "turnscope.show(session)",
    "The same under another policy, and what that costs.",
    'turnscope.show(session, "last-5-pairs")',
    'turnscope.compare(session, ["as-recorded", "last-5-pairs", "clear-tool-results"])',
    "What can be replayed.",
    "turnscope.policies()",
)
"""Text and code in turn: what parses as Python and is no sentence is code."""


def is_code(text: str) -> bool:
    return text.startswith(("import ", "turnscope."))


def run_cell(code: str, names: dict[str, Any]) -> Any:
    """Run a cell; gives the value of its last line."""
    parsed = ast.parse(code)
    last = parsed.body.pop()
    assert isinstance(last, ast.Expr)
    exec(compile(parsed, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def make_notebook() -> bytes:
    """The notebook as a file, with its outputs."""
    names: dict[str, Any] = {}
    cells: list[dict[str, Any]] = []
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        for number, text in enumerate(CELLS):
            lines = text.splitlines(keepends=True)
            cell: dict[str, Any] = {"id": f"cell-{number}", "metadata": {}, "source": lines}
            if is_code(text):
                value = run_cell(text, names)
                count = sum(is_code(each) for each in CELLS[: number + 1])
                data = {"text/html": value._repr_html_().splitlines(keepends=True), "text/plain": [repr(value)]}
                output = {"output_type": "execute_result", "execution_count": count, "data": data, "metadata": {}}
                cell |= {"cell_type": "code", "execution_count": count, "outputs": [output]}
            else:
                cell["cell_type"] = "markdown"
            cells.append(cell)
    finally:
        os.chdir(before)
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return (json.dumps({"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n").encode()
