"""Claude Code session files: real ones against totals made by hand, and made-up ones for every trap of the format."""

from __future__ import annotations

import gc
import json
import math
import random
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import genai_prices
import pytest
import turnscope
from claude_log import MODEL, Line, Log, call, find_billed
from conftest import SHARED, examples, shared
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs
from turnscope.importers.claude_code.attachments import parse_injection
from turnscope.library import opening
from turnscope.planning.policy import load as load_policy
from turnscope.reading.followers import follow
from turnscope.session.model import Bucket, Request, Session
from turnscope.views import request_summary
from turnscope.views.findings import rank_findings
from turnscope.views.labels import label_block
from turnscope.views.overview import list_turns
from turnscope.views.phrases import format_tokens

FOLDER = SHARED / "data" / "open" / "claude-code"
FILES = sorted(FOLDER.rglob("*.jsonl"))
real = pytest.mark.parametrize(
    "file",
    FILES or [pytest.param(FOLDER, marks=pytest.mark.skip("shared/data/open is not beside the project"))],
    ids=lambda f: f.stem,
)


def everyone(session: Session) -> Iterator[Session]:
    """A session, its subagents and its branches, all the way down."""
    yield session
    for other in (*session.subagents, *session.branches):
        yield from everyone(other)


def requests(session: Session) -> dict[str, Request]:
    """Requests with usage by the id of their answer, over everyone."""
    return {r.id: r for one in everyone(session) for r in one.requests if r.usage}


def by_hand(file: Path) -> dict[str, Line]:
    return find_billed([file, *sorted(file.with_suffix("").glob("subagents/*.jsonl"))])


def open_log(log: Log | str | bytes, folder: Path, name: str = "s1") -> Session:
    """The session of made-up lines, read from a file."""
    path = folder / f"{name}.jsonl"
    data = log.text() if isinstance(log, Log) else log
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass"))
    return turnscope.load(path)


def list_texts(session: Session, n: int) -> list[str]:
    """Texts that request `n` carried, placeholders included."""
    found: list[str] = []
    for piece in turnscope.replay(session).plans[n].seen.pieces:
        if piece.body is None:
            found += [block.text for block in session.blocks[piece.start : piece.stop]]
        else:
            found += [part.text for part in piece.body]
    return found


def notes(session: Session, severity: str = "") -> list[str]:
    return [f"{note.line}: {note.what}" for note in session.notes if severity in ("", note.severity)]


# Real files ---------------------------------------------------------------------------------------------------------------


@real
def test_every_message_with_usage_is_one_request(file: Path) -> None:
    """Over the session, its subagents and its branches; nothing is billed twice along the main path and its subagents."""
    session = turnscope.load(file)
    assert requests(session).keys() == by_hand(file).keys()
    ids = [r.id for one in (session, *session.subagents) for r in one.requests]
    assert len(ids) == len(set(ids))
    assert not any(one.branches for one in session.subagents)


@real
def test_usage_is_that_of_the_last_line_of_a_message(file: Path) -> None:
    found = requests(turnscope.load(file))
    for id, line in by_hand(file).items():
        usage, own = line["message"]["usage"], found[id].usage
        assert own is not None
        assert own.input_tokens == usage["input_tokens"]
        assert own.cache_read_input_tokens == usage.get("cache_read_input_tokens", 0)
        assert own.cache_creation_input_tokens == usage.get("cache_creation_input_tokens", 0)
        assert own.output_tokens == usage["output_tokens"]
        assert found[id].model == line["message"]["model"]


@real
def test_cells_of_every_request_sum_to_the_recorded_prompt(file: Path) -> None:
    wanted = by_hand(file)
    for one in everyone(turnscope.load(file)):
        view = turnscope.overview(one)
        for n, request in enumerate(one.requests):
            usage = wanted[request.id]["message"]["usage"]
            prompt = (
                usage["input_tokens"] + usage.get("cache_read_input_tokens", 0) + usage.get("cache_creation_input_tokens", 0)
            )
            assert view.recorded[n] == prompt
            assert view.cells[n].sum() == prompt
            assert view.billed[n].sum(axis=0).tolist() == [
                usage.get("cache_read_input_tokens", 0),
                usage.get("cache_creation_input_tokens", 0),
                usage["input_tokens"],
            ]


@real
def test_money_of_every_request_equals_a_total_made_by_hand(file: Path) -> None:
    """Priced by genai-prices from the raw line; where the recorded output is a stub, from the count that replaces it."""
    wanted = by_hand(file)
    for one in everyone(turnscope.load(file)):
        view = turnscope.overview(one)
        for n, request in enumerate(one.requests):
            output = int(view.answers[n]) if request.output_stub else None
            assert view.totals[n] == dollars(wanted[request.id], request.sent_at, output)
            parts = float(view.usd[n].sum() + view.answer_usd[n])
            assert parts == pytest.approx(float(view.totals[n] or 0), rel=1e-9, abs=1e-12)


def dollars(line: Line, sent_at: float | None, output: int | None) -> Decimal:
    usage, message = line["message"]["usage"], line["message"]
    read, written = usage.get("cache_read_input_tokens", 0), usage.get("cache_creation_input_tokens", 0)
    counted = genai_prices.Usage(
        input_tokens=usage["input_tokens"] + read + written,
        cache_read_tokens=read,
        cache_write_tokens=written,
        cache_write_1h_tokens=usage.get("cache_creation", {}).get("ephemeral_1h_input_tokens", 0),
        output_tokens=usage["output_tokens"] if output is None else output,
    )
    at = None if sent_at is None else datetime.fromtimestamp(sent_at).astimezone()
    price = genai_prices.calc_price(counted, message["model"], provider_id="anthropic", genai_request_timestamp=at)
    return price.total_price


