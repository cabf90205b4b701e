"""One line about a session, as Claude Code's status line shows it: fill, cost, when the cache goes cold, when it compacts.

Claude Code waits for this process on every step, so it imports almost nothing. What takes longer (parts of the window, dollars)
is read from a small file that `library.status_record` writes from the index of all sessions. Where the transcript has grown
since, a process of its own is started that writes it anew, and nobody waits for it: the next line has the newer numbers, and a
"+" stands behind dollars that are older than the transcript.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time

from turnscope.views.phrases import format_duration, format_tokens, format_usd

TYPE_CHECKING = False  # as in `typing`, whose import would cost a fifth of the time
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Record = Mapping[str, Any]

FOLDER = "statusline"  # of the records, in the folder of Turnscope's data
DAY_FILE = "day.json"
TEMPLATE = (
    "{bar} {fill} of {window} ({evidence}) | {largest} | {session} session | {day} today | {cache} | {left} until compaction"
)
FIELDS = {
    "model": "the model's name",
    "tokens": "tokens of the newest prompt",
    "window": "tokens of the window",
    "evidence": "how the window is known",
    "fill": "the prompt as a share of the window",
    "bar": "the same as a bar of ten characters",
    "largest": "the part that fills the window most, and its share of the prompt",
    "session": "USD of the session, with its subagents and branches",
    "day": "USD of all sessions of all tools today",
    "cache": "until when the provider's cache is warm",
    "left": "tokens until Claude Code compacts by itself",
}
BAR = 10  # characters
TAIL = 1 << 18  # bytes of the transcript's end that are read where Claude Code does not say how large the prompt is
LOCK_SECONDS = 180.0  # after which a refresh that has not ended counts as dead
NOTHING = "turnscope: no session yet"
_ID = re.compile(r"(?!day\Z)[A-Za-z0-9_-]{1,80}\Z")  # a session's; `DAY_FILE` lies beside its record
_FIELD = re.compile(r"\{(\w+)\}")
_COLOURS = ((0.85, "31"), (0.6, "33"), (0.0, "32"))  # of the bar by fill: red, yellow, green


def print_line(arguments: Sequence[str]) -> bool:
    """Print the line of the session that standard input describes. Gives False where the arguments ask for something else.

    Never fails: where anything is wrong it prints a short line all the same, because Claude Code shows what stands there.

    Args:
        arguments: Those behind `statusline`: `--data FOLDER`, `--template TEXT`, `--no-color`.
    """
    chosen = _read_arguments(arguments)
    if chosen is None or sys.stdin is None or sys.stdin.isatty():
        return False
    folder, template, plain = chosen
    try:
        given = json.loads(sys.stdin.buffer.read())
        line = make_line(given, folder or _find_folder(), template, plain=plain or bool(os.environ.get("NO_COLOR")))
    except Exception:  # noqa: BLE001 - a traceback on the status line helps nobody
        line = NOTHING
    try:
        sys.stdout.buffer.write(line.encode("utf-8", "replace") + b"\n")
        sys.stdout.flush()
    except OSError:
        return True  # nobody reads it any more
    return True


def make_line(given: Record, folder: str, template: str = TEMPLATE, *, plain: bool = True) -> str:
    """Make the line, and have its record written anew in the background where the transcript has grown.

    Args:
        given: What Claude Code writes to the command's standard input.
        folder: The folder of Turnscope's data.
        template: The line with `FIELDS` in braces. Of its parts between `|` those are left out that hold an unknown field.
        plain: Without colours.
    """
    path, id = given.get("transcript_path"), given.get("session_id")
    record: Record = {}
    fresh = False
    if isinstance(path, str) and isinstance(id, str) and _ID.match(id):
        record = read_json(os.path.join(folder, FOLDER, f"{id}.json"))
        fresh = record.get("stamp") == stamp(path)
        if not fresh:
            _refresh(folder, path, id)
    values = find_values(given, record, read_json(os.path.join(folder, FOLDER, DAY_FILE)), fresh=fresh, now=time.time())
    parts = (part.strip() for part in template.split("|"))
    shown = [_fill(part, values, plain=plain) for part in parts if all(name in values for name in _list_known(part))]
    return (" · " if plain else "\033[2m · \033[0m").join(part for part in shown if part) or NOTHING


def find_values(given: Record, record: Record, day: Record, *, fresh: bool, now: float) -> dict[str, str]:
    """Find the value of each of `FIELDS` that is known.

    Args:
        given: What Claude Code writes to the command's standard input.
        record: What `library.status_record` knows of the session; empty = nothing yet.
        day: What all sessions of a day cost together.
        fresh: Whether the transcript is as it was when the record was written.
        now: The present time in seconds since the Unix epoch.
    """
    values: dict[str, str] = {}
    model, context = _get(given, "model"), _get(given, "context_window")
    if name := model.get("display_name") or model.get("id"):
        values["model"] = _clean(name)
    prompt, answer = _count_prompt(given, context)
    window, known = _count(context.get("context_window_size")), _count(record.get("window"))
    if window:
        values["evidence"] = "Claude Code" + (f"; its log: {format_tokens(known)}" if known and known != window else "")
    elif known:
        window, values["evidence"] = known, _clean(record.get("evidence"))
    if prompt:
        values["tokens"] = format_tokens(prompt)
    if window:
        values["window"] = format_tokens(window)
    if prompt and window:
        values["fill"] = f"{prompt / window:.0%}"
        filled = min(BAR, round(BAR * prompt / window))
        values["bar"] = "█" * filled + "░" * (BAR - filled)
    if prompt and record.get("largest"):
        values["largest"] = f"{_clean(record['largest'])} {record['share']:.0%}"
    if prompt and record.get("trigger") and window == known:
        values["left"] = format_tokens(max(0, record["trigger"] - prompt - answer))
    if record.get("usd") is not None:
        values["session"] = format_usd(record["usd"]) + ("" if fresh else "+")
    if day.get("day") == time.strftime("%Y-%m-%d", time.localtime(now)) and day.get("usd") is not None:
        values["day"] = format_usd(day["usd"]) + ("" if fresh else "+")
    cold = _get(given, "prompt_cache").get("expires_at") or (record.get("warm_until") if fresh else None)
    if isinstance(cold, (int, float)):
        values["cache"] = f"cache cold in {format_duration(cold - now)}" if cold > now else "cache cold"
    return values


def stamp(path: str) -> str:
    """Return a text that changes when a file does; "" = there is none.

    Args:
        path: The file.
    """
    try:
        status = os.stat(path)
    except OSError:
        return ""
    return f"{status.st_size}:{status.st_mtime_ns}"


def read_json(path: str) -> Record:
    """Read an object from a file; empty where there is none, or where it is broken."""
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def find_unknown_fields(template: str) -> list[str]:
    """List the names in braces that are none of `FIELDS`."""
    return [name for name in _FIELD.findall(template) if name not in FIELDS]


def lock_refresh(folder: str, id: str) -> bool:
    """Whether this process may start a refresh of a session's record: none is under way. It is unlocked by `unlock_refresh`.

    Args:
        folder: The folder of Turnscope's data.
        id: The session's id.
    """
    path = _name_lock(folder, id)
    for _ in range(2):
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            try:
                if time.time() - os.stat(path).st_mtime < LOCK_SECONDS:
                    return False
            except OSError:
                continue
            unlock_refresh(folder, id)
        except OSError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        else:
            return True
    return False


def unlock_refresh(folder: str, id: str) -> None:
    """Say that a refresh has ended.

    Args:
        folder: The folder of Turnscope's data.
        id: The session's id.
    """
    try:
        os.unlink(_name_lock(folder, id))
    except OSError:
        return


def _name_lock(folder: str, id: str) -> str:
    return os.path.join(folder, FOLDER, f"{id}.lock")


def _refresh(folder: str, path: str, id: str) -> None:
    """Start the process that writes the record anew, and do not wait for it."""
    if not os.path.isfile(path) or not lock_refresh(folder, id):
        return
    command = [sys.executable, "-m", "turnscope", "statusline", "--data", folder, "--refresh", path, "--session", id]
    try:
        if hasattr(os, "posix_spawn"):
            null = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
            os.posix_spawn(command[0], command, os.environ, file_actions=null, setpgroup=0)
        else:
            from subprocess import DEVNULL, Popen

            Popen(command, stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL, creationflags=0x0000_0008)  # noqa: S603 - detached
    except OSError:
        unlock_refresh(folder, id)


def _read_arguments(arguments: Sequence[str]) -> tuple[str, str, bool] | None:
    """The folder of data, the template, and whether colours are off; None where there is another argument."""
    folder, template, plain, rest = "", TEMPLATE, False, [*arguments]
    while rest:
        name, _, value = rest.pop(0).partition("=")
        if name == "--no-color" and not value:
            plain = True
        elif name in ("--data", "--template") and (value or rest):
            value = value or rest.pop(0)
            folder, template = (value, template) if name == "--data" else (folder, value)
        else:
            return None
    return folder, template, plain


def _find_folder() -> str:
    """The folder of data, where the command does not name it. This takes as long as all the rest: `--install` names it."""
    from turnscope.settings import find_data_folder

    return str(find_data_folder())


def _count_prompt(given: Record, context: Record) -> tuple[int, int]:
    """Tokens of the newest prompt and of its answer; zeros = unknown, as after a compaction."""
    if "current_usage" in context:
        return _add_usage(_get(context, "current_usage"))
    path = given.get("transcript_path")
    return _read_tail(path) if isinstance(path, str) else (0, 0)


def _read_tail(path: str) -> tuple[int, int]:
    """The same from the end of a transcript, for versions of Claude Code that do not say it."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            lines = file.read().split(b"\n")
    except OSError:
        return 0, 0
    for line in reversed(lines):
        if b'"compact_boundary"' in line:
            break
        if b'"usage"' not in line:
            continue
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and entry.get("type") == "assistant" and not entry.get("isSidechain"):
            found = _add_usage(_get(_get(entry, "message"), "usage"))
            if found[0]:
                return found
    return 0, 0


def _add_usage(usage: Record) -> tuple[int, int]:
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(_count(usage.get(name)) for name in names), _count(usage.get("output_tokens"))


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _get(given: Record, name: str) -> Record:
    found = given.get(name)
    return found if isinstance(found, dict) else {}


def _clean(text: object) -> str:
    """A text on one line, without what a terminal takes for a command."""
    return "".join(letter if letter.isprintable() else " " for letter in str(text or "")[:200]).strip()


def _list_known(part: str) -> list[str]:
    return [name for name in _FIELD.findall(part) if name in FIELDS]


def _fill(part: str, values: Mapping[str, str], *, plain: bool) -> str:
    def put(found: re.Match[str]) -> str:
        name = found[1]
        if name not in values:
            return found[0]
        text = values[name]
        if plain or name not in ("bar", "fill"):
            return text
        share = float(values["fill"].rstrip("%")) / 100
        return f"\033[{next(colour for least, colour in _COLOURS if share >= least)}m{text}\033[0m"

    return _FIELD.sub(put, part)
