"""Older names that keep working, with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def accept_old_names(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function accept older names of its keyword arguments, each with a DeprecationWarning.

    An argument that is given under both names is a TypeError, as one that is given twice always is.

    Args:
        **names: the name of today, by the older one.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for old in names.keys() & kwargs.keys():
                name, new = function.__name__, names[old]
                if new in kwargs:
                    raise TypeError(f"{name}() got {new!r} twice: {old!r} is its older name")
                warnings.warn(f"{name}({old}=...) is now {name}({new}=...)", DeprecationWarning, stacklevel=2)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return call

    return decorate