@real
def test_the_window_now_is_the_last_prompt_and_nothing_exceeds_the_recorded_peak(file: Path) -> None:
    session = turnscope.load(file)
    view, wanted = turnscope.overview(session), by_hand(file)
    usage = wanted[session.requests[-1].id]["message"]["usage"]
    prompts = [
        sum(v for k, v in usage.items() if k in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"))
    ]
    assert view.prompts[-1] == prompts[0]
    peak = view.recorded.max()
    assert view.prompts.max() == peak
    assert max(plan.expected_tokens for plan in turnscope.replay(session).plans) <= peak * 1.01  # a projection is an estimate


@real
def test_after_a_compaction_the_envelope_shrinks(file: Path) -> None:
    session = turnscope.load(file)
    plans = turnscope.replay(session).plans
    cuts = {o.request for o in session.observed if o.edit.action == "condense"}
    boundaries = sum(
        json.loads(line).get("subtype") == "compact_boundary" for line in file.open() if '"subtype":"compact_boundary"' in line
    )
    assert len(cuts) == boundaries
    for n in cuts:
        assert plans[n].after.tokens < plans[n - 1].after.tokens / 2
        assert plans[n].after.stop > plans[n - 1].after.stop, "what came before stays in the timeline"


@real
def test_the_first_requests_alone_give_the_same_plans(file: Path) -> None:
    """No plan looks at what comes later."""
    session = turnscope.load(file)
    policy = load_policy("as-recorded")
    whole = turnscope.replay(session, policy).plans
    for n in sorted({1, len(whole) // 3, len(whole) // 2, len(whole) - 1} - {0}):
        stop = session.requests[n - 1].cut
        part = structs.replace(
            session,
            blocks=tuple(b if b.pair < stop else structs.replace(b, pair=-1) for b in session.blocks[:stop]),
            messages=tuple(m for m in session.messages if m.stop <= stop),
            requests=tuple(structs.replace(r, stop=min(r.stop, stop)) for r in session.requests[:n]),
            observed=tuple(o for o in session.observed if o.request < n),
        )
        for mine, theirs in zip(turnscope.replay(part, policy).plans, whole[:n], strict=True):
            assert list(mine.after.pieces) == list(theirs.after.pieces)
            assert list(mine.seen.pieces) == list(theirs.seen.pieces)
            assert [(d.rule, d.edit, d.splice) for d in mine.decisions] == [
                (d.rule, d.edit, d.splice) for d in theirs.decisions
            ]
            assert (mine.calibration, mine.limit, mine.verdict) == (theirs.calibration, theirs.limit, theirs.verdict)


@real
def test_the_first_lines_alone_give_the_same_requests(file: Path, tmp_path: Path) -> None:
    """A file that is cut after a line gives the requests it has so far, as the whole file does."""
    lines = file.read_bytes().splitlines(keepends=True)
    whole = turnscope.load(file)
    if whole.branches:
        pytest.skip("the newest leaf decides what the main path is")
    for share in (0.3, 0.7):
        part = tmp_path / "part.jsonl"
        part.write_bytes(b"".join(lines[: int(len(lines) * share)]))
        mine = turnscope.load(part).requests[:-1]
        assert [(r.id, r.cut, r.stop, r.turn, r.usage) for r in mine] == [
            (r.id, r.cut, r.stop, r.turn, r.usage) for r in whole.requests[: len(mine)]
        ]


def test_a_subagent_whose_call_is_not_in_the_log_is_marked_by_its_time(tmp_path: Path) -> None:
    agents = Log()
    log = Log()
    for n in range(3):
        log.user(f"prompt {n}")
        log.answer(f"m{n}", "done", usage=(5, 60, 560, 8))
    session = open_log(log, tmp_path)
    agents.user("look into it")
    agents.answer("a1", "found", usage=(5, 60, 560, 8))
    agents.save(tmp_path / "agent.jsonl")
    agent = turnscope.load(tmp_path / "agent.jsonl")
    after = session.requests[1].sent_at
    assert after is not None
    messages = tuple(structs.replace(message, sent_at=after + 0.5) for message in agent.messages)
    untimed = tuple(structs.replace(message, sent_at=None) for message in agent.messages)
    bare = tuple(structs.replace(request, sent_at=None, answered_at=None) for request in agent.requests)
    timed = structs.replace(agent, id="timed", messages=messages, requests=bare, title="", at=-1)
    never = structs.replace(agent, id="never", messages=untimed, requests=bare, title="", at=-1)
    markers = turnscope.overview(structs.replace(session, subagents=(timed, never))).markers
    assert [(m.request, m.kind, m.what) for m in markers] == [
        (0, "subagent", "started subagent never; the call that did is not in the log, its time is not in the log"),
        (1, "subagent", "started subagent timed; the call that did is not in the log, placed by its time"),
    ]


@real
def test_every_subagent_hangs_from_the_call_that_started_it(file: Path) -> None:
    session = turnscope.load(file)
    for agent in session.subagents:
        start = session.blocks[agent.at]
        assert start.kind == "tool_use"
        assert start.raw["input"]["prompt"] == agent.blocks[0].text


@real
def test_a_second_reading_gives_the_same(file: Path) -> None:
    assert turnscope.load(file) == turnscope.load(file)


# Messages -----------------------------------------------------------------------------------------------------------------


def simple() -> Log:
    """One prompt, one tool call, one answer."""
    log = Log()
    log.user("hello")
    log.answer("m1", call("t1"), usage=(10, 500, 0, 20))
    log.result("t1", "a file")
    log.answer("m2", "All done.", usage=(5, 60, 500, 8))
    return log


def test_a_plain_exchange_is_two_requests_of_one_turn(tmp_path: Path) -> None:
    session = open_log(simple(), tmp_path)
    assert [(r.n, r.turn, r.cut, r.stop, r.id) for r in session.requests] == [(0, 0, 1, 2, "m1"), (1, 0, 3, 4, "m2")]
    assert [b.kind for b in session.blocks] == ["text", "tool_use", "tool_result", "text"]
    assert (session.blocks[1].pair, session.blocks[2].pair, session.blocks[2].name) == (2, 1, "Bash")
    assert session.notes == ()
    assert (session.id, session.title, session.about["cwd"]) == ("s1", "hello", "/work")


def test_fragments_of_a_message_that_stand_apart_are_one_message(tmp_path: Path) -> None:
    """Results of its first calls lie between the lines of an answer; usage is counted once, as its last line has it."""
    log = Log()
    log.user("do three things")
    log.answer("m1", {"type": "thinking", "thinking": "hm", "signature": "s"}, usage=(10, 500, 0, 1))
    log.answer("m1", call("t1"), usage=(10, 500, 0, 3))
    log.result("t1", "one")
    log.answer("m1", call("t2"), usage=(10, 500, 0, 40))
    log.result("t2", "two")
    log.answer("m2", "Done.", usage=(3, 50, 510, 5))
    session = open_log(log, tmp_path)
    assert len(session.requests) == 2
    first = session.requests[0]
    assert [b.kind for b in session.blocks[first.cut : first.stop]] == ["thinking", "tool_use", "tool_use"]
    assert first.usage is not None
    assert (first.usage.prompt_tokens, first.usage.output_tokens) == (510, 40)
    assert turnscope.overview(session).recorded.tolist() == [510, 563]


def test_parallel_calls_whose_results_hang_from_different_lines_are_all_there(tmp_path: Path) -> None:
    """Each result hangs from the line of its call, so that the newest leaf's chain passes one of them only."""
    log = Log()
    log.user("read both")
    a = log.answer("m1", call("t1"), usage=(10, 500, 0, 1))
    b = log.answer("m1", call("t2"), usage=(10, 500, 0, 30))
    log.result("t1", "first file", parent=a)
    last = log.result("t2", "second file", parent=b)
    log.answer("m2", "Both read.", usage=(3, 50, 510, 5), parent=last)
    session = open_log(log, tmp_path)
    assert [b.text for b in session.blocks if b.kind == "tool_result"] == ["first file", "second file"]
    assert session.branches == ()


def test_the_last_line_of_a_message_decides_even_when_it_is_off_the_chain(tmp_path: Path) -> None:
    log = Log()
    log.user("read both")
    a = log.answer("m1", call("t1"), usage=(10, 500, 0, 1))
    log.answer("m1", call("t2"), usage=(10, 500, 0, 90))
    log.result("t2", "second file")
    last = log.result("t1", "first file", parent=a)
    log.answer("m2", "Both read.", usage=(3, 50, 510, 5), parent=last)
    session = open_log(log, tmp_path)
    usage = session.requests[0].usage
    assert usage is not None
    assert usage.output_tokens == 90
    assert [b.raw["id"] for b in session.blocks if b.kind == "tool_use"] == ["t1", "t2"]
    assert session.branches == ()


def test_two_records_on_one_line_are_both_read(tmp_path: Path) -> None:
    text = simple().text()
    glued = text.replace("}\n", "}", 1)
    session = open_log(glued, tmp_path)
    assert session == structs.replace(open_log(text, tmp_path), notes=session.notes)
    assert notes(session, "warning") == ["1: 2 records are on one line (two writers at once); all were read"]


@pytest.mark.parametrize("keep", [1, 40, 300])
def test_a_cut_last_line_of_a_live_file_is_a_note_and_no_error(keep: int, tmp_path: Path) -> None:
    lines = simple().text().splitlines(keepends=True)
    session = open_log("".join(lines[:3]) + lines[3][:keep], tmp_path)
    assert [r.id for r in session.requests] == ["m1"]
    assert [(n.severity, n.line) for n in session.notes] == [("info", 4), ("info", 0)]
    assert session.notes[1].what.startswith("the last request has no answer in the log")


def test_a_broken_line_in_the_middle_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    lines = simple().text().splitlines(keepends=True)
    session = open_log("".join([lines[0], lines[1], '{"type": "user", \n', *lines[2:], "what is this\n"]), tmp_path)
    assert [r.id for r in session.requests] == ["m1", "m2"]
    assert [(n.severity, n.line) for n in session.notes] == [("error", 3), ("error", 6)]


def test_the_chain_runs_through_lines_of_any_type(tmp_path: Path) -> None:
    log = Log()
    log.user("hello")
    log.line("progress", data={"type": "hook_progress"})
    log.line("system", subtype="stop_hook_summary")
    log.line("from-the-future", payload=[1, 2])
    log.answer("m1", call("t1"), usage=(10, 500, 0, 20))
    log.line("progress", data={"type": "bash_progress"})
    log.result("t1")
    log.line("attachment", attachment={"type": "hook_success", "content": "ok"})
    log.answer("m2", "Done.", usage=(5, 60, 500, 8))
    session = open_log(log, tmp_path)
    assert [b.kind for b in session.blocks] == ["text", "tool_use", "tool_result", "text"]
    assert session.branches == ()
    assert [(note.severity, note.what.partition(":")[0]) for note in session.notes[:1]] == [
        ("info", "lines of unknown types were skipped")
    ]


def test_a_parent_that_stands_further_down_is_found(tmp_path: Path) -> None:
    """Lines are not written in the order of the chain."""
    log = Log()
    first = log.user("hello")
    log.line("system", uuid="late", parent="later", subtype="x")
    log.line("system", uuid="later", parent=first, subtype="y")
    log.answer("m1", "Hi.", usage=(10, 500, 0, 20), parent="late")
    session = open_log(log, tmp_path)
    assert [b.text for b in session.blocks] == ["hello", "Hi."]
    assert session.notes == ()


def test_a_lost_parent_is_noted_and_the_line_hangs_from_the_one_before(tmp_path: Path) -> None:
    log = simple()
    log.user("and now?", parent="nowhere")
    log.answer("m3", "Nothing.", usage=(5, 60, 560, 8))
    session = open_log(log, tmp_path)
    assert [r.id for r in session.requests] == ["m1", "m2", "m3"]
    assert notes(session) == ["5: its parent line is not in the file; it was hung from the line before"]


def test_a_cycle_of_parents_ends(tmp_path: Path) -> None:
    log = Log()
    log.user("a", uuid="x", parent="y")
    log.user("b", uuid="y", parent="x")
    log.answer("m1", "Hi.", usage=(10, 500, 0, 20))
    assert [r.id for r in open_log(log, tmp_path).requests] == ["m1"]


def test_the_same_uuid_twice_is_read_once(tmp_path: Path) -> None:
    log = simple()
    log.lines.append(log.lines[1])
    session = open_log(log, tmp_path)
    assert len(session.requests) == 2
    assert notes(session, "info") == ["5: a line with the same uuid stands earlier in the file; the first was kept"]


def test_of_many_notes_alike_only_the_first_have_a_line_number(tmp_path: Path) -> None:
    log = simple()
    log.lines += [log.lines[1]] * 100
    assert len(open_log(log, tmp_path).notes) == 6
    assert notes(open_log(log, tmp_path))[-1].startswith("0: 95 more lines like this: a line with the same uuid")


def test_a_resumed_session_that_copies_its_history_counts_it_once(tmp_path: Path) -> None:
    """Older versions wrote the history again, with new uuids and the new session's id."""
    log = simple()
    copy = Log("s2", name="copy")
    for line in log.lines:
        copy.line(line["type"], message=line["message"])
    copy.user("go on")
    copy.answer("m3", "Going on.", usage=(5, 60, 560, 8))
    log.lines += copy.lines
    session = open_log(log, tmp_path, "s2")
    assert session.id == "s2"
    assert [r.id for r in session.requests] == ["m1", "m2", "m3"]
    assert [b.kind for b in session.blocks] == ["text", "tool_use", "tool_result", "text", "text", "text"]
    assert session.branches == ()


def test_contents_may_be_a_string_or_a_list_and_media_are_kept(tmp_path: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    document = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "one page"}}
    log = Log()
    log.user([{"type": "text", "text": "look"}, image, document, "bare"])
    log.answer("m1", call("t1"), usage=(10, 500, 0, 20))
    log.result("t1", [{"type": "text", "text": "seen"}, image])
    log.answer("m2", "Done.", usage=(5, 60, 500, 8))
    log.user("thanks")
    log.answer("m3", "Welcome.", usage=(5, 20, 560, 8))
    session = open_log(log, tmp_path)
    assert [b.kind for b in session.blocks[:4]] == ["text", "image", "document", "text"]
    assert (session.blocks[1].raw, session.blocks[3].raw) == (image, "bare")
    assert session.blocks[2].text == "one page"
    assert session.blocks[5].text == "seen"
    assert [r.turn for r in session.requests] == [0, 0, 1]


def test_what_the_tool_says_for_the_user_starts_no_turn(tmp_path: Path) -> None:
    log = simple()
    log.user("Caveat: the messages below were made by local commands.", isMeta=True)
    log.user("<local-command-stdout>ok</local-command-stdout>")
    log.user([{"type": "text", "text": "[Request interrupted by user]"}])
    log.user("next")
    log.answer("m3", "Yes.", usage=(5, 60, 560, 8))
    session = open_log(log, tmp_path)
    assert [r.turn for r in session.requests] == [0, 0, 1]
    assert [m.origin for m in session.messages[4:8]] == ["meta", "meta", "meta", "prompt"]


def test_reminders_that_the_tool_put_into_the_prompt_are_blocks(tmp_path: Path) -> None:
    log = Log()
    log.user("hello")
    log.line("attachment", attachment={"type": "skill_listing", "content": "- review: reviews"})
    log.line("attachment", attachment={"type": "hook_success", "content": "shown to the user alone"})
    log.answer("m1", "Hi.", usage=(10, 500, 0, 20))
    session = open_log(log, tmp_path)
    assert [(b.kind, b.text) for b in session.blocks] == [("text", "hello"), ("skills", "- review: reviews"), ("text", "Hi.")]


def test_times_may_go_back_and_lack_a_zone(tmp_path: Path) -> None:
    log = simple()
    log.lines[2]["timestamp"] = "2025-12-31T00:00:00.000Z"
    log.lines[3]["timestamp"] = "2026-01-02T03:00:00"
    session = open_log(log, tmp_path)
    assert [r.id for r in session.requests] == ["m1", "m2"]
    assert (session.requests[1].sent_at, session.requests[1].answered_at) == (1767139200.0, 1767322800.0)


@pytest.mark.parametrize(
    "mangle",
    [
        pytest.param(lambda text: text.replace("\n", "\r\n").encode(), id="CRLF"),
        pytest.param(lambda text: b"\xef\xbb\xbf" + text.encode(), id="byte-order mark"),
        pytest.param(lambda text: text.rstrip("\n").encode(), id="no line break at the end"),
        pytest.param(lambda text: b"\n\n" + text.replace("\n", "\n \n").encode(), id="blank lines"),
    ],
)
def test_line_ends_and_byte_order_marks_do_no_harm(mangle: Any, tmp_path: Path) -> None:
    assert open_log(mangle(simple().text()), tmp_path) == open_log(simple(), tmp_path)


def test_lines_without_a_message_are_named(tmp_path: Path) -> None:
    log = simple()
    log.add_bare(type="file-history-snapshot", messageId="x", snapshot={})
    log.add_bare(type="wholly-new", payload=1)
    log.add_bare(type="wholly-new", payload=2)
    log.line("linked-and-new", payload=3)
    session = open_log(log, tmp_path)
    *bare, linked = (len(json.dumps(line, separators=(",", ":"))) for line in log.lines[-3:])
    new, size = sum(bare), sum(bare) + linked
    assert notes(session)[:2] == [
        "0: line types that carry no message were skipped: file-history-snapshot (1)",
        f"0: lines of unknown types were skipped: linked-and-new (1, {size - new} bytes), wholly-new (2, {new} bytes)",
    ]
    assert [note.skipped for note in session.notes[:2]] == [0, size]


@pytest.mark.parametrize("kind", ["line", "attachment"])
def test_much_of_a_file_in_lines_of_unknown_types_is_a_warning_also_while_it_grows(kind: str, tmp_path: Path) -> None:
    log = simple()
    if kind == "line":
        log.add_bare(type="wholly-new", payload="x" * 20_000)
    else:
        log.line("attachment", attachment={"type": "wholly-new", "payload": ["x" * 20_000]})
    path = log.save(tmp_path / "s1.jsonl")
    found = [notes(turnscope.load(path)), notes(follow(path).thread().session)]
    assert found[0] == found[1]
    assert "bytes) is in records that are not shown" in found[0][-1]
    log = simple()
    log.add_bare(type="file-history-snapshot", messageId="x", snapshot={"x": "x" * 20_000})
    assert not any("not shown" in note for note in notes(turnscope.load(log.save(path))))


@pytest.mark.parametrize(
    ("end", "unanswered"),
    [
        (lambda log: log.user("a caveat", isMeta=True), False),
        (lambda log: log.user("and then?"), True),
        (lambda log: (log.user("and then?"), log.user("[Request interrupted by user]")), True),
        (
            lambda log: (log.user("and then?"), log.answer("e", "API Error: 500", model="<synthetic>", isApiErrorMessage=True)),
            True,
        ),
        (lambda log: (log.answer("m9", call("c9"), usage=(9, 0, 0, 9)), log.result("c9")), True),
        (
            lambda log: (
                log.answer("m9", call("c9"), usage=(9, 0, 0, 9)),
                log.result("c9", "declined"),
                log.user("[Request interrupted by user for tool use]"),
            ),
            False,
        ),
        (lambda log: log.user("<command-name>/exit</command-name>"), False),
        (lambda log: log.compact(), False),
    ],
)
def test_a_last_request_without_an_answer_is_a_note(end: Any, unanswered: bool, tmp_path: Path) -> None:
    log = simple()
    end(log)
    assert ([note for note in notes(open_log(log, tmp_path)) if "the last request has no answer" in note] != []) is unanswered


def test_a_file_that_begins_with_many_other_lines_is_recognised(tmp_path: Path) -> None:
    head = Log()
    for n in range(100):
        head.add_bare(type="file-history-snapshot", messageId=f"x{n}", snapshot={})
    assert len(open_log(head.text() + simple().text(), tmp_path).requests) == 2


def test_titles_come_from_the_user_then_the_tool_then_the_first_prompt(tmp_path: Path) -> None:
    log = simple()
    log.add_bare(type="summary", summary="Of another session", leafUuid="elsewhere")
    assert open_log(log, tmp_path).title == "hello"
    log.add_bare(type="summary", summary="A greeting", leafUuid="u4")
    assert open_log(log, tmp_path).title == "A greeting"
    log.add_bare(type="custom-title", customTitle="Mine", sessionId="s1")
    log.add_bare(type="ai-title", aiTitle="The tool's", sessionId="s1")
    assert open_log(log, tmp_path).title == "Mine"


# Errors, retries, stubs ---------------------------------------------------------------------------------------------------


def test_what_the_tool_wrote_itself_is_shown_and_never_sent(tmp_path: Path) -> None:
    log = Log()
    log.user("hello")
    log.answer("x1", "API Error: 529 overloaded", model="<synthetic>", usage=(0, 0, 0, 0), isApiErrorMessage=True)
    log.user("again")
    log.answer("m1", "Hi.", usage=(10, 500, 0, 20))
    log.answer("x2", "No response requested.", model="<synthetic>", usage=(0, 0, 0, 0))
    log.user("more")
    log.answer("m2", "Yes.", usage=(10, 10, 500, 20))
    session = open_log(log, tmp_path)
    assert [r.id for r in session.requests] == ["m1", "m2"]
    assert list_texts(session, 0) == ["hello", "again"]
    assert list_texts(session, 1) == ["hello", "again", "Hi.", "more"]
    assert [b.kind for b in session.blocks if b.text.startswith(("API", "No"))] == ["notice", "notice"]
    assert notes(session, "info")[0] == "2: a message of the tool itself, never sent: API Error: 529 overloaded"


def test_failed_attempts_are_counted_on_the_request_that_came_through(tmp_path: Path) -> None:
    log = Log()
    log.user("hello")
    for attempt in (1, 2, 3):
        log.line("system", subtype="api_error", retryAttempt=attempt)
    log.answer("m1", call("t1"), usage=(10, 500, 0, 20))
    log.result("t1")
    log.answer("m2", "Done.", usage=(5, 60, 500, 8))
    log.user("again")
    log.line("system", subtype="api_error", retryAttempt=1)
    log.answer("x1", "API Error", model="<synthetic>", isApiErrorMessage=True)
    log.user("once more")
    log.answer("m3", "Here.", usage=(5, 60, 560, 8))
    session = open_log(log, tmp_path)
    assert [r.attempts for r in session.requests] == [4, 1, 1]
    assert [(m.request, m.kind) for m in turnscope.overview(session).markers if m.kind == "retry"] == [(0, "retry")]


def test_an_output_that_cannot_be_true_is_flagged_and_counted(tmp_path: Path) -> None:
    log = Log()
    log.user("write")
    log.answer("m1", "word " * 400, usage=(10, 500, 0, 2))
    log.user("short")
    log.answer("m2", "Yes.", usage=(10, 500, 500, 2))
    session = open_log(log, tmp_path)
    view = turnscope.overview(session)
    assert [r.output_stub for r in session.requests] == [True, False]
    assert view.answers[0] > 300
    assert view.answers[1] == 2
    assert session.requests[0].usage is not None
    assert session.requests[0].usage.output_tokens == 2, "the record itself stays"
    assert notes(session, "warning") == [
        "0: 1 answers record fewer output tokens than their text can have; those are counted instead"
    ]


def test_one_token_for_a_call_or_a_sentence_is_what_the_stream_began_with(tmp_path: Path) -> None:
    log = Log()
    said: list[tuple[Any, int, bool]] = [
        (call("t1"), 1, True),
        ("I look into it, then I come back.", 1, True),
        ("Yes, it is done, all of it, and the tests pass, each and every one of them, twice.", 8, True),
        ("Understood.", 1, False),
        ("Yes, it is done, all of it.", 8, False),
        ("Yes, it is done, all of it, and the tests pass, each and every one of them, twice.", 20, False),
    ]
    for n, (content, tokens, _) in enumerate(said):
        log.user(f"prompt {n}")
        log.answer(f"m{n}", content, usage=(10, 500, 0, tokens))
    session = open_log(log, tmp_path)
    assert [request.output_stub for request in session.requests] == [stub for _, _, stub in said]
    answers = turnscope.overview(session).answers
    assert min(answers[:2]) > 1
    assert [*answers[3:]] == [1, 8, 20]


def test_no_real_answer_with_a_call_or_a_sentence_counts_as_one_token() -> None:
    checked = 0
    for path in sorted(shared("data", "open", "claude-code").glob("*.jsonl")):
        written: dict[str, list[Any]] = {}
        for line in path.read_text(errors="replace").splitlines():
            with suppress(ValueError):
                record = json.loads(line)
                message = record.get("message") or {}
                if record.get("type") == "assistant" and (message.get("usage") or {}).get("output_tokens") == 1:
                    written.setdefault(message["id"], []).extend(message["content"])
        session = turnscope.load(path)
        view = turnscope.overview(session)
        for request, tokens in zip(session.requests, view.answers, strict=True):
            parts = written.get(request.id, [])
            calls = any(part["type"] == "tool_use" for part in parts)
            text = "".join(part.get("text", "") or part.get("thinking", "") for part in parts)
            if request.usage and request.usage.output_tokens == 1 and (calls or len(text) > 20):
                checked += 1
                assert request.output_stub
                assert tokens > 1
    assert checked > 100


def test_an_answer_without_usage_is_no_request(tmp_path: Path) -> None:
    log = simple()
    log.user("stop")
    log.answer("m3", "I was inter")
    session = open_log(log, tmp_path)
    assert [r.id for r in session.requests] == ["m1", "m2"]
    assert session.blocks[-1].text == "I was inter"


def test_a_message_without_an_id_is_a_request_of_its_own(tmp_path: Path) -> None:
    log = Log()
    log.user("hello")
    log.answer("m1", "one", usage=(10, 500, 0, 20))
    log.answer("m2", "two", usage=(10, 500, 0, 20))
    for line in log.lines[1:]:
        del line["message"]["id"]
    session = open_log(log, tmp_path)
    assert [(r.id, r.cut) for r in session.requests] == [("", 1), ("", 2)]


# Compaction ---------------------------------------------------------------------------------------------------------------


def make_compacted(**meta: Any) -> Log:
    log = Log()
    log.user("first question")
    log.answer("m1", "first answer", usage=(10, 9000, 0, 20))
    log.user("second question")
    log.answer("m2", call("t1"), usage=(10, 100, 9000, 20))
    log.result("t1", "a result")
    log.compact(**meta)
    log.user("third question")
    log.answer("m3", "third answer", usage=(10, 900, 0, 20))
    return log


@pytest.mark.parametrize(
    ("trigger", "why"),
    [("auto", "(the tool did it by itself, at 9,000 tokens by its own count)"), ("manual", "(requested by the user)")],
)
def test_a_compaction_leaves_the_timeline_whole_and_shortens_what_is_sent(trigger: str, why: str, tmp_path: Path) -> None:
    session = open_log(make_compacted(trigger=trigger), tmp_path)
    assert session.blocks[0].text == "first question"
    assert list_texts(session, 1) == ["first question", "first answer", "second question"]
    assert list_texts(session, 2) == ["What happened so far.", "third question"]
    (observed,) = session.observed
    assert (observed.request, observed.edit.action, tuple(observed.edit.span or ())) == (2, "condense", (0, 5))
    assert why in observed.edit.because
    assert observed.edit.facts["preTokens"] == 9000
    assert [(m.request, m.kind) for m in turnscope.overview(session).markers] == [(2, "compact")]
    assert session.blocks[5].kind == "summary"


def test_a_second_compaction_covers_the_first_summary(tmp_path: Path) -> None:
    log = make_compacted()
    log.compact("All of it.")
    log.user("fourth question")
    log.answer("m4", "fourth answer", usage=(10, 500, 0, 20))
    session = open_log(log, tmp_path)
    assert list_texts(session, 3) == ["All of it.", "fourth question"]


def test_a_compaction_that_nothing_followed_changes_nothing(tmp_path: Path) -> None:
    log = simple()
    log.compact()
    session = open_log(log, tmp_path)
    assert session.observed == ()
    assert session.blocks[-1].kind == "summary"


def test_an_old_summary_without_a_boundary_cuts_as_well(tmp_path: Path) -> None:
    log = simple()
    log.user("What happened so far.", parent="", isCompactSummary=True)
    log.user("next")
    log.answer("m3", "Yes.", usage=(10, 100, 0, 20))
    session = open_log(log, tmp_path)
    assert list_texts(session, 2) == ["What happened so far.", "next"]
    assert session.branches == ()
    assert len(session.requests) == 3


@pytest.mark.parametrize("how", ["segment", "messages"])
@pytest.mark.parametrize("parent", [None, "u5"], ids=["after the summary", "after what was preserved"])
def test_messages_that_a_compaction_preserved_stay(how: str, parent: str | None, tmp_path: Path) -> None:
    """They keep their old lines; what follows may hang from the summary or from the last preserved line."""
    kept = {"segment": {"preservedSegment": {"headUuid": "u4", "anchorUuid": "u7", "tailUuid": "u5"}}}
    kept["messages"] = {"preservedMessages": {"uuids": ["u4", "u5"]}}  # type: ignore[dict-item]
    log = make_compacted(**kept[how])
    log.lines[7]["parentUuid"] = parent or "u7"
    session = open_log(log, tmp_path)
    assert [r.id for r in session.requests] == ["m1", "m2", "m3"]
    assert list_texts(session, 2) == ['Bash {"command":"run t1"}', "a result", "What happened so far.", "third question"]
    assert session.branches == ()


def test_a_preserved_call_keeps_its_result(tmp_path: Path) -> None:
    session = open_log(make_compacted(preservedMessages={"uuids": ["u4"]}), tmp_path)
    assert "a result" in list_texts(session, 2)


def test_a_preserved_segment_whose_head_is_lost_preserves_nothing(tmp_path: Path) -> None:
    session = open_log(make_compacted(preservedSegment={"headUuid": "nowhere", "tailUuid": "u5"}), tmp_path)
    assert list_texts(session, 2) == ["What happened so far.", "third question"]


def micro(log: Log, *ids: str, **meta: Any) -> None:
    log.line(
        "system",
        subtype="microcompact_boundary",
        microcompactMetadata={"trigger": "auto", "tokensSaved": 20, "compactedToolIds": list(ids), **meta},
    )


def test_microcompaction_clears_the_named_results_for_later_requests(tmp_path: Path) -> None:
    log = simple()
    log.line("attachment", uuid="reminder", attachment={"type": "file", "content": "an old file"})
    log.user("read again")
    log.answer("m3", call("t2"), usage=(5, 60, 560, 8))
    log.result("t2", "a file, again")
    micro(log, "t1", "unknown", clearedAttachmentUUIDs=["reminder", "nothing"])
    log.answer("m4", "Read.", usage=(5, 60, 400, 8))
    session = open_log(log, tmp_path)
    assert "a file" in list_texts(session, 2)
    assert "an old file" in list_texts(session, 2)
    assert list_texts(session, 3)[2] == "[Old tool result content cleared]"
    assert "a file, again" in list_texts(session, 3)
    assert "an old file" not in list_texts(session, 3)
    assert session.blocks[2].text == "a file", "the result stays in the timeline"
    assert {(o.request, o.edit.action) for o in session.observed} == {(3, "clear"), (3, "drop")}


def test_a_microcompaction_of_results_before_the_file_begins_is_no_cut_without_a_record(tmp_path: Path) -> None:
    log = Log()
    log.user("go on", parentUuid="in-another-file")
    words = "a word or two " * 60  # about 240 tokens
    for n in range(12):
        log.answer(f"m{n}", words, usage=(5, 400, 60_000 + 400 * n, 240))
        log.user(f"and then {n}")
    micro(log, "t1", "t2", "t3", tokensSaved=20_000)
    for n in range(12, 24):
        log.answer(f"m{n}", words, usage=(5, 400, 40_000 + 400 * n, 240))
        log.user(f"and then {n}")
    session = open_log(log, tmp_path)
    view = turnscope.overview(session)
    (marker,) = view.markers
    assert (marker.request, marker.kind) == (12, "clear")
    assert marker.what == (
        "microcompacted: 3 tool results that it cleared are not in this file; it saved 20,000 tokens by the tool's own count"
    )
    trace = turnscope.replay(session)
    assert not any(fit.cut_at_start for fit in trace.fits)
    assert "unlogged" not in {finding.kind for finding in rank_findings(trace, view, most=20)}
    bare = structs.replace(session, observed=())
    assert any(fit.cut_at_start for fit in turnscope.replay(bare).fits), "without the line it would be one"


def test_a_real_file_that_begins_behind_what_it_microcompacted_says_so(tmp_path: Path) -> None:
    whole = shared("data", "open", "claude-code", "entire-d599-microcompact.jsonl").read_text().splitlines()
    at = next(n for n, line in enumerate(whole) if '"microcompact_boundary"' in line)
    named = json.loads(whole[at])["microcompactMetadata"]["compactedToolIds"]
    results = [n for n, line in enumerate(whole[:at]) if any(f'"tool_use_id":"{id}"' in line for id in named)]
    middle = next(n for n in range(results[5] + 1, at) if json.loads(whole[n]).get("type") == "assistant")
    (tmp_path / "rest.jsonl").write_text("\n".join(whole[middle:]) + "\n")
    held = sum(any(f'"tool_use_id":"{id}"' in line for line in whole[middle:at]) for id in named)
    assert 0 < held < len(named)
    view = turnscope.overview(turnscope.load(tmp_path / "rest.jsonl"))
    (clear,) = [marker.what for marker in view.markers if marker.kind == "clear"]
    assert clear.startswith(f"microcompacted: {len(named) - held} of {len(named)} tool results that it cleared are not in this")
    assert "unlogged" not in {marker.kind for marker in view.markers}


def test_microcompaction_brings_nothing_back_that_a_compaction_removed(tmp_path: Path) -> None:
    log = make_compacted()
    log.answer("m4", call("t2"), usage=(10, 900, 0, 20))
    log.result("t2", "a new result")
    micro(log, "t1", "t2")
    log.answer("m5", "Done.", usage=(10, 900, 0, 20))
    session = open_log(log, tmp_path)
    assert list_texts(session, 4).count("[Old tool result content cleared]") == 1


# What the tool puts in beside the prompt ----------------------------------------------------------------------------------

FILE = {"type": "text", "file": {"filePath": "/w/a.py", "content": "one\ntwo", "numLines": 2, "startLine": 4}}
PUT_IN: list[tuple[Line, str, list[str], bool]] = [  # an attachment, its kind, what its text holds, whether its wording is ours
    ({"type": "skill_listing", "content": "- review: reviews", "names": ["review"]}, "skills", ["- review: reviews"], False),
    ({"type": "skill_listing", "names": ["review"]}, "skills", ["- review"], True),
    (
        {
            "type": "agent_listing_delta",
            "addedTypes": ["Plan"],
            "addedLines": ["- Plan: plans"],
            "removedTypes": ["Old"],
            "isInitial": True,
            "showConcurrencyNote": True,
        },
        "agents",
        ["- Plan: plans", "- Old", "at once"],
        True,
    ),
    (
        {
            "type": "deferred_tools_delta",
            "addedNames": ["Cron", "mcp__x"],
            "addedLines": ["Cron", "mcp__x"],
            "removedNames": ["Gone"],
            "readdedNames": ["Back"],
            "pendingMcpServers": ["slow"],
        },
        "deferred_tools",
        ["Cron\nmcp__x", "Gone", "Back", "slow"],
        True,
    ),
    (
        {"type": "mcp_instructions_delta", "addedNames": ["x"], "addedBlocks": ["## x\nUse it."], "removedNames": ["y"]},
        "mcp_instructions",
        ["## x\nUse it.", "- y"],
        True,
    ),
    (
        {"type": "nested_memory", "path": "/w/CLAUDE.md", "content": {"path": "/w/CLAUDE.md", "content": "Be brief."}},
        "memory",
        ["/w/CLAUDE.md", "Be brief."],
        True,
    ),
    ({"type": "instructions", "files": [{"path": "/w/CLAUDE.md", "content": "Be brief."}]}, "memory", ["Be brief."], True),
    ({"type": "file", "filename": "/w/a.py", "content": FILE}, "files", ["/w/a.py", "4\tone\n5\ttwo"], True),
    ({"type": "directory", "path": "/w", "content": "a.py\nb.py"}, "files", ["/w", "a.py\nb.py"], True),
    ({"type": "edited_text_file", "filename": "/w/a.py", "snippet": "5\tthree"}, "files", ["/w/a.py", "5\tthree"], True),
    (
        {"type": "selected_lines_in_ide", "filename": "/w/a.py", "lineStart": 4, "lineEnd": 5, "content": "one"},
        "files",
        ["4-5 of /w/a.py", "one"],
        True,
    ),
    ({"type": "opened_file_in_ide", "filename": "/w/a.py"}, "files", ["/w/a.py"], True),
    ({"type": "compact_file_reference", "filename": "/w/a.py", "displayPath": "a.py"}, "files", ["/w/a.py"], True),
    ({"type": "plan_file_reference", "planFilePath": "/w/p.md", "planContent": "1. go"}, "files", ["/w/p.md", "1. go"], True),
    (
        {"type": "invoked_skills", "skills": [{"name": "tdd", "path": "/s", "content": "Test first."}]},
        "skills",
        ["tdd", "Test first."],
        True,
    ),
    (
        {"type": "task_reminder", "content": [{"id": "1", "subject": "Bake", "status": "pending"}], "itemCount": 1},
        "reminder",
        ["#1. [pending] Bake"],
        True,
    ),
    (
        {"type": "todo_reminder", "content": [{"content": "Bake", "status": "done"}], "itemCount": 1},
        "reminder",
        ["[done] Bake"],
        True,
    ),
    ({"type": "todo_reminder", "content": [], "itemCount": 0}, "reminder", ["task tools"], True),
    ({"type": "plan_mode", "reminderType": "full", "planFilePath": "/p.md"}, "reminder", ["Plan mode", "full", "/p.md"], True),
    ({"type": "plan_mode_exit"}, "reminder", ["Plan mode is off"], True),
    ({"type": "plan_mode_reentry", "planFilePath": "/w/p.md"}, "reminder", ["Plan mode", "/w/p.md"], True),
    ({"type": "date_change", "newDate": "2026-01-03"}, "reminder", ["2026-01-03"], True),
    ({"type": "ultrathink_effort", "level": "high"}, "reminder", ["high"], True),
    ({"type": "total_tokens_reminder", "text": "<total_tokens>9 left</total_tokens>"}, "reminder", ["9 left"], False),
    ({"type": "queued_command", "prompt": "and then?", "commandMode": "prompt"}, "reminder", ["and then?"], False),
    ({"type": "hook_additional_context", "content": ["one", "two"], "hookName": "SessionStart"}, "hooks", ["one\ntwo"], False),
    ({"type": "hook_success", "hookEvent": "SessionStart", "content": "up", "stdout": "up\n"}, "hooks", ["up"], False),
    (
        {"type": "hook_blocking_error", "hookName": "Stop", "blockingError": {"blockingError": "no"}},
        "hooks",
        ["Stop", "no"],
        True,
    ),
]


def make_attached(*attachments: Any) -> Log:
    log = Log()
    log.user("hello")
    for attachment in attachments:
        log.line("attachment", attachment=attachment)
    log.answer("m1", "Hi.", usage=(10, 500, 0, 20))
    return log


@pytest.mark.parametrize(
    ("attachment", "kind", "holds", "ours"), PUT_IN, ids=lambda value: value["type"] if isinstance(value, dict) else ""
)
def test_what_the_tool_put_in_is_a_block_of_its_own_kind(
    attachment: Line, kind: str, holds: list[str], ours: bool, tmp_path: Path
) -> None:
    session = open_log(make_attached(attachment), tmp_path)
    _, block, answer = session.blocks
    assert (block.kind, block.bucket, block.role, answer.text) == (kind, "messages", "user", "Hi.")
    assert [part for part in holds if part not in block.text] == []
    assert block.text.count("mcp__x") == ("mcp__x" in str(holds)), "names that stand in the line twice are sent once"
    assert (
        label_block(session, block).endswith("(inferred wording)")
        == (session.messages[block.message].origin == "inferred")
        == ours
    )
    assert block.text.startswith("<system-reminder>") == ours
    assert session.notes == ()
    assert [turn.n for turn in list_turns(turnscope.overview(session))] == [0], "it is no prompt"


def test_the_wording_that_a_line_itself_gives_is_what_was_sent(tmp_path: Path) -> None:
    log = make_attached({"type": "plan_mode", "reminderType": "full"}, {"type": "brand_new", "flag": True})
    log.lines[1]["rendered"] = [{"content": "<system-reminder>Plan first.</system-reminder>"}, {"content": "And ask."}]
    log.lines[2]["rendered"] = [{"content": "Something new."}, None, {}]
    session = open_log(log, tmp_path)
    assert [(b.kind, b.text) for b in session.blocks[1:-1]] == [
        ("reminder", "<system-reminder>Plan first.</system-reminder>"),
        ("reminder", "And ask."),
        ("reminder", "Something new."),
    ]
    assert {m.origin for m in session.messages[1:-1]} == {"meta"}
    assert notes(session) == ["0: attachments of unknown types were taken as the log words them: brand_new (1, 32 characters)"]


def test_what_is_never_sent_is_no_block_and_an_unknown_type_is_a_note_with_its_size(tmp_path: Path) -> None:
    session = open_log(
        make_attached(
            {"type": "command_permissions", "allowedTools": ["Bash"]},
            {"type": "hook_success", "hookEvent": "SessionStart", "content": ""},
            {"type": "hook_success", "hookEvent": "PostToolUse", "content": "linted"},
            {"type": "hook_system_message", "content": "for the user"},
            {"type": "from_tomorrow", "text": "x" * 1_000},
            {"type": "from_tomorrow", "text": "x" * 2_000},
            {"kind": "none"},
            "no object",
        ),
        tmp_path,
    )
    assert [b.text for b in session.blocks] == ["hello", "Hi."]
    assert notes(session) == [
        "0: attachments that are not sent, or hold nothing: command_permissions (1), hook_system_message (1)",
        "0: attachments of unknown types were skipped: from_tomorrow (2, 3,068 characters), no type (2, 26 characters)",
        "0: 54% of what the log holds of this session (3,094 bytes) is in records that are not shown",
    ]


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "content", "file", "id", "text"]), inner)
    ),
    max_leaves=6,
)
KEYS = sorted({key for attachment, *_ in PUT_IN for key in attachment} - {"type"} | {"surprise", "toolUseID"})


