"""A tap that an app runs beside its pages: started and stopped by hand, at most one, and stopped with the app."""

from __future__ import annotations

import atexit
import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock

from turnscope.errors import TurnscopeError
from turnscope.settings import find_tap_folder
from turnscope.tap.server import Tap, make_log_path, run_tap
from turnscope.tap.tools import read_upstreams
from turnscope.tap.traffic import Traffic, TrafficState


@dataclass(frozen=True, slots=True)
class RunningTap:
    """A tap that runs. `path`: its log; `started_at`: seconds since the Unix epoch."""

    tap: Tap
    traffic: Traffic
    started_at: float

    @property
    def path(self) -> Path:
        """The log."""
        return self.tap.recorder.path

    @property
    def problem(self) -> str:
        """Why recording fails now; "" = it works."""
        return self.tap.recorder.failing

    @property
    def lost(self) -> int:
        """Requests that passed without being recorded."""
        return self.tap.recorder.lost

    def read_traffic(self) -> TrafficState:
        """Return what has passed so far."""
        return self.traffic.read()


@dataclass(slots=True)
class TapService:
    """Runs the tap. Its methods may be called from any thread. `running`: the tap; None = there is none.

    `last`: the log of the tap that ran last; None = none did, or nothing passed it.
    """

    running: RunningTap | None = None
    last: Path | None = None
    _stack: ExitStack = field(default_factory=ExitStack)
    _lock: RLock = field(default_factory=RLock)

    def start(self, upstream: str, port: int) -> RunningTap:
        """Start the tap, unless one runs. Gives the one that runs.

        Args:
            upstream: Where all requests go; "" = where their tools' own variables lead, else each provider's own address.
            port: The port; 0 = any that is free.

        Raises:
            TurnscopeError: The address is none, the port is taken, or the log cannot be made.
        """
        with self._lock:
            if self.running:
                return self.running
            if upstream and not upstream.startswith(("http://", "https://")):
                raise TurnscopeError(f"{upstream} is no address", hint="It begins with http:// or https://.")
            traffic, stack = Traffic(), ExitStack()
            path, upstreams = make_log_path(find_tap_folder(), ()), read_upstreams(upstream, os.environ)
            tap = stack.enter_context(run_tap(path, upstreams, port=port, traffic=traffic))
            self._stack = stack
            self.running = RunningTap(tap, traffic, traffic.clock())
            atexit.register(self.stop)
            return self.running

    def stop(self) -> None:
        """Stop the tap, if one runs. Requests that are under way break off."""
        with self._lock:
            if self.running:
                self.last = self.running.path if self.running.read_traffic().requests else None
                self.running = None
                self._stack.close()
                atexit.unregister(self.stop)


_SERVICE = TapService()


def get_service() -> TapService:
    """The service of this process: pages are run anew with every click, and it is not."""
    return _SERVICE
