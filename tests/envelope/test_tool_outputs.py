"""What tools print, tidied: before it is sent, and before a summary reads it."""

from __future__ import annotations

from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.plan import Plan
from turnscope.envelope.tool_outputs import find_telling_lines, make_address, tidy_output
from turnscope.planning.assemble import replay
from turnscope.planning.policy import parse
from turnscope.session.builder import Builder
from turnscope.session.model import Session

LOG = "".join(f"2026-01-02T10:00:{n:02d}.5Z \x1b[31mWARN\x1b[0m disk is full\n" for n in range(30))


def session(*outputs: str) -> Session:
    builder = Builder("tidy", "test")
    builder.add_message("user", "Run it.")
    for n, text in enumerate(outputs):
        call = {"type": "tool_use", "id": f"c{n}", "name": "Bash", "input": {"command": "make"}}
        builder.set_request(builder.add_message("assistant", [call]))
        builder.add_message("user", [{"type": "tool_result", "tool_use_id": f"c{n}", "content": text}])
    builder.add_unanswered()
    return builder.build()


def plans(said: Session, rules: str, tokens: int = 100_000) -> list[Plan]:
    policy = parse("t", f'[budget]\nformula = "fixed"\ntokens = {tokens}\n{rules}')
    return [*replay(said, policy, build_ledger(said, CHARS))]


def test_colours_times_progress_and_repeated_lines_go() -> None:
    assert tidy_output(LOG) == ("[30 timestamps left out]\nWARN disk is full\n[the line above 29 more times]\n")
    assert tidy_output("10%\r50%\r100%\r\ndone\r\n") == "100%\ndone\n"
    assert tidy_output("one\n\n\n\n\ntwo") == "one\n\ntwo"


def test_what_says_something_stays_to_the_letter() -> None:
    for text in ("def f():\n    return 1\n", "2026-01-02 10:00:00 the only time", "a\na\nb\n", "", "\tx\n"):
        assert tidy_output(text) == text
    assert tidy_output(tidy_output(LOG)) == tidy_output(LOG)


def test_the_findings_of_an_output_are_its_errors_and_its_last_line() -> None:
    text = "start\n" + "compiling\n" * 50 + "KeyError: 'id'\nKeyError: 'id'\n" + "more\n" * 9 + "2 failed, 30 passed in 3 s\n"
    assert [*find_telling_lines(text, 3)] == ["line 52: KeyError: 'id'", "line 63: 2 failed, 30 passed in 3 s"]
    assert [*find_telling_lines("a\nb\nc", 2)] == ["line 1: a", "line 3: c"]


def test_the_same_output_is_named_by_its_address_even_where_only_times_differ() -> None:
    said = session(LOG, LOG.replace("10:00", "11:30"), "other " * 40)
    last = plans(said, '[[rules]]\nrule = "tidy_tool_results"')[-1]
    assert last.after.find_piece(2).body[0].text == tidy_output(LOG)
    assert (
        last.after.find_piece(4).body[0].text
        == f"[Same output as {make_address(tidy_output(LOG))}, which Bash returned in turn 1.]"
    )
    assert last.after.find_piece(6).body is None


def test_a_summary_reads_what_was_tidied() -> None:
    said = session(LOG * 4, "b " * 400, "c " * 400, "d " * 400)
    rules = '[[rules]]\nrule = "tidy_tool_results"\nabove = 0\n[[rules]]\nrule = "condense"\ncap = 50\nfraction = 0.5\n'
    asks = [ask for plan in plans(said, rules, 700) for ask, _ in plan.asks]
    assert asks
    assert "\x1b" not in asks[0].content
    assert "disk is full" in asks[0].content
    assert asks[0].content.count("disk is full") < 10
