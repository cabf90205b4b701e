"""The command `turnscope tap`, what it tells tools, and the SDKs of two vendors that go through it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import turnscope
from api_server import KEY, ApiServer, Say
from processes import run
from turnscope.live.offline.server import OfflineServer
from turnscope.tap.apis import Upstreams, detect_api
from turnscope.tap.server import make_log_path, run_tap
from turnscope.tap.tools import build_command, build_environment, read_upstreams

TAP = "http://127.0.0.1:9"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    made = ApiServer()
    yield made
    made.close()


def test_each_provider_has_an_address_of_its_own_behind_which_its_paths_are() -> None:
    upstreams = read_upstreams("", {"OPENAI_BASE_URL": "http://localhost:1234/v1"})
    made = build_environment(TAP, upstreams, {"PATH": "/bin", "NO_PROXY": "intranet"})
    assert made["ANTHROPIC_BASE_URL"] == f"{TAP}/anthropic"
    assert made["OPENAI_BASE_URL"] == made["OPENAI_API_BASE"] == f"{TAP}/openai/v1"
    assert made["GOOGLE_GEMINI_BASE_URL"] == f"{TAP}/gemini"
    assert made["NO_PROXY"].startswith("intranet,127.0.0.1")
    assert upstreams.find_address("/anthropic/v1/messages") == "https://api.anthropic.com/v1/messages"
    assert upstreams.find_address("/openai/v1/responses") == "http://localhost:1234/v1/responses"
    assert upstreams.find_address("/gemini/v1beta/models/g:generateContent").startswith("https://generativelanguage")
    assert [upstreams.find_address(path) for path in ("/v1/messages", "/", "/anthropic", "")] == [""] * 4


def test_one_upstream_takes_all_requests_with_the_version_that_a_tool_puts_before_them() -> None:
    upstreams = read_upstreams("http://localhost:11434/v1/", {"ANTHROPIC_BASE_URL": "http://other"})
    assert build_environment(TAP, upstreams, {})["OPENAI_BASE_URL"] == f"{TAP}/v1"
    assert upstreams.find_address("/v1/chat/completions") == "http://localhost:11434/v1/chat/completions"


def test_codex_gets_its_address_as_an_argument_because_it_reads_no_variable() -> None:
    upstreams = Upstreams("", {})
    assert build_command(["codex", "exec", "hi"], TAP, upstreams)[1:3] == ["-c", f'openai_base_url="{TAP}/openai/v1"']
    assert build_command(["claude", "-p", "hi"], TAP, upstreams) == ["claude", "-p", "hi"]


@pytest.mark.parametrize(
    ("path", "api"),
    [
        ("/v1/messages", "anthropic-messages"),
        ("/v1/messages/count_tokens", "anthropic-count"),
        ("/v1/messages/batches", ""),
        ("/openai/deployments/d/chat/completions", "openai-chat"),
        ("/v1/responses", "openai-responses"),
        ("/v1/responses/compact", "openai-responses"),
        ("/v1/embeddings", ""),
        ("/v1beta/models/g-1:streamGenerateContent", "gemini"),
        ("/v1beta/models/g-1:countTokens", "gemini-count"),
        ("/v1/responses/input_tokens", "openai-count"),
    ],
)
def test_an_api_is_known_by_the_end_of_its_path(path: str, api: str) -> None:
    assert detect_api(path) == api


def test_the_sdk_of_anthropic_goes_through_streamed_or_not(tmp_path: Path) -> None:
    from anthropic import Anthropic

    path = tmp_path / "log.jsonl"
    with OfflineServer() as upstream, run_tap(path, Upstreams(upstream.url, {})) as tap:
        client = Anthropic(api_key=KEY, base_url=tap.address, max_retries=0)
        question: Any = {"model": "claude-opus-5-5", "max_tokens": 64, "messages": [{"role": "user", "content": "hello"}]}
        first = client.messages.create(**question)
        words = [first.content[0].text, "and on"]  # type: ignore[union-attr]
        question["messages"] += [{"role": "assistant", "content": words[0]}, {"role": "user", "content": words[1]}]
        assert client.messages.count_tokens(**{k: v for k, v in question.items() if k != "max_tokens"}).input_tokens > 5
        with client.messages.stream(**question) as stream:
            last = stream.get_final_message()
        direct = Anthropic(api_key=KEY, base_url=upstream.url, max_retries=0).messages.create(**question)
        assert [block.text for block in last.content] == [block.text for block in direct.content]
    session = turnscope.load(path)
    assert [request.usage.output_tokens for request in session.requests] == [
        first.usage.output_tokens,
        last.usage.output_tokens,
    ]
    assert [block.text for block in session.blocks][:2] == ["hello", words[0]]
    assert KEY not in path.read_text()


def test_the_sdk_of_openai_goes_through_with_both_apis(server: ApiServer, tmp_path: Path) -> None:
    from openai import OpenAI

    path = tmp_path / "log.jsonl"
    with run_tap(path, Upstreams("", {"openai": f"{server.url}/v1"}), command=["app"]) as tap:
        client = OpenAI(api_key=KEY, base_url=f"{tap.address}/openai/v1", max_retries=0)
        server.script.extend([Say("one"), Say("two"), Say("three")])
        asked: Any = [{"role": "user", "content": "count"}]
        assert client.chat.completions.create(model="m-1", messages=asked).choices[0].message.content == "one"
        asked += [{"role": "assistant", "content": "one"}, {"role": "user", "content": "go on"}]
        chunks = [*client.chat.completions.create(model="m-1", messages=asked, stream=True)]
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "two"
        question: Any = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "another thing"}]}]
        assert client.responses.create(model="m-1", input=question, store=False).output_text == "three"
    assert server.rejected == []
    session = turnscope.load(path)
    assert ([len(one.requests) for one in (session, *session.subagents)]) == [2, 1]
    assert [block.text for block in session.blocks] == ["count", "one", "go on", "two"]


SCRIPT = """
import json, os, sys, urllib.request
body = json.dumps({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}).encode()
request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", body, {"x-api-key": "k" * 20})
print(json.load(urllib.request.urlopen(request))["role"])
sys.exit(7)
"""


def test_a_command_runs_behind_the_tap_and_its_exit_code_is_the_tap_s(data_folder: Path) -> None:
    with OfflineServer() as upstream:
        done = run("tap", "--upstream", upstream.url, "--", sys.executable, "-c", SCRIPT)
    assert (done.returncode, done.stdout) == (7, "assistant\n")
    (path,) = (data_folder / "tap").iterdir()
    assert f"`turnscope {path}` opens what passes here" in done.stderr
    assert turnscope.load(path).blocks[0].text == "hi"


def test_a_command_that_does_not_exist_and_a_wrong_address_are_said(data_folder: Path) -> None:
    done = run("tap", "--", "no-such-agent")
    assert (done.returncode, "no-such-agent cannot be started: No such file" in done.stderr) == (127, True)
    assert "no request passed" in run("tap", "--", sys.executable, "-c", "pass").stderr
    assert run("tap", "--upstream", "localhost:1").returncode == 2
    assert run("tap", "--token", "word").returncode == 2
    assert [*(data_folder / "tap").iterdir()] == [], "a log without a call is removed"


def test_a_tap_without_a_command_says_what_to_set_and_ends_with_ctrl_c(data_folder: Path) -> None:
    arguments = [sys.executable, "-m", "turnscope", "tap", "--upstream", "http://localhost:1", "--port", "18603"]
    with subprocess.Popen(
        arguments, stderr=subprocess.PIPE, text=True, env=os.environ | {"TURNSCOPE_DATA": str(data_folder)}
    ) as tap:
        lines = [tap.stderr.readline() for _ in range(6)]
        tap.send_signal(signal.SIGINT)
        assert tap.wait(20) == 0
    assert "export ANTHROPIC_BASE_URL=http://127.0.0.1:18603\n" in "".join(lines)


def test_logs_are_named_after_their_command_and_never_taken_twice(tmp_path: Path) -> None:
    path = make_log_path(tmp_path, ["/usr/bin/claude", "-p"])
    assert path.name.startswith("claude-2")
    path.write_text("")
    assert make_log_path(tmp_path, ["/usr/bin/claude"]) != path
    assert make_log_path(tmp_path, []).name.startswith("tap-2")
    assert json.dumps(str(make_log_path(tmp_path, ["../.."]))).count("..") == 0
