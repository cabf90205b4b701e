"""Runs a tap: its gateway on a port, and the command that goes through it.

The server runs in a thread of its own, so that the command has the terminal and its signals.
"""

from __future__ import annotations

import ctypes
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePath
from threading import Thread
from typing import TYPE_CHECKING

from turnscope.errors import TurnscopeError
from turnscope.tap.apis import Upstreams
from turnscope.tap.gateway import Access, Gateway
from turnscope.tap.recorder import Recorder
from turnscope.tap.tools import build_command, build_environment
from turnscope.tap.traffic import Traffic, WatchedRecorder

if TYPE_CHECKING:
    import uvicorn

    from turnscope.tap.enforcement import Rules
    from turnscope.tap.ruled_requests import RuledRequests
    from turnscope.tap.spending_ledger import SpendingLedger

START_SECONDS, END_SECONDS = 10.0, 5.0
IDLE_SECONDS = 600  # a client's idle connection stays open so long, as with a provider: clients use it again without a look
HEADER_BYTES = 1 << 20
SWITCH_SECONDS = 0.0002  # so that bytes pass on while a thread records: the first one came a quarter sooner
ARENA_MAX, ARENAS = -8, 2  # M_ARENA_MAX of glibc's malloc.h
NOT_FOUND = 127  # exit code of a command that does not exist, as shells have it


@dataclass(frozen=True, slots=True)
class Tap:
    """A tap that runs. `address`: what tools are given, with the token where there is one."""

    address: str
    recorder: Recorder
    upstreams: Upstreams


def make_log_path(folder: Path, command: Sequence[str]) -> Path:
    """Make the path of a new log: named after the command and the time.

    Args:
        folder: The folder of such logs.
        command: The command; () = none.
    """
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", PurePath(command[0]).stem if command else "tap").strip("-") or "tap"
    now = datetime.now().astimezone()
    first = f"{name}-{now:%Y-%m-%d-%H%M%S}"
    paths = (folder / f"{first}{f'-{number}' if number else ''}.jsonl" for number in range(1_000))
    return next(path for path in paths if not path.exists())


@contextmanager
def run_tap(
    path: Path,
    upstreams: Upstreams,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str = "",
    command: Sequence[str] = (),
    traffic: Traffic | None = None,
    rules: Rules | None = None,
) -> Iterator[Tap]:
    """Run a tap while the block runs.

    Args:
        path: The log. It must not exist.
        upstreams: Where requests go.
        host: The address to listen on.
        port: The port; 0 = any that is free.
        token: What addresses have to name; "" = nothing.
        command: The command that will go through it, for the log.
        traffic: What counts the requests; None = nothing does.
        rules: What requests are held to; None = all pass unchanged.

    Raises:
        TurnscopeError: The port is taken, or the log cannot be made.
    """
    _prepare_process()
    listening = _listen(host, port)
    number = listening.getsockname()[1]
    recorder = _open_log(path, command, listening, traffic)
    ruled = _make_rules(rules, path, recorder)
    server = _make_server(Gateway(upstreams, recorder, Access(number, token), ruled))
    thread = Thread(target=server.run, kwargs={"sockets": [listening]}, name="tap", daemon=True)
    thread.start()
    try:
        _wait_until_started(server, thread)
        yield Tap(f"http://{_name(host)}:{number}" + (f"/token/{token}" if token else ""), recorder, upstreams)
    finally:
        server.should_exit = True
        thread.join(END_SECONDS)
        listening.close()
        recorder.close()
        if ruled:
            ruled.close()  # from now on the log says what this tap spent


def _prepare_process() -> None:
    """Set what Python and the C library do from now on for many short threads."""
    sys.setswitchinterval(min(SWITCH_SECONDS, sys.getswitchinterval()))
    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)):
        mallopt(ARENA_MAX, ARENAS)  # else what each thread has freed stays with it: 15 % more memory in an hour with a policy


