"""A trace that was written without content, of a log without usage: the envelope page shows its sizes, as estimates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import turnscope
from turnscope.cli import main

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest


def test_sizes_of_a_trace_without_content_are_estimates(app: AppTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, out = tmp_path / "chat.json", tmp_path / "trace.jsonl"
    said = [{"role": role, "content": f"{role} says " + "this and that " * 300} for role in ("user", "assistant") * 3]
    log.write_text(json.dumps({"messages": said}))
    assert main(["trace", str(log), str(out)]) == 0
    size = turnscope.replay(log).count_tokens(2)
    monkeypatch.setenv("TURNSCOPE_OPEN", str(out))
    app.query_params["request"] = "3"
    app.run()
    assert not app.exception
    page = "\n".join(element.proto.body for element in app.get("html"))
    assert f"Messages: {size:,} tokens, estimated" in page
