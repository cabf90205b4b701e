"""Requests that were sent and have not ended yet: who has them under way, and what becomes of those whose process is gone.

A row says `begun` until its request ends. Its draft is what was shown so far; no reader sees it as a message. Where the process
that sent it is no more, the request is settled as interrupted, and its draft becomes what was delivered.
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
LOST_SECONDS = 3_600.0  # seconds after which a request of another machine is taken for lost

_pending: set[tuple[str, str, int]] = set()  # database, thread and number of those under way in this process
_lock = Lock()


def mark_pending(path: Path, thread: str, request: int) -> bool:
    """This process has a request under way; False where it has had it already."""
    with _lock:
        before = len(_pending)
        _pending.add((str(path), thread, request))
        return len(_pending) > before


def unmark_pending(path: Path, thread: str, request: int) -> None:
    """It has not any more."""
    _pending.discard((str(path), thread, request))


def identify_process() -> str:
    """This process, as others can tell it from one that got its number later."""
    return f"{socket.gethostname()}|{os.getpid()}|{_read_start_time(os.getpid())}"


def is_lost(path: Path, thread: str, request: int, of: str, sent: float | None) -> bool:
    """Whether nobody will end a request any more whose `owner` was this and which was sent then (seconds since the epoch)."""
    if of == identify_process():
        return (str(path), thread, request) not in _pending
    host, _, rest = of.partition("|")
    number, _, born = rest.partition("|")
    if host != socket.gethostname():
        return time.time() - (sent or 0.0) > LOST_SECONDS
    return not number.isdigit() or not _is_running(int(number)) or _read_start_time(int(number)) != born


def _is_running(pid: int) -> bool:
    if os.name == "nt":  # there, a signal of 0 ends a process
        kernel = getattr(ctypes, "windll").kernel32  # noqa: B009 - it is there on Windows alone
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
    """It has ended, and its parent has not looked yet."""
    return _read_stat(pid)[:1] == ["Z"]


def _read_start_time(pid: int) -> str:
    return _read_own_start_time(pid) if pid == os.getpid() else "".join(_read_stat(pid)[19:20])


@cache
def _read_own_start_time(pid: int) -> str:
    return "".join(_read_stat(pid)[19:20])


def _read_stat(pid: int) -> list[str]:
    """What Linux says of a process, from its state on; nothing elsewhere."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
