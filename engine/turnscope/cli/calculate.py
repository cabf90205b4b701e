"""`turnscope calculate`: what policies do to a conversation that is only planned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from turnscope.cli import options
from turnscope.cli.output import write_rows
from turnscope.library.calculating import CALCULATED_POLICIES, FIELDS, Shape, calculate


def _shape(function: Callable[..., Any]) -> Callable[..., Any]:
    """An option for each field of the planned conversation."""
    for name, default, text in reversed(FIELDS):
        function = click.option(
            f"--{name}", type=type(default), default=default, show_default=True, help=f"{text[0].upper()}{text[1:]}."
        )(function)
    return function


@click.command()
@_shape
@options.policies(CALCULATED_POLICIES)
@options.rows
def command(policies: list[str], as_json: bool, as_csv: bool, **shape: Any) -> int:
    """Calculate what policies do to a planned conversation.

    A row per policy: its cost, how full the window gets, at which turn it first cuts and at which a request no longer fits.
    Sizes are in tokens. JSON also has the fill of every turn.
    """
    write_rows(calculate(Shape(**shape), policies), as_json=as_json, as_csv=as_csv)
    return 0
