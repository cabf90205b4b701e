"""Stored tables: a file counts once a commit names it."""

from __future__ import annotations

import errno
import shutil
from datetime import date
from pathlib import Path

import fsspec
import msgspec
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem
from turnscope.errors import TurnscopeError
from turnscope.fleet import dataset
from turnscope.fleet.dataset import COMMITS, Commit, Fleet, open_fleet
from turnscope.fleet.storage import import_package, open_storage
from turnscope.fleet.tables import VERSION, make_schema


def make_tools(*names: str, day: date | None = date(2026, 11, 2)) -> pa.Table:
    numbers = dict.fromkeys(("calls", "errors", "call_tokens", "result_tokens", "sent_tokens"), 1)
    rows = [{"session": "s", "day": day, "name": name, "usd": None, **numbers} for name in names]
    return pa.Table.from_pylist(rows, schema=make_schema("tools"))


@pytest.fixture(params=["disk", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "fleet") if request.param == "disk" else f"memory://{tmp_path.name}"


class Hosted(MemoryFileSystem):  # type: ignore[misc]
    """A storage of a host, as over SSH: a path does not say which."""

    protocol = "hosted"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return f"/{path.partition('://')[2].partition('/')[2]}" if "://" in path else path


def test_a_url_keeps_its_host_and_holds_no_password() -> None:
    fsspec.register_implementation("hosted", Hosted, clobber=True)
    for url in ("hosted://lynn@host:22/srv/logs", "hosted://lynn@host:22/srv/logs/"):
        storage = open_storage(url)
        again = storage.make_url(storage.join("a b.jsonl"))
        assert again == "hosted://lynn@host:22/srv/logs/a b.jsonl"
        assert open_storage(again).root == "/srv/logs/a b.jsonl"
    assert open_storage("memory://fleet").make_url("/fleet/a") == "memory:///fleet/a"
    with pytest.raises(TurnscopeError, match="holds a password"):
        open_storage("hosted://lynn:secret@host/srv")


def test_what_is_written_counts_when_it_is_committed(url: str) -> None:
    fleet = open_fleet(url)
    files = fleet.write_rows("tools", make_tools("Read", "Bash"), [1])
    assert open_fleet(url).count_rows("tools") == 0
    fleet.commit("read", files)
    again = open_fleet(url)
    assert again.read("tools", ["name"])["name"].to_pylist() == ["Bash", "Read"]
    assert again.number == 1
    assert len(again.list_files("tools")) == 1


def test_rows_lie_in_a_file_for_each_day(url: str) -> None:
    fleet = open_fleet(url)
    rows = pa.concat_tables([make_tools("b"), make_tools("a", day=date(2026, 11, 1)), make_tools("c", day=None)])
    files = fleet.write_rows("tools", rows, [1])
    assert [file.day for file in files] == ["2026-11-01", "2026-11-02", ""]
    assert [file.path.split("/")[1] for file in files] == [
        "day=2026-11-01",
        "day=2026-11-02",
        "day=__HIVE_DEFAULT_PARTITION__",
    ]


def test_of_two_runs_that_write_at_once_the_second_one_notices(url: str) -> None:
    first, second = open_fleet(url), open_fleet(url)
    first.commit("read", first.write_rows("tools", make_tools("a"), [1]))
    with pytest.raises(TurnscopeError, match="another run wrote"):
        second.commit("read", second.write_rows("tools", make_tools("b"), [1]))
    assert open_fleet(url).read("tools", ["name"])["name"].to_pylist() == ["a"]


def test_the_log_is_read_from_its_last_snapshot(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = open_fleet(url)
    for number in range(1, dataset.SNAPSHOT_EVERY * 2 + 3):
        gone = [path for path, file in fleet.files.items() if file.batches == (number - 3,)]
        fleet = fleet.commit("read", fleet.write_rows("tools", make_tools(str(number)), [number]), gone)
    reads: list[str] = []
    whole = dataset._read_commit
    monkeypatch.setattr(dataset, "_read_commit", lambda storage, path: reads.append(path) or whole(storage, path))
    again = open_fleet(url)
    assert again.files == fleet.files
    assert len(again.files) == 3
    assert len(reads) == 2


def test_a_file_that_is_rewritten_has_the_rows_that_stay(url: str) -> None:
    fleet = open_fleet(url)
    fleet = fleet.commit("read", fleet.write_rows("tools", make_tools("a", "b"), [1]))
    (file,) = fleet.files.values()
    new = fleet.rewrite(file, lambda rows: rows.filter(pa.compute.field("name") != "a"))
    fleet = fleet.commit("forget", new, [file.path])
    assert open_fleet(url).read("tools", ["name"])["name"].to_pylist() == ["b"]
    assert [each.batches for each in fleet.files.values()] == [(1,)]


def test_a_damaged_commit_is_one_sentence(tmp_path: Path) -> None:
    fleet = open_fleet(str(tmp_path))
    fleet.commit("read", fleet.write_rows("tools", make_tools("a"), [1]))
    (tmp_path / "_commits" / "00000001.json").write_text("{")
    with pytest.raises(TurnscopeError, match="is damaged"):
        open_fleet(str(tmp_path))


def test_storage_says_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(TurnscopeError, match="nosuchpackage"):
        import_package("nosuchpackage")
    with pytest.raises(TurnscopeError):
        open_storage("nosuch://x")
    storage = open_storage(str(tmp_path))
    with pytest.raises(TurnscopeError, match="cannot be read: No such file"):
        storage.read(storage.join("missing"))


def test_a_file_is_created_once(url: str) -> None:
    storage = open_storage(url)
    assert storage.create(storage.join("a", "1.json"), b"1")
    assert not storage.create(storage.join("a", "1.json"), b"2")
    assert storage.read(storage.join("a", "1.json")) == b"1"
    assert storage.list_files(storage.join("a")) == [storage.join("a", "1.json")]


def test_a_damaged_file_is_a_sentence(small_fleet: Fleet, tmp_path: Path) -> None:
    fleet = open_fleet(shutil.copytree(small_fleet.storage.root, tmp_path / "copy").as_posix())
    path = Path(fleet.list_files("requests")[0])
    whole = path.read_bytes()
    for broken in (b"", b"PAR1 nonsense", whole[:-20], whole[:200] + b"\xff" * 50 + whole[250:]):
        path.write_bytes(broken)
        with pytest.raises(TurnscopeError, match=f"{path.name} is damaged") as raised:
            fleet.read("requests")
        assert "Restore the file" in raised.value.hint


def test_tables_of_a_newer_version_are_not_read(small_fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = shutil.copytree(small_fleet.storage.root, tmp_path / "copy").as_posix()
    newer = msgspec.structs.replace(Commit(small_fleet.number + 1, "", "read"), version=VERSION + 1)
    (Path(copy) / COMMITS / f"{newer.number:08d}.json").write_bytes(msgspec.json.encode(newer))
    with pytest.raises(TurnscopeError, match="a newer version of Turnscope"):
        open_fleet(copy)


def test_a_full_disk_leaves_no_half_file_and_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_fleet(str(tmp_path)).storage

    def fill(path: str, data: bytes) -> None:
        Path(path).write_bytes(data[:2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(storage.fs, "pipe_file", fill)
    for write in (storage.write, storage.create):
        with pytest.raises(TurnscopeError, match="No space left on device") as raised:
            write(f"{storage.root}/a/file", b"12345")
        assert raised.value.hint == "Make room there."
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_what_a_killed_run_left_is_removed_after_a_commit(small_fleet: Fleet, tmp_path: Path) -> None:
    fleet = open_fleet(shutil.copytree(small_fleet.storage.root, tmp_path / "copy").as_posix())
    half, mine = tmp_path / "copy" / "requests" / ".a.parquet.0123abcd.part", tmp_path / "copy" / ".mine.part"
    half.write_text("half")
    mine.write_text("somebody's")
    assert fleet.remove_old_files() >= 1
    assert (half.exists(), mine.exists()) == (False, True)
