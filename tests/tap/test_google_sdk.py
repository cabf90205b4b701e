"""Google's SDK through the tap: the same objects as without it, with an image and a stream; its log opens."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import turnscope
from google import genai
from google.genai import types
from turnscope.tap.apis import Upstreams
from turnscope.tap.server import run_tap

from tests.tap.upstream import serve, stream, whole

CHUNKS = [
    {"candidates": [{"content": {"role": "model", "parts": [{"text": "a red "}]}}], "modelVersion": "gemini-2.5-pro"},
    {"candidates": [{"content": {"parts": [{"text": "square"}]}, "finishReason": "STOP"}]},
    {"usageMetadata": {"promptTokenCount": 270, "candidatesTokenCount": 4, "totalTokenCount": 274}},
]
IMAGE = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC")
KEY = "a-key-of-google-that-nobody-may-read"


def ask(address: str) -> list[Any]:
    """What the SDK makes of an answer whole and of one in a stream."""
    client = genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=address))
    contents = [types.Part.from_bytes(data=IMAGE, mime_type="image/png"), "what is this?"]
    whole_answer = client.models.generate_content(model="gemini-2.5-pro", contents=contents)
    parts = [part.text for part in client.models.generate_content_stream(model="gemini-2.5-pro", contents=contents)]
    return [whole_answer.text, whole_answer.usage_metadata, parts]


def test_googles_sdk_gets_through_the_tap_what_it_gets_without_it(tmp_path: Path) -> None:
    last = {**CHUNKS[1], "candidates": [{"content": {"role": "model", "parts": [{"text": "a red square"}]}}], **CHUNKS[2]}
    answers = (
        whole(json.dumps(last).encode()),
        stream(*(f"data: {json.dumps(chunk)}\r\n\r\n".encode() for chunk in CHUNKS)),
    )
    with serve(*answers) as direct, serve(*answers) as upstream:
        expected = ask(direct.url)
        with run_tap(tmp_path / "log.jsonl", Upstreams("", {"gemini": upstream.url})) as tap:
            assert ask(f"{tap.address}/gemini") == expected
        assert [body for _, body in upstream.came] == [body for _, body in direct.came]
    assert expected[0] == "a red square"
    session = turnscope.load(tmp_path / "log.jsonl")
    kinds = [block.kind for block in session.blocks]
    assert kinds.count("image") >= 1
    assert session.requests[0].usage
    assert session.requests[0].usage.prompt_tokens == 270
    assert KEY not in (tmp_path / "log.jsonl").read_text("utf-8")