@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(sorted({attachment["type"] for attachment, *_ in PUT_IN} | {"read_truncation_notice", "new"})),
    st.dictionaries(st.sampled_from(KEYS), ODD, max_size=6),
    ODD,
)
def test_fields_of_any_shape_never_raise(type: str, fields: Line, rendered: Any) -> None:
    put = parse_injection({"type": "attachment", "attachment": {**fields, "type": type}, "rendered": rendered})
    assert put is None or all(put.parts)
    assert parse_injection({"attachment": fields.get("content"), "rendered": rendered}) is None or rendered


def test_a_notice_that_a_file_was_cut_is_part_of_its_result_as_sent(tmp_path: Path) -> None:
    log = Log()
    log.user("read")
    first = log.answer("m1", call("t1", "Read"), usage=(10, 500, 0, 20))
    second = log.answer("m1", call("t2", "Read"), usage=(10, 500, 0, 20))
    log.result("t1", "half a file", parent=first)  # of two results only the second is on the chain of parents
    log.line("attachment", attachment={"type": "read_truncation_notice", "banner": "[lines 1-9 of 99]", "toolUseID": "t1"})
    log.line("attachment", attachment={"type": "hook_additional_context", "content": ["a hint"], "toolUseID": "t1"})
    log.result("t2", [{"type": "text", "text": "half another"}], parent=second)
    log.line("attachment", attachment={"type": "read_truncation_notice", "banner": "[lines 1-5 of 55]", "toolUseID": "t2"})
    log.answer("m2", "Done.", usage=(5, 60, 500, 8))
    session = open_log(log, tmp_path)
    assert [(b.bucket, b.kind, b.text) for b in session.blocks[3:]] == [
        ("tool_results", "tool_result", "half a file\n\n[lines 1-9 of 99]"),
        ("messages", "hooks", "a hint"),
        ("tool_results", "tool_result", "half another\n[lines 1-5 of 55]"),
        ("messages", "text", "Done."),
    ]


