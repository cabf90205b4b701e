"""One session that uses every path on which a key leaves this process: what comes back of the keys is in no file and no log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from api_server import ApiServer, Say
from conftest import let_go
from json_server import serve
from turnscope import cli as command
from turnscope.encodings import list_forms
from turnscope.live import branches, endpoints, injected_context
from turnscope.live.chat import Settings
from turnscope.live.context_sources import ContextSources
from turnscope.live.endpoints import Endpoint
from turnscope.live.injected_context import InjectedContext, add_memory_rules
from turnscope.live.secrets import MASK
from turnscope.live.tools import Toolbox
from turnscope.live.web_pages import PageReader
from turnscope.live.web_search import WebSearch
from turnscope.planning.policy import load
from turnscope.settings import Telemetry
from turnscope.share.export_formats import list_formats
from turnscope.storage.memories import Memories
from turnscope.storage.threads import Threads
from turnscope.telemetry.chats import trace_requests
from turnscope.telemetry.export import Exporter

KEYS = {who: f"sk-{who}-5up3r/s3cret+k3y=Zz" for who in ("provider", "search", "mcp", "issues")}
PLAIN = [part for key in KEYS.values() for part in (key, key[: len(key) // 2], key[len(key) // 2 :])]
QUESTIONS = {
    "openwebui-middleware": "What of the harbour?",
    "librechat-memory": "What of the harbour now?",
    "context-providers": "What of @url {pages}/a and @issue lob/ship#1?",
}


@contextmanager
def record_log(path: Path) -> Iterator[None]:
    """All that anything logs, at the finest level, as a file."""
    handler, root = logging.FileHandler(path), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        root.setLevel(level)
        root.removeHandler(handler)
        handler.close()


def echo(who: str) -> str:
    """Sentences in which a server says the key that it was sent, as it is and in other forms."""
    return "".join(f"I prefer {form} for tests.\n" for form in (KEYS[who], *sorted(list_forms(KEYS[who]))))


def serve_mcp(*results: Any) -> list[tuple[int, dict[str, str], Any]]:
    """The answers of an MCP server: for each result a session with a call of a tool, then three that are begun alone."""
    begun = {"id": 1, "result": {"instructions": echo("mcp"), "protocolVersion": KEYS["mcp"]}}
    start: list[tuple[int, dict[str, str], Any]] = [(200, {"mcp-session-id": "s"}, begun), (202, {}, b"")]
    return [*(each for result in results for each in (*start, (200, {}, {"id": 2, **result}))), *start * 3]


def serve_pages() -> list[tuple[int, dict[str, str], Any]]:
    issue = {"title": KEYS["issues"], "body": echo("issues"), "comments": 1}
    return [
        (200, {"content-type": "text/plain"}, echo("issues").encode()),
        (200, {}, issue),
        (200, {}, [{"body": echo("issues")}]),
    ]


def hold_chat(
    api: ApiServer, folder: Path, policy: str, context: InjectedContext, traces: Exporter, question: str
) -> list[Any]:
    """A chat with a refusal, an answer with a call of a tool, another turn and a summary by hand. Gives what was shown."""
    threads, box = Threads(folder / "chats.db"), Toolbox(folder / "folder", ("read_file",))
    made: Any = endpoints.connect_endpoint(Endpoint("chat", api.url, KEYS["provider"]), None)
    thread = threads.create(title="test", place=made.destination)
    settings = Settings("m", add_memory_rules(load(policy)), window=60_000)
    provider = replace(made, client=made.client.with_options(max_retries=0))
    chat = branches.start_chat(thread, provider, threads.open_writer(thread), settings, "Be brief.", list(box.definitions))
    call = ("call_1", "read_file", {"path": KEYS["provider"]})
    told = echo("provider")
    api.script.extend([Say(status=401, error=told), Say("I look.", told, calls=(call,)), Say(told), Say("Yes."), Say(told)])
    shown: list[Any] = []
    for said in (question, "And then?", "And at last?"):
        chat.tools = box
        injected_context.attach(chat, context)
        shown += trace_requests(lambda chat, said=said: chat.send(said), traces, content=True)(chat)
    shown += [*chat.condense(1), *injected_context.list_facts(chat), chat.plan, *threads.list_problems(thread)]
    for form in list_formats().values():
        (folder / f"{policy}.{form.name}.{form.suffix}").write_bytes(form.encode(threads.load(thread)))
    return shown


def test_no_key_is_in_the_data_folder_in_logs_in_telemetry_or_in_what_is_shown(
    tmp_path: Path, data_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data_folder / "folder").mkdir(parents=True)
    (data_folder / "folder" / "notes.txt").write_text("buy bread")
    rows = [{"title": KEYS["search"], "url": f"https://a/{KEYS['search']}", "content": echo("search")}]
    text = {"content": [{"type": "text", "text": echo("mcp")}]}
    results = ({"result": text}, {"error": {"message": echo("mcp")}}, {"result": {**text, "isError": True}})
    traces, shown = Exporter(Telemetry(data_folder / "traces.jsonl")), []
    with (
        record_log(data_folder / "all.log"),
        let_go(ApiServer()) as api,
        serve([(200, {}, {"results": rows}), (500, {}, {}), (302, {"location": f"/{KEYS['search']}"}, b"")]) as (
            search,
            searched,
        ),
        serve(serve_mcp(*results)) as (mcp, called),
        serve(serve_pages()) as (pages, read),
    ):
        finders = (
            WebSearch(f"{search}/?q={{query}}", key=KEYS["search"]),
            WebSearch(mcp, "find", key=KEYS["mcp"], header="X-Token"),
            PageReader(pages, KEYS["issues"]),
        )
        context = InjectedContext(Memories(data_folder / "chats.db"), ContextSources(data_folder / "folder", finders=finders))
        for policy, question in QUESTIONS.items():
            shown += hold_chat(api, data_folder, policy, context, traces, question.format(pages=pages))
    traces.close()
    heads = [str(head) for came in (searched, called, read) for _, head, _ in came]
    heads += [str(head) for _, head, _ in api.asked]
    assert all(any(key in head for head in heads) for key in KEYS.values()), "each key was sent where it belongs"
    for path in data_folder.glob("*.jsonl.jsonl"):
        command.main(["share", str(path), str(path.with_suffix(".html")), "--level", "full"])
        command.main(["trace", str(path), str(path.with_suffix(".spans"))])
    assert [len(came) for came in (searched, called, read)] == [3, 15, 3], "every answer was asked for"
    assert len([*data_folder.glob("*.html")]) == len([*data_folder.glob("*.spans")]) == len(QUESTIONS)
    kept = {path.name: path.read_bytes() for path in data_folder.rglob("*") if path.is_file()}
    kept |= {"shown": repr(shown).encode(), "printed": "".join(capsys.readouterr()).encode()}
    assert MASK.encode() in b"".join(kept.values())
    assert {"chats.db", "traces.jsonl", "all.log"} <= {name for name, data in kept.items() if len(data) > 10_000}
    forms = {*PLAIN, *(form for key in KEYS.values() for form in list_forms(key))}
    assert [(name, form) for name, data in kept.items() for form in forms if form.encode() in data] == []
