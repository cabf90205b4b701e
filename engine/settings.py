"""What is read from the environment, once, at the edge: where data lies and what to open.

The only module that reads environment variables.
"""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_data_path

DATA = "TURNSCOPE_DATA"  # folder for what Turnscope remembers; default: the user's data folder
OPEN = "TURNSCOPE_OPEN"  # file or folder that the app starts with, set by the `turnscope` command
PAIRS = "CONTEXT_MESSAGE_PAIRS"  # how many user + assistant pairs to keep
CLAUDE = "CLAUDE_CONFIG_DIR"  # Claude Code's own variable: folders with session files, separated by commas


def data_folder() -> Path:
    """The folder for the database, the user's overlay of prices and the user's policies."""
    given = os.environ.get(DATA)
    return Path(given) if given else user_data_path("turnscope", appauthor=False)


def data_file() -> Path:
    """The database of chats and of what is remembered. It keeps the name that the file of chats has always had."""
    return data_folder() / "chats.db"


def prices_file() -> Path | None:
    """The user's own overlay of prices and model facts, where there is one."""
    path = data_folder() / "prices.json"
    return path if path.is_file() else None


def context_pairs() -> int | None:
    """How many pairs the policies that keep the last pairs keep, where the environment says so."""
    given = os.environ.get(PAIRS, "")
    return int(given) if given.isdigit() else None


def to_open() -> Path | None:
    """What the command line asked for."""
    given = os.environ.get(OPEN)
    return Path(given) if given else None


def claude_projects() -> tuple[Path, ...]:
    """Folders in which Claude Code keeps its sessions, those that exist."""
    given = os.environ.get(CLAUDE, "")
    roots = [Path(part.strip()) for part in given.split(",") if part.strip()]
    roots = roots or [Path.home() / ".claude", Path.home() / ".config" / "claude"]
    return tuple(root / "projects" for root in roots if (root / "projects").is_dir())
