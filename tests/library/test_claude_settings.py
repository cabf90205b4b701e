"""The status line in Claude Code's settings: what is taken out again leaves the file as it was."""

from __future__ import annotations

import json
import shlex
import stat
from pathlib import Path

import pytest
from turnscope.cli import main

OTHER = {"type": "command", "command": "npx -y ccusage statusline"}


@pytest.fixture
def settings(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(data_folder.parent / "claude config"))
    return data_folder.parent / "claude config" / "settings.json"


@pytest.mark.parametrize(
    "text", [None, "{}", '{"model": "opus",\n      "statusLine": {"command": "mine", "type": "command"}}', '{"ä": ["1"]}\n\n']
)
def test_the_way_back_leads_to_the_same_bytes(settings: Path, text: str | None) -> None:
    if text is not None:
        settings.parent.mkdir()
        settings.write_text(text)
        settings.chmod(0o600)
    assert main(["statusline", "--install", "--template", "{fill} | {session}"]) == 0
    assert main(["statusline", "--install"]) == 0, "once more changes the command, and the copy stays the first one"
    entry = json.loads(settings.read_text())["statusLine"]
    words = shlex.split(entry["command"])
    assert words[words.index("statusline") + 1] == "--data"
    assert Path(words[0]).is_absolute()
    assert main(["statusline", "--uninstall"]) == 0
    assert (settings.read_text() if settings.exists() else None) == text
    assert text is None or stat.S_IMODE(settings.stat().st_mode) == 0o600
    assert [*settings.parent.iterdir()] == ([settings] if text is not None else [])


def test_what_was_changed_meanwhile_stays(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings.parent.mkdir()
    settings.write_text(json.dumps({"statusLine": OTHER, "model": "opus"}))
    assert main(["statusline", "--install"]) == 0
    assert "It replaces: npx -y ccusage statusline" in capsys.readouterr().out
    held = json.loads(settings.read_text())
    settings.write_text(json.dumps(held | {"model": "sonnet", "new": 1}))
    assert main(["statusline", "--uninstall"]) == 0
    assert json.loads(settings.read_text()) == {"statusLine": OTHER, "model": "sonnet", "new": 1}


@pytest.mark.parametrize("text", ["{", "// a comment\n{}", "[1]", "\ufeff{}"])
def test_what_cannot_be_parsed_is_not_touched(settings: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    settings.parent.mkdir()
    settings.write_text(text)
    for step in ("--install", "--uninstall"):
        assert main(["statusline", step]) == 2
    assert "it was not changed" in capsys.readouterr().err
    assert (settings.read_text(), [*settings.parent.iterdir()]) == (text, [settings])


def test_the_status_line_of_another_tool_is_not_taken_out(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings.parent.mkdir()
    settings.write_text(json.dumps({"statusLine": OTHER}))
    before = settings.read_text()
    assert main(["statusline", "--uninstall"]) == 0
    assert "it was not changed" in capsys.readouterr().out
    assert settings.read_text() == before


def test_a_link_stays_a_link(settings: Path) -> None:
    real = settings.parent.parent / "dotfiles.json"
    real.write_text("{}")
    settings.parent.mkdir()
    settings.symlink_to(real)
    assert main(["statusline", "--install"]) == 0
    assert settings.is_symlink()
    assert "statusline" in real.read_text()
    assert main(["statusline", "--uninstall"]) == 0
    assert real.read_text() == "{}"
    assert settings.is_symlink()
