"""`turnscope fleet`: reading into tables, and forgetting."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from turnscope.cli import main
from turnscope.errors import TurnscopeError
from turnscope.fleet import storage
from turnscope.fleet.dataset import open_fleet
from turnscope.fleet.known_fleets import list_fleets

from tests.fleet.made import write_log


@pytest.fixture
def logs(tmp_path: Path, data_folder: Path) -> Path:
    write_log(tmp_path / "logs" / "search" / "a.jsonl", 2, cwd="/home/lynn/shop")
    write_log(tmp_path / "logs" / "pay" / "b.jsonl", 3, cwd="/home/tom/shop")
    return tmp_path / "logs"


def test_sources_become_tables_and_the_end_says_what_it_cost(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    assert main(["fleet", str(logs), "--out", out, "--workers", "0", "--layout", "{team}/**"]) == 0
    told = capsys.readouterr().out
    assert "2 of 2 sources read" in told
    assert "s per GB" in told
    assert main(["fleet", str(logs / "search"), str(logs / "pay"), "--out", out, "--workers", "0", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["found"] == 2
    assert open_fleet(out).count_rows("sessions") == 2
    assert list(list_fleets().values()) == [out]  # which the app's page then offers


def test_a_source_that_cannot_be_read_ends_with_1(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (logs / "broken.jsonl").write_text('{"type": "user", "uuid": "a", "sessionId": "b", "message": {"role": "us')
    assert main(["fleet", str(logs), "--out", str(tmp_path / "out"), "--workers", "0"]) == 1
    assert "1 failed" in capsys.readouterr().out


def test_sources_that_were_written_before_a_day_are_left_out(logs: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    assert main(["fleet", str(logs), "--out", out, "--workers", "0", "--since", "2999-01-01"]) == 0
    assert open_fleet(out).count_rows("sessions") == 0


def test_a_person_is_forgotten_by_name_also_where_people_are_hashed(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "key").write_text("k" * 32)
    out, key = str(tmp_path / "out"), ["--hash-key-file", str(tmp_path / "key")]
    assert main(["fleet", str(logs), "--out", out, "--workers", "0", *key]) == 0
    assert main(["fleet", "forget", out, "--person", "lynn"]) == 2
    assert "--hash-key-file" in capsys.readouterr().err
    assert main(["fleet", "forget", out, "--person", "nobody", *key]) == 0
    assert "hold no session of nobody" in capsys.readouterr().out
    assert main(["fleet", "forget", out, "--person", "lynn", *key]) == 0
    assert "Deleted 1 sessions of lynn" in capsys.readouterr().out
    assert open_fleet(out).count_rows("sessions") == 1


def test_what_is_wrong_is_one_sentence(
    logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = str(tmp_path / "out")
    (tmp_path / "key").write_text("short")
    for arguments in (
        [str(tmp_path / "nowhere"), "--out", out],
        [str(logs), "--out", out, "--hash-key-file", str(tmp_path / "key")],
        [str(logs), "--out", out, "--policies", "no-such-policy"],
        [str(logs), "--out", out, "--layout", "{team}/{team}"],
        [str(logs)],
        ["forget", out, "--person", "lynn"],
    ):
        assert main(["fleet", *arguments]) == 2
        error = capsys.readouterr().err
        assert error.startswith("turnscope: ")
        assert error.count("\n") == 1, error

    def lack(name: str, extra: str = "fleet") -> None:
        raise TurnscopeError(f"this needs the package {name}", hint=f"Type `pip install 'turnscope[{extra}]'`.")

    monkeypatch.setattr(storage, "import_package", lack)
    assert main(["fleet", str(logs), "--out", out]) == 2
    assert "pip install 'turnscope[fleet]'" in capsys.readouterr().err


def test_sources_come_first_unless_a_command_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "--help"]) == 0
    assert "SOURCE... --out DEST" in capsys.readouterr().out
    assert main(["fleet", "read", "--help"]) == main(["fleet", "forget", "--help"]) == 0


def test_tables_below_the_sources_are_no_sources(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fleet", str(logs), "--out", str(logs), "--workers", "0", "--json"]
    assert main(words) == main(words) == 0
    assert [json.loads(text)["found"] for text in capsys.readouterr().out.replace("}\n{", "}\0{").split("\0")] == [2, 2]


def test_the_report_of_a_week_without_requests_says_so(logs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", str(logs), "--out", str(tmp_path / "out"), "--workers", "0"]) == 0
    capsys.readouterr()
    assert main(["fleet", "report", str(tmp_path / "out"), "--week", "2031-W07"]) == 0
    assert "No requests." in capsys.readouterr().out
