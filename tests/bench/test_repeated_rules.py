"""The cost of repeating rules is that of the replays with and without the rule."""

from __future__ import annotations

from pathlib import Path

import pytest
import repeated_rules
import turnscope
from conftest import ROOT
from turnscope.views.user_rules import RuleIndex

SAMPLE = ROOT / "sample_sessions" / "cache-goes-cold.jsonl"


def test_ten_rules_are_put_behind_the_first_prompt_and_nothing_else_changes() -> None:
    session = turnscope.load(SAMPLE)
    made = repeated_rules.add_rules(session)
    assert made is not None
    assert len(RuleIndex(made).rules) == 10
    changed = [old.at for old, new in zip(session.blocks, made.blocks, strict=True) if old.text != new.text]
    assert changed == [RuleIndex(made).rules[0].block]


def test_a_policy_that_forgets_keeps_them_once_they_are_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "one.jsonl").write_bytes(SAMPLE.read_bytes())
    assert repeated_rules.main([str(tmp_path), "last-20-messages", "keep-everything"]) == 0
    cut, whole = (line.split() for line in capsys.readouterr().out.splitlines()[1:])
    assert cut[1:4] + cut[5:8] == ["0", "of", "10", "10", "of", "10"]
    assert float(cut[8]) > float(cut[4]) > 0
    assert whole[4] == whole[8], "nothing leaves, so nothing is repeated"
    (tmp_path / "one.jsonl").unlink()
    assert repeated_rules.main([str(tmp_path)]) == 1