def test_a_notice_without_its_result_is_a_reminder(tmp_path: Path) -> None:
    notice = {"type": "read_truncation_notice", "banner": "[lines 1-9 of 99]", "toolUseID": "t9"}
    session = open_log(make_attached(notice), tmp_path)
    assert [(b.kind, b.text) for b in session.blocks[1:2]] == [("reminder", "[lines 1-9 of 99]")]


def test_what_is_put_in_again_after_a_compaction_is_carried_once(tmp_path: Path) -> None:
    """The first listing leaves with everything else, and the line that comes after the summary stands for it."""
    log = make_attached({"type": "agent_listing_delta", "addedLines": [f"- agent {n}: does things" for n in range(400)]})
    log.user("more")
    log.answer("m2", "More.", usage=(5, 60, 560, 8))
    log.compact()
    log.line("attachment", attachment=log.lines[1]["attachment"])
    log.line("attachment", attachment={"type": "compact_file_reference", "filename": "/w/a.py"})
    for n in range(3, 6):
        log.user(f"next {n}")
        log.answer(f"m{n}", "Yes.", usage=(5, 60, 560 + n, 8))
    session = open_log(log, tmp_path)
    assert [b.kind for b in session.blocks].count("agents") == 2
    assert [sum("- agent 399" in text for text in list_texts(session, n)) for n in range(5)] == [1] * 5
    assert [sum("/w/a.py" in text for text in list_texts(session, n)) for n in range(5)] == [0, 0, 1, 1, 1]
    shown = request_summary.summarize_request(turnscope.overview(session), turnscope.replay(session), 2)
    assert [word for word, _ in shown.injected] == ["agents", "attached files"]


