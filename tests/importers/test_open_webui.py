"""Open WebUI chats: exports of several shapes and the database; output items, HTML in old answers, compactions, branches."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import turnscope
from formats import data_of, database, list_blocks, list_claims, open_value, pairs, survives, texts, threads
from turnscope.importers.open_webui import IMPORTER, find_places
from turnscope.settings import Machine


def make_message(id: str, parent: str | None, role: str, content: str = "", second: int = 0, **more: Any) -> dict[str, Any]:
    about = {"id": id, "parentId": parent, "childrenIds": [], "role": role, "content": content}
    return {**about, "timestamp": 1_750_000_000 + second, **({"model": "m-x"} if role == "assistant" else {}), **more}


def row(*messages: Any, current: str | None = "", id: str = "c1", title: str = "A title", **more: Any) -> dict[str, Any]:
    history = {"messages": {m["id"]: m for m in messages}, "currentId": messages[-1]["id"] if current == "" else current}
    chat = {"title": title, "models": ["m-x"], "params": {"system": "Be brief."}, "history": history, "messages": []}
    return {"id": id, "title": title, "created_at": 1_750_000_000, "updated_at": 1_750_000_100, "chat": chat, **more}


def item(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more}


OUTPUT = [
    item("reasoning", content=[item("output_text", text="easy")]),
    item("message", role="assistant", content=[item("output_text", text="Let me.")]),
    item("function_call", call_id="f", name="calc", arguments='{"e":1}', status="completed"),
    item("function_call_output", call_id="f", output=[item("input_text", text="4")]),
    item("message", role="assistant", content=[item("output_text", text="It is 4.")]),
    item("open_webui:context_compaction", summary="x"),
]
USED = {"prompt_tokens": 20, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 5}}
CHAT = [
    make_message(
        "u1",
        None,
        "user",
        "2+2?",
        files=[{"type": "image", "url": "data:image/png;base64,iVBO"}, {"type": "file", "name": "a"}],
    ),
    make_message("a1", "u1", "assistant", "five", 1, done=True),
    make_message("a2", "u1", "assistant", "It is 4.", 4, done=True, usage=USED, output=OUTPUT),
    make_message("u2", "a2", "user", "thanks", 9),
    make_message(
        "a3",
        "u2",
        "assistant",
        "<think>nice</think>Welcome.",
        10,
        info={"usage": {"prompt_n": 3, "cache_n": 4, "predicted_n": 2}},
    ),
]


def test_output_items_become_rounds_and_other_answers_branches() -> None:
    session = open_value([row(*CHAT)])
    assert [(kind, text) for _, kind, text in list_blocks(session)] == [
        ("system", "Be brief."),
        ("text", "2+2?"),
        ("image", ""),
        ("thinking", "easy"),
        ("text", "Let me."),
        ("tool_use", 'calc {"e":1}'),
        ("tool_result", "4"),
        ("text", "It is 4."),
        ("text", "thanks"),
        ("thinking", "nice"),
        ("text", "Welcome."),
    ]
    used = [
        request.usage and (request.usage.prompt_tokens, request.usage.cache_read_input_tokens) for request in session.requests
    ]
    assert used == [None, (20, 5), (7, 4)]
    assert session.requests[0].sent_at == 1_750_000_000
    assert (pairs(session), session.title, [texts(branch)[-1] for branch in session.branches]) == (1, "A title", ["five"])
    assert {note.what.split("'")[1] for note in session.notes} == {"file without its content", "open_webui:context_compaction"}


def test_old_answers_hold_thoughts_and_calls_as_html() -> None:
    about = f'id="t" name="calc" arguments="{escape(json.dumps({"e": 1}))}" result="&quot;4&quot;"'
    call = f'<details type="tool_calls" done="true" {about}>\n<summary>Done</summary>\n</details>\n'
    thought = (
        '<details type="reasoning" done="true" duration="1">\n<summary>Thought</summary>\n&gt; easy\n&gt; really\n</details>\n'
    )
    session = open_value(
        [row(make_message("u", None, "user", "q"), make_message("a", "u", "assistant", f"{thought}{call}It is 4."))]
    )
    assert list_blocks(session)[2:] == [
        ("assistant", "thinking", "easy\nreally"),
        ("assistant", "tool_use", 'calc {"e":1}'),
        ("user", "tool_result", "4"),
        ("assistant", "text", "It is 4."),
    ]
    plain = '<details type="other"><summary>s</summary>kept</details>after'
    assert (
        texts(open_value([row(make_message("u", None, "user", "q"), make_message("a", "u", "assistant", plain))]))[-1] == plain
    )


def test_a_compaction_stands_on_the_first_message_that_it_kept() -> None:
    more = [
        make_message("u3", "a3", "user", "on", 20, contextSummary="so far"),
        make_message("a4", "u3", "assistant", "ok", 21),
    ]
    (seen,) = open_value([row(*CHAT, *more)]).observed
    assert (seen.request, seen.edit.span) == (3, (1, 11))
    assert [(part.role, part.text) for part in seen.edit.body or ()] == [("system", "so far")]


def test_rows_bare_chats_and_lines_hold_the_same() -> None:
    one, two = row(*CHAT), row(*CHAT, current="a1", id="c2", title="Second")
    session = open_value([one])
    assert open_value(one).blocks == open_value(one["chat"]).blocks == open_value([one["chat"]]).blocks == session.blocks
    for data in (data_of([one, two]), data_of([one, two], lines=True)):
        first, second = threads(data, "made.jsonl")
        assert (first.session.blocks, texts(second.session)[-1]) == (session.blocks, "five")
    assert texts(open_value([row(*CHAT, current=None)]))[-1] == "Welcome.", "without a current message the last child is taken"
    assert texts(open_value([{**one, "current_message_id": "a1"}]))[-1] == "five"


def test_the_first_versions_kept_a_list_alone() -> None:
    said = [{"id": "u", "role": "user", "content": "2+2?"}, {"id": "a", "role": "assistant", "content": "4", "model": "m"}]
    chat = {"title": "T", "models": ["m"], "messages": said}
    for value in (chat, [chat], [{"id": "c", "title": "T", "chat": chat}]):
        session = open_value(value)
        assert (session.source, list_blocks(session), session.title) == (
            "open-webui",
            [("user", "text", "2+2?"), ("assistant", "text", "4")],
            "T",
        )


def test_the_database_holds_the_same_also_in_its_newer_table(tmp_path: Path) -> None:
    one, two = row(*CHAT), row(*CHAT, id="c2", title="Second")
    rows = [{key: r[key] for key in ("id", "title", "updated_at", "chat")} for r in (one, two)]
    rows[1]["chat"] = {**two["chat"], "history": {"messages": {}, "currentId": "a3"}}
    stored = [
        {
            "id": f"c2-{m['id']}",
            "chat_id": "c2",
            "role": m["role"],
            "parent_id": m["parentId"] and f"c2-{m['parentId']}",
            "content": m["content"],
        }
        | {
            "output": m.get("output"),
            "model_id": m.get("model"),
            "usage": m.get("usage"),
            "created_at": m["timestamp"],
            "done": 1,
        }
        for m in CHAT
    ]
    path = database(tmp_path / "webui.db", {"user": [{"id": "me"}], "chat": rows, "chat_message": stored})
    assert list_claims(path) == [IMPORTER.name]
    assert [(entry.id, entry.title) for entry in turnscope.entries(path)] == [("c1", "A title"), ("c2", "Second")]
    assert turnscope.load(path, "c1").blocks == open_value([one]).blocks
    assert [b.text for b in turnscope.load(path, "c2").blocks if b.kind != "image"] == [
        b.text for b in open_value([one]).blocks if b.kind != "image"
    ]


def test_a_message_whose_id_is_empty_is_a_branch() -> None:
    session = open_value([row(*CHAT, {**CHAT[0], "id": "", "content": "nameless"}, current="a3")])
    assert [branch.blocks[-1].text for branch in session.branches if "nameless" in texts(branch)]


def test_nothing_breaks_and_the_database_is_found(tmp_path: Path) -> None:
    assert survives([row(*CHAT), row(*CHAT, id="c2")], count=50)
    path = tmp_path / ".open-webui" / "webui.db"
    path.parent.mkdir()
    path.write_text("x")
    here = Machine("linux", tmp_path, tmp_path, tmp_path / "data", {})
    assert [found for place in find_places(here) for found in place.paths()] == [path]


def test_the_converted_chat_is_what_it_says(shared: Callable[..., Path]) -> None:
    path = shared("data", "open", "open-webui", "openwebui-import-from-claude.json")
    assert list_claims(path) == [IMPORTER.name]
    session = turnscope.load(path)
    assert [m.origin for m in session.messages] == ["prompt", "answer"] * 5
    assert (len(session.requests), len(session.branches)) == (5, 0)
    assert all(request.usage is None and request.model for request in session.requests), "its usage is zeros"


def test_what_retrieval_put_beside_a_question_is_a_slot_of_its_request_alone(tmp_path: Path) -> None:
    sources = [
        {
            "source": {"type": "file", "name": "a.pdf"},
            "document": ["Ships leave at noon.", " "],
            "metadata": [{"name": "a.pdf"}],
        },
        {"source": {"type": "web_search", "name": "ships"}, "document": ["A page."], "metadata": [{"source": "https://x.y/z"}]},
        {"source": 7, "document": "no list"},
    ]
    path = tmp_path / "chat.json"
    chat = row(
        make_message("u1", None, "user", "When?"),
        make_message("a1", "u1", "assistant", "At noon.", 1, sources=sources),
        make_message("u2", "a1", "user", "And now?", 2),
        make_message("a2", "u2", "assistant", "Still.", 3),
    )
    path.write_text(json.dumps([chat]))
    trace = turnscope.replay(turnscope.load(path), "openwebui-middleware")
    slots = [{p.slot: "".join(part.text for part in p.body or ()) for p in plan.after.pieces if p.slot} for plan in trace.plans]
    assert slots[0] == {
        "web_results": '<source id="1" name="https://x.y/z">A page.</source>',
        "documents": '<source id="2" name="a.pdf">Ships leave at noon.</source>',
    }
    assert slots[1] == {}
    told = [d.edit.facts["stage"] for d in trace.plans[0].decisions if d.rule == "tell_stages"]
    assert told == ["memory", "web search", "RAG", "tool results", "messages"]