def _make_rules(rules: Rules | None, path: Path, recorder: Recorder) -> RuledRequests | None:
    """Make what rules on requests. Where there is a budget, it knows what all taps spent."""
    if rules is None:
        return None
    from turnscope.tap.enforcement import Enforcer
    from turnscope.tap.ruled_requests import RuledRequests

    enforcer = Enforcer(rules, _report, ledger=_make_ledger(rules, path) if rules.budgets.are_set else None)
    if rules.policy is not None:
        Thread(target=enforcer.warm_up, name="tap-warm-up", daemon=True).start()
    return RuledRequests(enforcer, recorder, rules.policy.name if rules.policy else "")


def _make_ledger(rules: Rules, path: Path) -> SpendingLedger:
    from turnscope.tap.log_sums import LogSums
    from turnscope.tap.spending import name_day
    from turnscope.tap.spending_ledger import Shares, SpendingLedger

    make_sums = None if rules.budgets.day is None else lambda log: LogSums(log, rules.prices, name_day)
    ledger = SpendingLedger(path, make_sums, name_day, time.time, _report)
    with ledger.open("", Shares):
        pass  # what earlier taps spent is read now, and not when the first request waits for it
    return ledger


def _open_log(path: Path, command: Sequence[str], listening: socket.socket, traffic: Traffic | None) -> Recorder:
    try:
        if traffic is not None:
            return WatchedRecorder(path, command, _report, traffic)
        return Recorder(path, command, _report)
    except OSError as error:
        listening.close()
        what = f"the log {path} cannot be made: {error.strerror or error}"
        raise TurnscopeError(what, hint="Check its folder, or choose another data folder with TURNSCOPE_DATA.") from error


def _make_server(gateway: Gateway) -> uvicorn.Server:
    """Make a server that adds no header, writes no log and leaves connections open as long as a provider does."""
    import uvicorn

    config = uvicorn.Config(
        gateway,
        http="h11",
        ws="none",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=HEADER_BYTES,
        backlog=4_096,
    )
    return uvicorn.Server(config)


def run_command(tap: Tap, command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command whose requests go through the tap. Gives its exit code.

    Args:
        tap: The tap.
        command: The command line.
        environment: The environment without the tap.
    """
    arguments = build_command(command, tap.address, tap.upstreams)
    try:
        app = subprocess.Popen(arguments, env=build_environment(tap.address, tap.upstreams, environment))  # noqa: S603 - what the user typed
    except OSError as error:
        _report(f"{command[0]} cannot be started: {error.strerror or error}")
        return NOT_FOUND
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the command
    try:
        return _wait(app)
    finally:
        signal.signal(signal.SIGINT, before)
        if app.poll() is None:
            app.terminate()
            with suppress(subprocess.TimeoutExpired):
                app.wait(END_SECONDS)
            app.kill()


def _wait(app: subprocess.Popen[bytes]) -> int:
    code = app.wait()
    return 128 - code if code < 0 else code


def _listen(host: str, port: int) -> socket.socket:
    bare = host.strip("[]")
    family = socket.AF_INET6 if ":" in bare else socket.AF_INET
    listening = socket.socket(
        family, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )  # of such a one asyncio sends at once (TCP_NODELAY)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((bare, port))
    except OSError as error:
        listening.close()
        what = f"the tap cannot listen on {host}, port {port}: {error.strerror or error}"
        raise TurnscopeError(what, hint="Choose another port with --port.") from error
    return listening


def _name(host: str) -> str:
    """The address for a link: this machine's name where the tap listens on all of its addresses."""
    bare = host.strip("[]")
    return socket.gethostname() if bare in ("0.0.0.0", "::") else f"[{bare}]" if ":" in bare else bare  # noqa: S104 - nothing is bound


def _wait_until_started(server: uvicorn.Server, thread: Thread) -> None:
    end = time.monotonic() + START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > end:
            raise TurnscopeError("the tap did not start", hint="Choose another port with --port.")
        time.sleep(0.005)


def _report(text: str) -> None:
    with suppress(OSError, ValueError):  # nobody reads standard error any more
        print(f"turnscope tap: {text}", file=sys.stderr, flush=True)  # noqa: T201 - a command's own message
