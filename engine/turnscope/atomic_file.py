"""Files that are written completely or not at all: a temporary file in the target's folder takes its place at the end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from turnscope.errors import TurnscopeError, describe_path


@contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """Give a temporary file to write to; it replaces the file at `path` at the end, or is removed where anything fails.

    A missing folder is not created. What is no regular file (`/dev/stdout`, a named pipe) is written to directly.
    TurnscopeError where `path` cannot be written, as soon as that is known.
    """
    try:
        if path.is_dir():
            raise TurnscopeError(f"{path} is a folder", hint="Name a file in it.")
        special = path.exists() and not path.is_file()
        target = path.resolve()  # a link stays a link
    except (OSError, RuntimeError, ValueError) as error:  # a name that no file can have; a link that leads to itself
        why = (error.strerror if isinstance(error, OSError) else None) or "its name leads nowhere"
        raise TurnscopeError(f"{describe_path(str(path))} cannot be written: {why}", hint="Name another file.") from error
    if special:
        yield path
        return
    if not target.parent.is_dir():
        raise TurnscopeError(
            f"{path} cannot be written: there is no folder {path.parent}", hint="Create the folder first, or name another file."
        )
    part = target.with_name(f".{target.name[:100]}.{token_hex(4)}.part")
    try:
        with _report_errors(path, part):
            part.touch(exist_ok=False)
            if target.exists():
                shutil.copymode(target, part)
            yield part
            part.replace(target)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def _report_errors(path: Path, part: Path) -> Iterator[None]:
    """Turn an OSError about the file that is written into a TurnscopeError; one about another file passes."""
    try:
        yield
    except OSError as error:
        if error.filename not in (None, str(part), part):
            raise
        why = error.strerror or str(error)
        raise TurnscopeError(f"{path} cannot be written: {why}", hint="Name another file, or make room for it.") from error
