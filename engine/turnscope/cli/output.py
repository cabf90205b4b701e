"""What commands print: a table for a terminal, CSV for a pipe, JSON on request; notes on standard error."""

from __future__ import annotations

import sys
from typing import Protocol

import click


class Rows(Protocol):
    """A result of several rows, in every form that is printed."""

    def __repr__(self) -> str: ...
    def to_csv(self) -> str: ...
    def to_json(self) -> str: ...


def write_rows(result: Rows, *, as_json: bool, as_csv: bool) -> None:
    """Print a result as JSON or CSV on request; else as a table to a terminal, as CSV to a pipe or a file.

    Args:
        result: The rows.
        as_json: Print JSON.
        as_csv: Print CSV, also to a terminal; JSON goes before it.
    """
    if as_json:
        write(result.to_json())
    elif as_csv or not is_terminal():
        write(result.to_csv())
    else:
        write(f"{result!r}\n")


def is_terminal() -> bool:
    """Whether a person reads standard output."""
    return sys.stdout.isatty()


def write(text: str | bytes) -> None:
    """Write to standard output as it is, without a line end. A character that the output cannot hold becomes `?`."""
    data = text if isinstance(text, bytes) else text.encode(sys.stdout.encoding or "utf-8", "replace")
    click.echo(data, nl=False)


def write_error(what: str, hint: str = "") -> None:
    """Say on standard error what is wrong, and what to do about it.

    Args:
        what: What is wrong, with or without a full stop.
        hint: What to do about it, as a sentence; "" = nothing.
    """
    stop = "" if what.endswith((".", "?", "!")) else "."
    note(f"{what}{stop}{f' {hint}' if hint else ''}")


def note(text: str) -> None:
    """Say something on standard error that is no part of the result."""
    click.echo(f"turnscope: {text}", err=True)
