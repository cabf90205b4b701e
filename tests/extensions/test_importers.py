"""Importers that do not come with Turnscope: a package's opens its format, and one that fails disturbs nothing else."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import pytest
import turnscope
from claude_log import Log
from conftest import ROOT
from formats import survives
from streamlit.testing.v1 import AppTest
from turnscope.errors import ImporterError, TurnscopeError, UnknownFormat
from turnscope.extensions import list_problems
from turnscope.library.indexing import read_sessions
from turnscope.reading import guards
from turnscope.reading.containers import open_source
from turnscope.reading.contents import list_entries
from turnscope.reading.followers import follow
from turnscope.reading.registry import find_importers, find_places, find_related, find_session_path, find_suffixes
from turnscope.settings import detect_machine

from pages.parts import cache

DIARY = ROOT / "tests" / "examples" / "plugin" / "turnscope_diary" / "diary.py"

HEAD = """
from pathlib import Path
from turnscope.importers import Entry, Importer, Place, Source
from turnscope.session.builder import Builder
from turnscope.session.thread import Thread

def deep(n): return deep(n + 1)
def fail(*_): raise KeyError("days")
def sniff(source): return 95 if source.path.suffix == ".odd" else 0
def entries(source): yield Entry("a", "First"); yield Entry("b", "Second")
def read(source, entry):
    builder = Builder(f"{source.path.stem} {entry.id}", "odd", entry.title)
    builder.add_message("user", "hello")
    return Thread(builder.build())
"""


@pytest.fixture
def user_importers(fresh: Path) -> Path:
    """The user's folder of importers."""
    folder = fresh / "importers"
    folder.mkdir()
    return folder


def add(folder: Path, importer: str, more: str = "", name: str = "odd") -> None:
    """Write an importer: the functions above, `more` of them, and `importer` as its last arguments."""
    made = f'IMPORTER = Importer("{name}", "{name.title()}", suffixes=(".odd",), {importer})'
    (folder / f"{name}.py").write_text(f"{HEAD}\n{more}\n{made}\n")


def write_diary(path: Path) -> Path:
    said = [["me", "Hello"], ["it", "Hi.", 12, 3], ["it"]]
    value = {"diary": 1, "days": [{"day": "2026-01-02", "said": said}, {"day": "2026-01-03", "said": [["me", "Again"]]}]}
    path.write_text(json.dumps(value))
    return path


def write_log(folder: Path) -> Path:
    log = Log("s1")
    log.user("hello")
    log.answer("m1", "hi", usage=(1, 2, 3, 4))
    return log.save(folder / "s1.jsonl")


# A package's importer ---------------------------------------------------------------------------------------------------


def test_an_installed_package_opens_its_format(plugin: Path, tmp_path: Path) -> None:
    folder = tmp_path / "diaries"
    folder.mkdir()
    path = write_diary(folder / "mine.json")
    assert DIARY.read_text().count("\n") <= 45
    listed = list(turnscope.entries(path))
    assert [entry.id for entry in listed] == ["2026-01-03", "2026-01-02"]
    session = turnscope.load(path, listed[1])
    assert (session.source, session.title) == ("diary", "Diary of 2026-01-02")
    assert [block.text for block in session.blocks] == ["Hello", "Hi."]
    assert session.requests[0].usage is not None
    assert session.requests[0].usage.prompt_tokens == 12
    assert [note.severity for note in session.notes] == ["warning"]
    assert [s.id for s in turnscope.load_all(path)] == ["mine 2026-01-03", "mine 2026-01-02"]
    inside = [entry.id for entry in turnscope.entries(folder)]
    assert inside == ["mine.json#2026-01-03", "mine.json#2026-01-02"]
    assert turnscope.load(folder, inside[1]) == session
    assert [importer.package for importer in find_importers() if importer.name == "diary"] == ["turnscope-diary 1.0"]
    assert list_problems() == ()


