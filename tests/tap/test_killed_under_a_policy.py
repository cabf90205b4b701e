"""A tap that is killed while it edits: its log stays whole, and the agent goes on behind the next tap as before."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anthropic
import pytest
import turnscope
from turnscope.reading.source import Source
from turnscope.reading.tap_log import read_tap_log

from tests.tap.strict_upstream import StrictUpstream, serve_strictly
from tests.tap.test_enforcement import WINDOW, Agent, list_sent, strip_marks

TAP = f"""
import sys
from pathlib import Path
from turnscope.planning.policy import parse
from turnscope.tap.apis import Upstreams
from turnscope.tap.enforcement import Rules
from turnscope.tap.server import run_tap
policy = parse("short", '[budget]\\nformula = "window"\\n[[rules]]\\nrule = "condense"\\nshare = 0.5\\n')
with run_tap(Path(sys.argv[1]), Upstreams(sys.argv[2], {{}}), rules=Rules(policy, {WINDOW})) as tap:
    print(tap.address, flush=True)
    sys.stdin.read()
"""


@contextmanager
def start_tap(log: Path, upstream: StrictUpstream) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    command = [sys.executable, "-c", TAP, str(log), upstream.url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield process.stdout.readline().strip(), process
        process.kill()


@pytest.mark.parametrize("moment", ["a summary", pytest.param("an edited request", marks=pytest.mark.thorough)])
def test_killed_in_the_middle_of_it_nothing_is_half_there_and_the_agent_goes_on(tmp_path: Path, moment: str) -> None:
    reached, release = threading.Event(), threading.Event()
    with serve_strictly(4 * WINDOW) as upstream:
        answer = upstream.answer

        def answer_late(path: str, text: str) -> tuple[int, Any]:
            is_moment = "<transcript>" in text if moment == "a summary" else upstream.asked and "<transcript>" not in text
            if is_moment and not release.is_set():
                reached.set()
                release.wait(20)
            return answer(path, text)

        upstream.answer = answer_late  # type: ignore[method-assign]
        with start_tap(tmp_path / "first.jsonl", upstream) as (address, process):
            agent = Agent("anthropic-messages", address)
            threading.Thread(target=play_until_it_breaks, args=(agent,), daemon=True).start()
            assert reached.wait(60)
            time.sleep(0.2)  # the log is written within 20 ms
            process.send_signal(signal.SIGKILL)
            process.wait()
            release.set()
        history, before = json.loads(json.dumps(agent.history)), len(upstream.bodies)
        with start_tap(tmp_path / "second.jsonl", upstream) as (address, process):
            again = Agent("anthropic-messages", address)
            again.history = history
            again.play(4)
            process.communicate("")
    assert upstream.rejected == []
    for sent, believed in zip(list_sent(upstream, "anthropic-messages")[-4:], again.believed, strict=True):
        assert sent[-1] == strip_marks(believed[-1])
    assert len(upstream.bodies) >= before + 4
    log = read_tap_log(Source(tmp_path / "first.jsonl"))
    assert [note for note in log.notes if note.severity == "error"] == []
    assert all(call.outcome == "complete" and call.status == 200 for call in log.calls[:-2])
    assert any(not call.outcome for call in log.calls[-2:])
    session = turnscope.load(tmp_path / "first.jsonl")
    assert any("no end of it is recorded" in note.what for note in session.notes)
    assert {call.outcome for call in read_tap_log(Source(tmp_path / "second.jsonl")).calls} == {"complete"}


def play_until_it_breaks(agent: Agent) -> None:
    with suppress(anthropic.APIConnectionError):
        agent.play(40)
