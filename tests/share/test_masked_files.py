"""Exports and traces that are asked to be masked, and names that a recogniser finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import turnscope
from turnscope.cli import main
from turnscope.errors import TurnscopeError
from turnscope.share import names
from turnscope.share.export_formats import list_formats

PASSWORD, TOKEN, PERSON = "S3cr3tP@ssw0rd!xyz", "ghp_" + "A1b2C3d4" * 4 + "E5f6", "Ada Lovelace"
PRIVATE = (PASSWORD, TOKEN, "ada@example.com")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A session with a password, a token, an address and a name."""
    texts = (f'DB_PASSWORD="{PASSWORD}" is for {PERSON}', f"Use {TOKEN}, and write to ada@example.com. {PASSWORD} stands bare.")
    rows: list[dict[str, Any]] = [
        {"type": "user", "uuid": "a", "parentUuid": None, "message": {"role": "user", "content": texts[0]}},
        {
            "type": "assistant",
            "uuid": "b",
            "parentUuid": "a",
            "message": {
                "id": "m",
                "role": "assistant",
                "model": "claude-sonnet-4-5",
                "content": [{"type": "text", "text": texts[1]}],
                "usage": {"input_tokens": 900, "output_tokens": 40},
            },
        },
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps({"sessionId": "s", "timestamp": "2026-01-01T00:00:00Z"} | row) for row in rows))
    return path


@pytest.mark.parametrize("form", list_formats())
def test_a_masked_export_holds_nothing_private_and_opens(form: str, log: Path) -> None:
    target = log.with_name("out")
    assert main(["export", str(log), "--as", form, "--output", str(target)]) == 0
    assert all(value in target.read_text(encoding="utf-8") for value in (TOKEN, PERSON))
    assert main(["export", str(log), "--as", form, "--masked", "--without", PERSON, "--output", str(target)]) == 0
    text = target.read_text(encoding="utf-8")
    assert not [value for value in (*PRIVATE, PERSON) if value in text]
    assert "[password]" in text
    assert len(turnscope.load(target).requests) == 1


def test_a_masked_trace_holds_nothing_private_and_costs_the_same(log: Path) -> None:
    plain, masked = log.with_name("plain.json"), log.with_name("masked.json")
    assert main(["trace", str(log), str(plain), "--content"]) == 0
    assert main(["trace", str(log), str(masked), "--content", "--masked", "--without", PERSON]) == 0
    assert TOKEN in plain.read_text(encoding="utf-8")
    text = masked.read_text(encoding="utf-8")
    assert not [value for value in (*PRIVATE, PERSON) if value in text]
    usages = [[request.usage for request in turnscope.load(path).requests] for path in (plain, masked)]
    assert usages[0] == usages[1]


def test_words_without_masking_are_a_mistake(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["export", str(log)], ["trace", str(log), str(log.with_name("t.json"))]):
        assert main([*command, "--without", PERSON]) == 2
        assert "are for --masked" in capsys.readouterr().err


class Engine:
    """Answers as presidio's engine does."""

    def analyze(self, text: str, **_: Any) -> Iterator[SimpleNamespace]:
        for word in (PERSON, "Paris", "Al"):
            if (at := text.find(word)) >= 0:
                yield SimpleNamespace(start=at, end=at + len(word))


def test_names_are_those_that_the_recogniser_finds(log: Path) -> None:
    session = turnscope.load(log)
    assert names.find_names(session, names.load_recogniser(Engine())) == [PERSON]


def test_a_missing_recogniser_is_a_sentence(
    log: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(TurnscopeError, match="presidio, which is not installed"):
        names.load_recogniser()
    assert main(["share", str(log), str(log.with_name("r.html")), "--level", "masked", "--names"]) == 2
    assert "turnscope[names]" in capsys.readouterr().err
    assert not log.with_name("r.html").exists()


def test_presidio_answers_as_the_recogniser_expects() -> None:
    """With the real package, and names from a list in the place of a model's."""
    presidio = pytest.importorskip("presidio_analyzer", reason="presidio is an extra: turnscope[names]")
    nlp = pytest.importorskip("presidio_analyzer.nlp_engine").SpacyNlpEngine
    spacy = pytest.importorskip("spacy")

    class Blank(nlp):  # type: ignore[misc,valid-type]
        def __init__(self) -> None:
            super().__init__(models=[{"lang_code": "en", "model_name": "en"}])
            self.nlp = {"en": spacy.blank("en")}

        def is_loaded(self) -> bool:
            return True

    listed = presidio.PatternRecognizer(supported_entity="PERSON", deny_list=[PERSON])
    registry = presidio.RecognizerRegistry(recognizers=[listed], supported_languages=["en"])
    engine = presidio.AnalyzerEngine(registry=registry, nlp_engine=Blank(), supported_languages=["en"])
    assert list(names.load_recogniser(engine)(f"Ask {PERSON} about it.")) == [PERSON]
