"""Reading on where a file grew gives what reading the whole file gives; it parses and lays out only what is new."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import turnscope
from claude_log import Log, call
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from make_claude_code import write
from turnscope.errors import UnreadableFile
from turnscope.importers.claude_code import following, paths
from turnscope.library import opening
from turnscope.library.session_follower import SessionFollower

BESIDE = ("read_truncation_notice", "hook_additional_context")


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Sessions with rewinds, parallel calls, compactions, lost lines, titles, side chains and progress of subagents."""
    log = Log()
    log.user("hello")
    names: list[str] = [log.last or ""]
    for n in range(draw(st.integers(3, 30))):
        what = draw(st.sampled_from(["prompt", "prompt", "ask", "ask", "calls", "calls", "rewind", "compact", "odd"]))
        if what == "prompt":
            log.user(f"prompt {n}")
        elif what == "ask":
            log.answer(f"m{n}", {"type": "thinking", "thinking": f"hm {n}"}, usage=(1, 2, 3, 4))
            log.answer(f"m{n}", f"answer {n}", usage=(1, 2, 3, 5))
        elif what == "calls":
            ends = [log.answer(f"m{n}", call(f"t{n}{k}"), usage=(1, 2, 3, 4)) for k in range(draw(st.integers(1, 3)))]
            for k in draw(st.permutations(range(len(ends)))):
                agent = {"agentId": f"a{n}"} if draw(st.booleans()) else None
                log.result(f"t{n}{k}", parent=ends[k], **({"toolUseResult": agent} if agent else {}))
                for type in draw(
                    st.lists(st.sampled_from(BESIDE), max_size=2)
                ):  # they hang from the result, often off the chain
                    about = {"banner": f"cut {n}", "content": [f"hint {n}"]}
                    log.line("attachment", attachment={"type": type, "toolUseID": f"t{n}{k}", **about})
        elif what == "rewind":
            log.last = draw(st.sampled_from(names))
        elif what == "compact":
            log.compact(f"summary {n}", **({"preservedMessages": {"uuids": names[-2:]}} if draw(st.booleans()) else {}))
        else:
            odd(log, n, draw(st.integers(0, 12)))
        names.append(log.last or "")
    return log


def odd(log: Log, n: int, kind: int) -> None:
    if kind == 0:
        log.add_bare(type="ai-title", aiTitle=f"title {n}")
    elif kind == 1:  # a line whose parent comes later, or never
        log.user(f"orphan {n}", parent=f"s1u{n + 20}")
    elif kind == 2:
        log.answer(f"x{n}", "API Error", model="<synthetic>", isApiErrorMessage=True)
    elif kind == 3:
        log.line("system", subtype="microcompact_boundary", microcompactMetadata={"compactedToolIds": ["t10", "t20"]})
    elif kind == 4:
        trunk = log.last
        log.line("user", message={"role": "user", "content": f"side {n}"}, isSidechain=True, parent="")
        log.last = trunk
    elif kind == 5:
        log.line("attachment", attachment={"type": "agent_listing_delta", "addedLines": [f"- agent {n}"], "removedTypes": None})
    elif kind == 6:
        log.line(
            "attachment",
            attachment={"type": f"new {n % 3}", "text": "?"},
            **({"rendered": [{"content": "!"}]} if n % 2 else {}),
        )
    elif kind == 7:  # of a call that may stand anywhere, or nowhere
        call_id = f"t{n - n % 4}0"
        log.line("attachment", attachment={"type": BESIDE[n % 2], "banner": "cut", "content": "hint", "toolUseID": call_id})
    elif kind == 8:  # a result that was sent shorter than it stands in the log
        row = {"kind": "tool-result", "toolUseId": f"t{n - n % 4}0", "replacement": f"short {n}"}
        log.add_bare(type="content-replacement", sessionId="s1", replacements=[row])
    elif kind == 9:
        log.add_bare(type="cost-state", totalCostUSD=n / 100)
    elif kind == 10:
        log.answer(f"w{n}", call(f"w{n}"), usage=(1, 2, 3, 4), wireToolInputs={f"w{n}": {"command": f"sent {n}"}})
    elif kind == 11:
        log.answer(f"v{n}", "odd", usage={"input_tokens": "1000", "output_tokens": -5})
    else:
        inner = {"type": "user", "uuid": f"in{n}", "message": {"role": "user", "content": f"inner {n}"}}
        log.line("progress", data={"type": "agent_progress", "agentId": f"p{n}", "message": inner})


@pytest.mark.thorough
@settings(max_examples=examples(150))
@given(logs(), st.data())
def test_reading_on_gives_what_reading_the_whole_gives(tmp_path_factory: pytest.TempPathFactory, log: Log, data: Any) -> None:
    path = tmp_path_factory.mktemp("log") / "s1.jsonl"
    text = log.text().encode()
    lines = [0]
    while lines[-1] < len(text):
        lines.append(text.index(b"\n", lines[-1]) + 1)
    cuts = st.one_of(st.sampled_from(lines[1:]), st.integers(lines[1], len(text)))
    ends = sorted(data.draw(st.lists(cuts, min_size=1, max_size=8)))
    path.write_bytes(text[: ends[0]])
    growing = SessionFollower(path)
    for end in (*ends, len(text)):
        with path.open("ab") as file:
            file.write(text[path.stat().st_size : end])
        assert growing.read_session() == turnscope.load(path)


