"""The entry of the status line in Claude Code's settings: put there, and taken out again so that all is as it was before.

Other entries are not touched. A file that is no JSON object is not touched at all.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from turnscope.atomic_file import replace_file
from turnscope.errors import TurnscopeError
from turnscope.settings import Machine

KEY = "statusLine"
BACKUP = ".before-turnscope"  # end of the name of the copy that is kept beside the file
SECONDS = 5  # between two lines while nothing happens, so that the time until the cache goes cold runs down


def find_settings(machine: Machine) -> Path:
    """Find Claude Code's settings of the user. The file need not exist.

    Args:
        machine: Where tools keep their files.
    """
    return machine.find_folder("CLAUDE_CONFIG_DIR", machine.home / ".claude") / "settings.json"


def install(path: Path, command: str) -> str:
    """Let Claude Code run a command for its status line. A copy of the file as it is now is kept beside it.

    Args:
        path: The settings.
        command: The command, as a shell runs it.

    Returns:
        What was replaced: the command that was there before, "" = none.

    Raises:
        TurnscopeError: The file is no JSON object, or cannot be written.
    """
    held = _read(path)
    before = held.get(KEY)
    ours = is_ours(before)
    if not ours:
        _keep_copy(path)
    held[KEY] = {"type": "command", "command": command, "refreshInterval": SECONDS}
    path.parent.mkdir(parents=True, exist_ok=True)
    _write(path, _format(held))
    return "" if ours or not isinstance(before, dict) else str(before.get("command", ""))


def uninstall(path: Path) -> bool:
    """Put back the status line that was there before. Gives False where it is not ours, and changes nothing then.

    Where nothing else has changed since, the file is as it was to the byte, or gone if there was none.

    Args:
        path: The settings.

    Raises:
        TurnscopeError: The file or its copy is no JSON object, or cannot be written.
    """
    held, copy = _read(path), _name_copy(path)
    if not is_ours(held.get(KEY)):
        return False
    before = _read(copy)
    rest = {key: value for key, value in held.items() if key != KEY}
    if copy.exists() and rest == {key: value for key, value in before.items() if key != KEY}:
        _write(path, copy.read_bytes())
    elif KEY in before:
        _write(path, _format({**held, KEY: before[KEY]}))
    elif rest or copy.exists():
        _write(path, _format(rest))
    else:
        path.resolve().unlink()
    copy.unlink(missing_ok=True)
    return True


def is_ours(entry: Any) -> bool:
    """Whether an entry of the status line runs Turnscope."""
    command = entry.get("command") if isinstance(entry, dict) else None
    words: Sequence[str] = command.split() if isinstance(command, str) else ()
    return "statusline" in words and "turnscope" in str(command)


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    hint = "Mend it first; it was not changed."
    try:
        text = path.read_text(encoding="utf-8")
        held = json.loads(text) if text.strip() else {}
    except (ValueError, OSError) as error:
        raise TurnscopeError(f"{path} is no JSON: {error}", hint=hint) from error
    if not isinstance(held, dict):
        raise TurnscopeError(f"{path} holds no JSON object", hint=hint)
    return held


def _name_copy(path: Path) -> Path:
    return path.with_name(f"{path.name}{BACKUP}")


def _keep_copy(path: Path) -> None:
    if path.exists():
        shutil.copy2(path, _name_copy(path))
    else:
        _name_copy(path).unlink(missing_ok=True)


def _format(held: dict[str, Any]) -> bytes:
    return (json.dumps(held, indent=2, ensure_ascii=False) + "\n").encode()


def _write(path: Path, data: bytes) -> None:
    with replace_file(path) as part:
        part.write_bytes(data)