def test_agent_listings_on_every_request_are_a_finding_with_their_share_and_cost(tmp_path: Path) -> None:
    log = Log()
    log.user("hello")
    log.line(
        "attachment", attachment={"type": "agent_listing_delta", "addedLines": [f"- agent {n}: helps" for n in range(1_500)]}
    )
    log.line("attachment", attachment={"type": "skill_listing", "content": "- a skill: for this and that\n" * 200})
    for n in range(8):
        log.answer(f"m{n}", f"answer {n}", usage=(10, 300, 40_000 + 310 * n, 8))
        log.user(f"and {n}")
    session = open_log(log, tmp_path)
    trace = turnscope.replay(session)
    found = {finding.kind: finding for finding in rank_findings(trace, turnscope.overview(session), most=20)}["standing"]
    sizes = found.evidence["kinds"]
    assert list(sizes) == ["agents", "skills"]
    assert found.text.startswith(f"Agent listings: {format_tokens(sizes['agents'])} tokens in every request (")
    assert "% of what was sent); also skill listings " in found.text
    whole = found.evidence["share"] * sum(r.usage.prompt_tokens for r in session.requests if r.usage)
    assert whole == pytest.approx(8 * sum(sizes.values()), rel=0.02)  # a request of which too much was counted shows less
    assert found.usd is not None
    assert float(found.usd) == pytest.approx(whole * 0.3e-6, rel=0.5), "nearly all of it was read from the cache"


