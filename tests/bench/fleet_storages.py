"""A fleet on each kind of storage: `python tests/bench/fleet_storages.py [local memory s3 gs az ssh]`.

Starts a server of each kind on loopback (moto, gcp-storage-emulator, azurite of npm, asyncssh), puts some sessions there, lists
and reads them, writes the tables there, reads again, opens a session from its URL, and asks the tables. All has to be as with a
local folder. What is not installed is left out: install gcsfs, gcp-storage-emulator, adlfs, paramiko and asyncssh, and name the
script of azurite (`node_modules/azurite/dist/src/blob/main.js`) in AZURITE. Exit 1 if anything differs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "engine"), str(ROOT / "tests" / "bench")]

from turnscope.errors import TurnscopeError  # noqa: E402
from turnscope.fleet import queries  # noqa: E402
from turnscope.fleet.cluster import SerialCluster  # noqa: E402
from turnscope.fleet.dataset import Fleet, open_fleet  # noqa: E402
from turnscope.fleet.run import FleetRun, RunReport, build_options  # noqa: E402
from turnscope.fleet.source_files import fetch_source  # noqa: E402
from turnscope.fleet.sources import list_sources  # noqa: E402
from turnscope.fleet.storage import open_storage  # noqa: E402
from turnscope.fleet.warehouse import EVERYTHING, Warehouse  # noqa: E402
from turnscope.library.loading import load  # noqa: E402

from tests.bench.bench_fleet import end, find_port, is_open, serve_s3, start, wait_for  # noqa: E402
from tests.fleet.made import write_log  # noqa: E402

SESSIONS = 6
PLACE = {"session", "source_id", "source", "made_by"}
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # azurite's, known to all


@contextmanager
def serve_memory(_folder: Path) -> Iterator[str]:
    """The memory of this process."""
    yield "memory://fleet"


@contextmanager
def serve_local(folder: Path) -> Iterator[str]:
    """A folder."""
    yield str(folder / "fleet")


@contextmanager
def serve_moto(_folder: Path) -> Iterator[str]:
    """moto, which behaves as S3."""
    with serve_s3():
        yield "s3://fleet"


@contextmanager
def serve_gcs(_folder: Path) -> Iterator[str]:
    """gcp-storage-emulator, which behaves as Google Cloud Storage."""
    port = find_port()
    server = start(
        "gcp_storage_emulator", "start", "--host", "127.0.0.1", "--port", str(port), "--in-memory", "--default-bucket=fleet"
    )
    os.environ |= {"STORAGE_EMULATOR_HOST": f"http://127.0.0.1:{port}", "FSSPEC_GS": json.dumps({"token": "anon"})}
    os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"  # which speaks gRPC, as the emulator does not
    try:
        wait_for(lambda: is_open(port), 60)
        read_settings()
        yield "gs://fleet"
    finally:
        end(server)


@contextmanager
def serve_azure(_folder: Path) -> Iterator[str]:
    """azurite, which behaves as Azure Blob Storage."""
    port = find_port()
    words = ("--blobPort", str(port), "--inMemoryPersistence", "--skipApiVersionCheck", "--silent")
    server = subprocess.Popen(("node", os.environ["AZURITE"], *words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}/devstoreaccount1"
    text = f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={KEY};BlobEndpoint={url};"
    os.environ["AZURE_STORAGE_CONNECTION_STRING"] = text
    try:
        wait_for(lambda: is_open(port), 60)
        open_storage("az://fleet").fs.mkdir("fleet")
        yield "az://fleet"
    finally:
        end(server)


@contextmanager
def serve_ssh(folder: Path) -> Iterator[str]:
    """A server of asyncssh in a thread of this process, which shows the folder."""
    asyncssh: Any = import_module("asyncssh")

    class Server(asyncssh.SSHServer):  # type: ignore[misc]
        def begin_auth(self, _username: str) -> bool:
            return True

        def password_auth_supported(self) -> bool:
            return True

        def validate_password(self, username: str, password: str) -> bool:
            return (username, password) == ("lynn", "secret")

    port, loop = find_port(), asyncio.new_event_loop()

    async def serve() -> Any:
        key = asyncssh.generate_private_key("ssh-ed25519")
        return await asyncssh.listen("127.0.0.1", port, server_factory=Server, server_host_keys=[key], sftp_factory=True)

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(serve(), loop).result(30)
    os.environ["FSSPEC_SSH"] = json.dumps({"username": "lynn", "password": "secret"})
    try:
        read_settings()
        yield f"ssh://127.0.0.1:{port}{folder}/ssh"
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)


def read_settings() -> None:
    """Have fsspec read its settings from the environment again, as a new process does."""
    from fsspec.config import conf, set_conf_env

    set_conf_env(conf)


KINDS: dict[str, tuple[Callable[[Path], Any], tuple[str, ...]]] = {
    "local": (serve_local, ()),
    "memory": (serve_memory, ()),
    "s3": (serve_moto, ("moto", "s3fs")),
    "gs": (serve_gcs, ("gcp_storage_emulator", "gcsfs")),
    "az": (serve_azure, ("adlfs",)),
    "ssh": (serve_ssh, ("asyncssh", "paramiko")),
}


def run(source: str, dest: str) -> tuple[Fleet, RunReport]:
    """Read sources into tables in this process."""
    made = FleetRun(open_fleet(dest), build_options())
    report = made.run(list_sources(source), SerialCluster())
    return made.fleet, report


def try_storage(logs: Path, base: str, expected: Fleet, copies: Path) -> str:
    """Put logs on a storage, and read them there; gives what is wrong, "" = nothing."""
    storage = open_storage(base)
    for path in sorted(logs.rglob("*.jsonl")):
        storage.write(storage.join("logs", path.relative_to(logs).as_posix()), path.read_bytes())
    source, dest = f"{base}/logs", f"{base}/tables"
    fleet, first = run(source, dest)
    if (first.read, first.failed) != (SESSIONS, 0):
        return f"read {first.read}, failed {first.failed}: {first.problems[:1]}"
    if run(source, dest)[1].unchanged != SESSIONS:
        return "what is unchanged was read again"
    storage.write(storage.join("logs", "shop", "s1.jsonl"), (logs / "api" / "s0.jsonl").read_bytes())
    if run(source, dest)[1].read != 1:
        return "a changed source was not read again"
    storage.write(storage.join("logs", "shop", "s1.jsonl"), (logs / "shop" / "s1.jsonl").read_bytes())
    fleet = run(source, dest)[0]
    if list_rows(fleet) != list_rows(expected):
        return "tables differ"
    url = next(row["source"] for row in fleet.read("sessions").to_pylist() if row["source"].endswith("s2.jsonl"))
    if not load(fetch_source(url, folder=copies)).requests:
        return "a session does not open from its URL"
    whole = queries.sum_costs(Warehouse(fleet), EVERYTHING)
    return "" if whole == queries.sum_costs(Warehouse(expected), EVERYTHING) else "sums differ"


def list_rows(fleet: Fleet) -> list[str]:
    """The rows of requests and sessions, without what depends on where the sources lie."""
    tables = (fleet.read(name) for name in ("requests", "sessions"))
    return sorted(str({k: v for k, v in row.items() if k not in PLACE}) for table in tables for row in table.to_pylist())


def main() -> int:
    parser = argparse.ArgumentParser(description="A fleet on each kind of storage.")
    parser.add_argument("kinds", nargs="*", help=" ".join(KINDS))
    failed = False
    with tempfile.TemporaryDirectory() as name:
        logs = Path(name, "logs")
        for n in range(SESSIONS):
            write_log(logs / ("shop" if n % 2 else "api") / f"s{n}.jsonl", 2 + n, day=1 + n)
        expected = run(str(logs), str(Path(name, "expected")))[0]
        for kind in parser.parse_args().kinds or KINDS:
            serve, packages = KINDS[kind]
            if missing := [package for package in packages if find_spec(package) is None]:
                print(f"{kind}: not run, as {', '.join(missing)} is not installed")
                continue
            began = time.monotonic()
            try:
                with serve(Path(name)) as base:
                    problem = try_storage(logs, base, expected, Path(name, "copies"))
            except (TurnscopeError, KeyError, OSError) as error:
                problem = f"{type(error).__name__}: {error}"
            print(f"{kind}: {problem or 'as a local folder'} ({time.monotonic() - began:.1f} s)", flush=True)
            failed |= bool(problem)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
