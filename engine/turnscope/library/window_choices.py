"""Windows that a person chose for single sessions, over all evidence. They lie in one small file in the data folder.

    {"SESSION": {"claude-opus-4-6": 200000}}

Whatever is computed of a session follows: fill, checks, replays, the library.
"""

from __future__ import annotations

import json
from collections import Counter as Tally
from pathlib import Path
from typing import Any

from turnscope.atomic_file import replace_file
from turnscope.errors import BrokenFile
from turnscope.pricing.windows import ChosenWindow
from turnscope.session.model import Session
from turnscope.session.window_facts import LARGER_WINDOWS, STANDARD_WINDOW
from turnscope.settings import find_windows_file
from turnscope.views.overview import Overview


def read_window_choices(path: Path | None = None) -> tuple[ChosenWindow, ...]:
    """Read what was chosen, for all sessions. BrokenFile: the file is not what this module writes.

    Args:
        path: the file; None = that of the data folder.
    """
    return tuple(
        ChosenWindow(session, model, window)
        for session, models in _read(path or find_windows_file()).items()
        for model, window in models.items()
    )


def read_choices_state() -> str:
    """Read what changes with every choice, also with one of another process; "" = nothing was chosen yet."""
    try:
        state = find_windows_file().stat()
    except OSError:
        return ""
    return f"{state.st_mtime_ns}:{state.st_size}"


def choose_window(session: Session, window: int, path: Path | None = None) -> None:
    """Choose the window of the model of most of a session's requests, for all paths and subagents of the session.

    Args:
        session: the session, or a branch or subagent of it.
        window: in tokens; 0 = by its evidence again.
        path: the file; None = that of the data folder.

    Raises:
        BrokenFile: the file is not what this module writes.
        TurnscopeError: it cannot be written.
    """
    file = path or find_windows_file()
    chosen, owner, model = _read(file), session.parent or session.id, find_main_model(session)
    models = {name: size for name, size in chosen.get(owner, {}).items() if name != model}
    chosen[owner] = models | ({model: window} if window else {})
    file.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(file) as part:
        part.write_text(json.dumps({name: row for name, row in chosen.items() if row}, indent=1) + "\n", encoding="utf-8")


def find_main_model(session: Session) -> str:
    """The model of most of a session's requests; "" = none is named."""
    models = Tally(request.model for request in session.requests if request.model)
    return models.most_common(1)[0][0] if models else ""


def list_sizes(view: Overview) -> tuple[int, ...]:
    """List the windows that a person may want instead of the one shown: those that are sold, those of the evidence."""
    evidence = {size for each in view.evidence for size in (each.window, each.table) if size}
    return tuple(sorted({STANDARD_WINDOW, LARGER_WINDOWS[0], *evidence}))


def _read(file: Path) -> dict[str, dict[str, int]]:
    if not file.is_file():
        return {}
    try:
        data: Any = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _make_error(file, str(error)) from error
    rows = data.items() if isinstance(data, dict) else [("", None)]
    for session, models in rows:
        if not isinstance(models, dict) or any(type(size) is not int or size <= 0 for size in models.values()):
            raise _make_error(file, f"{session!r} has no windows by model")
    return dict(rows)


def _make_error(file: Path, why: str) -> BrokenFile:
    return BrokenFile(f"{file.name} cannot be read: {why}", hint=f"Delete {file}: windows are then decided by evidence again.")
