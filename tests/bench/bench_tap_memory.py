"""Memory of the tap under traffic that goes on: growing conversations of many sessions, at a moderate rate, streamed.

`python tests/bench/bench_tap_memory.py --minutes 60 [--policy clear-tool-results --window 60000]` prints the tap's memory each
minute, and how much it rose between the first quarter and the end. The provider and the tap are processes of their own.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench_tap import Client, read_cpu, read_memory, start_provider

SESSIONS_AT_ONCE = 8
ROUNDS = 60  # requests of a session; then another one begins
RESULT_CHARS = 3_000
PAGE = "a line of a file that a tool has read, with the number {}, and what it says of the other lines\n"


class Conversation:
    """A session that grows by a call and its result with each request."""

    def __init__(self, name: int) -> None:
        self.name, self.messages = name, [{"role": "user", "content": f"task {name}: read the files and say what they do"}]

    def make_body(self) -> bytes:
        system = [{"type": "text", "text": "You are an agent. " * 400, "cache_control": {"type": "ephemeral"}}]
        user = json.dumps({"session_id": f"session-{self.name}"})
        body = {"model": "claude-sonnet-4-5", "max_tokens": 2_000, "stream": True, "metadata": {"user_id": user}}
        return json.dumps(body | {"system": system, "messages": self.messages}).encode()

    def go_on(self) -> None:
        number = len(self.messages)
        call = {"type": "tool_use", "id": f"t{self.name}-{number}", "name": "read", "input": {"path": f"src/{number}.py"}}
        text = "".join(PAGE.format(random.random()) for _ in range(RESULT_CHARS // len(PAGE)))
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": text}
        self.messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def start_tap(provider: int, port: int, folder: Path, arguments: list[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "turnscope", "tap", "--upstream", f"http://127.0.0.1:{provider}", "--port", str(port)]
    said = (folder / "stderr.txt").open("wb")
    return subprocess.Popen([*command, *arguments], stderr=said, env=os.environ | {"TURNSCOPE_DATA": str(folder)})


async def wait_for(port: int) -> None:
    for _ in range(1_200):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return
    raise SystemExit("the tap did not start")


async def run_session(port: int, name: int, pause: float, took: list[float]) -> None:
    """Send a session's requests over one connection. Adds the seconds of each."""
    client, conversation = Client(port), Conversation(name)
    await client.open()
    for _ in range(ROUNDS):
        due = time.monotonic() + pause * random.uniform(0.5, 1.5)
        took.append((await client.ask(conversation.make_body()))[1])
        conversation.go_on()
        await asyncio.sleep(max(0.0, due - time.monotonic()))
    client.close()


async def send(port: int, rate: float, end: float, took: list[float]) -> None:
    """Send sessions, one after the other in each of some lanes, until the end."""
    names = itertools.count(1)

    async def fill_lane(lane: int) -> None:
        await asyncio.sleep(lane * 3)  # so that sessions end at different times
        while time.monotonic() < end:
            await run_session(port, next(names), SESSIONS_AT_ONCE / rate, took)

    lanes = [asyncio.create_task(fill_lane(lane)) for lane in range(SESSIONS_AT_ONCE)]
    await asyncio.wait(lanes, timeout=end - time.monotonic())
    for lane in lanes:
        if lane.done():
            lane.result()
        lane.cancel()


async def watch(process: subprocess.Popen[bytes], port: int, rate: float, minutes: float, folder: Path) -> list[float]:
    await wait_for(port)
    took: list[float] = []
    end = time.monotonic() + minutes * 60
    sending = asyncio.create_task(send(port, rate, end, took))
    memory = []
    while not sending.done():
        await asyncio.wait({sending}, timeout=min(60, minutes * 6))
        memory.append(read_memory(process))
        log = sum(path.stat().st_size for path in (folder / "tap").iterdir()) / 1e6
        cpu, middle = read_cpu(process), statistics.median(took or [0.0]) * 1_000
        sent = f"{len(took)} requests ({middle:.0f} ms)"
        print(f"{len(memory)}: memory {memory[-1]:.1f} MB, log {log:.1f} MB, CPU {cpu:.1f} s, {sent}", flush=True)
    sending.result()
    return memory


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=float, default=2, help="requests per second")
    parser.add_argument("--port", type=int, default=18_703)
    parser.add_argument("--policy", help="a policy on the way")
    parser.add_argument("--window", default="60000")
    given = parser.parse_args()
    arguments = ["--policy", given.policy, "--window", given.window] if given.policy else []
    with tempfile.TemporaryDirectory() as folder, start_provider(20, 0.02) as provider:
        process = start_tap(provider, given.port, Path(folder), arguments)
        try:
            memory = asyncio.run(watch(process, given.port, given.rate, given.minutes, Path(folder)))
        finally:
            process.terminate()
            process.wait()
    quarter = memory[len(memory) // 4 :]
    print(f"memory {quarter[0]:.1f} MB after a quarter, {quarter[-1]:.1f} MB in the end: {quarter[-1] / quarter[0] - 1:+.1%}")


if __name__ == "__main__":
    main()
