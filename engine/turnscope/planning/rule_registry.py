"""Every rule by its name: the modules below `turnscope.rules`, those of packages, and the files of the user's folder.

A rule is imported when it is first needed, so a broken one fails the policies that name it and nothing else.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import is_dataclass, replace
from functools import cache, partial
from typing import Any, get_args, get_type_hints

from turnscope import rules
from turnscope.envelope.rule import Memory, Rule
from turnscope.errors import ExtensionError, PolicyError, RuleError, TurnscopeError, suggest_names
from turnscope.extensions import Extension, check_type, describe, find_extensions, load_extension, report_problem
from turnscope.session.model import JSON


@cache
def find_rule(name: str) -> Rule:
    """The rule of that name. PolicyError where there is none, or where it comes from a package and cannot be loaded."""
    if module := _find_modules().get(name):
        rule: Rule = importlib.import_module(module).RULE
        return rule
    extension = _find_extensions().get(name)
    if extension is None:
        known = sorted((*_find_modules(), *_find_extensions()))
        raise PolicyError(f"there is no rule {name!r}", hint=suggest_names(name, known))
    try:
        return load_extension(extension, "rule", partial(_check_rule, extension=extension))
    except ExtensionError as error:
        raise PolicyError(error.what, hint=error.hint) from error


@cache
def load_rules() -> Mapping[str, Rule]:
    """Every rule that can be loaded, by name."""
    found: dict[str, Rule] = {}
    for name in sorted((*_find_modules(), *_find_extensions())):
        try:
            found[name] = find_rule(name)
        except PolicyError:  # of a package, and reported
            continue
    return found


def load_packaged_rules() -> None:
    """Load every rule that a package or the user's folder brings, so that one that is broken is reported."""
    for name in _find_extensions():
        with suppress(PolicyError):
            find_rule(name)


def find_rule_package(name: str) -> str:
    """The package that brings a rule, or the user's file; "" where it is Turnscope's own."""
    extension = _find_extensions().get(name)
    return extension.source if extension else ""


@cache
def _find_modules() -> Mapping[str, str]:
    """Turnscope's own rules: every module below `turnscope.rules`, in a folder or not, by its last name."""
    found = pkgutil.walk_packages(rules.__path__, f"{rules.__name__}.")
    return {module.name.rpartition(".")[2]: module.name for module in found if not module.ispkg}


@cache
def _find_extensions() -> Mapping[str, Extension]:
    """Rules that do not come with Turnscope. Of several of one name the first counts; the others are reported."""
    found: dict[str, Extension] = {}
    for extension in find_extensions("rules"):
        name = extension.name
        if name in _find_modules() or name in found:
            first = found[name].source if name in found else "Turnscope itself"
            sentence = f"The rule {name!r} of {extension.source} is left out: {first} has one of that name."
            report_problem(f"rule {name} {extension.source}", sentence)
        else:
            found[name] = extension
    return found


def _check_rule(value: object, extension: Extension) -> Rule:
    """A rule that a package brings. TypeError or ValueError where something of it is not as it must be."""
    rule = check_type(value, Rule)
    if rule.name != extension.name:
        raise ValueError(f"it calls itself {rule.name!r}, and policies that name it so would not find it")
    if not is_dataclass(check_type(rule.params, type)):
        raise TypeError("its `params` is no dataclass")
    if rule.memory not in get_args(Memory):
        raise ValueError(f"its `memory` is {rule.memory!r}, not one of {', '.join(get_args(Memory))}")
    for text in (rule.doc, rule.source):
        check_type(text, str)
    get_type_hints(rule.params, include_extras=True)  # forms are made of them
    return replace(rule, sends=partial(_guard_sends, rule, extension.source, rule.sends)) if rule.sends else rule


def _guard_sends(
    rule: Rule, package: str, sends: Callable[[Any, Mapping[str, JSON]], JSON], params: Any, settings: Mapping[str, JSON]
) -> JSON:
    try:
        return sends(params, settings)
    except TurnscopeError:
        raise
    except Exception as error:
        raise RuleError(
            f"the rule {rule.name!r} of {package} failed in `sends`: {describe(error)}", hint=f"Report it to {package}."
        ) from error
