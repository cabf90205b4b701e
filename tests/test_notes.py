"""Notes outside the window: written, listed, read back by id, each of it a decision."""

from __future__ import annotations

from engine.counting.ledger import build_ledger
from engine.counting.tokens import CHARS
from engine.envelope.tidying import address
from engine.live.notes import Notes
from engine.planning.assemble import replay
from engine.planning.policy import parse
from engine.planning.render import render
from engine.session.builder import Builder
from engine.session.model import Session

TEXT = "The parser keeps comments. " * 30
ID = address(TEXT)


def session() -> Session:
    builder = Builder("notes", "test")
    builder.message("system", "You take notes.")
    builder.message("user", "Look into the parser.")
    calls = (("write_note", {"title": "Parser", "text": TEXT}), ("read_note", {"id": ID}), ("read_note", {"id": "nothing"}))
    notes = Notes()
    for n, (name, given) in enumerate(calls):
        builder.request(builder.message("assistant", [{"type": "tool_use", "id": f"c{n}", "name": name, "input": given}]))
        text, failed = notes.run(name, given)
        result = {"type": "tool_result", "tool_use_id": f"c{n}", "content": text, "is_error": failed}
        builder.message("user", [result])
    builder.unanswered()
    return builder.build()


def test_a_note_lies_outside_the_window_and_its_line_stands_in_the_index() -> None:
    said = session()
    policy = parse("t", '[budget]\nformula = "fixed"\ntokens = 9000\n[[rules]]\nrule = "index_notes"\n')
    plans = [*replay(said, policy, build_ledger(said, CHARS))]
    body = render(plans[1].after, said)
    assert f"- {ID}: Parser" in str(body["system"])
    assert body["messages"][1]["content"][0]["input"] == {"title": "Parser", "text": f"[note {ID}, kept outside the window]"}
    assert plans[1].after.tokens < plans[1].before.tokens
    told = [(d.action, d.edit.facts["note"]) for plan in plans for d in plan.decisions if "note" in d.edit.facts]
    assert told == [("truncate", ID), ("retrieve", ID), ("retrieve", "nothing")]
    assert TEXT in str(render(plans[2].after, said)["messages"][4]["content"]), "what is read back is there in full"


def test_notes_are_read_back_by_id_also_after_a_restart() -> None:
    notes = Notes.of(session())
    assert notes.run("read_note", {"id": ID}) == (TEXT, False)
    text, failed = notes.run("read_note", {"id": "unknown"})
    assert failed
    assert ID in text
    assert notes.run("write_note", {"title": "x", "text": " "})[1]
    assert notes.run("calculate", {"expression": "1"})[1]
