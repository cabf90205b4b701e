"""Extracts of earlier work: which lines are read, which are chosen, and that an extract is read back as it was written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from turnscope.envelope.work_extract import (
    TALK,
    Candidates,
    Line,
    describe_call,
    find_replaced,
    read_block,
    read_extract,
    write_extract,
)
from turnscope.session.builder import Builder
from turnscope.session.model import Block, Session

HEAD = "[Head]"


def make_session(name: str, arguments: dict[str, object], result: str) -> Session:
    """A session with one call and its result."""
    builder = Builder("one", "test")
    builder.add_message("user", "Begin.")
    builder.add_message("assistant", [{"type": "tool_use", "id": "c1", "name": name, "input": arguments}])
    builder.add_message("user", [{"type": "tool_result", "tool_use_id": "c1", "content": result}])
    return builder.build()


def find(session: Session, kind: str) -> Block:
    return next(block for block in session.blocks if block.kind == kind)


def make_line(text: str, *names: str, source: str = "a.py", number: int = 0) -> Line:
    return Line(source, number, text, frozenset(names))


def collect(*lines: Line) -> Candidates:
    found = Candidates()
    for at, line in enumerate(lines):
        found.add([line], at)
    return found


def test_lines_of_a_file_have_its_path_and_their_numbers() -> None:
    session = make_session("Read", {"file_path": "src/a.py"}, "     7→def parse_args():\n     8→    pass\n")
    assert [*read_block(find(session, "tool_result"), session)] == [
        make_line("def parse_args():", "parse_args", source="src/a.py", number=7)
    ]


def test_lines_that_a_search_found_have_their_own_paths() -> None:
    session = make_session("Grep", {"pattern": "parse"}, "src/a.py:12:parse_args()\nsrc/b.py-3-run_all()\nplain words")
    assert [line[:3] for line in read_block(find(session, "tool_result"), session)] == [
        ("src/a.py", 12, "parse_args()"),
        ("src/b.py", 3, "run_all()"),
    ]


def test_a_call_is_described_by_its_file_else_by_what_tells_most() -> None:
    assert describe_call("Edit", {"file_path": "src/a.py", "description": "x"}) == "src/a.py"
    assert describe_call("Bash", {"command": "make\n  all"}) == "Bash: make all"
    assert describe_call("", {}) == "a tool"


def test_what_an_edit_replaced_is_no_line_any_more() -> None:
    edit = {"file_path": "a.py", "old_string": "old_name()\nkept_name()", "new_string": "new_name()\nkept_name()"}
    session = make_session("Edit", edit, "done")
    call = find(session, "tool_use")
    assert find_replaced(call) == ("a.py", {"old_name()"})
    assert [line.text for line in read_block(call, session)] == ["new_name()", "kept_name()"]
    found = collect(make_line("old_name()", "old_name"), make_line("kept_name()", "kept_name"))
    found.remove(*find_replaced(call))
    assert [line.text for line in found.lines.values()] == ["kept_name()"]


def test_edits_in_a_list_count_too_and_other_calls_replace_nothing() -> None:
    listed = {"path": "a.py", "edits": [{"old_string": "one_name", "new_string": "two_name"}, "broken"]}
    assert find_replaced(find(make_session("MultiEdit", listed, ""), "tool_use")) == ("a.py", {"one_name"})
    assert find_replaced(find(make_session("Bash", {"command": "ls"}, ""), "tool_use")) == ("", set())


def test_each_name_needs_one_line_and_the_line_with_most_names_comes_first() -> None:
    one, two, both = (
        make_line("first_name", "first_name"),
        make_line("other_name", "other_name"),
        make_line("x", "first_name", "other_name"),
    )
    found = collect(one, two, both)
    assert found.choose(set(), 1_000, 3) == [both]
    assert found.choose({"first_name", "other_name"}, 1_000, 3) == []


def test_what_occurs_often_and_recently_comes_first() -> None:
    found = Candidates()
    found.add([make_line("old_once", "old_once")], 0)
    found.add([make_line("often", "often")], 0)
    found.add([make_line("often", "often")], 0)
    found.add([make_line("newest", "newest")], 90_000)
    assert [line.text for line in found.choose(set(), 1_000, 90_000)] == ["newest", "often", "old_once"]


def test_the_room_holds_for_lines_and_their_sources() -> None:
    lines = [make_line(f"name_number_{n}", f"name_number_{n}", source=f"src/file{n % 3}.py") for n in range(50)]
    known: set[str] = set()
    chosen = collect(*lines).choose(known, 400, 50)
    assert 5 < len(chosen) < 25
    assert len(write_extract(chosen, "")) <= 400
    assert known >= {name for line in chosen for name in line.names}


@given(
    st.lists(
        st.tuples(st.sampled_from(["src/a.py", "Bash: make all", TALK]), st.integers(0, 9_999), st.sampled_from("abcdef")),
        max_size=12,
    )
)
def test_an_extract_is_read_back_as_it_was_written(drawn: list[tuple[str, int, str]]) -> None:
    lines = [make_line(f"call_{name}(x)", f"call_{name}", source=source, number=number) for source, number, name in drawn]
    back = [*read_extract(write_extract(lines, HEAD))]
    assert sorted(map(tuple, back)) == sorted(map(tuple, lines))
