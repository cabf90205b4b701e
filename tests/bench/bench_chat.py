"""How long a long chat makes one wait: `python tests/bench/bench_chat.py [--requests 2000]`; exit 1 above a limit.

A stored chat of so many requests is reopened and goes on against the built-in server. Measured, as medians of 20 turns: our
own work in CPU time, from `Chat.send` until the SDK is handed the request; until the request arrives, for which the SDK copies
and writes it (less what the server takes to count, if asked to); and from the server's first byte to the first text in the
reader's hands. `--profile` prints where the time goes.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from msgspec import structs

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

import anthropic  # noqa: E402
from turnscope.counting.tokens import make_estimator  # noqa: E402
from turnscope.envelope.request_outcome import RequestEnded  # noqa: E402
from turnscope.live import branches  # noqa: E402
from turnscope.live.chat import Settings  # noqa: E402
from turnscope.live.events import QueryAnswered, RequestDone, RequestPlanned, TextDelta  # noqa: E402
from turnscope.live.live_session import LiveSession  # noqa: E402
from turnscope.live.offline import OfflineServer  # noqa: E402
from turnscope.live.provider import connect  # noqa: E402
from turnscope.planning.assemble import plan_step  # noqa: E402
from turnscope.planning.policy import load  # noqa: E402
from turnscope.pricing.prices import PRICES  # noqa: E402
from turnscope.session.model import Session, Usage  # noqa: E402
from turnscope.storage.threads import SOURCE, Threads  # noqa: E402

SENDS = 20
OWN, FIRST = 50.0, 100.0  # ms, medians
MODEL = "offline-200k"


class Timed:
    """The built-in server, with a note of when each request arrived, was answered, and had its first byte sent."""

    def __init__(self, offline: OfflineServer) -> None:
        self.arrived: list[tuple[str, float]] = []
        self.counting = self.first = self.handed = 0.0
        timed, handler = self, offline._http.RequestHandlerClass

        class Handler(handler):  # type: ignore[misc, valid-type]
            def do_POST(self) -> None:  # noqa: N802 - the name that http.server calls
                begun = time.perf_counter()
                timed.arrived.append((self.path, begun))
                super().do_POST()
                if "count_tokens" in self.path:
                    timed.counting += time.perf_counter() - begun

            def stream(self, message: Any, fault: str) -> None:
                timed.first = time.perf_counter()
                super().stream(message, fault)

        offline._http.RequestHandlerClass = Handler

    def watch(self, client: anthropic.Anthropic) -> None:
        """Note when the SDK is handed a request."""
        streaming = client.messages.with_streaming_response
        create = streaming.create

        def note_call(**body: Any) -> Any:
            self.handed = time.thread_time()
            return create(**body)

        streaming.create = note_call  # type: ignore[method-assign, assignment]

    def get_sent_at(self) -> float:
        """When the message itself arrived."""
        return next(at for path, at in reversed(self.arrived) if "count_tokens" not in path)


def store_chat(threads: Threads, requests: int, policy: str) -> str:
    """A chat of so many requests, kept as a live one is: a prompt, a tool call, its result, an answer. All was sent whole."""
    thread = threads.create(title="long", about={"policy": policy})
    growing = LiveSession(Session(thread, source=SOURCE), make_estimator(PRICES.find_facts(MODEL).family))
    sink = threads.open_writer(thread)
    sink.record_message(growing.append_message("system", "You are brief.", origin="system"), ["You are brief."], "complete")
    plan = plan_step(None, growing.session, growing.build_request(model=MODEL), load("keep-everything"), growing.basis)
    for n in range(requests):
        call = [{"type": "tool_use", "id": f"c{n}", "name": "read", "input": {"path": f"file{n % 90}.py"}}]
        result = [{"type": "tool_result", "tool_use_id": f"c{n - 1}", "content": f"line {n} of the file " * 20}]
        said = [f"And what of point {n}? It matters."] if n % 2 == 0 else result
        sink.record_message(growing.append_message("user", said, origin="prompt" if n % 2 == 0 else "tool"), said, "complete")
        asked = growing.build_request(model=MODEL, sent_at=float(n), settings={"max_tokens": 1_024})
        billed = Usage(input_tokens=growing.ledger.total[-1], output_tokens=60)
        content = call if n % 2 == 0 else [{"type": "text", "text": f"Answer {n}: it is so, for a reason. " * 3}]
        answer = growing.append_message("assistant", content, origin="answer")
        done = growing.append_request(structs.replace(asked, usage=billed, answered_at=n + 0.5, stop_reason="end_turn"))
        sink.record_request(RequestEnded(thread, done, plan, "complete", answer, tuple(content), seconds=0.1))
    return thread


def measure_turns(chat: Any, server: Timed) -> tuple[list[float], list[float], list[float]]:
    """Milliseconds per turn: own work until the SDK is called, until the request arrives, from first byte to first text."""
    own, sending, first = [], [], []
    for n in range(SENDS + 1):
        server.counting = 0.0
        begun, cpu = time.perf_counter(), time.thread_time()
        shown = 0.0
        for event in chat.send(f"What do you say of point {n}, after all of this?"):
            if isinstance(event, TextDelta) and not shown:
                shown = time.perf_counter()
            assert isinstance(event, RequestPlanned | QueryAnswered | TextDelta | RequestDone), event
        if n:  # the first one opens the connection and imports what the SDK imports late
            own.append(1e3 * (server.handed - cpu))
            sending.append(1e3 * (server.get_sent_at() - begun - server.counting))
            first.append(1e3 * (shown - server.first))
    return own, sending, first


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--policy", default="balanced")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, OfflineServer() as offline:
        threads, server = Threads(Path(folder, "chats.db")), Timed(offline)
        begun = time.perf_counter()
        thread = store_chat(threads, given.requests, given.policy)
        print(f"{given.requests} requests stored in {time.perf_counter() - begun:.1f} s")
        begun = time.perf_counter()
        session = threads.load(thread)
        loaded = time.perf_counter()
        provider = connect(offline.url, "none", retries=0, timeout=60)
        server.watch(provider.client)
        chat, _ = branches.resume_chat(session, provider, threads.open_writer(thread), Settings(MODEL, load(given.policy)))
        print(f"reopened: {loaded - begun:.2f} s to load, {time.perf_counter() - loaded:.2f} s to plan what was sent")
        profile = cProfile.Profile()
        if given.profile:
            profile.enable()
        own, sending, first = measure_turns(chat, server)
        if given.profile:
            profile.disable()
            pstats.Stats(profile).sort_stats("cumtime").print_stats(45)
    print(f"own work until the SDK is called: median {median(own):.1f} ms, worst {max(own):.1f} (median at most {OWN:.0f})")
    print(f"until the request arrives: median {median(sending):.1f} ms, worst {max(sending):.1f}")
    print(f"from first byte to first text: median {median(first):.1f} ms, worst {max(first):.1f} (median at most {FIRST:.0f})")
    return int(median(own) > OWN or median(first) > FIRST)


if __name__ == "__main__":
    sys.exit(main())
