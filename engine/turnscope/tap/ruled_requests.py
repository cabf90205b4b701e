"""Has requests that pass the gateway ruled on, in threads, so that nothing else waits for them.

A ruling that takes too long is given up: the request passes as it came. What a rule asks goes to the request's own address,
with its own headers, and is recorded like any other call.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar
from urllib.parse import urlsplit

import httpx2

from turnscope.tap.client_bodies import CONVERSATIONS
from turnscope.tap.enforcement import Enforcer, Outgoing, Ruling, describe_ruling
from turnscope.tap.recorder import Headers, Recorder
from turnscope.tap.refusal_forms import NO_RETRY

T = TypeVar("T")
PLAN_SECONDS = 10.0  # of planning alone
ASK_SECONDS = 180.0  # of one answer of the provider to a rule
GIVEN_UP = "planning took longer than {:g} seconds"
_STREAM, _WHOLE = ":streamGenerateContent", ":generateContent"


@dataclass(slots=True)
class Passing:
    """A request that is ruled on: what the gateway knows of it. `number`: that of its call in the log."""

    api: str
    method: str
    url: str  # with its query
    headers: Headers
    secrets: Sequence[str]
    model: str
    number: int


@dataclass(slots=True)
class _Job:
    """A ruling on its way. `end`: when it is given up; it moves on while the provider is asked."""

    end: float
    asking: int = 0
    given_up: threading.Event = field(default_factory=threading.Event)


class RuledRequests:
    """Rules on requests.

    Args:
        enforcer: Makes the rulings.
        recorder: Records them.
        policy: Name of the policy, for the log.
    """

    def __init__(self, enforcer: Enforcer, recorder: Recorder, policy: str) -> None:
        self.enforcer, self.recorder, self.policy = enforcer, recorder, policy

    def wants(self, api: str) -> bool:
        """Whether calls of an API are ruled on."""
        return api in CONVERSATIONS

    async def rule(self, passing: Passing, body: bytes, client: httpx2.AsyncClient) -> Ruling:
        """Rule on a request, and record the ruling.

        Args:
            passing: The request.
            body: Its body.
            client: What sends requests.
        """
        loop, job = asyncio.get_running_loop(), _Job(time.monotonic() + PLAN_SECONDS)

        def ask(data: bytes, betas: Sequence[str]) -> tuple[int, str]:
            question = self._ask(passing, data, betas, client, job)
            return asyncio.run_coroutine_threadsafe(question, loop).result(ASK_SECONDS)

        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in passing.headers}
        outgoing = Outgoing(passing.api, headers, body, passing.model)
        future = _run(loop, partial(self.enforcer.rule, outgoing, ask, job.given_up.is_set))
        try:
            while not future.done() and (job.asking or time.monotonic() < job.end):
                await asyncio.wait({future}, timeout=max(0.05, min(0.5, job.end - time.monotonic())))
        except asyncio.CancelledError:  # its client has gone
            job.given_up.set()
            raise
        ruling = future.result() if future.done() else self._give_up(passing, job)
        await self._hold(ruling, outgoing)
        try:
            self.record(passing.number, ruling)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong here, the request passes
            hold = ruling.hold
            ruling = Ruling(why=f"an error of Turnscope's own: {type(error).__name__}: {error}", api=passing.api, hold=hold)
            self.enforcer.say_once(ruling.why)
        return ruling

    async def _hold(self, ruling: Ruling, outgoing: Outgoing) -> None:
        """Hold back what a request may cost, and wait until running ones leave so much."""
        gone = threading.Event()
        future = _run(asyncio.get_running_loop(), partial(self.enforcer.hold, ruling, outgoing, gone.is_set))
        try:
            await asyncio.wait({future})
        except asyncio.CancelledError:  # its client has gone
            gone.set()
            future.add_done_callback(lambda _: self.enforcer.release(ruling))
            raise

    def release(self, ruling: Ruling) -> None:
        """Hold nothing back any more for a request that ended without an answer."""
        if not ruling.ended:
            self.enforcer.release(ruling)

    def close(self) -> None:
        """Tell other taps that this one has ended."""
        self.enforcer.spending.close()

    def record(self, number: int, ruling: Ruling) -> None:
        """Record a ruling.

        Args:
            number: Number of the call; 0 = it has none yet.
            ruling: The ruling.
        """
        self.recorder.rule(number, describe_ruling(ruling, self.policy), ruling.text)

    def _give_up(self, passing: Passing, job: _Job) -> Ruling:
        job.given_up.set()
        why = GIVEN_UP.format(PLAN_SECONDS)
        self.enforcer.say_once(why)
        return Ruling(why=why, api=passing.api)

    async def _ask(
        self, passing: Passing, data: bytes, betas: Sequence[str], client: httpx2.AsyncClient, job: _Job
    ) -> tuple[int, str]:
        """Ask the provider of a request something else, and record that."""
        began, recorder = time.monotonic(), self.recorder
        job.asking += 1
        url = passing.url.replace(_STREAM, _WHOLE).replace("alt=sse&", "").replace("alt=sse", "").rstrip("?&")
        headers = rewrite_headers(passing.headers, len(data), betas)
        facts = (passing.api, url.partition("?")[0], headers, [data], passing.secrets, recorder.clock())
        number = recorder.begin(*facts)
        try:
            host = (b"host", urlsplit(url).netloc.rpartition("@")[2].encode("latin-1"))
            request = httpx2.Request("POST", url, headers=[host, *headers], content=data)
            response = await client.send(request)
            recorder.answer(number, response.status_code, _list_plain(response.headers.raw))
            recorder.add(number, response.content)
            recorder.end(number, "complete")
        except (httpx2.HTTPError, OSError) as error:
            recorder.end(number, "provider failed", str(error) or type(error).__name__)
            raise
        else:
            return response.status_code, response.text
        finally:
            job.asking -= 1
            job.end += time.monotonic() - began

    def learn(self, ruling: Ruling, status: int, encoding: str, parts: Sequence[bytes]) -> None:
        """Learn from an answer, in a thread.

        Args:
            ruling: What was ruled on its request.
            status: The HTTP status.
            encoding: Its header `content-encoding`.
            parts: Its body as it came.
        """
        ruling.ended = True
        work = partial(self.enforcer.learn, ruling, status, encoding, b"".join(parts))
        threading.Thread(target=work, name="tap-learn", daemon=True).start()

    async def is_too_long(self, ruling: Ruling, status: int, encoding: str, parts: Sequence[bytes]) -> bool:
        """Learn from an answer, and say whether it calls the request too long that the policy made.

        Args:
            ruling: What was ruled on its request.
            status: The HTTP status.
            encoding: Its header `content-encoding`.
            parts: Its body as it came.
        """
        await asyncio.to_thread(self.enforcer.learn, ruling, status, encoding, b"".join(parts))
        return ruling.sent is not None and ruling.sent.count is not None


def rewrite_headers(headers: Headers, size: int, betas: Sequence[str] = ()) -> list[tuple[bytes, bytes]]:
    """Rewrite the headers of a request whose body is another one now: not packed, of another length.

    Args:
        headers: The headers as they came.
        size: Bytes of the new body.
        betas: Features of Anthropic's API that it needs.
    """
    gone = (b"content-length", b"content-encoding", b"transfer-encoding", b"host", b"connection", b"expect", b"accept-encoding")
    kept = [(name, value) for name, value in headers if name.lower() not in (*gone, b"anthropic-beta")]
    named = [value.decode("latin-1") for name, value in headers if name.lower() == b"anthropic-beta"]
    features = dict.fromkeys(one.strip() for value in (*named, *betas) for one in value.split(",") if one.strip())
    marks = [(b"anthropic-beta", ",".join(features).encode("latin-1"))] if features else []
    accepted = [(name, value) for name, value in headers if name.lower() == b"accept-encoding"]
    return [*kept, *accepted, *marks, (b"content-length", str(size).encode())]


def list_refusal_headers(size: int) -> list[tuple[bytes, bytes]]:
    """List the headers of an answer with which the tap refuses a request of `size` bytes."""
    again = (NO_RETRY[0].encode(), NO_RETRY[1].encode())
    return [(b"content-type", b"application/json"), (b"content-length", str(size).encode()), again]


def rename_model(url: str, model: str) -> str:
    """Put another model into an address of Google's API.

    Args:
        url: The address.
        model: The model.

    >>> rename_model("https://x/v1beta/models/a:generateContent", "b")
    'https://x/v1beta/models/b:generateContent'
    """
    before, _, rest = url.partition("/models/")
    return f"{before}/models/{model}:{rest.partition(':')[2]}" if rest else url


def _list_plain(headers: Headers) -> list[tuple[bytes, bytes]]:
    """Headers of an answer that the client has unpacked."""
    return [(name, value) for name, value in headers if name.lower() != b"content-encoding"]


def _run(loop: asyncio.AbstractEventLoop, work: Callable[[], T]) -> asyncio.Future[T]:
    """Run something in a thread that nobody waits for at the end of the process."""
    future: asyncio.Future[T] = loop.create_future()

    def set_result(value: T) -> None:
        if not future.done():
            future.set_result(value)

    def run() -> None:
        value = work()
        if not loop.is_closed():
            loop.call_soon_threadsafe(set_result, value)

    threading.Thread(target=run, name="tap-plan", daemon=True).start()
    return future
