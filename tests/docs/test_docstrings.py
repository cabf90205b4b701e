"""Docstrings of the engine: `Args:` describes what a function takes, wherever that is more than one argument."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from conftest import ROOT

from tests.docs.source_code import parse_module

ENGINE = ROOT / "engine" / "turnscope"
SEAMS = {"Rule", "Importer"}  # they describe what the functions take that one gives them
CLICK = ("command", "group")  # of a command, `--help` describes the arguments
ENTRY = re.compile(r"^    (\*{0,2}\w+(?:, \w+)*):", re.MULTILINE)
SEE = re.compile(r"See `([\w.]+)`\.")

Definition = ast.FunctionDef | ast.AsyncFunctionDef


class Function(NamedTuple):
    """A public function, or a public method of `owner`. `users`: names of its decorators, and of what it is an argument of."""

    place: str
    owner: str
    node: Definition
    users: frozenset[str]

    @property
    def doc(self) -> str:
        return ast.get_docstring(self.node) or ""

    @property
    def arguments(self) -> set[str]:
        """Its arguments as `Args:` names them. A leading underscore says that one is not read."""
        taken = self.node.args
        names = [each.arg for each in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs) if each.arg not in ("self", "cls")]
        names += [f"*{taken.vararg.arg}"] if taken.vararg else []
        names += [f"**{taken.kwarg.arg}"] if taken.kwarg else []
        return {name for name in names if not name.lstrip("*").startswith("_")}

    @property
    def described(self) -> set[str]:
        section = self.doc.partition("Args:\n")[2].partition("\n\n")[0]
        return {name for entry in ENTRY.findall(section) for name in entry.split(", ")}

    @property
    def is_described_elsewhere(self) -> bool:
        """Whether its arguments are those of a rule, a format, a command, or of the protocol that its docstring names."""
        if self.users & SEAMS or self.users.intersection(CLICK) or any(user.startswith("memoize") for user in self.users):
            return True
        found = SEE.match(self.doc)
        return bool(found) and ("." in found[1] or any(each.described for each in find_method(found[1], self.node.name)))


@cache
def list_functions() -> tuple[Function, ...]:
    return tuple(function for path in sorted(ENGINE.rglob("*.py")) for function in read_functions(path))


def read_functions(path: Path) -> Iterator[Function]:
    tree = parse_module(path)
    users: dict[str, set[str]] = {}
    for call in ast.walk(tree):
        if isinstance(call, ast.Call):
            for value in (*call.args, *(keyword.value for keyword in call.keywords)):
                if isinstance(value, ast.Name):
                    users.setdefault(value.id, set()).add(get_name(call.func))
    for owner, node in iter_public(tree.body):
        given = {get_name(each.func if isinstance(each, ast.Call) else each) for each in node.decorator_list}
        place = f"{path.relative_to(ENGINE)}:{node.lineno} {node.name}"
        yield Function(place, owner, node, frozenset(given | (set() if owner else users.get(node.name, set()))))


def iter_public(body: list[ast.stmt], owner: str = "") -> Iterator[tuple[str, Definition]]:
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from iter_public(node.body, node.name)
        elif isinstance(node, Definition) and not node.name.startswith("_"):
            yield owner, node


def get_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def find_method(owner: str, name: str) -> list[Function]:
    return [each for each in list_functions() if each.owner == owner and each.node.name == name]


def test_every_function_of_two_arguments_describes_them() -> None:
    found = [each for each in list_functions() if len(each.arguments) > 1 and "overload" not in each.users]
    assert len(found) > 900
    assert [each.place for each in found if not each.described and not each.is_described_elsewhere] == []


def test_every_description_names_all_arguments_and_no_others() -> None:
    described = [each for each in list_functions() if each.described]
    wrong = [(each.place, each.described ^ each.arguments) for each in described if each.described != each.arguments]
    assert wrong == []
