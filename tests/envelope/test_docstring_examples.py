"""Examples in the docstrings of the core run and give what they say."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest

PACKAGES = ("turnscope.envelope", "turnscope.planning", "turnscope.rules")
MODULES = sorted(
    module.name
    for name in PACKAGES
    for module in pkgutil.walk_packages(import_module(name).__path__, f"{name}.")
    if not module.ispkg
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module_give_what_they_say(name: str) -> None:
    module = import_module(name)
    told: list[str] = []
    found = [test for test in doctest.DocTestFinder().find(module) if test.examples and "turnscope." not in test.docstring]
    assert not sum(doctest.DocTestRunner().run(test, out=told.append).failed for test in found), "".join(told)
