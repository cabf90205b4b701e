"""The cluster that reads sources: processes of this machine, or a scheduler of Dask elsewhere. Both are used alike.

A scheduler that is lost is looked for again; what it was about to do is done again.
"""

from __future__ import annotations

import logging
import pickle
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from types import TracebackType
from typing import Any, Self

from turnscope.errors import TurnscopeError
from turnscope.fleet.storage import import_package

CONNECT_SECONDS = 10.0  # for one try
LOST_SECONDS = 300.0  # after which a scheduler that is gone is given up
LEAST_AHEAD = 4  # tasks that wait at the scheduler, so that one which adds workers on demand sees that there is work


class Cluster:
    """A connection to workers. It ends with the `with` that it is used in.

    Args:
        scheduler: address of a scheduler; "" = processes of this machine are started.
        workers: how many, where they are started here.
        patience: seconds to look for a scheduler that is lost.
        say: is told in a sentence what the run waits for.
    """

    def __init__(
        self,
        scheduler: str = "",
        workers: int = 2,
        patience: float = LOST_SECONDS,
        say: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.scheduler, self.workers, self.patience, self.say = scheduler, workers, patience, say
        self._waits = False
        self._distributed = import_package("distributed")
        self._local: Any = None
        self._client: Any = None

    def __enter__(self) -> Self:
        for name in ("distributed", "distributed.worker", "distributed.nanny", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # what happens there is reported in the run's own words
        if not self.scheduler:
            with _leave_ctrl_c_here():
                self._local = self._distributed.LocalCluster(
                    n_workers=self.workers,
                    threads_per_worker=1,
                    processes=True,
                    dashboard_address=None,
                    silence_logs=logging.CRITICAL,
                )
        self._client = self._connect(first=True)
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
            except Exception as error:
                if time.monotonic() > until:
                    hint = "Check that it runs and that its address is as `dask scheduler` says, such as tcp://host:8786."
                    if not first:
                        hint = "What was read is stored; run it again once the scheduler is there."
                    what = (
                        f"the scheduler at {self.scheduler} cannot be reached: {str(error) or 'something else answers there'}"
                    )
                    raise TurnscopeError(what, hint=hint) from error
                time.sleep(1.0)

    def check(self, find_problem: Callable[..., str], values: Sequence[Any]) -> None:
        """Raise TurnscopeError if a worker says that it lacks something, or cannot say anything.

        Args:
            find_problem: what each worker calls; it gives a sentence, "" = nothing is wrong.
            values: its arguments.
        """
        found = self._client.run(find_problem, *values, on_error="return")
        problems = {address: problem for address, problem in found.items() if problem}
        for address, problem in problems.items():
            raise make_misfit(f"{len(problems)} of {len(found)} workers cannot take part. {address}: {problem}")

    @property
    def is_lost(self) -> bool:
        """Whether the scheduler cannot be reached at this moment."""
        return self._client is None or self._client.status != "running"

    def count_threads(self) -> int:
        """Threads of all workers, each of which reads one source at a time; 0 = there are no workers now."""
        threads = sum(self._client.nthreads().values()) if not self.is_lost else 0
        waits, self._waits = self._waits, not threads
        if self._waits and not waits:
            self.say("No worker is there; the run waits for one.")
        return threads

    def reconnect(self) -> None:
        """Look for the scheduler again. All tasks are lost. TurnscopeError: it is not found in time."""
        self._drop_client()
        self.say(f"The scheduler is lost; it is looked for again for {self.patience:,.0f} seconds.")
        self._client = self._connect()

    def submit(self, function: Callable[..., Any], values: Sequence[Any], key: str, done: Callable[[Any], object]) -> Any:
        """Start a task. Gives its future.

        The task is sent as bytes that only the worker which runs it decodes. So a scheduler needs no Turnscope, and a worker
        that lacks it says so, where it would end otherwise.

        Args:
            function: what a worker calls.
            values: its arguments.
            key: names the task; no other one may have it.
            done: is called with the future, in another thread, when it has ended in any way.
        """
        call = pickle.dumps(_Call(function, values), pickle.HIGHEST_PROTOCOL)
        future = self._client.submit(pickle.loads, call, key=key, pure=False)
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


class _Call:
    """A call that is made where it is decoded."""

    def __init__(self, function: Callable[..., Any], values: Sequence[Any]) -> None:
        self._function, self._values = function, tuple(values)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._function, self._values


def make_misfit(problem: str) -> TurnscopeError:
    """Make the error that a worker lacks something.

    Args:
        problem: what, as a sentence.
    """
    hint = "Install on all workers the versions and packages that this machine has, and start them again."
    return TurnscopeError(problem.rstrip("."), hint=hint)


@contextmanager
def _leave_ctrl_c_here() -> Iterator[None]:
    """Let what is started meanwhile get no Ctrl-C, which a terminal sends to all processes: this one ends the others."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # which would take the block back when it is first needed
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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

    def check(self, find_problem: Callable[..., str], values: Sequence[Any]) -> None:
        """See `Cluster`. What this process lacks was said before."""

    def cancel(self, futures: list[Any]) -> None:
        """See `Cluster`."""
