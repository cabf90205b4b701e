"""Requests that were sent and have not ended yet: which process sent them, and what happens when that process is gone.

A row has the status `begun` until its request ends. Its draft is what was shown so far; no reader takes it for a message. Where
the process is gone, the request is ended as interrupted, and its draft becomes the answer.
"""

from __future__ import annotations

import ctypes
import os
import socket
import time
from functools import cache
from pathlib import Path
from threading import Lock

BEGUN = "begun"
LOST_SECONDS = 3_600.0  # a request of another machine counts as lost after so many seconds

_pending: set[tuple[str, str, int]] = set()  # database, thread and number of the pending requests of this process
_lock = Lock()


def mark_pending(path: Path, thread: str, request: int) -> bool:
    """Mark a request of this process as pending. False where it is marked already.

    Args:
        path: The database.
        thread: Id of the thread.
        request: Number of the request.
    """
    with _lock:
        before = len(_pending)
        _pending.add((str(path), thread, request))
        return len(_pending) > before


def unmark_pending(path: Path, thread: str, request: int) -> None:
    """Remove the mark.

    Args:
        path: The database.
        thread: Id of the thread.
        request: Number of the request.
    """
    _pending.discard((str(path), thread, request))


def identify_process() -> str:
    """Identify this process so that others can distinguish it from a later one with the same number."""
    return f"{socket.gethostname()}|{os.getpid()}|{_read_start_time(os.getpid())}"


def is_lost(path: Path, thread: str, request: int, of: str, sent: float | None) -> bool:
    """Whether no process will end a request any more.

    Args:
        path: The database.
        thread: Id of the thread.
        request: Number of the request.
        of: The process that sent it, as `identify_process` gave it.
        sent: When it was sent, in seconds since the Unix epoch; None = unknown.
    """
    if of == identify_process():
        return (str(path), thread, request) not in _pending
    return is_process_gone(of, sent)


def is_process_gone(of: str, at: float | None) -> bool:
    """Whether a process has ended. One of another machine counts as such an hour after it was heard of.

    Args:
        of: The process, as `identify_process` gave it.
        at: When it was heard of, in seconds since the Unix epoch; None = unknown.
    """
    host, _, rest = of.partition("|")
    number, _, born = rest.partition("|")
    if host != socket.gethostname():
        return time.time() - (at or 0.0) > LOST_SECONDS
    return not number.isdigit() or not _is_running(int(number)) or _read_start_time(int(number)) != born


def _is_running(pid: int) -> bool:
    if os.name == "nt":  # on Windows, a signal of 0 ends a process
        kernel = getattr(ctypes, "windll").kernel32  # noqa: B009 - it exists on Windows only
        handle = kernel.OpenProcess(0x1000, False, pid)
        return bool(handle and kernel.CloseHandle(handle))
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Whether a process has ended and its parent has not noticed."""
    return _read_stat(pid)[:1] == ["Z"]


def _read_start_time(pid: int) -> str:
    return _read_own_start_time(pid) if pid == os.getpid() else "".join(_read_stat(pid)[19:20])


@cache
def _read_own_start_time(pid: int) -> str:
    return "".join(_read_stat(pid)[19:20])


def _read_stat(pid: int) -> list[str]:
    """Read what Linux says about a process, from its state on; nothing elsewhere."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