def test_a_notice_that_comes_after_the_next_prompt_is_part_of_the_result_it_names(tmp_path: Path) -> None:
    log = Log()
    log.user("hello")
    log.answer("m1", call("t1"), usage=(1, 2, 3, 4))
    log.result("t1")
    log.user("next")
    path = log.save(tmp_path / "s1.jsonl")
    growing = SessionFollower(path)
    growing.read_session()
    log.line("attachment", attachment={"type": "read_truncation_notice", "banner": "cut", "toolUseID": "t1"})
    log.user("go on")
    log.save(path)
    assert growing.read_session() == turnscope.load(path)
    assert any("cut" in block.text for block in turnscope.load(path).blocks if block.kind == "tool_result")


def simple(count: int, word: str = "prompt") -> Log:
    log = Log()
    for n in range(count):
        log.user(f"{word} {n}")
        log.answer(f"{word}{n}", f"answer {n}", usage=(1, 2, 3, 4))
    return log


@pytest.mark.parametrize("how", ["cut", "replaced", "rewritten in place"])
def test_a_file_that_is_not_what_it_was_is_read_anew(how: str, tmp_path: Path) -> None:
    path = simple(20).save(tmp_path / "s1.jsonl")
    growing = SessionFollower(path)
    assert len(growing.read_session().requests) == 20
    if how == "cut":
        os.truncate(path, len("".join(path.read_text().splitlines(keepends=True)[:10])))
    elif how == "replaced":
        simple(30, "another").save(tmp_path / "new.jsonl").replace(path)
    else:
        path.write_text(simple(30, "another").text())
    assert growing.read_session() == turnscope.load(path)
    assert len(growing.read_session().requests) in (5, 30)


def test_a_file_that_is_gone_says_so(tmp_path: Path) -> None:
    path = simple(2).save(tmp_path / "s1.jsonl")
    growing = SessionFollower(path)
    growing.read_session()
    path.unlink()
    with pytest.raises(UnreadableFile):
        growing.read_session()


def test_a_last_line_that_is_being_written_is_noted_until_it_is_whole(tmp_path: Path) -> None:
    path = simple(2).save(tmp_path / "s1.jsonl")
    growing = SessionFollower(path)
    line = simple(3).text().splitlines(keepends=True)[4]
    for part in (line[:50], line[50:-1], line[-1:]):
        with path.open("a") as file:
            file.write(part)
        assert growing.read_session() == turnscope.load(path)
        assert any(note.line for note in growing.read_session().notes) == (part == line[:50])


def test_a_subagents_file_that_grows_is_followed(tmp_path: Path) -> None:
    log = simple(2)
    log.answer("m9", call("t1", "Task", prompt="look"), usage=(1, 2, 3, 4))
    side = Log("s1", "a1")
    side.user("look")
    path, agent = log.save(tmp_path / "s1.jsonl"), side.save(tmp_path / "s1" / "subagents" / "agent-a1.jsonl")
    growing = SessionFollower(path)
    assert len(growing.read_session().subagents[0].blocks) == 1
    side.answer("am1", "found", usage=(1, 2, 3, 4))
    side.save(agent)
    assert growing.read_session() == turnscope.load(path)
    assert len(growing.read_session().subagents[0].blocks) == 2


def test_counts_of_a_session_that_grew_are_those_of_the_whole(tmp_path: Path) -> None:
    path = simple(5).save(tmp_path / "s1.jsonl")
    growing = SessionFollower(path)
    growing.open()
    path.write_text(simple(8).text())
    opened = growing.open()
    assert opened.trace.ledger.total == opening.count_session(turnscope.load(path)).total
    assert len(opened.overview) == 8


def test_other_formats_are_read_again_when_they_changed(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    hello = {"role": "user", "content": "hello"}
    path.write_text(json_line({"model": "claude-x", "max_tokens": 5, "system": "s", "messages": [hello]}))
    growing = SessionFollower(path)
    first = growing.read_session()
    assert growing.read_session() is first
    with path.open("a") as file:
        file.write(json_line({"model": "claude-x", "max_tokens": 6, "system": "s", "messages": [hello]}))
    assert len(growing.read_session().requests) == 2


def json_line(value: Any) -> str:
    return json.dumps(value) + "\n"


def test_a_few_lines_cost_a_small_part_of_the_first_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On 12 MB: nothing is laid out anew, and the new session is there in less than a tenth of the time of the first."""
    laid: list[int] = []
    really = paths.lay_out
    monkeypatch.setattr(following, "lay_out", lambda *given: laid.append(1) or really(*given))
    path = tmp_path / "big.jsonl"
    write(path, megabytes=12, requests=800, compactions=10)
    began = time.process_time()
    growing = following.SessionFollower(path)
    session = growing.thread().session
    first = time.process_time() - began
    more = Log(session.id)
    more.last = [line["uuid"] for line in map(json.loads, path.read_text().splitlines()) if "uuid" in line][-1]
    spent = []
    for n in range(5):
        more.user(f"go on {n}")
        more.answer(f"more{n}", "yes", usage=(1, 2, 3, 4))
        with path.open("a") as file:
            file.writelines(text + "\n" for text in more.text().splitlines()[-2:])
        began = time.process_time()
        session = growing.thread().session
        spent.append(time.process_time() - began)
    assert session == turnscope.load(path)
    assert len(laid) == 2
    assert min(spent) < first / 10
