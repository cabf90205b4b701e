"""What is read from the environment, once, at the edge: where data is kept and what to open.

This is the only module that reads environment variables.
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

# The folder for Turnscope's data. Default: the user's data folder.
DATA_VARIABLE = "TURNSCOPE_DATA"
# The file or folder that the app starts with. The `turnscope` command sets it.
OPEN_VARIABLE = "TURNSCOPE_OPEN"
# Whether the app begins with its demo: "1", or "play" where it plays by itself. `turnscope demo` sets it.
DEMO_VARIABLE = "TURNSCOPE_DEMO"
# The word that a browser has to bring where other machines can reach the app. `turnscope --host` makes it.
TOKEN_VARIABLE = "TURNSCOPE_TOKEN"  # noqa: S105 - a name
# How many pairs of user and assistant messages are kept by the policies that keep the last pairs.
PAIRS_VARIABLE = "CONTEXT_MESSAGE_PAIRS"
# The most tokens of an answer under the policy whose requests carry no history.
STATELESS_VARIABLE = "OPENROUTER_MAX_TOKENS"
# The header that names a chat on each of its requests; "helicone": its two headers; "none": no header.
HEADER_VARIABLE = "TURNSCOPE_CONVERSATION_HEADER"
# The file for traces of live chats, as JSON lines of OTLP.
TRACES_VARIABLE = "TURNSCOPE_TRACES"
# The server for traces of live chats. OpenTelemetry's own variable is not used, since others set it.
ENDPOINT_VARIABLE = "TURNSCOPE_OTLP_ENDPOINT"
# Whether traces hold the messages' text: SPAN_ONLY, SPAN_AND_EVENT.
CONTENT_VARIABLE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
# The keys of the APIs that a chat can go to, by kind of destination. Anthropic's SDK reads its own.
KEY_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "openai": ("OPENAI_API_KEY",),
    "openai-chat": ("OPENAI_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "azure": ("AZURE_OPENAI_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
}
_USER = re.compile(r"(\b\w[\w+.-]*://)[^/]*@")  # the name and password in an address
# The address of a resource of Azure OpenAI.
AZURE_VARIABLE = "AZURE_OPENAI_ENDPOINT"


def find_data_folder() -> Path:
    """Find the folder for the database, the user's overlay of prices and the user's policies."""
    path = os.environ.get(DATA_VARIABLE)
    return Path(path) if path else user_data_path("turnscope", appauthor=False)


def find_database() -> Path:
    """Find the database of chats and of opened sessions. It keeps the name that the file of chats has always had."""
    return find_data_folder() / "chats.db"


def find_prices_file() -> Path | None:
    """Find the user's own overlay of prices and model facts; None where there is none."""
    path = find_data_folder() / "prices.json"
    return path if path.is_file() else None


def find_windows_file() -> Path:
    """Find the file of the windows that the user chose for single sessions. It need not exist."""
    return find_data_folder() / "windows.json"


def find_library_file(name: str) -> Path:
    """Find a file of what the user keeps about the library: `tags.json`, `views.json`. It need not exist."""
    return find_data_folder() / name


def find_tap_folder() -> Path:
    """Find the folder for what taps record. It need not exist."""
    return find_data_folder() / "tap"


def read_token() -> str:
    """Read the word that a browser has to bring; "" = none, because this machine alone can reach the app."""
    return os.environ.get(TOKEN_VARIABLE, "")


def read_context_pairs() -> int | None:
    """Read how many pairs the policies that keep the last pairs keep; None where the environment does not say."""
    text = os.environ.get(PAIRS_VARIABLE, "")
    return int(text) if text.isdigit() else None


def read_stateless_output() -> int | None:
    """Read the limit of an answer under the policy without history; None where the environment does not say."""
    text = os.environ.get(STATELESS_VARIABLE, "")
    return int(text) if text.isdigit() and int(text) else None


def read_key(kind: str) -> str:
    """Read the API key for a kind of destination; "" where the environment has none."""
    return next((key for name in KEY_VARIABLES.get(kind, ()) if (key := os.environ.get(name, "").strip())), "")


def read_azure_address() -> str:
    """Read the address of a resource of Azure OpenAI; "" where the environment has none."""
    return os.environ.get(AZURE_VARIABLE, "").strip().rstrip("/")


def read_conversation_header() -> str:
    """Read the name of the header that names a chat on each of its requests; "" = no header."""
    header = os.environ.get(HEADER_VARIABLE, "").strip() or "X-Conversation-Id"
    return header if header.lower() != "none" and re.fullmatch(r"[A-Za-z0-9-]+", header) else ""


def hide_user(address: str) -> str:
    """An address without its name and password, so that it can be shown or stored."""
    return _USER.sub(r"\1", address)


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Where traces of live chats go: a file, a server's address (the base of OTLP over HTTP), or both."""

    file: Path | None = None
    endpoint: str = ""
    content: bool = False


def read_telemetry() -> Telemetry | None:
    """Read where traces of live chats go; None = nowhere, which is the default."""
    file, endpoint = os.environ.get(TRACES_VARIABLE, ""), os.environ.get(ENDPOINT_VARIABLE, "")
    content = os.environ.get(CONTENT_VARIABLE, "").strip().upper() in ("SPAN_ONLY", "SPAN_AND_EVENT", "TRUE")
    return Telemetry(Path(file) if file else None, endpoint, content) if file or endpoint else None


def read_path_to_open() -> Path | None:
    """Read the path that the command line asks the app to open."""
    path = os.environ.get(OPEN_VARIABLE)
    return Path(path) if path else None


def read_demo() -> str:
    """Read whether the app begins with its demo: "1", "play" where it plays by itself, "" = neither."""
    wanted = os.environ.get(DEMO_VARIABLE, "")
    return wanted if wanted in ("1", "play") else ""


@dataclass(frozen=True, slots=True)
class Machine:
    """Where tools keep their files: folders of the user, and environment variables that a tool itself reads."""

    system: Literal["linux", "macos", "windows"]
    home: Path
    config: Path  # ~/.config, ~/Library/Application Support, %APPDATA%
    data: Path  # ~/.local/share, ~/Library/Application Support, %LOCALAPPDATA%
    variables: Mapping[str, str]

    def find_folder(self, variable: str, otherwise: Path) -> Path:
        """Find a tool's folder.

        Args:
            variable: The environment variable that may name it.
            otherwise: Where it is when the variable is not set.
        """
        named = self.variables.get(variable)
        return Path(named) if named else otherwise


def detect_machine() -> Machine:
    """Describe this machine."""
    home, variables = Path.home(), os.environ
    if sys.platform == "win32":
        roaming, local = (Path(variables.get(name) or home / "AppData" / end) for name, end in _WINDOWS.items())
        return Machine("windows", home, roaming, local, variables)
    if sys.platform == "darwin":
        support = home / "Library" / "Application Support"
        return Machine("macos", home, support, support, variables)
    config, data = (Path(variables.get(name) or home / end) for name, end in _LINUX.items())
    return Machine("linux", home, config, data, variables)


_WINDOWS = {"APPDATA": "Roaming", "LOCALAPPDATA": "Local"}
_LINUX = {"XDG_CONFIG_HOME": ".config", "XDG_DATA_HOME": ".local/share"}
