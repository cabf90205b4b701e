"""The documentation: its links lead somewhere, its index is whole, and README is short."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from conftest import ROOT
from turnscope.reading.source import Source

DOCS = ROOT / "engine" / "turnscope" / "docs"
SKIPPED = {".venv", "build", "dist", "node_modules"}
PAGES = sorted(path for path in ROOT.rglob("*.md") if not SKIPPED & set(path.relative_to(ROOT).parts))
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PLACE = re.compile(r"\]\(([^)#\s]*)#([^)]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text("utf-8")) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_into_a_page_leads_to_a_heading(page: Path) -> None:
    found = PLACE.findall(page.read_text("utf-8"))
    links = [(link, anchor) for link, anchor in found if "://" not in link and not link.endswith(".webp")]
    assert [(link, anchor) for link, anchor in links if anchor not in list_anchors(page.parent / link if link else page)] == []


def list_anchors(page: Path) -> set[str]:
    """What a link may name behind `#`: the page's headings, as GitHub writes them, and places that it names itself."""
    text = page.read_text("utf-8")
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    named = re.findall(r'<a id="([^"]+)">', text)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}.union(named)


def test_every_picture_of_readme_is_shown() -> None:
    shown = LINK.findall((ROOT / "README.md").read_text("utf-8"))
    pictures = list((ROOT / ".readme").iterdir())
    assert [path.name for path in pictures if path.relative_to(ROOT).as_posix() not in shown] == []
    assert sum(path.stat().st_size for path in pictures) <= 1_500_000


def test_the_index_names_every_page() -> None:
    listed = set(LINK.findall((DOCS / "README.md").read_text("utf-8")))
    assert {path.name for path in DOCS.glob("*.md")} - {"README.md"} <= listed


def test_readme_is_short() -> None:
    assert (ROOT / "README.md").stat().st_size <= 6_000


def test_every_module_that_the_docs_name_exists() -> None:
    named = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|json|toml))`")
    places = (ROOT / "engine" / "turnscope", ROOT, ROOT / "tests" / "examples" / "plugin")
    missing = [
        (page.name, path)
        for page in PAGES
        for path in named.findall(page.read_text("utf-8"))
        if not any((place / path).exists() for place in places)
    ]
    assert missing == []


def test_everything_that_the_guide_names_of_a_source_exists() -> None:
    named = set(re.findall(r"`source\.([a-z_]+)", (DOCS / "adding.md").read_text("utf-8")))
    assert len(named) > 5
    assert sorted(name for name in named if not hasattr(Source, name)) == []


def test_every_package_is_on_both_pages_about_packages_in_the_order_of_the_floors() -> None:
    """The contract of imports names all packages; one page has a row for each, the other a section."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    floors = [re.split(r" [|:] ", floor) for floor in contracts[0]["layers"]]
    engine = ROOT / "engine" / "turnscope"
    packages = {path.parent.name for path in engine.glob("*/__init__.py")}
    pages = (("architecture.md", r"^\| `([a-z_]+)/` \|", set()), ("packages.md", r"^## `([a-z_]+)/`$", {"pages"}))
    for page, row, also in pages:
        rows = re.findall(row, (DOCS / page).read_text("utf-8"), re.MULTILINE)
        assert set(rows) == packages | also, page
        at = {name: number for number, floor in enumerate(floors) for name in floor} | {"pages": -1}
        assert [at[name] for name in rows] == sorted(at[name] for name in rows), page


def test_every_folder_of_tests_that_the_docs_name_exists() -> None:
    named = {(page.name, path) for page in PAGES for path in re.findall(r"`(tests/[a-z_/]+)`", page.read_text("utf-8"))}
    assert [(page, path) for page, path in sorted(named) if not (ROOT / path).exists()] == []


def test_every_test_that_the_list_of_what_was_described_names_exists() -> None:
    text = (DOCS / "described.md").read_text("utf-8")
    rows = re.findall(r"^\| (.+) \| `([^`]+)` \| `([^`]+)` `([^`]+)` \|$", text, re.MULTILINE)
    assert len(rows) == sum(line.startswith("| ") for line in text.splitlines()) - 2 * text.count("\n| What | Where")
    assert len({row[0] for row in rows}) == len(rows), "each thing is listed once"
    assert [row for row in rows if not (DOCS.parent / row[1]).exists()] == []
    tests = {path: (ROOT / path).read_text("utf-8") for path in {row[2] for row in rows}}
    assert [row for row in rows if f"\ndef {row[3]}(" not in tests[row[2]]] == []
    drawn = [Path(row[1]).stem for row in rows if row[2] == "tests/pictures/test_pictures.py"]
    assert [name for name in drawn if not (ROOT / "tests" / "pictures" / f"{name}.txt").is_file()] == []
