"""What the tap adds: time to the first byte, many streams at once, memory over many requests.

`python tests/bench/bench_tap.py`: a provider, the tap and the clients are processes of their own on this machine. With
`--spread 20 --pause 1.5` the streams begin within 20 seconds, and each has 40 parts in a minute.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EVENT = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%d"}}\n\n'
)
LONG = "what was said before, and what a tool has read. " * 2_000


async def serve(events: int, pause: float) -> None:
    """A provider: each request gets a stream of so many events, with a pause before each but the first."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = next(
                    int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
                )
                await reader.readexactly(size)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
                for number in range(events):
                    if number and pause:
                        await asyncio.sleep(pause)
                    part = EVENT % number
                    writer.write(b"%x\r\n%s\r\n" % (len(part), part))
                    await writer.drain()
                writer.write(b"0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=4_096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextmanager
def start_provider(events: int, pause: float) -> Iterator[int]:
    command = [sys.executable, __file__, "--serve", str(events), str(pause)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


@contextmanager
def start_tap(provider: int, folder: Path) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    command = [sys.executable, "-m", "turnscope", "tap", "--upstream", f"http://127.0.0.1:{provider}", "--port", "18702"]
    environment = os.environ | {"TURNSCOPE_DATA": str(folder)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            for _ in range(6):
                process.stderr.readline()
            yield 18702, process
        finally:
            process.terminate()


def make_body(rounds: int) -> bytes:
    said = [{"role": "user", "content": f"{number} {LONG[: 200 + number % 7]}"} for number in range(rounds)]
    return json.dumps({"model": "m", "max_tokens": 9, "system": LONG, "messages": said}).encode()


class Client:
    """One connection that stays open."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def open(self) -> None:
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)

    async def ask(self, body: bytes) -> tuple[float, float]:
        """Seconds to the first event, and to the end of the answer."""
        start = time.perf_counter()
        head = f"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\ncontent-length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        await self.reader.readuntil(b"event: ")
        first = time.perf_counter() - start
        await self.reader.readuntil(b"\r\n0\r\n\r\n")
        return first, time.perf_counter() - start

    def close(self) -> None:
        self.writer.close()


async def measure_first(port: int, count: int) -> list[float]:
    client, body = Client(port), make_body(50)
    await client.open()
    found = [(await client.ask(body))[0] * 1_000 for _ in range(count)]
    client.close()
    return found[count // 10 :]


async def measure_many(port: int, streams: int, spread: float) -> list[tuple[float, float]]:
    """Ask over so many connections, which begin one after the other within some seconds. See `Client.ask`."""
    clients, body = [Client(port) for _ in range(streams)], make_body(2)
    for client in clients:
        await client.open()

    async def ask(number: int, client: Client) -> tuple[float, float]:
        if spread:
            await asyncio.sleep(spread * number / streams)
        return await client.ask(body)

    found = await asyncio.gather(*(ask(number, client) for number, client in enumerate(clients)))
    for client in clients:
        client.close()
    return found


async def send_growing(port: int, requests: int) -> None:
    client = Client(port)
    await client.open()
    for number in range(requests):
        await client.ask(make_body(1 + number % 200))
    client.close()


def read_memory(process: subprocess.Popen[str]) -> float:
    """Resident memory in MB."""
    pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def read_cpu(process: subprocess.Popen[str]) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve", nargs=2, type=float)
    parser.add_argument("--streams", type=int, default=1_000)
    parser.add_argument("--requests", type=int, default=4_000)
    parser.add_argument("--spread", type=float, default=0.0, help="seconds within which the streams begin")
    parser.add_argument("--pause", type=float, default=0.25, help="seconds between two of a stream's 40 parts")
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(int(given.serve[0]), given.serve[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        with start_provider(20, 0.0) as provider, start_tap(provider, Path(folder)) as (tap, process):
            direct = [*asyncio.run(measure_first(provider, 300)), *asyncio.run(measure_first(provider, 300))]
            through = asyncio.run(measure_first(tap, 600))
            pair = statistics.median(direct), statistics.median(through)
            added = pair[1] - pair[0]
            sent = len(make_body(50))
            print(f"first byte, {sent:,} bytes sent: direct {pair[0]:.2f} ms, tap {pair[1]:.2f} ms, added {added:.2f} ms")
            memory, cpu = [read_memory(process)], read_cpu(process)
            for _ in range(4):
                asyncio.run(send_growing(tap, given.requests // 4))
                memory.append(read_memory(process))
            spent = (read_cpu(process) - cpu) / given.requests * 1_000
            log = next((Path(folder) / "tap").iterdir()).stat().st_size / 1e6
            steps = ", ".join(f"{each:.0f}" for each in memory)
            print(f"{given.requests:,} requests: memory {steps} MB; {spent:.1f} ms of CPU each; log {log:.1f} MB")
        with start_provider(40, given.pause) as provider, start_tap(provider, Path(folder)) as (tap, process):
            for name, port in (("direct", provider), ("tap", tap)):
                cpu = read_cpu(process)
                found = asyncio.run(measure_many(port, given.streams, given.spread))
                first, whole = (statistics.median(each) for each in zip(*found, strict=True))
                print(f"{len(found):,} streams, {name}: first byte {first * 1_000:.1f} ms, whole {whole:.2f} s at the median")
            print(f"memory {read_memory(process):.0f} MB, {read_cpu(process) - cpu:.1f} s of CPU")


if __name__ == "__main__":
    main()
