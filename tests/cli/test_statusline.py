"""`turnscope statusline`: its numbers are those of the app, it loads next to nothing, and broken input is no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import turnscope
from claude_log import Log
from turnscope import statusline
from turnscope.cli import main
from turnscope.cli.indexed import find_index
from turnscope.library import status_record
from turnscope.storage import library_index
from turnscope.views.phrases import format_usd

ID = "s1"
LIGHT = 60  # modules beyond those of `python -c pass` at most: the command line alone has several hundred


@pytest.fixture
def transcript(data_folder: Path) -> Path:
    folder = data_folder.parent / "home" / ".claude" / "projects" / "p"
    log = Log(session=ID)
    log.user("a question " * 50)
    log.answer("m1", {"type": "tool_use", "id": "c1", "name": "Read", "input": {"path": "a"}}, usage=(10, 200, 3_000, 40))
    log.result("c1", "words of a file " * 900)
    log.answer("m2", "an answer", usage=(10, 5_000, 3_200, 40))
    return log.save(folder / f"{ID}.jsonl")


def describe(transcript: Path, **others: Any) -> dict[str, Any]:
    """What Claude Code writes, with the keys that are read here."""
    return {
        "session_id": ID,
        "transcript_path": str(transcript),
        "model": {"id": "claude-sonnet-4-5-20250929", "display_name": "Sonnet 4.5"},
        "context_window": {
            "context_window_size": 200_000,
            "current_usage": {
                "input_tokens": 10,
                "cache_creation_input_tokens": 5_000,
                "cache_read_input_tokens": 3_200,
                "output_tokens": 40,
            },
        },
        **others,
    }


def find_values(given: dict[str, Any], folder: Path) -> dict[str, str]:
    template = "|".join(f"{name}={{{name}}}" for name in statusline.FIELDS)
    line = statusline.make_line(given, str(folder), template)
    return dict(part.split("=", 1) for part in line.split(" · ") if "=" in part)


def run_line(given: object, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "turnscope", "statusline", *arguments]
    text = given if isinstance(given, str) else json.dumps(given)
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True, env=dict(os.environ))


def test_its_numbers_are_those_of_the_app(transcript: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(statusline, "_refresh", lambda _folder, path, _id: started.append(path))
    assert "session" not in find_values(describe(transcript), data_folder), "nothing is known yet, and nothing is made up"
    assert started == [str(transcript)]
    status_record.refresh(find_index(), data_folder, transcript, ID)
    shown = find_values(describe(transcript), data_folder)
    view = turnscope.overview(turnscope.load(transcript))
    assert len(started) == 1, "nothing has changed: nothing is read"
    assert shown["session"] == format_usd(view.total)
    assert shown["tokens"] == f"{view.get_prompt(1):,}" == "8,210"
    assert shown["fill"] == f"{float(view.fill[1]):.0%}"
    assert shown["left"] == f"{(200_000 - 33_000 - 8_250) / 1000:.0f}k", "Claude Code compacts 33,000 tokens below the window"
    assert shown["largest"].startswith("Tool results ")
    assert shown["evidence"] == "Claude Code"
    assert shown["cache"] == "cache cold"
    assert shown["day"] == "$0.00", "its requests are of another day"


def test_what_is_older_than_the_transcript_is_marked(transcript: Path, data_folder: Path) -> None:
    status_record.refresh(find_index(), data_folder, transcript, ID)
    assert statusline.lock_refresh(str(data_folder), ID), "nobody else refreshes"
    with transcript.open("a") as file:
        file.write("\n")
    assert not statusline.lock_refresh(str(data_folder), ID), "one at a time"
    assert find_values(describe(transcript), data_folder)["session"].endswith("+")


def test_the_day_is_that_of_usage(
    transcript: Path, data_folder: Path, indexing_here: None, capsys: pytest.CaptureFixture[str]
) -> None:
    today = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
    for name in ("two", "three"):
        log = Log(session=name)
        log.user("a question", timestamp=f"{today}.000Z")
        log.answer(name, "an answer", usage=(10, 200, 3_000, 40), timestamp=f"{today}.000Z")
        log.save(transcript.with_name(f"{name}.jsonl"))
    status_record.refresh(find_index(), data_folder, transcript, ID)
    day = json.loads((data_folder / statusline.FOLDER / statusline.DAY_FILE).read_text())
    assert main(["usage", "daily", "--since", day["day"], "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["total"]["requests"] == 2
    assert day["usd"] == pytest.approx(made["total"]["usd"], abs=1e-6)


def test_a_version_without_these_fields_is_read_from_the_transcripts_end(transcript: Path, data_folder: Path) -> None:
    status_record.refresh(find_index(), data_folder, transcript, ID)
    old = {"session_id": ID, "transcript_path": str(transcript)}
    shown = find_values(old, data_folder)
    assert (shown["tokens"], shown["window"]) == ("8,210", "200k")
    assert "the table of models" in shown["evidence"]
    log = transcript.read_text() + '{"type": "system", "subtype": "compact_boundary"}\n'
    transcript.write_text(log)
    statusline.lock_refresh(str(data_folder), ID)
    assert "tokens" not in find_values(old, data_folder), "after a compaction nothing is known until the next answer"


@pytest.mark.parametrize("given", ["", "{", "[]", "null", '{"session_id": 3}', '{"model": "x", "context_window": []}', "\x00"])
def test_broken_input_is_a_short_line(given: str, data_folder: Path) -> None:
    done = run_line(given, "--data", str(data_folder))
    assert (done.stdout, done.stderr) == (f"{statusline.NOTHING}\n", "")


def test_a_broken_record_and_a_hostile_name_do_no_harm(transcript: Path, data_folder: Path) -> None:
    folder = data_folder / statusline.FOLDER
    folder.mkdir(parents=True)
    (folder / f"{ID}.json").write_text("[")
    statusline.lock_refresh(str(data_folder), ID)
    shown = find_values(describe(transcript, model={"display_name": "a\x1b[31m\nname"}), data_folder)
    assert shown["model"] == "a [31m name"
    assert statusline.make_line(describe(transcript, session_id="../../x"), str(data_folder))
    assert not [*data_folder.glob("x*")]
    assert statusline.make_line(describe(transcript, session_id="day"), str(data_folder))
    assert not [*folder.glob("*day*")]  # the record of all sessions of a day has that name


def test_parts_without_a_value_are_left_out_and_colours_can_be(
    transcript: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statusline.lock_refresh(str(data_folder), ID)
    given = describe(transcript)
    assert (
        statusline.make_line(given, str(data_folder), "{model} | {session} spent | {other} {fill}") == "Sonnet 4.5 · {other} 4%"
    )
    arguments = ("--data", str(data_folder), "--template={bar} {fill}")
    assert "\033[32m" in run_line(given, *arguments).stdout
    assert run_line(given, *arguments, "--no-color").stdout == "░░░░░░░░░░ 4%\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert run_line(given, *arguments).stdout == "░░░░░░░░░░ 4%\n"


def test_the_background_writes_the_record_and_nobody_waits(transcript: Path, data_folder: Path) -> None:
    run_line(describe(transcript), "--data", str(data_folder))
    record = data_folder / statusline.FOLDER / f"{ID}.json"
    end = time.monotonic() + 60
    while not record.exists() or record.with_suffix(".lock").exists():
        assert time.monotonic() < end, "the background did not write it"
        time.sleep(0.05)
    assert find_values(describe(transcript), data_folder)["session"].startswith("$")
    assert library_index.find_session(find_index(), str(transcript)) is not None
    assert main(["forget"]) == 0
    assert not record.exists()


def test_next_to_nothing_is_loaded(transcript: Path, data_folder: Path) -> None:
    statusline.lock_refresh(str(data_folder), ID)
    code = (
        "import sys; before = set(sys.modules); sys.argv = ['turnscope', 'statusline', '--data', sys.argv[1]];"
        "from turnscope.__main__ import main; code = main(); print(*sorted(set(sys.modules) - before), file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, str(data_folder)]
    done = subprocess.run(command, input=json.dumps(describe(transcript)), capture_output=True, text=True, check=True)
    loaded = done.stderr.split()
    assert "4%" in done.stdout
    assert not {"click", "typing", "dataclasses", "pathlib", "platformdirs", "sqlite3", "numpy"} & {*loaded}
    assert len(loaded) < LIGHT, loaded


def test_an_unknown_field_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["statusline", "--install", "--template", "{fil}"]) == 2
    assert "'fil' is no field" in capsys.readouterr().err
