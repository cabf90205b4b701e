"""Policies as data: an ordered list of rules with their parameters, read from TOML.

Holds loading and discovery. Applying a policy is `assemble`'s business.
"""

from __future__ import annotations

import importlib
import pkgutil
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from engine import rules as rules_package
from engine.errors import PolicyError
from engine.rule import Rule

HERE = Path(__file__).parent / "policies"


@dataclass(frozen=True, slots=True)
class Step:
    """One rule of a policy with its parameters."""

    rule: Rule
    params: Any


@dataclass(frozen=True, slots=True)
class Policy:
    """An ordered list of rules, as a TOML file says it."""

    name: str
    title: str
    doc: str
    source: str
    fidelity: str
    rules: tuple[Step, ...] = ()


@cache
def rules() -> Mapping[str, Rule]:
    """Every rule by name: each module of `engine.rules` defines `RULE`."""
    found = (importlib.import_module(f"engine.rules.{m.name}").RULE for m in pkgutil.iter_modules(rules_package.__path__))
    return {rule.name: rule for rule in found}


def names(folder: Path = HERE) -> tuple[str, ...]:
    """Names of the policies in a folder."""
    return tuple(sorted(path.stem for path in folder.glob("*.toml")))


def load(name: str, folder: Path = HERE) -> Policy:
    """The policy of that name. PolicyError where it does not exist or is malformed."""
    if name not in names(folder):
        raise PolicyError(f"there is no policy {name!r}", hint=f"Known policies: {', '.join(names(folder))}.")
    return parse(name, (folder / f"{name}.toml").read_text(encoding="utf-8"))


def parse(name: str, text: str) -> Policy:
    """Read a policy from TOML text. PolicyError with the place of the mistake."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"policy {name!r} is not valid TOML: {error}", hint="Mend the file at the line named.") from error
    steps = tuple(_step(name, row) for row in data.get("rules", ()))
    title, doc, source, fidelity = (str(data.get(key, "")) for key in ("title", "doc", "source", "fidelity"))
    return Policy(name, title, doc, source, fidelity, steps)


def _step(policy: str, row: Mapping[str, Any]) -> Step:
    rule = rules().get(row.get("rule", ""))
    if rule is None:
        raise PolicyError(f"policy {policy!r} names no known rule: {row.get('rule')!r}", hint=f"Known: {', '.join(rules())}.")
    known = {field.name for field in fields(rule.params)}
    params = {key: value for key, value in row.items() if key != "rule"}
    if unknown := sorted(set(params) - known):
        raise PolicyError(
            f"rule {rule.name!r} has no parameter {unknown[0]!r}", hint=f"It has: {', '.join(sorted(known)) or 'none'}."
        )
    return Step(rule, rule.params(**params))
