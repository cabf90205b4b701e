"""Notes outside the window: written, listed, read back by id, each of it a decision."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from conftest import let_go
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.tool_outputs import make_address
from turnscope.live import branches, injected_context
from turnscope.live.chat import Settings
from turnscope.live.events import ToolCalled, ToolResult
from turnscope.live.injected_context import InjectedContext
from turnscope.live.note_tools import NoteTools
from turnscope.live.offline import OfflineServer
from turnscope.live.provider import connect
from turnscope.planning.assemble import replay
from turnscope.planning.policy import load, make_sendable, parse
from turnscope.planning.render import render
from turnscope.session.builder import Builder
from turnscope.session.model import Session
from turnscope.storage.threads import Threads

TEXT = "The parser keeps comments. " * 30
ID = make_address(TEXT)


def session() -> Session:
    builder = Builder("notes", "test")
    builder.add_message("system", "You take notes.")
    builder.add_message("user", "Look into the parser.")
    calls = (("write_note", {"title": "Parser", "text": TEXT}), ("read_note", {"id": ID}), ("read_note", {"id": "nothing"}))
    notes = NoteTools()
    for n, (name, given) in enumerate(calls):
        builder.set_request(
            builder.add_message("assistant", [{"type": "tool_use", "id": f"c{n}", "name": name, "input": given}])
        )
        text, failed = notes.run(name, given)
        result = {"type": "tool_result", "tool_use_id": f"c{n}", "content": text, "is_error": failed}
        builder.add_message("user", [result])
    builder.add_unanswered()
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
    notes = NoteTools.from_session(session())
    assert notes.run("read_note", {"id": ID}) == (TEXT, False)
    text, failed = notes.run("read_note", {"id": "unknown"})
    assert failed
    assert ID in text
    assert notes.run("write_note", {"title": "x", "text": " "})[1]
    assert notes.run("calculate", {"expression": "1"})[1]


def test_an_index_lists_as_many_of_the_newest_notes_as_its_share_holds() -> None:
    builder = Builder("notes", "test")
    builder.add_message("user", "Take notes.")
    names = []
    for n in range(12):
        given = {"title": f"Finding number {n} of the review", "text": f"{n}: {TEXT}"}
        names.append(make_address(given["text"]))
        call = {"type": "tool_use", "id": f"c{n}", "name": "write_note", "input": given}
        builder.set_request(builder.add_message("assistant", [call]))
        builder.add_message("user", [{"type": "tool_result", "tool_use_id": f"c{n}", "content": f"kept as note {names[-1]}"}])
    builder.add_unanswered()
    said = builder.build()
    text = '[budget]\nformula = "fixed"\ntokens = 9000\nslots = { notes = 0.01 }\n[[rules]]\nrule = "index_notes"\n'
    plans = [*replay(said, parse("t", text), build_ledger(said, CHARS))]
    listed = [len([name for name in names if f"- {name}: " in str(render(plan.after, said).get("system"))]) for plan in plans]
    share = plans[-1].budget.slots["notes"]
    assert listed[:2] == [0, 1]
    assert 1 < listed[-1] < 12
    assert f"- {names[-1]}: " in str(render(plans[-1].after, said)["system"]), "the newest stay"
    sizes = [sum(piece.counts) for plan in plans for piece in plan.after.pieces if piece.slot == "notes"]
    assert 0.7 * share < max(sizes) <= share


def test_a_chat_writes_a_note_and_reads_it_back_when_the_message_is_gone(tmp_path: Path) -> None:
    threads, policy = Threads(tmp_path / "db"), load("notes")
    policy = replace(policy, budget=replace(policy.budget, formula="fixed", tokens=1_500, output=0, margin=0.0))
    note = "Key of falcon: it is ZX-4471, " + "and the vault moves to the second rack on Friday. " * 4
    with let_go(OfflineServer()) as server:
        thread = threads.create(title="test")
        provider = connect(server.url, "secret-key-123", retries=0, timeout=10)
        tools = injected_context.list_tool_definitions(policy)
        settings = Settings("offline-64k", policy, max_tokens=300)
        chat = branches.start_chat(thread, provider, threads.open_writer(thread), settings, "Be brief.", tools)
        injected_context.attach(chat, InjectedContext())
        said = [*chat.send(f"Please write a note: {note}")]
        assert [event.call["input"]["title"] for event in said if isinstance(event, ToolCalled)] == ["Key of falcon"]
        ((name, title, text),) = injected_context.list_notes(chat)
        assert (title, text) == ("Key of falcon", note.strip())
        for n in range(8):
            [*chat.send(f"Tell me of widget {n}. " * 10)]
        assert chat.plan
        request = str(render(chat.plan.after, chat.live_session.session))
        assert "ZX-4471" not in request
        assert f"- {name}: {title}" in request
        again = [*chat.send(f"Now read the note {name}.")]
        assert [event.text for event in again if isinstance(event, ToolResult)] == [note.strip()]
        assert "ZX-4471" in str(render(chat.plan.after, chat.live_session.session))
        assert [d.edit.because for d in chat.plan.decisions if d.action == "retrieve"] == [f"the note '{name}' was read back"]
        odd = [event for event in chat.send("Read the note abcdef.") if isinstance(event, ToolResult)]
        assert odd[0].text == f"there is no such note; known: {name}"
    stored = threads.load(thread)
    assert NoteTools.from_session(stored).entries == [(name, title, text)], "a restart reads them off the session"
    plans = [*replay(stored, make_sendable(policy), chat.live_session.ledger)]
    assert [*plans[-1].after.pieces] == [*chat.plan.after.pieces]
