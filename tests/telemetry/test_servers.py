"""Traces that a real Phoenix and a real MLflow received: what they show is ours, and what they stored opens again.

Each server runs from an environment of its own, as their packages want other versions than ours do:

    python -m venv .phoenix && .phoenix/bin/pip install arize-phoenix
    python -m venv .mlflow && .mlflow/bin/pip install mlflow
    PHOENIX_PYTHON=.phoenix/bin/python MLFLOW_PYTHON=.mlflow/bin/python pytest tests/telemetry/test_servers.py
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import turnscope
from conftest import ROOT
from turnscope.cli import main
from turnscope.session.model import Session
from turnscope.telemetry import names

SAMPLE = ROOT / "sample_sessions" / "cache-goes-cold.jsonl"
WAIT = 300  # seconds until a server answers: both load much


def find_free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def run(command: list[str], folder: Path, health: str, variables: Mapping[str, str]) -> Iterator[None]:
    """A server until the block ends."""
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, env={**os.environ, **variables}, cwd=folder, stdout=log, stderr=log)
    try:
        until = time.monotonic() + WAIT
        while not is_up(health):
            assert server.poll() is None, (folder / "server.log").read_text()[-2000:]
            assert time.monotonic() < until
            time.sleep(0.5)
        yield
    finally:
        server.terminate()
        server.wait(30)


def is_up(address: str) -> bool:
    try:
        return bool(urlopen(address, timeout=5).status == 200)
    except OSError:
        return False


def assert_same(back: Session) -> None:
    """What a server stored opens as the session that was sent."""
    session = turnscope.load(SAMPLE)
    assert [request.usage for request in back.requests] == [request.usage for request in session.requests]
    assert [block.text for block in back.blocks] == [block.text for block in session.blocks]


def test_phoenix_shows_messages_tokens_sessions_and_tools(tmp_path: Path) -> None:
    python = os.environ.get("PHOENIX_PYTHON")
    if not python:
        pytest.skip("PHOENIX_PYTHON names no Python that has Phoenix")
    port, other = find_free_port(), find_free_port()
    url = f"http://127.0.0.1:{port}"
    about = {"PHOENIX_PORT": str(port), "PHOENIX_GRPC_PORT": str(other), "PHOENIX_TELEMETRY_ENABLED": "false"}
    command = [str(Path(python).absolute()), "-m", "phoenix.server.main", "serve"]
    with run(command, tmp_path, f"{url}/healthz", {**about, "PHOENIX_WORKING_DIR": str(tmp_path)}):
        assert main(["trace", str(SAMPLE), "--endpoint", url, "--content"]) == 0
        spans: list[dict[str, Any]] = []
        until = time.monotonic() + WAIT
        while len(spans) < 176 and time.monotonic() < until:  # Phoenix stores them some time after it took them
            time.sleep(0.5)
            spans = json.load(urlopen(f"{url}/v1/projects/default/spans?limit=1000"))["data"]
        (tmp_path / "spans.json").write_text(json.dumps({"data": spans}))
    assert Counter(span["span_kind"] for span in spans) == {"LLM": 88, "TOOL": 76, "AGENT": 12}
    session = turnscope.load(SAMPLE)
    calls = [span["attributes"] for span in spans if span["span_kind"] == "LLM"]
    assert all("llm.output_messages.0.message.role" in call for call in calls)
    assert all(call.get(names.INPUT) is None or "llm.input_messages.0.message.role" in call for call in calls)
    shown = sum(call["llm.token_count.prompt_details.cache_write"] for call in calls)
    assert shown == sum(request.usage.cache_creation_input_tokens for request in session.requests if request.usage)
    assert len({span["attributes"]["session.id"] for span in spans}) == 1
    turns = [span["attributes"] for span in spans if span["span_kind"] == "AGENT"]
    assert all(turn["input.value"] and turn["output.value"] for turn in turns)
    for stored in (tmp_path / "spans.json", tmp_path / "phoenix.db"):
        assert_same(turnscope.load(stored))


def test_mlflow_shows_messages_sessions_and_our_cost(tmp_path: Path) -> None:
    python = os.environ.get("MLFLOW_PYTHON")
    if not python:
        pytest.skip("MLFLOW_PYTHON names no Python that has MLflow")
    port, database = find_free_port(), tmp_path / "mlflow.db"
    url = f"http://127.0.0.1:{port}"
    stores = ["--backend-store-uri", f"sqlite:///{database}", "--default-artifact-root", str(tmp_path / "artifacts")]
    command = [str(Path(python).absolute()), "-m", "mlflow", "server", *stores, "--port", str(port), "--workers", "1"]
    with run(command, tmp_path, f"{url}/health", {"MLFLOW_DISABLE_TELEMETRY": "true"}):
        given = ["--endpoint", url, "--header", "x-mlflow-experiment-id=0", "--content"]
        assert main(["trace", str(SAMPLE), *given]) == 0
    with sqlite3.connect(database) as stored:
        (turns, usd, sessions) = stored.execute(
            "select count(*), sum(total_cost), count(distinct session_id) from trace_info"
        ).fetchone()
        spans = [json.loads(content)["attributes"] for (content,) in stored.execute("select content from spans")]
    assert (turns, sessions, len(spans)) == (12, 1, 176)
    assert usd == pytest.approx(float(turnscope.overview(turnscope.load(SAMPLE)).bill.whole.usd), abs=0.005)
    kinds = Counter(json.loads(span["mlflow.spanType"]) for span in spans)
    assert kinds == {"CHAT_MODEL": 88, "TOOL": 76, "AGENT": 12}
    assert all(json.loads(span["mlflow.spanOutputs"]) for span in spans)
    assert_same(turnscope.load(database))