def test_small_listings_are_no_finding(tmp_path: Path) -> None:
    session = open_log(make_attached({"type": "skill_listing", "content": "- review: reviews"}), tmp_path)
    assert "standing" not in {
        finding.kind for finding in rank_findings(turnscope.replay(session), turnscope.overview(session), most=20)
    }


# Branches -----------------------------------------------------------------------------------------------------------------


def test_a_rewind_leaves_a_branch_with_the_block_where_it_parted(tmp_path: Path) -> None:
    log = Log()
    log.user("hello")
    start = log.answer("m1", "Hi.", usage=(10, 500, 0, 20))
    log.user("wrong turn")
    log.answer("m2", "Wrong.", usage=(10, 10, 500, 20))
    log.user("right turn", parent=start)
    log.answer("m3", "Right.", usage=(10, 10, 500, 20))
    session = open_log(log, tmp_path)
    assert [b.text for b in session.blocks] == ["hello", "Hi.", "right turn", "Right."]
    (branch,) = session.branches
    assert [b.text for b in branch.blocks] == ["hello", "Hi.", "wrong turn", "Wrong."]
    assert (branch.at, branch.parent, branch.id) == (2, "s1", "s1~1")
    assert requests(session).keys() == {"m1", "m2", "m3"}


def test_a_rewind_to_the_first_prompt_shares_nothing(tmp_path: Path) -> None:
    log = simple()
    log.user("start over", parent="")
    log.answer("m3", "Fresh.", usage=(10, 500, 0, 20))
    session = open_log(log, tmp_path)
    assert [r.id for r in session.requests] == ["m3"]
    assert [(b.at, len(b.requests)) for b in session.branches] == [(0, 2)]


def trunk_with_asides(count: int) -> Log:
    """`count` prompts and answers, an aside with an answer left behind each."""
    log = Log()
    for n in range(count):
        log.user(f"prompt {n}")
        trunk = log.answer(f"m{n}", f"answer {n}", usage=(10, 500, 0, 20))
        log.user(f"aside {n}")
        log.answer(f"a{n}", f"on aside {n}", usage=(10, 500, 0, 20))
        log.last = trunk
    log.user("the end")
    return log


def test_branches_share_what_stands_before_them(tmp_path: Path) -> None:
    session = open_log(trunk_with_asides(5), tmp_path)
    assert [len(fork.own.blocks) for fork in session.forks] == [2] * 5
    first = session.branches[0]
    assert [block.text for block in first.blocks[-3:]] == ["answer 4", "aside 4", "on aside 4"]
    assert all(mine is its for mine, its in zip(session.blocks[: first.at], first.blocks, strict=False))
    assert [request.n for request in first.requests] == list(range(6))
    assert all(mine is its for mine, its in zip(session.requests, first.requests[:5], strict=True))


def test_a_branchs_counts_go_on_from_those_of_the_main_path(tmp_path: Path) -> None:
    log = trunk_with_asides(4)
    branch = log.user("aside of an aside", parent=log.lines[2]["uuid"])
    log.answer("n1", "deeper", usage=(1, 2, 3, 4), parent=branch)
    log.user("the end", parent=log.lines[-3]["uuid"])
    session = open_log(log, tmp_path)
    ledger = opening.count_session(session)
    assert max(fork.of for fork in session.forks) > 0
    for number, one in enumerate(session.branches):
        counted = set(ledger.memo)
        its, whole = opening.count_branch(session, number, ledger), opening.count_session(one)
        assert (its.sums, its.total) == (whole.sums, whole.total)
        own = {block.digest for block in session.forks[number].own.blocks}
        assert set(ledger.memo) - counted <= own | {block.digest for block in one.blocks[one.at :]}


