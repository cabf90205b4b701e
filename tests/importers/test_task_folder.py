"""Task folders of Cline and Roo Code: messages, requests, usage, and what left the window."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import turnscope
from conftest import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.errors import TurnscopeError
from turnscope.importers.task_folder import IMPORTER
from turnscope.importers.task_folder.markup import ContentPart, unfold
from turnscope.planning import render
from turnscope.planning.assemble import replay
from turnscope.planning.lint import lint
from turnscope.planning.policy import load
from turnscope.reading.claims import claim
from turnscope.reading.source import Source
from turnscope.session.model import Session, Usage

from tests import original_tasks
from tests.goldens import DEFAULT, ROOT

ROO = ROOT.parent / "shared" / "data" / "open" / "roo-cline" / "ac8aa7b4"
HISTORY, SCREEN = "api_conversation_history.json", "ui_messages.json"
ENV = (
    "<environment_details>\n# Context Window Usage\n12,345 / 200K tokens used (6%)\n<model>some-model</model>\n"
    "</environment_details>"
)
NOON = 1_763_726_400_000

needs_roo = pytest.mark.skipif(not ROO.is_dir(), reason="the open sessions are not beside the project")
needs_goldens = pytest.mark.skipif(not DEFAULT.is_dir(), reason="the golden cases are not beside the project")


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def make_request(ts: int, index: int | None, **info: Any) -> dict[str, Any]:
    event = {"ts": ts, "type": "say", "say": "api_req_started", "text": json.dumps(info)}
    return event | ({} if index is None else {"conversationHistoryIndex": index})


def make_event(ts: int, mask: Any = None, **more: Any) -> dict[str, Any]:
    event = {"ts": ts, "type": "say", "say": "text", "text": "so", **more}
    return event | ({} if mask is None else {"conversationHistoryDeletedRange": mask})


def folder(path: Path, history: Any, screen: Any, **others: Any) -> Session:
    """Write a task folder and open it by its history."""
    for name, value in ((HISTORY, history), (SCREEN, screen), *((f"{name}.json", v) for name, v in others.items())):
        if value is not None:
            (path / name).write_text(json.dumps(value), encoding="utf-8")
    return turnscope.load(path / (HISTORY if history is not None else SCREEN))


def task(pairs: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A Cline task of so many requests: history, and the screen's events."""
    history: list[dict[str, Any]] = []
    screen: list[dict[str, Any]] = [{"ts": NOON, "type": "say", "say": "task", "text": "go", "conversationHistoryIndex": -1}]
    for n in range(pairs):
        said = "<task>\ngo\n</task>" if not n else f"[list_files for '{n}'] Result:\nfile {n}"
        ts = NOON + n * 10_000
        screen += [make_request(ts + 10, 2 * n - 1, tokensIn=1_000 * n + 500, tokensOut=20), make_event(ts + 5_000)]
        history.append({"role": "user", "content": [text(said), text(ENV)], "ts": ts + 100})
        call = f"Looking.\n<list_files>\n<path>{n + 1}</path>\n</list_files>"
        history.append({"role": "assistant", "content": [text(call)], "ts": ts + 6_000})
    return history, screen


def say(kind: str, index: int, at: int = 0, **more: Any) -> dict[str, Any]:
    return {"ts": NOON + at, "type": "say", "say": kind, "text": kind, "conversationHistoryIndex": index, **more}


