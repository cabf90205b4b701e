"""Images and text files attached to a message: told apart by what they hold, counted, sent as replayed, kept, exported."""

from __future__ import annotations

import json
import struct
import zlib
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest
import turnscope
from covering import select_covering
from matrix import Row, Watched, _compare_bodies, list_offered
from turnscope.counting.media import count_media
from turnscope.errors import TurnscopeError
from turnscope.live import attachments, branches, request_checks
from turnscope.live.attachments import (
    MAX_ENCODED,
    MAX_FILES,
    MAX_IMAGE,
    MAX_SIDE,
    MAX_TEXT,
    build_content,
    encode_file,
    find_image_error,
    read_image,
    read_text_file,
    split_content,
)
from turnscope.live.chat import Settings
from turnscope.live.events import RequestDone, RequestRefused
from turnscope.live.offline.validation import find_rejection
from turnscope.live.provider import connect
from turnscope.planning.bodies import Bodies
from turnscope.planning.policy import load
from turnscope.pricing.prices import PRICES
from turnscope.session.destination import Destination
from turnscope.storage.database import open_database
from turnscope.storage.threads import Threads


def png(width: int, height: int, pixel: bytes = b"\x40\x80\xc0") -> bytes:
    """An image of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + pixel * width) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


GIF = b"GIF89a" + struct.pack("<HH", 30, 20) + b"\0" * 7 + b"\x3b"
JPEG = b"\xff\xd8\xff\xc0\x00\x11\x08" + struct.pack(">HH", 20, 30) + b"\x03" + b"\0" * 30 + b"\xff\xd9"
WEBP = b"RIFF\x24\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + (29).to_bytes(3, "little") + (19).to_bytes(3, "little") + b"\0" * 40


@pytest.mark.parametrize(
    ("data", "kind"), [(png(30, 20), "image/png"), (GIF, "image/gif"), (JPEG, "image/jpeg"), (WEBP, "image/webp")]
)
def test_an_image_is_known_by_its_bytes_whatever_it_is_called(data: bytes, kind: str) -> None:
    block = encode_file("notes.txt", data)
    assert block == {"type": "image", "source": {"type": "base64", "media_type": kind, "data": b64encode(data).decode()}}
    assert read_image(block) == attachments.ImageInfo(kind, 30, 20, len(data))
    assert find_image_error(block) == ""
    assert count_media(block, "claude-3") == count_media(attachments.build_placeholder_image("a", 30, 20, 9), "claude-3") == 2


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain", "plain"),
        (b"\xef\xbb\xbfwith a mark", "with a mark"),
        ("Grüße".encode("utf-16"), "Grüße"),
        (b"<svg onload='alert(1)'/>", "<svg onload='alert(1)'/>"),
        (b"GIF, in words", "GIF, in words"),
    ],
)
def test_a_text_file_is_a_text_that_names_it(data: bytes, text: str) -> None:
    block = encode_file('../up/a "b".png', data)
    assert read_text_file(block) == ("a _b_.png", text)
    assert read_text_file({"type": "text", "text": f"before {block['text']}"}) is None


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.pdf", b"%PDF-1.7\n\xff\x00", "neither an image that models accept nor text"),
        ("a.bin", b"\0\0\0", "neither an image"),
        ("a.txt", b"latin \xe9", "neither an image"),
        ("a.txt", b" \n", "is empty"),
        ("a.txt", b"x" * (MAX_TEXT + 1), "is too large"),
        ("a.png", png(1, 1) + b"\0" * MAX_IMAGE, "is too large"),
        ("a.png", png(1, 1)[:12], "is damaged"),
        ("a.png", png(1, 1).replace(struct.pack(">II", 1, 1), struct.pack(">II", MAX_SIDE + 1, 1)), "8,001 × 1 pixels"),
    ],
)
def test_what_cannot_be_sent_is_refused_by_name_with_a_way_out(name: str, data: bytes, why: str) -> None:
    with pytest.raises(TurnscopeError, match=why) as told:
        encode_file(name, data)
    assert told.value.what.startswith(name)
    assert told.value.hint


def test_as_many_files_as_a_message_takes_and_no_more() -> None:
    one = ("a.txt", b"x")
    content = build_content("said", [one] * MAX_FILES)
    assert split_content(content) == ([encode_file(*one)] * MAX_FILES, "said")
    assert build_content("said", []) == "said"
    assert split_content("said") == ([], "said")
    with pytest.raises(TurnscopeError, match="too many for one message"):
        build_content("said", [one] * (MAX_FILES + 1))
    assert len(encode_file("a.png", (png(1, 1) + b"\0" * MAX_IMAGE)[:MAX_IMAGE])["source"]["data"]) == MAX_ENCODED


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ({"media_type": "image/svg+xml"}, "media_type"),
        ({"media_type": "image/jpeg"}, "does not appear to be one"),
        ({"data": "A" * (MAX_ENCODED + 4)}, "exceeds 5 MB"),
        ({"data": ""}, "Field required"),
        ({"data": b64encode(png(1, 1)[:12]).decode()}, "Could not process"),
        ({"type": "carrier pigeon"}, "Field required"),
    ],
)
def test_the_built_in_model_rejects_images_that_the_api_rejects(source: dict[str, Any], why: str) -> None:
    block = encode_file("a.png", png(9, 9))
    asked = {"model": "offline-16k", "max_tokens": 9, "messages": [{"role": "user", "content": [block]}]}
    assert find_rejection(asked) == ""
    asked["messages"] = [{"role": "user", "content": [{"type": "image", "source": block["source"] | source}]}]
    assert why in find_rejection(asked)


@pytest.mark.thorough
def test_what_is_attached_is_kept_once_sent_as_replayed_and_exported_whole(tmp_path: Path) -> None:
    """With every rule that a chat offers, past the limit of a small window, and taken up again from the store."""
    image, notes = png(640, 480), ("notes.txt", ("The bridge is closed. search for it\n" * 300).encode())
    with Watched() as server:
        provider, threads = connect(server.url, "none", retries=0, timeout=60), Threads(tmp_path / "chats.db")
        for policy in select_covering(list_offered()):
            chosen, thread, row = Settings("offline-16k", load(policy)), threads.create(), Row(policy)
            chat = branches.start_chat(thread, provider, threads.open_writer(thread), chosen, "Be brief.", [])
            chat.sink.write_policy(chosen.policy, 0)  # type: ignore[attr-defined]
            wire: dict[int, dict[str, Any]] = {}
            for turn in range(6):
                files = [("cat.png", image), notes] if turn % 2 else []
                last = list(chat.send(build_content(f"And {turn}?", files)))[-1]
                assert isinstance(last, RequestDone | RequestRefused), (policy, last)
                if isinstance(last, RequestDone):
                    wire[last.request.n] = server.streamed[-1]
            stored = threads.load(thread)
            assert stored.blocks == chat.live_session.session.blocks, policy
            _compare_bodies(stored, chosen, wire, row)
            assert row.right, (policy, row.why)
            assert wire[1]["messages"][2]["content"][0]["source"]["data"] == b64encode(image).decode()
            assert json.dumps(wire[1]).count("data:") == 0
        assert server.rejected == []
        with open_database(tmp_path / "chats.db") as db:
            found = [str(row["content"]) for row in db.query("select content from blobs")]
        assert sum(b64encode(image).decode() in text for text in found) == 1
        exported = tmp_path / "chat.json"
        exported.write_bytes(turnscope.dumps(stored))
        again = turnscope.load(exported)
        kept = next(block.raw for block in again.blocks if block.kind == "image")
        assert b64decode(kept["source"]["data"]) == image


def test_the_built_in_model_says_what_it_was_given_and_calls_no_tool_for_a_files_words(tmp_path: Path) -> None:
    with Watched() as server:
        tools = [{"name": "search_files", "input_schema": {"type": "object"}}]
        threads, settings = Threads(tmp_path / "chats.db"), Settings("offline-16k", load("keep-everything"))
        thread = threads.create()
        chat = branches.start_chat(thread, connect(server.url, "none"), threads.open_writer(thread), settings, "", tools)
        files = [("cat.png", png(64, 48)), ("a.txt", b"search for the heron")]
        planned, growing = chat.preview_after([("user", build_content("What is this?", files))])
        assert len(growing.session.blocks) == len(chat.live_session.session.blocks) + 3
        last = list(chat.send(build_content("What is this?", files)))[-1]
        assert isinstance(last, RequestDone)
        assert last.request.usage
        assert abs(planned.expected_tokens - last.request.usage.prompt_tokens) < 25
        said = chat.live_session.session.blocks[-1].text
        assert "an image (PNG, 64 × 48, 1 kB), counted as 255 tokens; the file a.txt (20 characters)" in said
        assert 'Your message begins "What is this?"' in said


def pictures(many: int, side: int) -> list[Any]:
    """Messages with so many images, the last of them in a tool's result and of that side."""
    small, last = attachments.build_placeholder_image("a", 30, 20, 9), attachments.build_placeholder_image("b", side, 20, 9)
    use = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    back = {"type": "tool_result", "tool_use_id": "t1", "content": [last]}
    return [
        {"role": "user", "content": [*[small] * (many - 1), {"type": "text", "text": "look"}]},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [back]},
    ]


