"""What is said of the formats: the table in the docs, and what a file hears that is in none of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import turnscope
from formats_table import FORMATS, make_page
from turnscope.errors import UnknownFormat
from turnscope.importers import Importer
from turnscope.reading import claims
from turnscope.reading.registry import find_importers


def test_the_table_in_the_page_is_what_the_importers_say_of_themselves() -> None:
    page = FORMATS.read_text(encoding="utf-8")
    assert make_page() == page, "run `python -m tests.regenerate formats`"
    for importer in find_importers():
        assert importer.title in page


@pytest.mark.parametrize(
    ("name", "content", "looks"),
    [
        ("a.json", '{"recipe": 1, "steps": []}', "JSON with the keys recipe, steps"),
        ("a.jsonl", '{"x": 1}\n{"x": 2}\n', "JSON lines, the first with the keys x"),
        ("a.json", "[1, 2, 3]", "a JSON list of 3 values"),
        ("a.txt", "once upon a time", "neither JSON nor JSON lines"),
    ],
)
def test_an_unknown_file_hears_which_formats_were_tried_and_why_each_declined(
    tmp_path: Path, name: str, content: str, looks: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(UnknownFormat) as caught:
        turnscope.load(path)
    assert f"It is {looks}. " in caught.value.hint
    assert [title for title, _ in caught.value.tried] == [importer.title for importer in find_importers()]
    assert all(f"{title}: {why}." in caught.value.hint for title, why in caught.value.tried)
    assert any("; its files end in" in why for _, why in caught.value.tried)


def test_an_ambiguous_file_hears_who_claims_it_and_why_the_others_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def always(_source: object) -> int:
        return 100

    known = find_importers()
    twins = tuple(
        Importer(name, name.title(), always, known[0].read, wants="thing of its own") for name in ("castor", "pollux")
    )
    monkeypatch.setattr(claims, "find_importers", lambda: (*known, *twins))
    path = tmp_path / "a.json"
    path.write_text('{"recipe": 1}')
    with pytest.raises(UnknownFormat) as caught:
        turnscope.load(path)
    assert "looks like Castor and like Pollux" in caught.value.what
    assert [title for title, _ in caught.value.tried] == [importer.title for importer in known]