def test_the_example_reads_damaged_files_as_far_as_they_go(plugin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards._Guard, "make_error", lambda _guard, _path, error: AssertionError(f"it raised {error!r}"))
    days = [{"day": f"2026-01-0{day}", "said": [["me", "Hello"], ["it", "Hi.", 12, 3]]} for day in (2, 3)]
    assert survives({"diary": 1, "days": days}, count=200) > 50
    assert list_problems() == ()


def test_without_the_package_the_format_is_unknown(fresh: Path, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"diary": 1, "days": []}))
    with pytest.raises(UnknownFormat):
        turnscope.load(path)


def test_a_file_in_the_users_folder_is_an_importer_too(user_importers: Path, tmp_path: Path) -> None:
    (user_importers / "diary.py").write_text(DIARY.read_text())
    (user_importers / "_parts.py").write_text("raise RuntimeError('not an importer')")
    assert len(turnscope.load_all(write_diary(tmp_path / "mine.json"))) == 2
    assert [importer.package for importer in find_importers() if importer.package] == [str(user_importers / "diary.py")]


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_a_file_that_others_can_change_is_not_run(user_importers: Path) -> None:
    path = user_importers / "diary.py"
    path.write_text(DIARY.read_text())
    path.chmod(0o666)
    assert all(not importer.package for importer in find_importers())
    assert list_problems() == (f"{path} is not loaded: other users of this machine can change it.",)


# Importers that fail ----------------------------------------------------------------------------------------------------

FAILING = {
    "read raises": ("sniff=sniff, read=fail", "", "KeyError: 'days'"),
    "read goes too deep": ("sniff=sniff, read=lambda *_: deep(0)", "", "RecursionError: maximum recursion depth exceeded"),
    "read gives nothing": ("sniff=sniff, read=lambda *_: None", "", "TypeError: 'NoneType' stands where 'Thread' belongs"),
    "read gives a session": (
        "sniff=sniff, read=lambda s, e: read(s, e).session",
        "",
        "TypeError: 'Session' stands where 'Thread' belongs",
    ),
    "entries raises": ("sniff=sniff, read=read, entries=fail", "", "KeyError: 'days'"),
    "entries raises later": (
        "sniff=sniff, read=fail, entries=some",
        "def some(source):\n    yield Entry('a')\n    raise OSError('gone')",
        "OSError: gone",
    ),
    "entries gives words": (
        "sniff=sniff, read=read, entries=lambda s: ['a']",
        "",
        "TypeError: 'str' stands where 'Entry' belongs",
    ),
}


@pytest.mark.parametrize("case", FAILING, ids=str)
def test_whatever_an_importer_raises_names_the_file_and_the_package_and_stops_no_folder(
    case: str, user_importers: Path, tmp_path: Path
) -> None:
    importer, more, words = FAILING[case]
    add(user_importers, importer, more)
    folder = tmp_path / "sessions"
    folder.mkdir()
    odd = folder / "a.odd"
    odd.write_text("anything")
    write_log(folder)
    with pytest.raises(ImporterError) as caught:
        turnscope.load_all(odd)
    assert caught.value.what.startswith(
        f"a.odd cannot be read: the importer 'odd' of {user_importers / 'odd.py'} failed: {words}"
    )
    assert (caught.value.importer, caught.value.source) == ("odd", str(user_importers / "odd.py"))
    assert str(user_importers / "odd.py") in caught.value.hint
    listed = [entry.id for entry in turnscope.entries(folder)]
    assert listed[-1] == "s1.jsonl"
    assert len(listed) > 1
    with pytest.raises(ImporterError):
        turnscope.load(folder, listed[0])
    assert [session.blocks[0].text for session in turnscope.load_all(folder)] == ["hello"]
    assert turnscope.load(folder, "s1.jsonl").blocks[0].text == "hello"
    assert [found.row.title for found in read_sessions(open_source(folder / "s1.jsonl"), "x")] == ["hello"]


