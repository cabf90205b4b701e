"""What is read from the environment, once, at the edge: where data lies and what to open.

The only module that reads environment variables.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from platformdirs import user_data_path

DATA_VARIABLE = "TURNSCOPE_DATA"  # folder for what Turnscope remembers; default: the user's data folder
OPEN_VARIABLE = "TURNSCOPE_OPEN"  # file or folder that the app starts with, set by the `turnscope` command
PAIRS_VARIABLE = "CONTEXT_MESSAGE_PAIRS"  # how many user + assistant pairs to keep
HEADER_VARIABLE = (
    "TURNSCOPE_CONVERSATION_HEADER"  # names a chat on each of its requests; "helicone": its two; "none": no header
)
TRACES_VARIABLE = "TURNSCOPE_TRACES"  # file that live chats are traced to, as OTLP's JSON lines
ENDPOINT_VARIABLE = (
    "TURNSCOPE_OTLP_ENDPOINT"  # server that live chats are traced to; not OpenTelemetry's own name, which others set
)
CONTENT_VARIABLE = (
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"  # whether traces hold what was said: SPAN_ONLY, SPAN_AND_EVENT
)


def find_data_folder() -> Path:
    """The folder for the database, the user's overlay of prices and the user's policies."""
    given = os.environ.get(DATA_VARIABLE)
    return Path(given) if given else user_data_path("turnscope", appauthor=False)


def find_database() -> Path:
    """The database of chats and of what is remembered. It keeps the name that the file of chats has always had."""
    return find_data_folder() / "chats.db"


def find_prices_file() -> Path | None:
    """The user's own overlay of prices and model facts, where there is one."""
    path = find_data_folder() / "prices.json"
    return path if path.is_file() else None


def read_context_pairs() -> int | None:
    """How many pairs the policies that keep the last pairs keep, where the environment says so."""
    given = os.environ.get(PAIRS_VARIABLE, "")
    return int(given) if given.isdigit() else None


def read_conversation_header() -> str:
    """The header that names a chat on each of its requests; "" = none."""
    said = os.environ.get(HEADER_VARIABLE, "").strip() or "X-Conversation-Id"
    return said if said.lower() != "none" and re.fullmatch(r"[A-Za-z0-9-]+", said) else ""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Where live chats are traced to: a file, a server's address (the base of OTLP over HTTP), or both."""

    file: Path | None = None
    endpoint: str = ""
    content: bool = False


def read_telemetry() -> Telemetry | None:
    """Where live chats are traced to; None = nowhere, which is what happens where nobody says anything."""
    file, endpoint = os.environ.get(TRACES_VARIABLE, ""), os.environ.get(ENDPOINT_VARIABLE, "")
    content = os.environ.get(CONTENT_VARIABLE, "").strip().upper() in ("SPAN_ONLY", "SPAN_AND_EVENT", "TRUE")
    return Telemetry(Path(file) if file else None, endpoint, content) if file or endpoint else None


def read_path_to_open() -> Path | None:
    """What the command line asked for."""
    given = os.environ.get(OPEN_VARIABLE)
    return Path(given) if given else None


@dataclass(frozen=True, slots=True)
class Machine:
    """Where tools keep their files: folders of the user, and the environment, as far as a tool itself goes by it."""

    system: Literal["linux", "macos", "windows"]
    home: Path
    config: Path  # ~/.config, ~/Library/Application Support, %APPDATA%
    data: Path  # ~/.local/share, ~/Library/Application Support, %LOCALAPPDATA%
    variables: Mapping[str, str]


def detect_machine() -> Machine:
    """This machine."""
    home, given = Path.home(), os.environ
    if sys.platform == "win32":
        roaming, local = (Path(given.get(name) or home / "AppData" / end) for name, end in _WINDOWS.items())
        return Machine("windows", home, roaming, local, given)
    if sys.platform == "darwin":
        support = home / "Library" / "Application Support"
        return Machine("macos", home, support, support, given)
    config, data = (Path(given.get(name) or home / end) for name, end in _LINUX.items())
    return Machine("linux", home, config, data, given)


_WINDOWS = {"APPDATA": "Roaming", "LOCALAPPDATA": "Local"}
_LINUX = {"XDG_CONFIG_HOME": ".config", "XDG_DATA_HOME": ".local/share"}
