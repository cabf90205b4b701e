"""The cluster that reads sources: processes of this machine, or a scheduler of Dask elsewhere. Both are used alike.

A scheduler that is lost is looked for again; what it was about to do is done again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from turnscope.errors import TurnscopeError
from turnscope.fleet.storage import import_package
from turnscope.fleet.tasks import get_version

CONNECT_SECONDS = 10.0  # for one try
LOST_SECONDS = 300.0  # after which a scheduler that is gone is given up
LEAST_AHEAD = 4  # tasks that wait at the scheduler, so that one which adds workers on demand sees that there is work


class Cluster:
    """A connection to workers. It ends with the `with` that it is used in.

    Args:
        scheduler: address of a scheduler; "" = processes of this machine are started.
        workers: how many, where they are started here.
        patience: seconds to look for a scheduler that is lost.
    """

    def __init__(self, scheduler: str = "", workers: int = 2, patience: float = LOST_SECONDS) -> None:
        self.scheduler, self.workers, self.patience = scheduler, workers, patience
        self._distributed = import_package("distributed")
        self._local: Any = None
        self._client: Any = None

    def __enter__(self) -> Self:
        for name in ("distributed", "distributed.worker", "distributed.nanny", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # what happens there is reported in the run's own words
        if not self.scheduler:
            self._local = self._distributed.LocalCluster(
                n_workers=self.workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address=None,
                silence_logs=logging.CRITICAL,
            )
        self._client = self._connect(first=True)
        self._check_versions()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._drop_client()
        if self._local is not None:
            with suppress(Exception):
                self._local.close(timeout=10)

    def _connect(self, *, first: bool = False) -> Any:
        """Connect to the scheduler. TurnscopeError: it cannot be reached."""
        until = time.monotonic() + (0 if first else self.patience)
        while True:
            try:
                return self._distributed.Client(self._local or self.scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
            except (OSError, ValueError) as error:  # a timeout is an OSError
                if time.monotonic() > until:
                    hint = "What was read is stored; run it again once the scheduler is there."
                    raise TurnscopeError(f"the scheduler at {self.scheduler} cannot be reached: {error}", hint=hint) from error
                time.sleep(1.0)

    def _check_versions(self) -> None:
        """Raise TurnscopeError if a worker has other importers, prices or code than this process."""
        found = self._client.run(get_version, on_error="return")
        others = [address for address, version in found.items() if version != get_version()]
        if others:
            what = f"{len(others)} of {len(found)} workers have another version of Turnscope, or other prices ({others[0]})"
            raise TurnscopeError(what, hint="Install the same version with the same packages on all of them.")

    def check(self, find_problem: Callable[[Any], str], value: Any) -> None:
        """Raise TurnscopeError if a worker says that it lacks something.

        Args:
            find_problem: what each worker calls; it gives a sentence, "" = nothing is wrong.
            value: its argument.
        """
        for address, problem in self._client.run(find_problem, value, on_error="return").items():
            if problem:
                hint = "Install on all workers what this machine has."
                raise TurnscopeError(f"the worker {address} cannot take part: {problem}", hint=hint)

    @property
    def is_lost(self) -> bool:
        """Whether the scheduler cannot be reached at this moment."""
        return self._client is None or self._client.status != "running"

    def count_threads(self) -> int:
        """Threads of all workers, each of which reads one source at a time; 0 = there are no workers now."""
        return sum(self._client.nthreads().values()) if not self.is_lost else 0

    def reconnect(self) -> None:
        """Look for the scheduler again. All tasks are lost. TurnscopeError: it is not found in time."""
        self._drop_client()
        self._client = self._connect()

    def submit(self, function: Callable[..., Any], values: Sequence[Any], key: str, done: Callable[[Any], object]) -> Any:
        """Start a task. Gives its future.

        Args:
            function: what a worker calls.
            values: its arguments.
            key: names the task; no other one may have it.
            done: is called with the future, in another thread, when it has ended in any way.
        """
        future = self._client.submit(function, *values, key=key, pure=False)
        future.add_done_callback(done)
        return future

    def cancel(self, futures: list[Any]) -> None:
        """End tasks that have not begun."""
        with suppress(Exception):
            self._client.cancel(futures, force=True)

    def _drop_client(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):
                client.close(timeout=5)


class _Done:
    """A task that has ended, as a future says it."""

    status = "finished"

    def __init__(self, key: str, value: Any) -> None:
        self.key, self._value = key, value

    def result(self) -> Any:
        return self._value


class SerialCluster(Cluster):
    """No cluster: one task after the other, in this process. What it gives is what workers give."""

    def __init__(self) -> None:
        self.scheduler, self.workers = "", 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        pass

    @property
    def is_lost(self) -> bool:
        """See `Cluster`."""
        return False

    def count_threads(self) -> int:
        """See `Cluster`."""
        return 1

    def submit(self, function: Callable[..., Any], values: Sequence[Any], key: str, done: Callable[[Any], object]) -> Any:
        """Do a task at once.

        Args:
            function, values, key, done: see `Cluster`.
        """
        future = _Done(key, function(*values))
        done(future)
        return future

    def check(self, find_problem: Callable[[Any], str], value: Any) -> None:
        """See `Cluster`. What this process lacks was said before."""

    def cancel(self, futures: list[Any]) -> None:
        """See `Cluster`."""
