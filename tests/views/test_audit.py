"""The checklist held against sessions: what they show, what they cannot show, and our own chat, which has to pass."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import turnscope
from claude_log import Log, call
from conftest import let_go, shared
from turnscope import settings
from turnscope.live import branches
from turnscope.live.chat import Settings
from turnscope.live.events import Event, RequestRefused
from turnscope.live.offline import OfflineServer
from turnscope.live.provider import connect
from turnscope.live.tools import Toolbox
from turnscope.planning.policy import parse
from turnscope.session.model import Session
from turnscope.share.report import build_report
from turnscope.storage.threads import Threads
from turnscope.telemetry import names
from turnscope.telemetry.chats import trace_requests
from turnscope.telemetry.export import Exporter
from turnscope.views.audit import Point, audit
from turnscope.views.overview import build_overview

ROOT = Path(__file__).resolve().parents[2]
GOES_COLD, FORGETS = (
    ROOT / "sample_sessions" / f"{name}.jsonl" for name in ("cache-goes-cold", "chat-forgets-first-instruction")
)
FORMATS = (
    "claude-code/entire-cd95-3compactions.jsonl",
    "codex/entire-skills-d5c5-compacted.jsonl",
    "gemini-cli/entire-ab2b-session.json",
    "pi/pi-before-compaction.jsonl",
    "otel/otlp-openinference-smol-agent.json",
)
# The pattern as it is published: old results are cleared, the server compacts, the gateway holds back what does not fit.
PATTERN = """
title = "The published pattern"
doc = "Old results are cleared, the server compacts, and what does not fit is refused."
[budget]
formula = "window"
margin = 0.05
[[rules]]
rule = "supersede_static"
[[rules]]
rule = "clear_old_results"
[[rules]]
rule = "compact_20260112"
trigger = 50000
"""


def points(session: Session, policy: str = "as-recorded") -> Mapping[str, Point]:
    trace = turnscope.replay(session, policy)
    return {point.key: point for point in audit(trace, build_overview(trace))}


def spans_in(line: Any) -> Iterator[Any]:
    return (span for resource in line["resourceSpans"] for scope in resource["scopeSpans"] for span in scope["spans"])


def test_a_chat_of_ours_passes_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text("".join(f"def function_{i}(value): return value + {i}\n" for i in range(300)))
    threads, exporting = Threads(tmp_path / "chats.db"), Exporter(settings.Telemetry(tmp_path / "trace.jsonl"))
    with let_go(OfflineServer()) as server:
        box, thread = Toolbox(tmp_path), threads.create(title="audited")
        chosen, provider = Settings("offline-64k", parse("published", PATTERN)), connect(server.url, "none", retries=0)
        chat = branches.start_chat(
            thread, provider, threads.open_writer(thread), chosen, "You are brief. " * 400, box.definitions
        )
        chat.tools = box

        def send_text(text: str) -> list[Event]:
            return [*trace_requests(lambda chat: chat.send(text), exporting)(chat)]

        for n in range(16):
            assert RequestRefused not in map(type, send_text("read file file.py" if n % 2 else f"{n} {'word ' * 6_000}"))
        assert [type(event) for event in send_text("word " * 90_000)][-1] is RequestRefused
    exporting.close()
    spans = (span for line in (tmp_path / "trace.jsonl").read_text().splitlines() for span in spans_in(json.loads(line)))
    (refusal,) = (event for span in spans for event in span.get("events", ()) if event["name"] == names.REFUSAL)
    told = {one["key"]: next(iter(one["value"].values())) for one in refusal["attributes"]}
    assert told[names.CONVERSATION] == thread
    assert int(told[names.BEFORE]) > int(told[names.WINDOW])
    assert int(told[names.INPUT_TOKENS]) > 0
    found = points(threads.load(thread))
    assert {key: point.found for key, point in found.items() if point.verdict != "pass"} == {}
    assert "provider's server" in found["compaction"].found
    assert found["typed"].requests == found["gateway"].requests == (len(threads.load(thread).requests) - 1,)
    back = points(turnscope.load(tmp_path / "trace.jsonl"))
    assert back["id"].verdict == "pass"
    assert thread in back["id"].found


def test_a_log_that_cuts_by_number_fails_and_says_where() -> None:
    found = points(turnscope.load(FORGETS))
    assert found["last-n"].verdict == "fail"
    assert found["last-n"].requests[0] >= 10
    assert found["cache"].verdict == "warning"


def test_what_a_transcript_cannot_show_is_unknown() -> None:
    found = points(turnscope.load(GOES_COLD))
    assert [found[key].verdict for key in ("id", "gateway", "typed", "shared-id")] == ["unknown"] * 4
    assert found["editing"].verdict == "fail"
    assert found["editing"].requests[0] == 34
    assert found["compaction"].requests == (63,)


def test_agents_that_share_an_id_are_told_apart_by_their_system_prompts(tmp_path: Path) -> None:
    lines = []
    for n in range(6):
        said = [{"role": "system", "content": "You plan." if n % 2 else "You execute."}]
        said += [{"role": "user", "content": f"point {k} of a long conversation that goes on and on"} for k in range(n + 1)]
        choice = {"message": {"role": "assistant", "content": f"done {n}"}, "finish_reason": "stop"}
        answer = {"model": "gpt-4o", "choices": [choice], "usage": {"prompt_tokens": 20 + n, "completion_tokens": 2}}
        lines.append({"request": {"model": "gpt-4o", "messages": said}, "response": answer})
    (tmp_path / "calls.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = points(turnscope.load(tmp_path / "calls.jsonl"))
    assert found["shared-id"].verdict == "fail"
    assert found["shared-id"].requests


def test_a_summary_without_its_usage_is_silent(tmp_path: Path) -> None:
    def make_compacted(**meta: int) -> Session:
        log = Log()
        log.user("Begin.")
        log.answer("a", call("c"), usage=(8_000, 0, 0, 10))
        log.result("c", "word " * 4_000)
        log.answer("b", "Done.", usage=(9_000, 0, 0, 10))
        log.compact(**meta)
        log.user("Go on.")
        log.answer("d", "Yes.", usage=(900, 0, 0, 10))
        return turnscope.load(log.save(tmp_path / f"{len(meta)}-{sum(meta.values())}.jsonl"))

    assert points(make_compacted())["silent"].verdict == "pass"
    assert points(make_compacted(preTokens=0))["silent"].verdict == "fail"


@pytest.mark.thorough
@pytest.mark.parametrize("name", FORMATS, ids=lambda name: name.partition("/")[0])
def test_real_sessions_of_five_formats_pass_through_audit_and_share(name: str) -> None:
    session = turnscope.load(shared("data", "open", *name.split("/")))
    found = points(session)
    assert len(found) == 10
    assert found["id"].verdict == ("fail" if name.startswith("otel") else "unknown")
    for point in found.values():
        assert point.found
        assert all(0 <= n < len(session.requests) for n in point.requests)
    made = build_report(session, "no content", ["clear-tool-results"])
    assert made.html.count("<b class=") == 10
    assert len(made.html) < 25e6