@pytest.mark.parametrize(("many", "side", "goes"), [(20, 2_001, True), (21, 2_000, True), (21, 2_001, False)])
def test_above_twenty_images_none_may_have_a_side_over_2000_pixels(many: int, side: int, goes: bool) -> None:
    messages = pictures(many, side)
    sending = {"model": "claude-opus-4-6", "max_tokens": 9, "messages": messages}
    refused = find_rejection(sending)
    stopped = request_checks.check_body(sending, "claude-opus-4-6", PRICES, Bodies(), Destination("anthropic"))
    assert (refused == "") is goes
    assert (stopped is None) is goes
    if not goes:
        assert "many-image requests: 2000 pixels" in refused
        assert stopped is not None
        assert stopped.path == "messages.2.content.0.content.0"
    there = Destination("server", "http://127.0.0.1:11434", "local-7b")  # such a rule is Anthropic's alone
    assert request_checks.check_body(sending, "local-7b", PRICES, Bodies(), there) is None


def test_a_local_server_is_judged_by_what_is_known_of_any() -> None:
    there, call = (
        Destination("server", "http://127.0.0.1:11434", "local-7b"),
        {"type": "tool_use", "id": "a", "name": "x", "input": {}},
    )
    blank = {"role": "assistant", "content": [{"type": "text", "text": " "}]}
    for messages, goes in (([], False), ([{"role": "assistant", "content": [call]}], False), ([blank], True)):
        sending = {"model": "local-7b", "max_tokens": 9, "messages": messages}
        assert (request_checks.check_body(sending, "local-7b", PRICES, Bodies(), there) is None) is goes
        assert request_checks.check_body(sending, "claude-opus-4-6", PRICES, Bodies(), there) is not None, (
            "a way to Anthropic's models"
        )
        assert request_checks.check_body(sending, "local-7b", PRICES, Bodies(), Destination("anthropic")) is not None