@pytest.mark.thorough
def test_a_thousand_branches_take_the_time_and_memory_of_what_they_add(tmp_path: Path) -> None:
    """Four times as many branches, of a trunk that is four times as long, may take six times as long, and not sixteen times."""
    files = {count: trunk_with_asides(count).save(tmp_path / f"{count}.jsonl") for count in (350, 1400)}
    spent, held = dict.fromkeys(files, math.inf), dict.fromkeys(files, 0)
    gc.collect()
    gc.disable()  # how often it runs, and over how much, is the doing of the tests before this one
    try:
        for _ in range(3):  # by turns, so that a busy machine is busy for both
            for count, path in files.items():
                began = time.process_time()
                session = turnscope.load(path)
                spent[count] = min(spent[count], time.process_time() - began)
    finally:
        gc.enable()
    for count, path in files.items():
        tracemalloc.start()
        session = turnscope.load(path)
        held[count] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(session.branches) == count
        assert sum(len(fork.own.blocks) for fork in session.forks) == 2 * count
        assert len(session.branches[count // 2].blocks) == count + 2
        assert notes(session, "warning") == []
    assert spent[1400] < 6 * spent[350] + 0.2, spent
    assert held[1400] < 5 * held[350]


# Subagents ----------------------------------------------------------------------------------------------------------------


def parent(calls: int = 2, prompt: str = "look into {}") -> Log:
    """A session that starts subagents `a1`, `a2`, ..., each in a call `t1`, `t2`, ... of one answer."""
    log = Log()
    log.user("find out")
    for n in range(1, calls + 1):
        log.answer("m1", call(f"t{n}", "Task", prompt=prompt.format(n), description=f"part {n}"), usage=(10, 500, 0, 20))
    for n in range(1, calls + 1):
        log.result(f"t{n}", f"found {n}", toolUseResult={"agentId": f"a{n}", "totalTokens": 5})
    log.answer("m2", "Here it is.", usage=(5, 60, 500, 8))
    return log


def subagent(n: int, prompt: str = "look into {}") -> Log:
    log = Log("s1", f"a{n}")
    log.user(prompt.format(n))
    log.answer(f"a{n}m1", call(f"a{n}t1"), usage=(3, 200, 0, 9))
    log.result(f"a{n}t1")
    log.answer(f"a{n}m2", f"found {n}", usage=(3, 20, 200, 9))
    return log


def inline(folder: Path) -> None:
    """Up to 1.0: side chains in the session's own file, without an agent's id."""
    log = parent()
    for line in log.lines:
        line.pop("toolUseResult", None)
    for n in (1, 2):
        for line in subagent(n).lines:
            del line["agentId"]
            log.lines.insert(-1, line)
    log.save(folder / "s1.jsonl")


def siblings(folder: Path) -> None:
    """Up to 2.1.1: files beside the session; one of another session lies there too."""
    parent().save(folder / "s1.jsonl")
    for n in (1, 2):
        subagent(n).save(folder / f"agent-a{n}.jsonl")
    other = subagent(9)
    for line in other.lines:
        line["sessionId"] = "s9"
    other.save(folder / "agent-a9.jsonl")


def folder_of_its_own(folder: Path) -> None:
    """Since 2.1.2: a folder of the session."""
    parent().save(folder / "s1.jsonl")
    for n in (1, 2):
        subagent(n).save(folder / "s1" / "subagents" / f"agent-a{n}.jsonl")


def write_nested(folder: Path) -> None:
    """Progress lines that carry whole messages."""
    log = parent()
    last = log.lines.pop()
    log.last = log.lines[-1]["uuid"]
    for n in (1, 2):
        for line in subagent(n).lines:
            inner = {"type": line["type"], "uuid": line["uuid"], "timestamp": line["timestamp"], "message": line["message"]}
            data = {"type": "agent_progress", "agentId": f"a{n}", "message": inner}
            log.line("progress", uuid=f"p{line['uuid']}", data=data, parentToolUseID=f"t{n}")
    log.lines.append({**last, "parentUuid": log.last})
    log.save(folder / "s1.jsonl")


LAYOUTS = [inline, siblings, folder_of_its_own, write_nested]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_four_layouts_of_subagents_hang_from_the_call_that_started_them(layout: Any, tmp_path: Path) -> None:
    layout(tmp_path)
    session = turnscope.load(tmp_path / "s1.jsonl")
    assert [r.id for r in session.requests] == ["m1", "m2"]
    assert len(session.subagents) == 2
    for n, agent in enumerate(session.subagents, 1):
        assert session.blocks[agent.at].raw["id"] == f"t{n}"
        assert [r.id for r in agent.requests] == [f"a{n}m1", f"a{n}m2"]
        assert agent.parent == "s1"
        assert [b.kind for b in agent.blocks] == ["text", "tool_use", "tool_result", "text"]
    assert [(m.kind, m.request) for m in turnscope.overview(session).markers] == [("subagent", 0)] * 2


@pytest.mark.parametrize("layout", [folder_of_its_own, write_nested])
def test_subagents_with_the_same_prompt_are_told_apart_by_their_call(layout: Any, tmp_path: Path) -> None:
    layout(tmp_path)
    session = turnscope.load(tmp_path / "s1.jsonl")
    assert [session.blocks[agent.at].raw["id"] for agent in session.subagents] == ["t1", "t2"]


def test_inline_subagents_with_the_same_prompt_take_one_call_each(tmp_path: Path) -> None:
    log = parent(prompt="look")
    for line in log.lines:
        line.pop("toolUseResult", None)
    for n in (1, 2):
        side = subagent(n, prompt="look").lines
        for line in side:
            del line["agentId"]
        log.lines[-1:-1] = side
    session = open_log(log, tmp_path)
    assert sorted(session.blocks[agent.at].raw["id"] for agent in session.subagents) == ["t1", "t2"]


def test_the_file_beside_a_subagent_names_its_call(tmp_path: Path) -> None:
    log = parent()
    for line in log.lines:
        line.pop("toolUseResult", None)
    log.save(tmp_path / "s1.jsonl")
    folder = tmp_path / "s1" / "subagents"
    subagent(7).save(folder / "agent-a7.jsonl")
    (folder / "agent-a7.meta.json").write_text('{"toolUseId": "t2"}')
    session = turnscope.load(tmp_path / "s1.jsonl")
    assert [session.blocks[agent.at].raw["id"] for agent in session.subagents] == ["t2"]


def test_a_subagent_of_a_subagent_hangs_from_that_one(tmp_path: Path) -> None:
    parent(1).save(tmp_path / "s1.jsonl")
    folder = tmp_path / "s1" / "subagents"
    middle = Log("s1", "a1")
    middle.user("look into 1")
    middle.answer("a1m1", call("b1", "Task", prompt="deeper"), usage=(3, 200, 0, 9))
    middle.result("b1", "deep", toolUseResult={"agentId": "b"})
    middle.answer("a1m2", "found", usage=(3, 20, 200, 9))
    middle.save(folder / "agent-a1.jsonl")
    deep = Log("s1", "b")
    deep.user("deeper")
    deep.answer("bm1", "deep", usage=(3, 100, 0, 9))
    deep.save(folder / "agent-b.jsonl")
    session = turnscope.load(tmp_path / "s1.jsonl")
    (agent,) = session.subagents
    (inner,) = agent.subagents
    assert (inner.id, inner.parent, agent.blocks[inner.at].raw["id"]) == ("b", "a1", "b1")


def test_a_subagent_that_a_left_branch_started_hangs_from_the_branch(tmp_path: Path) -> None:
    log = parent(1)
    log.user("start over", parent="u1")
    log.answer("m3", "Fresh.", usage=(10, 500, 0, 20))
    log.save(tmp_path / "s1.jsonl")
    subagent(1).save(tmp_path / "s1" / "subagents" / "agent-a1.jsonl")
    session = turnscope.load(tmp_path / "s1.jsonl")
    assert session.subagents == ()
    (agent,) = session.branches[0].subagents
    assert session.branches[0].blocks[agent.at].raw["id"] == "t1"


def test_messages_that_a_side_question_repeats_are_not_billed_again(tmp_path: Path) -> None:
    parent(1).save(tmp_path / "s1.jsonl")
    side = Log("s1", "ask")
    side.user("find out")
    side.answer("m1", call("t1", "Task", prompt="look into 1", description="part 1"), usage=(10, 500, 0, 20))
    side.user("what is it doing?")
    side.answer("ask1", "Looking.", usage=(3, 20, 500, 9))
    side.save(tmp_path / "s1" / "subagents" / "agent-ask.jsonl")
    (agent,) = turnscope.load(tmp_path / "s1.jsonl").subagents
    assert [r.id for r in agent.requests] == ["ask1"]
    assert [b.kind for b in agent.blocks] == ["text", "tool_use", "text", "text"]


def test_a_lost_parent_inside_a_subagent_does_not_split_it(tmp_path: Path) -> None:
    parent(1).save(tmp_path / "s1.jsonl")
    agent = subagent(1)
    agent.lines[2]["parentUuid"] = "nowhere"
    agent.save(tmp_path / "s1" / "subagents" / "agent-a1.jsonl")
    (found,) = turnscope.load(tmp_path / "s1.jsonl").subagents
    assert [r.id for r in found.requests] == ["a1m1", "a1m2"]
    assert found.branches == ()


def test_a_subagents_file_opens_by_itself(tmp_path: Path) -> None:
    file = subagent(1).save(tmp_path / "agent-a1.jsonl")
    session = turnscope.load(file)
    assert (session.id, len(session.requests)) == ("agent-a1", 2)


def test_a_subagents_file_with_a_broken_line_says_so(tmp_path: Path) -> None:
    folder_of_its_own(tmp_path)
    with (tmp_path / "s1" / "subagents" / "agent-a1.jsonl").open("a") as file:
        file.write("broken\n")
    session = turnscope.load(tmp_path / "s1.jsonl")
    assert [(n.severity, n.line) for n in session.subagents[0].notes] == [("error", 5)]


def test_money_of_made_up_requests_is_that_of_the_price_list(tmp_path: Path) -> None:
    """Sonnet 4.5: 3 USD per million of input, 3.75 written to cache, 0.30 read from it, 15 of output."""
    view = turnscope.overview(open_log(simple(), tmp_path))
    rates = (3, Decimal("3.75"), Decimal("0.3"), 15)
    uses = ((10, 500, 0, 20), (5, 60, 500, 8))
    assert list(view.totals) == [sum(n * rate for n, rate in zip(use, rates, strict=True)) / 10**6 for use in uses]
    assert view.models == (MODEL, MODEL)


def test_a_usage_of_zeros_bills_no_prompt(tmp_path: Path) -> None:
    """Zeros say that nothing was recorded: the prompt is an estimate, and no part of it has a price."""
    log = Log()
    log.user("hello " * 100)
    log.answer("m1", "Hi.", usage=(0, 0, 0, 5))
    view = turnscope.overview(open_log(log, tmp_path))
    assert view.recorded.tolist() == [-1]
    assert view.prompts[0] > 50
    assert view.billed[0, :, :3].sum(axis=0).tolist() == [0, 0, 0]
    assert not view.billed[0, :, :3].any()
    assert not view.usd.any()
    assert view.answer_usd[0] == pytest.approx(5 * 15 / 1e6)


def test_more_written_for_an_hour_than_was_written_is_priced_as_all_of_it(tmp_path: Path) -> None:
    log = Log()
    log.user("hello")
    usage = {"input_tokens": 5, "cache_creation_input_tokens": 10, "cache_creation": {"ephemeral_1h_input_tokens": 500}}
    log.answer("m1", "Hi.", usage=usage)
    view = turnscope.overview(open_log(log, tmp_path))
    assert float(view.totals[0] or 0) == pytest.approx((5 * 3 + 10 * 6) / 1e6)
    assert view.usd.sum() + view.answer_usd.sum() == pytest.approx(float(view.totals[0] or 0))


# A tool that never existed ------------------------------------------------------------------------------------------------


class Tool:
    """Plays a coding agent: writes its log as Claude Code would, and knows what it really sent.

    `sent`: by message id, the sorted texts of the request and its prompt tokens.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.log = Log()
        self.context: list[tuple[str, str, str]] = []  # uuid, tool_use id of a result, text
        self.sent: dict[str, tuple[list[str], int]] = {}
        self.billed: dict[str, tuple[int, int]] = {}
        self.count = 0
        self.points: list[tuple[str | None, list[tuple[str, str, str]]]] = []  # where a rewind may go back to

    def name(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def noise(self) -> None:
        """Lines that stand in the chain, or beside it, and mean nothing to the window."""
        if self.chance(0.3):
            self.log.line("progress", data={"type": self.random.choice(["hook_progress", "bash_progress"])})
        if self.chance(0.1):
            self.log.line("system", subtype=self.random.choice(["turn_duration", "stop_hook_summary", "new-thing"]))
        if self.chance(0.1):
            self.log.add_bare(type="file-history-snapshot", messageId="x", snapshot={})
        if self.chance(0.1):
            trunk = self.log.last
            self.log.line("progress", data={"type": "hook_progress"})
            self.log.last = trunk

    def prompt(self) -> None:
        self.points.append((self.log.last, [*self.context]))
        text = self.name("prompt ")
        content: Any = text if self.chance(0.5) else [{"type": "text", "text": text}]
        self.context.append((self.log.user(content), "", text))

    def ask(self) -> bool:
        """One request and its answer, over several lines; gives whether the answer called tools."""
        for _ in range(self.random.choice([0, 0, 0, 0, 1, 3])):
            self.log.line("system", subtype="api_error")
        if self.chance(0.05):
            self.log.answer(self.name("x"), "API Error", model="<synthetic>", usage=(0, 0, 0, 0), isApiErrorMessage=True)
        id = self.name("m")
        usage = (self.random.randint(1, 9), self.random.randint(0, 99), self.random.randint(0, 9999))
        self.sent[id] = (sorted(text for _, _, text in self.context), sum(usage))
        blocks: list[tuple[str, Any]] = []
        if self.chance(0.4):
            text = self.name("thought ")
            blocks.append((text, {"type": "thinking", "thinking": text, "signature": "s"}))
        if self.chance(0.6):
            text = self.name("text ")
            blocks.append((text, {"type": "text", "text": text}))
        calls = [self.name("t") for _ in range(self.random.choice([0, 1, 1, 2, 3]) if blocks else self.random.choice([1, 2]))]
        blocks += [(f'Bash {{"command":"run {t}"}}', call(t)) for t in calls]
        open_calls: list[tuple[str, str]] = []
        last: str | None = None
        for number, (text, block) in enumerate(blocks):
            output = 5 if number == len(blocks) - 1 else 1
            last = self.log.answer(id, block, usage=(*usage, output), parent=last)
            self.context.append((last, "", text))
            if block["type"] == "tool_use":
                open_calls.append((block["id"], last))
            self.noise() if not calls else None
            if open_calls and self.chance(0.3):
                self.result(*open_calls.pop(0))
        self.billed[id] = (sum(usage), 5)
        self.random.shuffle(open_calls)
        for one in open_calls:
            self.result(*one)
        return bool(calls)

    def result(self, id: str, parent: str) -> None:
        text = self.name("result ")
        content: Any = text if self.chance(0.5) else [{"type": "text", "text": text}]
        self.context.append((self.log.result(id, content, parent=parent), id, text))
        self.noise()

    def compact(self) -> None:
        kept = []
        meta: Line = {}
        if self.chance(0.5):
            results = [i for i, (_, id, _) in enumerate(self.context) if id]
            prompts = [i for i, (_, _, text) in enumerate(self.context) if text.startswith("prompt")]
            if prompts and (not results or max(prompts) > max(results)):
                kept = self.context[max(prompts) :]
                meta = {"preservedMessages": {"uuids": [uuid for uuid, _, _ in kept]}}
        text = self.name("summary ")
        _, uuid = self.log.compact(text, **meta)
        if kept and self.chance(0.5):
            self.log.last = kept[-1][0]
        self.context = [*kept, (uuid, "", text)]
        self.points.clear()

    def microcompact(self) -> None:
        chosen = [id for _, id, text in self.context if id and not text.startswith("[") and self.chance(0.5)]
        micro(self.log, *chosen, "unknown")
        cleared = "[Old tool result content cleared]"
        self.context = [(u, id, cleared if id in chosen else text) for u, id, text in self.context]

    def rewind(self) -> None:
        if self.points:
            at = self.random.randrange(len(self.points))
            last, self.context = self.points[at]
            self.log.last = last or ""
            del self.points[at:]

    def play(self, steps: int) -> None:
        for _ in range(steps):
            self.prompt()
            while self.ask() and self.chance(0.9):
                if self.chance(0.1):
                    self.microcompact()
                if self.chance(0.07):
                    self.compact()
            if self.chance(0.1):
                self.compact()
            if self.chance(0.15):
                self.rewind()
        self.prompt()
        self.ask()


@pytest.mark.parametrize("seed", range(40))
def test_whatever_a_tool_did_its_log_tells_what_it_sent(seed: int, tmp_path: Path) -> None:
    """On the main path and on every branch: each request carried exactly these texts and was billed these tokens."""
    tool = Tool(seed)
    tool.play(12)
    session = open_log(tool.log, tmp_path)
    found = requests(session)
    assert {id: (r.usage.prompt_tokens, r.usage.output_tokens) for id, r in found.items() if r.usage} == tool.billed
    last = session.requests[-1]
    assert last.id == max(tool.sent, key=lambda name: int(name[1:]))
    for one in everyone(session):
        plans = turnscope.replay(one).plans
        for request in one.requests:
            texts: list[str] = []
            for piece in plans[request.n].after.pieces:
                if piece.body is None:
                    texts += [block.text for block in one.blocks[piece.start : piece.stop]]
                else:
                    texts += [part.text for part in piece.body]
            assert sorted(texts) == tool.sent[request.id][0]


@pytest.mark.parametrize(("version", "kept"), [("2.0.35", False), ("2.0.36", True), ("2.1.12", True), ("", False)])
def test_thinking_of_past_turns_stays_where_the_version_asks_for_it(tmp_path: Path, version: str, kept: bool) -> None:
    """Sonnet 4.5 drops it of itself, and the cache would be lost from there on."""
    log = Log()
    thought = {"type": "thinking", "thinking": "words " * 2_000, "signature": "s" * 400}
    log.user("one", version=version)
    log.answer("m1", thought, {"type": "tool_use", "id": "t1", "name": "Read", "input": {}}, usage=(3, 9_000, 0, 2_000))
    log.result("t1", version=version)
    log.answer("m2", "so it is", usage=(3, 2_500, 9_000, 20))
    log.user("two", version=version)
    log.answer("m3", "yes", usage=(3, 100, 11_500, 20))
    for line in log.lines:
        line["version"] = version
    path = tmp_path / "s1.jsonl"
    path.write_text(log.text())
    trace = turnscope.replay(turnscope.load(path))
    assert (trace.plans[-1].seen.buckets[Bucket.THINKING] > 0) == kept
