"""Sessions taken away in other forms: what opens again is the same conversation."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import turnscope
from claude_log import Log, call
from conftest import ROOT, SHARED
from turnscope import Session
from turnscope.cli import main
from turnscope.errors import BrokenFile
from turnscope.reading.registry import find_importers
from turnscope.session.builder import Builder
from turnscope.share import export_formats

SAMPLES = ROOT / "sample_sessions"
OPEN = [
    ("librechat", "librechat-tree.json"),
    ("claude-code", "entire-d599-microcompact.jsonl"),
    ("chatgpt", ""),
    ("codex", ""),
    ("pi", ""),
    ("opencode", ""),
]


def sessions() -> list[Any]:
    found = [pytest.param(path, id=path.stem) for path in sorted(SAMPLES.glob("*.jsonl"))]
    for folder, name in OPEN:
        files = sorted(path for path in (SHARED / "data" / "open" / folder).glob(name or "*") if path.is_file())
        found += [pytest.param(path, id=path.name) for path in files[:2]]
    return found


def list_said(session: Session) -> list[tuple[str, str]]:
    """What was said: the texts, calls and results in order. Neighbours of one role are one message on the wire."""
    told = []
    for block in session.blocks:
        if block.role in ("user", "assistant") and block.text.strip():
            told.append((block.role, block.text.strip()))
    return told


def open_again(session: Session, form: str, folder: Path) -> Session:
    made = export_formats.list_formats()[form]
    path = folder / f"again.{made.suffix}"
    path.write_bytes(made.encode(session))
    return turnscope.load(path)


@pytest.mark.parametrize("path", sessions())
def test_our_own_forms_are_exact_and_those_of_apis_open_as_the_same_conversation(path: Path, tmp_path: Path) -> None:
    session = turnscope.load(path)
    for form in ("json", "jsonl"):
        assert open_again(session, form, tmp_path) == session
    body = export_formats.to_anthropic(session)
    assert list_said(session) == [pair for pair in _list_body(body) if pair[1].strip()]
    again = open_again(session, "anthropic", tmp_path)
    assert list_said(again) == list_said(session)
    assert open_again(session, "openai", tmp_path).source == "openai-chat"


def _list_body(body: dict[str, Any]) -> list[tuple[str, str]]:
    from turnscope.session.content import extract_block_text

    told = []
    for message in body["messages"]:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        told += [(message["role"], extract_block_text(block.get("type", "text"), block).strip()) for block in blocks]
    return told


def turns(session: Session) -> list[tuple[str, str]]:
    """What each side said, one after the other, white space aside."""
    sides = groupby(list_said(session), key=lambda pair: pair[0])
    return [(role, " ".join(" ".join(text for _, text in told).split())) for role, told in sides]


def calls(session: Session) -> list[Any]:
    found = [(block, block.raw) for block in session.blocks if block.kind == "tool_use"]
    return [(raw.get("id") or "", raw.get("name"), raw.get("input"), block.pair >= 0) for block, raw in found]


@pytest.mark.thorough
def test_every_open_file_and_branch_opens_again_in_every_form(tmp_path: Path, shared: Any) -> None:
    seen = set()
    for path in sorted(p for p in shared("data", "open").rglob("*") if p.is_file() and p.stat().st_size < 2_000_000):
        with suppress(turnscope.TurnscopeError):
            for whole in turnscope.load_all(path)[:3]:
                for session in (whole, *whole.branches[:2]):
                    if session.id in seen or not list_said(session):
                        continue
                    seen.add(session.id)
                    for form in export_formats.list_formats():
                        again, where = open_again(session, form, tmp_path), f"{path.name}, {session.id}, {form}"
                        if form in ("json", "jsonl"):
                            assert again == session, where
                        elif form == "chainreview":  # without thoughts
                            assert {text for _, text in list_said(again)} <= {text for _, text in list_said(session)}, where
                        else:
                            assert calls(again) == calls(session), where
                        if form in ("anthropic", "markdown"):
                            assert turns(again) == turns(session), where
    assert len(seen) > 30


def test_markdown_whose_headings_are_all_inside_a_fence_holds_no_message(tmp_path: Path) -> None:
    path = tmp_path / "chat.md"
    path.write_text("# Go\n\n```text turnscope a\n## You <!-- turnscope user -->\n\ngo\n```\n")
    with pytest.raises(BrokenFile, match="holds no message"):
        turnscope.load(path)


def test_markdown_of_texts_that_look_like_its_own_lines_opens_again(tmp_path: Path) -> None:
    heads = "## You <!-- turnscope user -->\n\\## Model <!-- turnscope assistant -->"
    hard = f"{heads}\n```thinking turnscope\nno\n```\n![x](data:image/png;base64,AA)"
    log = Log()
    log.user(hard)
    log.answer("m1", "```python\n# a\n```\n\n" + hard, call("t 1", "Bash", command="```\n````\n" + hard), usage=(10, 0, 0, 5))
    log.result("t 1", hard + "\n")
    log.answer("m2", "Done.", usage=(10, 0, 0, 5))
    session = turnscope.load(log.save(tmp_path / "s.jsonl"))
    again = open_again(session, "markdown", tmp_path)
    assert again.source == "markdown"
    assert turns(again) == turns(session)
    assert calls(again) == calls(session)
    assert [block.kind for block in again.blocks] == [block.kind for block in session.blocks]


def test_attachments_are_in_every_form(tmp_path: Path) -> None:
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjMgeA=="}
    address = {"type": "url", "url": "https://a.test/a.png"}
    words = {"type": "text", "media_type": "text/plain", "data": "words"}
    kinds = (("document", pdf), ("image", address), ("document", words))
    builder = Builder("s", "test")
    builder.add_message("user", [{"type": kind, "source": source} for kind, source in kinds], origin="prompt")
    builder.set_request(builder.add_message("assistant", "Seen."))
    session = builder.build()
    for form in ("anthropic", "chainreview", "markdown"):
        again = open_again(session, form, tmp_path)
        assert [(b.kind, b.raw["source"]) for b in again.blocks if b.role == "user"] == [*kinds], form
    file, picture, text = (block.raw for block in open_again(session, "openai", tmp_path).blocks[:3])
    assert file["file"] == {"filename": "document.pdf", "file_data": f"data:application/pdf;base64,{pdf['data']}"}
    assert (picture["image_url"], text["text"]) == ({"url": address["url"]}, "words")


def test_openai_messages_keep_texts_calls_and_results(tmp_path: Path) -> None:
    session = turnscope.load(SAMPLES / "tool-results-eat-the-window.jsonl")
    again = open_again(session, "openai", tmp_path)
    for kind in ("text", "tool_result"):
        texts = {b.text.strip() for b in again.blocks if b.kind in ("text", "tool_result", "summary")}
        wanted = [b.text.strip() for b in session.blocks if b.kind == kind and b.text.strip()]
        assert sum(text in texts or any(text in other for other in texts) for text in wanted) == len(wanted)
    uses = [(b.raw["id"], b.raw["name"], b.raw["input"]) for b in session.blocks if b.kind == "tool_use"]
    assert [(b.raw["id"], b.raw["name"], b.raw["input"]) for b in again.blocks if b.kind == "tool_use"] == uses


def test_a_branch_is_exported_as_its_own_path(tmp_path: Path, shared: Any, capsysbinary: Any) -> None:
    path = shared("data", "open", "librechat", "librechat-tree.json")
    thread = turnscope.thread(path)
    assert len(thread.leaves) > 1
    texts = []
    for leaf in thread.leaves:
        assert main(["export", str(path), "--as", "markdown", "--branch", leaf]) == 0
        texts.append(capsysbinary.readouterr().out)
    assert len(set(texts)) == len(texts)
    assert main(["export", str(path), "--branch", "nowhere"]) == 2
    assert b"there is no branch 'nowhere'" in capsysbinary.readouterr().err
    made = tmp_path / "made.jsonl"
    assert main(["export", str(path), "--as", "jsonl", "--output", str(made)]) == 0
    assert turnscope.load(made) == thread.session
    assert json.loads(made.read_text().splitlines()[0])["format"] == "turnscope-session-lines"


def test_a_chainreview_file_holds_the_history_without_thoughts_and_opens_again(tmp_path: Path) -> None:
    session = turnscope.load(SAMPLES / "tool-results-eat-the-window.jsonl")
    made = export_formats.to_chainreview(session)
    last = session.requests[-1].usage
    assert last
    assert made["tokenCount"] == last.prompt_tokens + last.output_tokens
    assert made["repoPath"] == session.about["cwd"]
    assert "thinking" not in {b["type"] for m in made["apiHistory"] if isinstance(m["content"], list) for b in m["content"]}
    if "chainreview" in {importer.name for importer in find_importers()}:
        again = open_again(session, "chainreview", tmp_path)
        assert again.source == "chainreview"
        assert [block.text.strip() for block in again.blocks if block.kind == "tool_result"] == [
            block.text.strip() for block in session.blocks if block.kind == "tool_result"
        ]


def test_the_messages_of_chainreviews_screen_keep_the_thoughts_that_its_history_has_not(tmp_path: Path) -> None:
    session = turnscope.load(SAMPLES / "thinking-grows.jsonl")
    thoughts = [block.text for block in session.blocks if block.kind == "thinking"]
    assert thoughts
    again = open_again(session, "chainreview", tmp_path)
    assert [block.text for block in again.blocks if block.kind == "thinking"] == thoughts
    made = export_formats.to_chainreview(session)
    assert export_formats.to_chainreview(again)["uiMessages"] == made["uiMessages"]
    made["uiMessages"][0] = {"role": "user", "content": "Something else."}
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(made))
    edited = turnscope.load(path)
    assert not [block for block in edited.blocks if block.kind == "thinking"]
    assert "are not those that were sent" in edited.notes[0].what


@pytest.mark.parametrize("screen", [True, False])
def test_a_chainreview_file_that_was_opened_is_written_again_without_loss(tmp_path: Path, screen: bool) -> None:
    thought = {"type": "thinking", "thinking": "hm"}
    answer = {"role": "assistant", "content": [{"type": "text", "text": "done"}]}
    shown = {**answer, "content": [thought, *answer["content"]]} if screen else {"role": "status", "text": "Reading.", "ts": 5}
    go = {"role": "user", "content": [{"type": "text", "text": "go"}]}
    stored = {
        "id": "s",
        "createdAt": "2026-01-01T00:00:00Z",
        "updatedAt": "2026-01-02T00:00:00Z",
        "repoPath": "/w",
        "reviewRunId": "run-7",
        "tokenCount": 1_234,
        "condensedSummary": "so far",
        "apiHistory": [go, answer],
        "uiMessages": [go, shown],
        "findings": [{"id": "f1", "text": "odd"}],
    }
    path = tmp_path / "s.json"
    path.write_text(json.dumps(stored))
    assert export_formats.to_chainreview(turnscope.load(path)) == stored


def test_a_broken_line_of_an_export_is_said_and_no_exception(tmp_path: Path) -> None:
    made = export_formats.list_formats()["jsonl"].encode(turnscope.load(SAMPLES / "cache-goes-cold.jsonl"))
    for n, cut in enumerate((made[: len(made) // 2], made.replace(b'"message"', b'"massage"', 3), made.splitlines()[0])):
        path = tmp_path / f"{n}.jsonl"
        path.write_bytes(cut)
        with suppress(turnscope.TurnscopeError):
            assert turnscope.load(path).blocks
