"""A Claude Code session whose every text tries to be more than text. Holds the generator alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MARK = "pwned"  # in every attack, so that a test can look for what became of it
TEXT = (
    "<script>window.pwned=1</script><img src='http://evil.example/a.png' onerror='window.pwned=2'> $x^2$ and $y$ :red[pwned] "
    "![b](http://evil.example/b.png) [l](http://evil.example) :material/home: # pwned <style>*{display:none}</style> "
    "<form action='http://evil.example'><input></form>"
)
NAME = "![x](http:..evil.example..c.png) $pwned$ :red[b] <b>.jsonl"


def write(folder: Path) -> Path:
    """Write the session into `folder`, under a name that attacks as well."""
    lines: list[dict[str, Any]] = []

    def add(kind: str, content: Any, uid: str, second: int, **more: Any) -> None:
        message = {"role": kind, "content": content, **more}
        parent = lines[-1]["uuid"] if lines else None
        stamp = f"2026-01-01T00:00:{second:02}.000Z"
        about = {"cwd": TEXT, "sessionId": "s1", "version": "2.1.0", "gitBranch": TEXT, "isSidechain": False}
        lines.append({"type": kind, "uuid": uid, "parentUuid": parent, "timestamp": stamp, "message": message, **about})

    add("user", TEXT, "u0", 0)
    usage = {"input_tokens": 10, "cache_creation_input_tokens": 900, "cache_read_input_tokens": 18_000, "output_tokens": 50}
    for i in range(1, 10):
        call = {"type": "tool_use", "id": f"t{i}", "name": TEXT[:60], "input": {"file_path": f"/a/{TEXT}"}}
        content = [{"type": "thinking", "thinking": TEXT, "signature": "x"}, {"type": "text", "text": TEXT}, call]
        add(
            "assistant", content, f"a{i}", 2 * i, id=f"msg_{i}", type="message", model="claude-sonnet-4-5-20250929", usage=usage
        )
        add("user", [{"type": "tool_result", "tool_use_id": f"t{i}", "content": TEXT * i}], f"r{i}", 2 * i + 1)
    path = folder / NAME
    summary = {"type": "summary", "summary": TEXT, "leafUuid": "r9"}
    path.write_text("\n".join(json.dumps(line) for line in [summary, *lines]) + "\n", encoding="utf-8")
    return path