@pytest.mark.parametrize("sniff", ["fail", "lambda s: deep(0)", "lambda s: 'very'", "lambda s: None"])
def test_an_importer_that_cannot_sniff_is_named_where_nothing_else_fits_and_reported_once(
    sniff: str, user_importers: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add(user_importers, f"sniff={sniff}, read=read")
    with caplog.at_level(logging.WARNING, "turnscope"):
        assert turnscope.load(write_log(tmp_path)).blocks[0].text == "hello"
        for name in ("a.json", "b.json"):
            (tmp_path / name).write_text('{"recipe": 1}')
            with pytest.raises(UnknownFormat) as caught:
                turnscope.load(tmp_path / name)
            why = dict(caught.value.tried)[f"Odd, of {user_importers / 'odd.py'}"]
            assert why.startswith(f"{name} cannot be read: the importer 'odd' of {user_importers / 'odd.py'} failed: ")
            assert why in caught.value.hint
    assert len(caplog.records) == len(list_problems()) == 1


def test_a_score_beyond_the_scale_is_the_best_and_two_best_are_named_with_their_packages(
    user_importers: Path, tmp_path: Path
) -> None:
    add(user_importers, "sniff=lambda s: 10 ** 9, read=read", name="castor")
    add(user_importers, "sniff=lambda s: 100, read=read", name="pollux")
    path = tmp_path / "a.json"
    path.write_text('{"recipe": 1}')
    with pytest.raises(UnknownFormat) as caught:
        turnscope.load(path)
    first, second = user_importers / "castor.py", user_importers / "pollux.py"
    assert f"looks like Castor, of {first} and like Pollux, of {second}" in caught.value.what


def test_an_importer_that_does_not_know_its_places_or_other_files_is_reported_and_nothing_else(
    user_importers: Path, tmp_path: Path
) -> None:
    add(user_importers, "sniff=sniff, read=read, entries=entries, finds=fail, related=fail, part_of=fail, follow=fail")
    path = tmp_path / "a.odd"
    path.write_text("anything")
    assert all(importer.name != "odd" for importer, _ in find_places(detect_machine()))
    assert find_related(open_source(path)) == []
    assert find_session_path(path) == path
    with pytest.raises(ImporterError, match=r"a\.odd cannot be read: the importer 'odd'"):
        follow(path)
    assert [problem.split(" failed in ")[1] for problem in list_problems()] == [
        "`finds`: KeyError: 'days'",
        "`related`: KeyError: 'days'",
        "`part_of`: KeyError: 'days'",
    ]


@pytest.mark.parametrize("place", ["Place(Path.home(), '')", "Place(Path.home(), '/etc')", "Place(7, '*')", "None"])
def test_a_place_that_is_none_is_reported(place: str, user_importers: Path) -> None:
    add(user_importers, f"sniff=sniff, read=read, finds=lambda machine: [{place}]")
    assert [path for importer, place in find_places(detect_machine()) if importer.package for path in place.paths()] == []
    assert len(list_problems()) == 1


def test_the_app_lists_the_files_of_a_place(user_importers: Path, app: AppTest) -> None:
    add(user_importers, "sniff=sniff, read=read, finds=lambda machine: [Place(Path.home(), '*.odd')]")
    (Path.home() / "a.odd").write_text("anything")
    app.run()
    assert not app.exception
    assert [entry.path.name for entry in cache.list_entries().values() if entry.path and entry.path.suffix == ".odd"] == [
        "a.odd"
    ]


def test_a_follower_that_fails_later_is_an_error_of_ours(user_importers: Path, tmp_path: Path) -> None:
    more = "class Follower:\n    thread = fail"
    add(user_importers, "sniff=sniff, read=read, follow=lambda path: Follower()", more)
    path = tmp_path / "a.odd"
    path.write_text("anything")
    follower = follow(path)
    with pytest.raises(ImporterError, match="KeyError"):
        follower.thread()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import no_such_module", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def", "SyntaxError: invalid syntax"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        ("pass", "AttributeError: module 'turnscope_user_importers_odd' has no attribute 'IMPORTER'"),
        ("IMPORTER = 7", "TypeError: 'int' stands where 'Importer' belongs"),
        (
            HEAD + 'IMPORTER = Importer("odd", "Odd", sniff, read, suffixes=".odd")',
            "TypeError: 'str' stands where 'tuple' belongs",
        ),
        (HEAD + 'IMPORTER = Importer("odd", None, sniff, read)', "TypeError: 'NoneType' stands where 'str' belongs"),
        (
            HEAD + 'IMPORTER = Importer("odd", "Odd", sniff, read, suffixes=([],))',
            "TypeError: 'list' stands where 'str' belongs",
        ),
    ],
)
def test_an_importer_that_cannot_be_loaded_is_reported_once_in_a_sentence(
    text: str, words: str, user_importers: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = user_importers / "odd.py"
    path.write_text(text)
    with caplog.at_level(logging.WARNING, "turnscope"):
        assert turnscope.load(write_log(tmp_path)).blocks[0].text == "hello"
        assert len(turnscope.load_all(tmp_path / "s1.jsonl")) == 1
        assert ".jsonl" in find_suffixes()
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith(f"The importer 'odd' of {path} cannot be loaded: {words}")
    assert list_problems() == (message,)


def test_of_two_importers_of_one_name_the_second_is_left_out_and_both_are_named(
    plugin: Path, fresh: Path, tmp_path: Path
) -> None:
    (fresh / "importers").mkdir()
    (fresh / "importers" / "mine.py").write_text(DIARY.read_text())
    add(fresh / "importers", "sniff=sniff, read=read", name="codex")
    assert [importer.package for importer in find_importers() if importer.package] == ["turnscope-diary 1.0"]
    assert len(turnscope.load_all(write_diary(tmp_path / "mine.json"))) == 2
    where = fresh / "importers"
    assert list_problems() == (
        f"The importer 'codex' of {where / 'codex.py'} is left out: Turnscope itself has one of that name.",
        f"The importer 'diary' of {where / 'mine.py'} is left out: turnscope-diary 1.0 has one of that name.",
    )


def test_a_broken_package_keeps_nothing_else_from_working(
    plugin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (
        ("broken", "[turnscope.importers]\nx = turnscope_missing:IMPORTER\n"),
        ("torn", "[turnscope.importers]\nx\n"),
    ):
        folder = tmp_path / "packages" / f"{name}-2.0.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 2.0\n")
        (folder / "entry_points.txt").write_text(text)
    monkeypatch.syspath_prepend(tmp_path / "packages")
    assert len(turnscope.load_all(write_diary(tmp_path / "mine.json"))) == 2
    torn, broken = list_problems()
    assert torn.startswith("The metadata of an installed package cannot be read: ")
    missing = "ModuleNotFoundError: No module named 'turnscope_missing'"
    assert broken == f"The importer 'x' of broken 2.0 cannot be loaded: {missing}"


def test_errors_of_our_own_that_an_importer_raises_are_left_as_they_are(user_importers: Path, tmp_path: Path) -> None:
    more = "from turnscope.errors import BrokenFile\ndef refuse(*_): raise BrokenFile('a half diary', hint='Write more.')"
    add(user_importers, "sniff=sniff, read=refuse", more)
    path = tmp_path / "a.odd"
    path.write_text("anything")
    with pytest.raises(TurnscopeError) as caught:
        turnscope.load(path)
    assert (caught.value.what, caught.value.hint) == ("a half diary", "Write more.")
    assert not isinstance(caught.value, ImporterError)


def test_entries_of_a_failing_file_are_listed_as_far_as_they_go(user_importers: Path, tmp_path: Path) -> None:
    add(
        user_importers,
        "sniff=sniff, read=read, entries=some",
        "def some(source):\n    yield Entry('a')\n    raise OSError('gone')",
    )
    path = tmp_path / "a.odd"
    path.write_text("anything")
    listed = list_entries(open_source(path))
    assert next(listed).id == "a"
    with pytest.raises(ImporterError):
        next(listed)