def make_caching_task(model: str = "claude-sonnet-4-5", **cached: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A task of three requests with results in between, whose record shows caching."""
    history, screen = task(3)
    for event in screen:
        if event.get("say") == "api_req_started":
            event["text"] = json.dumps({"tokensIn": 5, "tokensOut": 9, **(cached or {"cacheWrites": 200, "cacheReads": 300})})
            event["modelInfo"] = {"modelId": model}
    return history, screen


# --- messages and requests --------------------------------------------------------------------------------------------------


def test_both_files_of_a_folder_open_the_same_session(tmp_path: Path) -> None:
    session = folder(tmp_path, *task(3))
    assert turnscope.load(tmp_path / SCREEN) == session
    assert session.id == tmp_path.name
    assert session.title == "go"


def test_answers_without_a_request_on_the_screen_are_counted_in_a_note(tmp_path: Path) -> None:
    history, screen = task(3)
    kept = [event for event in screen if not (event["say"] == "api_req_started" and event["conversationHistoryIndex"] == 3)]
    session = folder(tmp_path, history, kept)
    assert len(session.requests) == 2
    assert sum(message.role == "assistant" for message in session.messages) == 3
    (note,) = session.notes
    assert note.what == "1 stored answer has no request on the screen: what that cost is not known, and in no total"


def test_each_request_sent_the_message_behind_the_one_that_its_event_names(tmp_path: Path) -> None:
    session = folder(tmp_path, *task(3))
    assert [session.messages[session.blocks[r.cut].message].id for r in session.requests] == ["m1", "m3", "m5"]
    assert [r.usage for r in session.requests] == [Usage(500, 0, 0, 20), Usage(1_500, 0, 0, 20), Usage(2_500, 0, 0, 20)]
    assert [(r.sent_at, r.answered_at, r.model) for r in session.requests][1] == (
        (NOON + 10_010) / 1_000,
        (NOON + 16_000) / 1_000,
        "some-model",
    )


def test_the_window_is_the_one_that_the_environment_names(tmp_path: Path) -> None:
    assert folder(tmp_path, *task(2)).window == 200_000


def test_written_calls_and_their_results_become_blocks_and_turns_stay_one(tmp_path: Path) -> None:
    session = folder(tmp_path, *task(3))
    kinds = [(b.kind, b.name, b.pair) for b in session.blocks]
    assert kinds[:6] == [
        ("text", "", -1),
        ("reminder", "", -1),
        ("text", "", -1),
        ("tool_use", "list_files", 4),
        ("tool_result", "list_files", 3),
        ("reminder", "", -1),
    ]
    assert {r.turn for r in session.requests} == {0}
    assert session.blocks[-1].raw == task(3)[0][-1]["content"][0], "a call without a result stays the text that it is"


def test_thinking_in_tags_is_thinking_and_goes_out_as_the_text_that_it_is(tmp_path: Path) -> None:
    history, screen = task(3)
    said = ["<thinking>\nFirst.\n</thinking>\n\n", "a <think>b</think>\n", "<thinking>never closed "]
    for message, ahead in zip(history[1::2], said, strict=True):
        message["content"][0]["text"] = ahead + message["content"][0]["text"]
    history[4]["content"][1]["text"] += "<thinking>of a user</thinking>"
    session = folder(tmp_path, history, screen)
    answers = [[b for b in session.blocks if b.role == "assistant" and b.message == n] for n in (1, 3, 5)]
    kinds = [[b.kind for b in blocks] for blocks in answers]
    assert kinds == [["thinking", "text", "tool_use"], ["text", "thinking", "text", "tool_use"], ["text"]]
    assert [b.text for b in session.blocks if b.kind == "thinking"] == [said[0], "<think>b</think>\n"]
    assert [b.raw["text"] for b in answers[1][:2]] == ["a ", "<think>b</think>\n"], (
        "one after the other they are what is stored"
    )
    (plan,) = list(replay(session, load("as-recorded"), build_ledger(session, CHARS)))[1:2]
    body = render.build_body(plan, session)
    assert body["messages"][1]["content"][0] == text(said[0])
    assert not any("signature" in problem.what for problem in lint(body, "claude-sonnet-4-5"))


def test_thinking_in_tags_is_stripped_by_the_rule_that_strips_thinking_and_by_no_server(tmp_path: Path) -> None:
    history, screen = task(3)
    for message in history[1::2]:
        message["content"][0]["text"] = "<thinking>hm</thinking>" + message["content"][0]["text"]
    for message in history[2::2]:
        message["content"] = [text("<feedback>\ngo on\n</feedback>")]
    session = folder(tmp_path, history, screen)
    ledger = build_ledger(session, CHARS)
    for name, gone in ("strip-thinking", 1), ("server-clear-thinking", 0), ("as-recorded", 0):
        plan = list(replay(session, load(name), ledger))[-1]
        thinking = [b.at for b in session.blocks[: plan.request.cut] if b.kind == "thinking"]
        assert len(thinking) == 2
        assert [at for at in thinking if plan.seen.find_piece(at).body == ()] == thinking[:gone]


def test_a_request_that_was_cut_off_has_no_answer(tmp_path: Path) -> None:
    history, screen = task(2)
    session = folder(tmp_path, history[:3], screen)
    assert session.requests[1].cut == session.requests[1].stop == len(session.blocks)


def test_a_request_tried_twice_is_two_requests_of_which_the_last_is_answered(tmp_path: Path) -> None:
    history, screen = task(2)
    screen.insert(3, make_request(NOON + 9_000, 1, cancelReason="streaming_failed"))
    session = folder(tmp_path, history, screen)
    assert [(r.usage is None, r.cut == r.stop) for r in session.requests] == [(False, False), (True, True), (False, False)]
    assert session.requests[1].stop_reason == "streaming_failed"


def test_the_screen_alone_gives_the_conversation(tmp_path: Path) -> None:
    _, screen = task(2)
    screen[1]["text"] = json.dumps({"request": f"<task>\ngo\n</task>\n\n{ENV}", "tokensIn": 5})
    screen.insert(3, {"ts": NOON + 5_500, "type": "ask", "ask": "tool", "text": '{"tool":"listFiles","path":"1"}'})
    screen[4]["text"] = json.dumps({"request": f"[list_files for '1'] Result:\n\nfile 1\n\n{ENV}", "tokensIn": 9})
    session = folder(tmp_path, None, screen)
    assert [(b.role, b.kind, b.name) for b in session.blocks] == [
        ("user", "text", ""),
        ("user", "reminder", ""),
        ("assistant", "text", ""),
        ("assistant", "tool_use", "list_files"),
        ("user", "tool_result", "list_files"),
        ("user", "reminder", ""),
        ("assistant", "text", ""),
    ]
    assert session.blocks[3].raw["input"] == {"path": "1"}


def test_the_screen_alone_keeps_reasoning_images_plans_and_the_end(tmp_path: Path) -> None:
    def make_event(at: int, **more: Any) -> dict[str, Any]:
        return {"ts": NOON + at, "type": "say", **more}

    def request(at: int, text: str) -> dict[str, Any]:
        return make_event(at, say="api_req_started", text=json.dumps({"request": text, "tokensIn": 5, "tokensOut": 2}))

    image = "data:image/png;base64,aGk="
    screen = [
        make_event(0, say="text", text="go", images=[image]),
        request(1, f"<task>\ngo\n</task>\n\n{ENV}"),
        make_event(2, say="reasoning", text="hm"),
        make_event(3, type="ask", ask="plan_mode_respond", text='{"response": "A plan.", "options": []}'),
        request(4, f"yes\n\n{ENV}"),
        make_event(5, say="reasoning", text="hm again"),
        make_event(6, say="text", text="Done."),
        make_event(7, say="completion_result", text="All of it is done."),
    ]
    session = folder(tmp_path, None, screen)
    assert [block.text for block in session.blocks if block.role == "assistant"] == [
        *("hm", "A plan."),
        *("hm again", "Done.", "All of it is done."),
    ]
    assert [block.kind for block in session.blocks if block.role == "user"].count("image") == 1


def test_the_screen_alone_keeps_what_subtasks_gave_and_counts_what_it_leaves_out(tmp_path: Path) -> None:
    def say(at: int, kind: str, text: str, **more: Any) -> dict[str, Any]:
        return {"ts": NOON + at, "type": "say", "say": kind, "text": text, **more}

    asked = json.dumps({"request": f"[new_task in code mode: 'count'] Result:\n\nStarted.\n\n{ENV}", "tokensIn": 5})
    screen = [
        say(0, "text", "go"),
        say(1, "api_req_started", json.dumps({"request": f"<task>\ngo\n</task>\n\n{ENV}", "tokensIn": 5})),
        {"ts": NOON + 2, "type": "ask", "ask": "tool", "text": '{"tool": "newTask", "content": "count"}'},
        {"ts": NOON + 3, "type": "ask", "ask": "tool", "text": '{"tool": "readFile", "path": "b"}'},
        say(4, "subtask_result", "There are seven."),
        say(5, "api_req_started", asked),
        say(6, "act_mode_respond", "Seven, then."),
        say(7, "diff_error", "no match"),
        say(8, "condense_context", "", contextCondense={"summary": "It was short."}),
    ]
    session = folder(tmp_path, None, screen)
    texts = [block.text for block in session.blocks]
    assert "There are seven." in texts[texts.index('new_task {"content":"count"}') :]
    assert texts[-1] == "Seven, then."
    left = [note.what.partition(" (")[0] for note in session.notes if note.skipped]
    assert left == [f"1 record of kind '{kind}'" for kind in ("tool", "diff_error", "condense_context")]


def test_a_real_screen_alone_keeps_every_text_of_the_model(shared: Callable[..., Path], tmp_path: Path) -> None:
    path = shared("data", "open", "roo-cline", "ac8aa7b4", "ui_messages.json")
    (tmp_path / "ui_messages.json").write_bytes(path.read_bytes())
    session, events = turnscope.load(tmp_path / "ui_messages.json"), json.loads(path.read_text())
    begun = next(n for n, event in enumerate(events) if event.get("say") == "api_req_started")
    uses = [block.raw["input"] for block in session.blocks if block.kind == "tool_use"]
    held = {block.text for block in session.blocks} | {given["text"] for given in uses if "text" in given}
    for kind in ("reasoning", "text", "completion_result"):
        said = {event["text"] for event in events[begun:] if event.get("say") == kind and event["text"].strip()}
        assert said <= held, kind


def test_a_history_alone_is_read_and_says_what_is_missing(tmp_path: Path) -> None:
    session = folder(tmp_path, task(2)[0], None)
    assert len(session.messages) == 4
    assert [(r.cut, r.usage) for r in session.requests] == [(2, None), (6, None)]
    assert any(SCREEN in note.what for note in session.notes)


def test_an_old_history_without_times_is_claimed_by_one_importer() -> None:
    history = [{"role": m["role"], "content": m["content"]} for m in task(2)[0]]
    assert claim(Source(Path("saved.json"), json.dumps(history).encode())) is IMPORTER


def test_a_changed_file_of_the_folder_belongs_to_the_session(tmp_path: Path) -> None:
    folder(tmp_path, *task(1), context_history=[])
    beside = [file.path for file in IMPORTER.related(Source(tmp_path / SCREEN, b"[]"))]
    assert [file.name for file in beside] == [HISTORY, "context_history.json"]


@pytest.mark.parametrize(
    ("infos", "expected"),
    [
        ([{"tokensIn": 10, "cacheReads": 90}], [Usage(10, 0, 90, 0)]),  # Cline: what is uncached alone
        ([{"apiProtocol": "anthropic", "tokensIn": 10, "cacheReads": 90}], [Usage(10, 0, 90, 0)]),  # Roo before 3.29.5
        ([{"apiProtocol": "anthropic", "tokensIn": 100, "cacheReads": 60, "cacheWrites": 30}], [Usage(10, 30, 60, 0)]),
        ([{"apiProtocol": "openai", "tokensIn": 100, "cacheReads": 60}], [Usage(40, 0, 60, 0)]),
        ([{"apiProtocol": "openai"}], [None]),
    ],
)
def test_cached_tokens_are_counted_once(tmp_path: Path, infos: list[dict[str, Any]], expected: list[Usage | None]) -> None:
    history, _ = task(1)
    session = folder(tmp_path, history, [make_request(NOON + 10, None, **info) for info in infos])
    assert [r.usage for r in session.requests] == expected


# --- markup -----------------------------------------------------------------------------------------------------------------


def test_header_and_text_in_two_blocks_are_one_result_and_images_stay() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    answer = [text("<read_file>\n<path>a.py</path>\n</read_file>")]
    message = [text("[read_file for 'a.py'] Result:"), text("x = 1"), image, text(ENV)]
    found = unfold([("assistant", answer), ("user", message)])
    call = {"type": "tool_use", "id": "call-0-0", "name": "read_file", "input": {"path": "a.py"}}
    result = {
        "type": "tool_result",
        "tool_use_id": "call-0-0",
        "content": [text("[read_file for 'a.py'] Result:\nx = 1"), image],
    }
    assert found == [[ContentPart(call, 0)], [ContentPart(result, 0, 3), ContentPart(text(ENV), 3)]]


def test_parameters_may_be_nested_and_arguments_are_json() -> None:
    answer = (
        '<use_mcp_tool>\n<server_name>s</server_name>\n<arguments>\n{"a": [1]}\n</arguments>\n</use_mcp_tool>'
        "<read_file><args><file><path>a</path></file><file><path>b</path></file></args></read_file>"
        "<write_to_file><path>p</path><content>\n<content>x</content>\n</content></write_to_file>"
    )
    message = [text(f"[{name} for 'x'] Result:\nok") for name in ("use_mcp_tool", "read_file", "write_to_file")]
    (pieces, _) = unfold([("assistant", [text(answer)]), ("user", message)])
    assert [piece.raw["input"] for piece in pieces if isinstance(piece, ContentPart)] == [
        {"server_name": "s", "arguments": {"a": [1]}},
        {"args": {"file": [{"path": "a"}, {"path": "b"}]}},
        {"path": "p", "content": "<content>x</content>"},
    ]


def test_native_calls_and_prose_about_tools_are_left_alone() -> None:
    native = [{"type": "tool_use", "id": "t", "name": "read_file", "input": {}}]
    answer = [{"type": "tool_result", "tool_use_id": "t", "content": "x"}, text("[read_file for 'a'] Result:\nquoted")]
    prose = [text("You may write <read_file> to read.")]
    contents = [("assistant", native), ("user", answer), ("assistant", prose), ("user", "plain")]
    found = unfold(contents)
    assert [[p.raw for p in pieces] if isinstance(pieces, list) else pieces for pieces in found] == [c for _, c in contents]


# --- what left the window ---------------------------------------------------------------------------------------------------


def list_sent(session: Session, policy: str = "as-recorded") -> list[list[Any]]:
    """Contents of the messages of each request."""
    bodies = (render.render(plan.after, session) for plan in turnscope.replay(session, policy).plans)
    return [[message["content"] for message in body["messages"]] for body in bodies]


def test_a_mask_hides_messages_from_the_request_on_whose_first_event_bears_it(tmp_path: Path) -> None:
    history, screen = task(5)
    for n, mask in enumerate([None, None, None, [2, 3], [2, 5]]):
        if mask:
            screen[2 + 2 * n]["conversationHistoryDeletedRange"] = mask
    session = folder(tmp_path, history, screen)
    assert [len(messages) for messages in list_sent(session)] == [1, 3, 5, 5, 5]
    assert [(o.request, o.edit.action) for o in session.observed if o.edit.facts] == [(3, "drop"), (4, "drop")]


def screen_alone(pairs: int, masks: dict[int, list[int]]) -> list[dict[str, Any]]:
    """A screen that repeats each message of the user, with the deleted range on the first event after some requests."""
    _, screen = task(pairs)
    for n in range(pairs):
        said = "<task>\ngo\n</task>" if not n else f"[list_files for '{n}'] Result:\nfile {n}"
        screen[1 + 2 * n]["text"] = json.dumps({"request": f"{said}\n\n{ENV}", "tokensIn": 1_000 * n + 500})
        if n in masks:
            screen[2 + 2 * n]["conversationHistoryDeletedRange"] = masks[n]
    return screen


@pytest.mark.parametrize("named", [True, False], ids=["each request names its place", "no request names its place"])
def test_the_screen_alone_tells_what_was_masked_as_both_files_do(tmp_path: Path, named: bool) -> None:
    masks = {3: [2, 3], 4: [2, 3], 5: [2, 7], 6: [2, 9]}
    screen = screen_alone(7, masks)
    both = folder(tmp_path, task(7)[0], screen)
    (tmp_path / HISTORY).unlink()
    if not named:
        screen = [{k: v for k, v in event.items() if k != "conversationHistoryIndex"} for event in screen]
    alone = folder(tmp_path, None, screen)
    assert [len(messages) for messages in list_sent(alone)] == [1, 3, 5, 5, 7, 5, 5] == [len(m) for m in list_sent(both)]
    dropped = [[(o.request, o.edit.action) for o in session.observed if o.edit.facts] for session in (alone, both)]
    assert dropped[0] == dropped[1] == [(3, "drop"), (5, "drop"), (6, "drop")]
    last = [message[0] for message in list_sent(alone)[-1]]
    assert last[0]["text"] == "<task>\ngo\n</task>", "the task itself stays"
    assert "file 6" in json.dumps(last[-1]), "and so does what came behind the range"


def test_a_request_that_the_screen_shows_twice_sent_its_message_once(tmp_path: Path) -> None:
    screen = screen_alone(4, {3: [2, 3]})
    screen.insert(5, dict(screen[5]))  # the third one failed before it said anything
    session = folder(tmp_path, None, screen)
    assert [len(messages) for messages in list_sent(session)] == [1, 3, 5, 5, 5]
    assert [message.role for message in session.messages] == ["user", "assistant"] * 4


def test_a_result_whose_call_is_masked_is_left_out_as_cline_does(tmp_path: Path) -> None:
    history, screen = task(4)
    screen[8]["conversationHistoryDeletedRange"] = [2, 3]
    last = list_sent(folder(tmp_path, history, screen))[-1]
    assert last[2] == [text(ENV)]


def test_a_mask_that_shrinks_shows_messages_again(tmp_path: Path) -> None:
    history, screen = task(5)
    screen[8]["conversationHistoryDeletedRange"] = [2, 5]
    screen[10]["conversationHistoryDeletedRange"] = [2, 3]
    assert [len(messages) for messages in list_sent(folder(tmp_path, history, screen))] == [1, 3, 5, 3, 7]


def test_rewritten_texts_show_at_the_request_after_the_one_whose_time_they_bear(tmp_path: Path) -> None:
    history, screen = task(4)
    times = [event["ts"] for event in screen if event.get("say") == "api_req_started"]
    edits = [
        [1, [0, [[0, [[times[2], "text", ["cut here"], []]]]]]],
        [2, [2, [[0, [[times[0], "text", ["older"], []], [times[1], "text", ["newer"], []]]]]]],
    ]
    session = folder(tmp_path, history, screen, context_history=edits)
    first, second = ([messages[n] for messages in list_sent(session) if len(messages) > n] for n in (1, 2))
    assert [content[0]["text"] for content in first] == ["Looking.\n", "Looking.\n", "cut here"]
    assert [len(content) for content in first] == [2, 2, 1]
    assert [content[0]["content"][0]["text"] for content in second] == ["older", "newer", "newer"]


def test_a_text_in_the_block_behind_its_header_is_rewritten_inside_the_result(tmp_path: Path) -> None:
    history, screen = task(3)
    history[2]["content"] = [text("[list_files for '1'] Result:"), text("file 1"), text(ENV)]
    edits = [[2, [2, [[1, [[screen[3]["ts"], "text", ["taken out"], []]]]]]]]
    bodies = list_sent(folder(tmp_path, history, screen, context_history=edits))
    assert [body[2][0]["content"] for body in bodies[1:]] == [
        [text("[list_files for '1'] Result:\nfile 1")],
        [text("[list_files for '1'] Result:\ntaken out")],
    ]


def test_an_edit_of_a_hidden_message_stays_hidden(tmp_path: Path) -> None:
    history, screen = task(4)
    screen[8]["conversationHistoryDeletedRange"] = [2, 3]
    edits = [[2, [2, [[0, [[screen[5]["ts"], "text", ["never shown"], []]]]]]]]
    assert "never shown" not in json.dumps(list_sent(folder(tmp_path, history, screen, context_history=edits))[-1])


@needs_goldens
@pytest.mark.parametrize("case", ["seq-60-200k-reads", "seq-40-switch", "seq-12-tiny", "seq-first-over"])
def test_a_task_of_the_original_is_read_as_it_was_sent_and_replayed_to_the_same_ranges(tmp_path: Path, case: str) -> None:
    """The cases' tasks, written as Cline stores them: messages, usage, masks and stored texts."""
    found = original_tasks.cline_cases().get(case)
    if found is None:
        pytest.skip("these golden cases are others")
    steps, expect = found["input"]["steps"], found["expect"]["steps"]
    history, screen = original_tasks.cline(found)
    session = folder(tmp_path, history, screen)
    assert [len(messages) for messages in list_sent(session)] == [sum(b - a + 1 for a, b in row["sent"]) for row in expect]
    if len({step["window"] for step in steps}) == 1:
        plans = turnscope.replay(structs.replace(session, window=steps[0]["window"]), "cline-classic").plans
        assert [plan.get_state("hide_oldest_pairs").range for plan in plans] == [
            tuple(row["range"]) if row["range"] else None for row in expect
        ]


def roo_history() -> list[dict[str, Any]]:
    roles = ["user", "assistant"] * 4
    history = [{"role": role, "content": [text(f"{role} {n}")], "ts": NOON + n * 10_000 + 100} for n, role in enumerate(roles)]
    return [{**m, "content": [text("<task>\ngo\n</task>")]} if not n else m for n, m in enumerate(history)]


def roo_screen(pairs: int = 4) -> list[dict[str, Any]]:
    rows = [
        (make_request(NOON + n * 20_000, None, apiProtocol="openai", tokensIn=10), make_event(NOON + n * 20_000 + 9_000))
        for n in range(pairs)
    ]
    return [event for row in rows for event in row]


def test_a_truncation_of_roo_hides_what_it_tagged_behind_an_unmerged_marker(tmp_path: Path) -> None:
    history, screen = roo_history(), roo_screen()
    for n in (1, 2):
        history[n]["truncationParent"] = "T"
    history.insert(3, {"role": "user", "content": "[2 hidden]", "ts": NOON, "isTruncationMarker": True, "truncationId": "T"})
    event = {"ts": NOON, "type": "say", "say": "sliding_window_truncation", "contextTruncation": {"truncationId": "T"}}
    screen.insert(5, event)  # behind the third request, before its answer
    bodies = list_sent(folder(tmp_path, history, screen))
    assert bodies[1][1:] == [[text("assistant 1")], [text("user 2")]]
    assert bodies[2][1:] == ["[2 hidden]", [text("assistant 3")], [text("user 4")]]
    assert len(bodies[3]) == 6


def test_a_condensation_of_roo_replaces_everything_by_its_summary_and_a_second_swallows_the_first(tmp_path: Path) -> None:
    history, screen = roo_history(), roo_screen()
    for n in range(3):
        history[n]["condenseParent"] = "C1"
    first = {"role": "user", "content": [text("summary 1")], "ts": NOON, "isSummary": True, "condenseId": "C1"}
    history.insert(3, {**first, "condenseParent": "C2"})
    for n in (4, 5):
        history[n]["condenseParent"] = "C2"
    history.insert(6, {**first, "content": [text("summary 2")], "condenseId": "C2"})
    for place, name in ((3, "C1"), (6, "C2")):
        event = {"ts": NOON, "type": "say", "say": "condense_context", "text": "", "contextCondense": {"condenseId": name}}
        screen.insert(place, event)
    bodies = list_sent(folder(tmp_path, history, screen))
    assert bodies[1] == [[text("summary 1")]]
    assert bodies[2] == [[text("summary 2")]]
    assert bodies[3] == [[text("summary 2")], [text("assistant 5")], [text("user 6")]]


def test_a_truncation_hides_only_what_no_summary_stands_for(tmp_path: Path) -> None:
    history, screen = roo_history(), roo_screen()
    for n in range(3):
        history[n]["condenseParent"] = "C"
    for n in (1, 2, 3):
        history[n]["truncationParent"] = "T"
    history.insert(3, {"role": "user", "content": "so far", "ts": NOON, "isSummary": True, "condenseId": "C"})
    history.insert(5, {"role": "user", "content": "[3 hidden]", "ts": NOON, "isTruncationMarker": True, "truncationId": "T"})
    for place, say, what in ((3, "condense_context", "contextCondense"), (6, "sliding_window_truncation", "contextTruncation")):
        about = {"condenseId": "C"} if place == 3 else {"truncationId": "T"}
        screen.insert(place, {"ts": NOON, "type": "say", "say": say, what: about})
    bodies = list_sent(folder(tmp_path, history, screen))
    assert bodies[1] == ["so far"]
    assert bodies[2] == ["so far", "[3 hidden]", [text("user 4")]]


def test_a_change_that_shows_after_an_answer_holds_from_the_next_request_on(tmp_path: Path) -> None:
    history, screen = roo_history(), roo_screen()
    history[0]["condenseParent"] = history[1]["condenseParent"] = "C1"
    history.insert(2, {"role": "user", "content": "so far", "ts": NOON, "isSummary": True, "condenseId": "C1"})
    event = {"ts": NOON, "type": "say", "say": "condense_context", "contextCondense": {"condenseId": "C1"}}
    screen.insert(2, event)
    assert [o.request for o in folder(tmp_path, history, screen).observed] == [1]


@needs_roo
def test_a_real_task_gives_back_what_its_condensation_deleted() -> None:
    session = turnscope.load(ROO / SCREEN)
    assert (len(session.requests), len(session.messages)) == (59, 130)
    assert turnscope.load(ROO / HISTORY) == session
    assert [(o.request, o.edit.action, o.edit.facts["messages"]) for o in session.observed] == [(36, "condense", 69)]
    plans = turnscope.replay(session).plans
    errors = [
        abs(p.expected_tokens / p.request.usage.prompt_tokens - 1) for p in plans if p.request.usage and p.request.n >= 12
    ]
    assert sorted(errors)[len(errors) // 2] < 0.02, "what was put back weighs what was billed"
    assert {b.pair >= 0 for b in session.blocks if b.kind in ("tool_use", "tool_result")} == {True}


# --- odd files --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("odd", [["condense_context"], {"text": 1}])
@pytest.mark.parametrize("key", ["say", "ask"])
def test_an_event_whose_kind_is_a_list_or_an_object_is_passed_over(tmp_path: Path, key: str, odd: Any) -> None:
    history, screen = roo_history(), roo_screen()
    history.insert(2, {"role": "user", "content": "so far", "ts": NOON, "isSummary": True, "condenseId": "C1"})
    condensed = {"ts": 1, "type": "say", "say": "condense_context", "contextCondense": {"condenseId": "C1"}}
    plain = folder(tmp_path, history, [*screen[:3], condensed, *screen[3:]])
    session = folder(tmp_path, history, [*screen[:3], {"ts": 1, "type": "say", key: odd}, condensed, *screen[3:]])
    assert session.blocks == plain.blocks


@pytest.mark.parametrize("odd", [["call"], {"id": 1}])
def test_a_result_whose_call_is_named_by_a_list_or_an_object_is_no_reason_to_fail(odd: Any) -> None:
    answer = [{"type": "tool_use", "id": odd, "name": "read_file", "input": {}}]
    result = [{"type": "tool_result", "tool_use_id": odd, "content": "x"}]
    said = unfold([("user", [text("go")]), ("assistant", answer), ("user", result)])
    assert [[piece.raw for piece in pieces] for pieces in said[1:] if not isinstance(pieces, str)] == [answer, result]


ODD = st.sampled_from(
    [None, True, 0, -1, 2**70, 1.5, "", "x", "user", "{", "\ud800", [], {}, [0, 1], [[1, 2]], {"type": "text"}]
)


@pytest.mark.thorough
@given(data=st.data())
@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_odd_values_anywhere_are_noted_or_passed_over(tmp_path: Path, data: st.DataObject) -> None:
    history, screen = task(3)
    screen[6]["conversationHistoryDeletedRange"] = [2, 3]
    edits: list[Any] = [[1, [0, [[0, [[screen[3]["ts"], "text", ["cut"], []]]]]]]]
    if data.draw(st.booleans()):
        history, screen = roo_history(), roo_screen()
        history[1]["condenseParent"] = "C1"
        history.insert(2, {"role": "user", "content": "so far", "ts": NOON, "isSummary": True, "condenseId": "C1"})
        screen.insert(3, {"ts": 1, "type": "say", "say": "condense_context", "contextCondense": {"condenseId": "C1"}})
    files: dict[str, Any] = {HISTORY: history, SCREEN: screen, "context_history.json": edits}
    for _ in range(data.draw(st.integers(1, 4))):
        spoil(files[data.draw(st.sampled_from(sorted(files)))], data)
    for name, value in files.items():
        (tmp_path / name).write_text(json.dumps(value), encoding="utf-8")
    for name in (HISTORY, SCREEN):
        try:
            session = turnscope.load(tmp_path / name)
        except TurnscopeError:
            continue
        for plan in turnscope.replay(session).plans:
            render.render(plan.after, session)


def spoil(value: Any, data: st.DataObject) -> None:
    """Put an odd value somewhere into a list or an object."""
    while isinstance(value, (list, dict)) and value:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(value[key], (list, dict)) or not value[key] or data.draw(st.integers(0, 3)) == 0:
            value[key] = deepcopy(data.draw(ODD))
            return
        value = value[key]
