"""What masking leaves in and a person should look at; and what it no longer takes for a secret."""

from __future__ import annotations

from pathlib import Path

import pytest
import turnscope
from claude_log import Log
from click.testing import CliRunner
from conftest import SHARED
from false_alarms import count_alarms
from turnscope.cli import command_line
from turnscope.share.doubtful import MAX_SHOWN, find_doubtful
from turnscope.share.private_data import mask_text
from turnscope.share.report import build_report

PLAIN = [
    'secret = env::var("API_KEY")',
    "token = generateSecureToken(32)",
    "access_key: std::env::var",
    "api_key: your-key-here",
    "The password is incorrect.",
    "key-generative-ai-statistics-and-trends-for-2025",
    "globals-2025-predictions-report",
    "it ended at 1785262899391 ms",
    "'@Component.imports",
    '{"id": "call_4by1BwCUZuVjAErexOsd9gQ9"}',
    'if "password=", password)',
    "token: src/lib/supabase/db.ts:15:",
]


@pytest.mark.parametrize("text", PLAIN)
def test_a_word_of_a_program_is_no_secret(text: str) -> None:
    assert mask_text(text) == (text, [])


def test_what_looks_doubtful_is_listed_by_kind_and_words_can_be_taken_out(tmp_path: Path) -> None:
    log = Log()
    log.user("We met Ottilie Brandt at build7.corp, order 4711474711, commit 62e0cfd1aa9dbe6318f9d3c3231867ce46624066.")
    log.answer("a", "I asked Ottilie Brandt.", usage=(100, 0, 0, 5))
    session = turnscope.load(log.save(tmp_path / "doubts.jsonl"))
    made = build_report(session, "masked", ())
    found = {(one.kind, one.text) for one in made.doubtful}
    assert {("internal host", "build7.corp"), ("long number", "4711474711"), ("name", "Ottilie Brandt")} <= found
    assert ("random text", "62e0cfd1aa9dbe6318f9d3c3231867ce46624066") in found
    again = build_report(session, "masked", (), [one.text for one in made.doubtful])
    assert again.doubtful == ()
    assert build_report(session, "no content", ()).doubtful == ()


def test_the_command_lists_what_is_doubtful(tmp_path: Path) -> None:
    log = Log()
    log.user("We met Ottilie Brandt.")
    log.answer("a", "Yes.", usage=(100, 0, 0, 5))
    given = ["share", str(log.save(tmp_path / "a.jsonl")), str(tmp_path / "a.md"), "--level", "masked"]
    assert "name: Ottilie Brandt" in CliRunner().invoke(command_line, given).output
    assert "Still in it" not in CliRunner().invoke(command_line, [*given, "--without", "Ottilie Brandt"]).output


def test_the_most_frequent_of_many_are_listed() -> None:
    found = find_doubtful(f"order {10**9 + n} and order {10**9 + n % 2} too" for n in range(100))
    assert len(found) == MAX_SHOWN
    assert [one.places for one in found[:3]] == [51, 51, 1]


@pytest.mark.skipif(not SHARED.is_dir(), reason="real files lie beside the project")
def test_a_real_session_of_code_has_no_false_alarm_of_a_secret() -> None:
    """All real files are counted by `python -m tests.false_alarms`; this one holds no secret."""
    values, _ = count_alarms([SHARED / "data" / "open" / "claude-code" / "obra-long-conversation.jsonl"])
    assert not set(values) & {"secret", "password", "API key", "card number", "phone number", "private key"}
