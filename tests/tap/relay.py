"""A relay of bytes before and behind a tap: what each of its connections carried, and the HTTP messages in it.

`python -m tests.tap.relay FROM_HOST:PORT TO_HOST:PORT FOLDER` runs one; `python -m tests.tap.relay --compare BEFORE BEHIND`
says whether the bodies and statuses of two folders are the same.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path


@dataclass(frozen=True)
class Exchange:
    """A request and its answer, as they crossed the relay. `status` 0 = there was no answer."""

    request: str  # method and target
    sent: bytes
    status: int
    came: bytes
    is_whole: bool


async def relay(listen: tuple[str, int], target: tuple[str, int], folder: Path) -> asyncio.Server:
    """Relay connections, and keep the bytes of each direction in a file of its own.

    Args:
        listen: Where to listen.
        target: Where the bytes go.
        folder: Where they are kept; it exists.
    """
    numbers = count(1)

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: Path) -> None:
        with path.open("wb") as kept:
            try:
                while data := await reader.read(1 << 16):
                    kept.write(data)
                    kept.flush()
                    writer.write(data)
                    await writer.drain()
                if writer.can_write_eof():
                    writer.write_eof()
            except OSError:
                writer.transport.abort()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = next(numbers)
        there, back = await asyncio.open_connection(*target)
        up = asyncio.create_task(pump(reader, back, folder / f"{number:05}.up"))
        down = asyncio.create_task(pump(there, writer, folder / f"{number:05}.down"))
        await down
        writer.close()
        if reader.at_eof():
            await up
        up.cancel()
        back.close()

    return await asyncio.start_server(accept, *listen, backlog=1_024)


def read_exchanges(folder: Path) -> Iterator[Exchange]:
    """Read the HTTP messages that crossed a relay, connection by connection.

    Args:
        folder: Where it kept the bytes.
    """
    for path in sorted(folder.glob("*.up")):
        left, back = path.read_bytes(), path.with_suffix(".down").read_bytes()
        while left:
            head, _, left = left.partition(b"\r\n\r\n")
            sent, left, asked = _take_body(head, left)
            status = 100
            while back and status < 200:
                answer, _, back = back.partition(b"\r\n\r\n")
                status = int(answer.split(b" ", 2)[1])
            method, target = head.split(b" ", 2)[:2]
            has_body = method != b"HEAD" and status not in (100, 204, 304)
            came, back, answered = _take_body(answer, back, to_end=True) if has_body else (b"", back, status >= 200)
            request = b"%s %s" % (method, target)
            yield Exchange(request.decode(), sent, status if status >= 200 else 0, came, asked and answered)


def _take_body(head: bytes, data: bytes, *, to_end: bool = False) -> tuple[bytes, bytes, bool]:
    """Take a body from what follows its head. Gives it, what follows, and whether it was whole."""
    lines = (line.partition(b":") for line in head.lower().split(b"\r\n")[1:])
    fields = {name: value.strip() for name, _, value in lines}
    if fields.get(b"transfer-encoding") == b"chunked":
        parts = []
        while mark := data.partition(b"\r\n")[1]:
            line, _, rest = data.partition(b"\r\n")
            size = int(line, 16)
            parts.append(rest[:size])
            data = rest[size + 2 :]
            if not size:
                return b"".join(parts), data, bool(mark)
        return b"".join(parts), b"", False
    if b"content-length" in fields or not to_end:
        size = int(fields.get(b"content-length", b"0"))
        return data[:size], data[size:], len(data) >= size
    return data, b"", True


def compare(before: Path, behind: Path) -> tuple[int, list[Exchange], list[Exchange]]:
    """Compare what crossed two relays. Gives how many exchanges are the same, and those that only one of them has.

    Args:
        before: The folder of the relay before the tap.
        behind: That of the one behind it.
    """
    first, second = Counter(read_exchanges(before)), Counter(read_exchanges(behind))
    return (first & second).total(), [*(first - second).elements()], [*(second - first).elements()]


async def _run(listen: str, target: str, folder: str) -> None:
    places = [(host, int(port)) for host, _, port in (place.rpartition(":") for place in (listen, target))]
    server = await relay(places[0], places[1], Path(folder))
    await server.serve_forever()


def main() -> None:
    if sys.argv[1] != "--compare":
        Path(sys.argv[3]).mkdir(parents=True, exist_ok=True)
        asyncio.run(_run(*sys.argv[1:4]))
        return
    same, before, behind = compare(Path(sys.argv[2]), Path(sys.argv[3]))
    print(f"{same} exchanges are the same, {len(before)} only before the tap, {len(behind)} only behind it")
    for name, found in (("before", before), ("behind", behind)):
        for each in found:
            print(f"  {name}: {each.request} {len(each.sent)} bytes -> {each.status} {len(each.came)} bytes, {each.is_whole}")


if __name__ == "__main__":
    main()
