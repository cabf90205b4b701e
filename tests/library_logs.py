"""Logs made offline by ten of today's libraries, and opened: `python -m tests.library_logs [FOLDER]`.

    python -m venv .logs && .logs/bin/pip install -e ".[logs]" && .logs/bin/python -m tests.library_logs

A server of our own answers as OpenAI's and Anthropic's APIs do: first with a call of the tool that it is offered, then with a
text. Each library writes its log as it always does. Then each log must hold the prompt, the call with its result, the answer
and the tokens that the server billed. Prints a line for each library; exit code 1 where one is wrong.

Phoenix wants other versions than the rest: its server runs in an environment of its own, which the first run makes with pip in
`.logs/phoenix`. `PHOENIX_PYTHON` names the Python of another one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import turnscope

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # nothing is asked of the network

PHOENIX = "arize-phoenix==20.26.1"
PROMPT, ANSWER, SEEN = "Look at the file, please.", "It holds three lines.", "one two three"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
USAGE = ((120, 9), (160, 7))  # tokens of prompt and answer of the first and of the second response
SCHEMA = {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}


class Server(BaseHTTPRequestHandler):
    """Both APIs, as far as the libraries ask for them."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/messages"):
            self._send(answer_anthropic(body))
        elif self.path.endswith("/chat/completions"):
            self._send(answer_openai(body))
        else:
            self.send_error(404)

    def _send(self, value: dict[str, Any]) -> None:
        data = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing of each request."""


def make_arguments(name: str, again: bool) -> dict[str, str]:
    return {"command": SUBMIT if again else f"echo {SEEN}"} if name == "bash" else {"at": "a.txt"}


def answer_openai(body: dict[str, Any]) -> dict[str, Any]:
    again = any(message["role"] == "tool" for message in body["messages"])
    name = body["tools"][0]["function"]["name"] if body.get("tools") else ""
    said: dict[str, Any] = {"role": "assistant", "content": ANSWER}
    if name and (not again or name == "bash"):
        function = {"name": name, "arguments": json.dumps(make_arguments(name, again))}
        said = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"call_{again:d}", "type": "function", "function": function}],
        }
    asked, answered = USAGE[again]
    usage = {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}
    choice = {"index": 0, "message": said, "finish_reason": "tool_calls" if "tool_calls" in said else "stop"}
    head = {"id": f"chatcmpl-{again:d}", "object": "chat.completion", "created": int(time.time()), "model": "gpt-4o-mini"}
    return {**head, "choices": [choice], "usage": usage}


def answer_anthropic(body: dict[str, Any]) -> dict[str, Any]:
    again = len(body["messages"]) > 1
    call = {"type": "tool_use", "id": "toolu_0", "name": "look", "input": {"at": "a.txt"}}
    asked, answered = USAGE[again]
    return {
        "id": f"msg_{again:d}",
        "type": "message",
        "role": "assistant",
        "model": "claude-haiku-4-5",
        "content": [{"type": "text", "text": ANSWER}] if again else [call],
        "stop_reason": "end_turn" if again else "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": asked, "output_tokens": answered},
    }


@contextmanager
def serve() -> Iterator[str]:
    """The address of the server while it runs."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def look(at: str) -> str:
    """Look at a file."""
    return SEEN if at else ""


TOOL = {"type": "function", "function": {"name": "look", "description": "Look at a file.", "parameters": SCHEMA}}


def write_lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(json.dumps(row, default=str) + "\n" for row in rows))
    return path


def make_anthropic(folder: Path, url: str) -> Path:
    import anthropic

    client, rows = anthropic.Anthropic(base_url=url, api_key="none"), []
    asked: dict[str, Any] = {"model": "claude-haiku-4-5", "max_tokens": 99, "messages": [{"role": "user", "content": PROMPT}]}
    asked["tools"] = [{"name": "look", "description": "Look at a file.", "input_schema": SCHEMA}]
    for _ in USAGE:
        said = client.messages.create(**asked)
        rows.append({"request": asked, "response": said.model_dump()})
        result = {"type": "tool_result", "tool_use_id": "toolu_0", "content": SEEN}
        more = [{"role": "assistant", "content": said.model_dump()["content"]}, {"role": "user", "content": [result]}]
        asked = {**asked, "messages": [*asked["messages"], *more]}
    return write_lines(folder / "anthropic.jsonl", rows)


def make_openai(folder: Path, url: str) -> Path:
    import openai

    client, rows = openai.OpenAI(base_url=url, api_key="none"), []
    asked: dict[str, Any] = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": PROMPT}], "tools": [TOOL]}
    for _ in USAGE:
        said = client.chat.completions.create(**asked)
        rows.append({"request": asked, "response": said.model_dump()})
        more = [
            said.choices[0].message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": "call_0", "content": SEEN},
        ]
        asked = {**asked, "messages": [*asked["messages"], *more]}
    return write_lines(folder / "openai.jsonl", rows)


def make_langchain(folder: Path, url: str) -> Path:
    from langchain_core.messages import HumanMessage, ToolMessage, messages_to_dict
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="gpt-4o-mini", base_url=url, api_key="none").bind_tools([TOOL])
    messages: list[Any] = [HumanMessage(PROMPT)]
    messages.append(model.invoke(messages))
    messages.append(ToolMessage(SEEN, tool_call_id=messages[-1].tool_calls[0]["id"]))
    messages.append(model.invoke(messages))
    path = folder / "langchain.json"
    path.write_text(json.dumps(messages_to_dict(messages), default=str))
    return path


def make_litellm(folder: Path, url: str) -> Path:
    import litellm
    from litellm.integrations.custom_logger import CustomLogger

    rows: list[Any] = []

    class Logger(CustomLogger):  # type: ignore[misc]
        def log_success_event(self, *values: Any, **named: Any) -> None:
            rows.append((named.get("kwargs") or values[0])["standard_logging_object"])

    litellm.callbacks = [Logger()]
    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    for number, _ in enumerate(USAGE, 1):
        said = litellm.completion("openai/gpt-4o-mini", messages, api_base=url, api_key="none", tools=[TOOL])
        messages = [
            *messages,
            said.choices[0].message.model_dump(),
            {"role": "tool", "tool_call_id": "call_0", "content": SEEN},
        ]
        wait_until(lambda count=number: len(rows) >= count)
    return write_lines(folder / "litellm.jsonl", sorted(rows, key=lambda row: row["startTime"]))


def wait_until(done: Callable[[], bool], seconds: int = 120) -> None:
    for _ in range(10 * seconds):
        if done():
            return
        time.sleep(0.1)
    raise TimeoutError("the library did not write its log")


def make_llm(folder: Path, url: str) -> Path:
    home = folder / "llm"
    home.mkdir()
    known = {"model_id": "made", "model_name": "gpt-4o-mini", "api_base": url, "can_stream": False, "supports_tools": True}
    (home / "extra-openai-models.yaml").write_text(json.dumps([known]))
    code = f'def look(at: str) -> str:\n    "Look at a file."\n    return {SEEN!r}\n'
    command = [sys.executable, "-m", "llm", "-m", "made", "--key", "none", "--no-stream", "--functions", code, PROMPT]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "LLM_USER_PATH": str(home)})
    return home / "logs.db"


def make_pydantic_ai(folder: Path, url: str) -> Path:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    agent = Agent(OpenAIChatModel("gpt-4o-mini", provider=OpenAIProvider(base_url=url, api_key="none")), tools=[look])
    path = folder / "pydantic_ai.json"
    path.write_bytes(agent.run_sync(PROMPT).all_messages_json())
    return path


def make_inspect(folder: Path, url: str) -> Path:
    import inspect_ai
    from inspect_ai.dataset import Sample
    from inspect_ai.solver import generate, use_tools
    from inspect_ai.tool import tool

    @tool
    def look() -> Any:
        async def execute(at: str) -> str:
            """Look at a file.

            Args:
                at: The file.
            """
            return SEEN if at else ""

        return execute

    os.environ |= {"MADE_BASE_URL": url, "MADE_API_KEY": "none", "INSPECT_DISPLAY": "none"}
    task = inspect_ai.Task(dataset=[Sample(input=PROMPT)], solver=[use_tools(look()), generate()])
    (log,) = inspect_ai.eval(task, model="openai-api/made/gpt-4o-mini", log_dir=str(folder / "inspect"), display="none")
    return Path(re.sub(r"^file://", "", log.location))


def make_mini_swe_agent(folder: Path, url: str) -> Path:
    os.environ |= {"MSWEA_COST_TRACKING": "ignore_errors", "MSWEA_SILENT_STARTUP": "1"}
    from minisweagent.agents.default import DefaultAgent
    from minisweagent.environments.local import LocalEnvironment
    from minisweagent.models.litellm_model import LitellmModel

    model = LitellmModel(model_name="openai/gpt-4o-mini", model_kwargs={"api_base": url, "api_key": "none"})
    path = folder / "mini-swe-agent.traj.json"
    agent = DefaultAgent(
        model, LocalEnvironment(), system_template="Be brief.", instance_template="{{task}}", output_path=path, cost_limit=0
    )
    agent.run(PROMPT)
    return path


def make_mlflow(folder: Path, url: str) -> Path:
    import mlflow
    import openai

    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlflow.db'}")
    made = mlflow.create_experiment("made", artifact_location=(folder / "artifacts").as_uri())
    mlflow.set_experiment(experiment_id=made)
    mlflow.openai.autolog()
    client = openai.OpenAI(base_url=url, api_key="none")
    with mlflow.start_span(name="run"):
        ask_twice(client)
    mlflow.flush_trace_async_logging()
    trace = mlflow.get_trace(mlflow.get_last_active_trace_id())
    path = folder / "mlflow.json"
    path.write_text(trace.to_json())
    mlflow.openai.autolog(disable=True)
    return path


def ask_twice(client: Any) -> None:
    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    for _ in USAGE:
        said = client.chat.completions.create(model="gpt-4o-mini", messages=messages, tools=[TOOL])
        message = said.choices[0].message.model_dump(exclude_none=True)
        messages = [*messages, message, {"role": "tool", "tool_call_id": "call_0", "content": SEEN}]


def make_phoenix(folder: Path, url: str) -> list[Path]:
    """Both answers of its server and its database."""
    import openai
    from openinference.instrumentation.openai import OpenAIInstrumentor
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    with run_phoenix(folder / "phoenix") as address:
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{address}/v1/traces")))
        instrumentor = OpenAIInstrumentor()
        instrumentor.instrument(tracer_provider=provider)
        with provider.get_tracer("made").start_as_current_span("run"):
            ask_twice(openai.OpenAI(base_url=url, api_key="none"))
        instrumentor.uninstrument()
        spans = f"{address}/v1/projects/default/spans"
        wait_until(lambda: len(json.load(urlopen(spans))["data"]) > len(USAGE))
        paths = [folder / "phoenix.json", folder / "phoenix.otlp.json"]
        for path, asked in zip(paths, (spans, f"{spans}/otlpv1"), strict=True):
            path.write_bytes(urlopen(asked).read())
    return [*paths, folder / "phoenix" / "phoenix.db"]


@contextmanager
def run_phoenix(folder: Path) -> Iterator[str]:
    """The address of a Phoenix server that keeps its database in a folder."""
    folder.mkdir()
    ports = {"PHOENIX_PORT": "16006", "PHOENIX_GRPC_PORT": "16007"}
    held = {**os.environ, **ports, "PHOENIX_WORKING_DIR": str(folder), "PHOENIX_TELEMETRY_ENABLED": "false"}
    command = [find_phoenix_python(), "-m", "phoenix.server.main", "serve"]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, env=held, stdout=log, stderr=log, cwd=folder)
    try:
        wait_until(lambda: is_up("http://127.0.0.1:16006/healthz"))
        yield "http://127.0.0.1:16006"
    finally:
        server.terminate()
        server.wait()


def find_phoenix_python() -> str:
    """The Python that has Phoenix; made at first."""
    if named := os.environ.get("PHOENIX_PYTHON"):
        return named
    home = Path(sys.prefix) / "phoenix"
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    if not (home / "made").exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", PHOENIX], check=True)
        (home / "made").touch()
    return str(python)


def is_up(address: str) -> bool:
    try:
        return bool(urlopen(address, timeout=2).status == 200)
    except OSError:
        return False


MAKERS: dict[str, Callable[[Path, str], Path | list[Path]]] = {
    "anthropic": make_anthropic,
    "openai": make_openai,
    "langchain-core": make_langchain,
    "litellm": make_litellm,
    "llm": make_llm,
    "pydantic-ai-slim": make_pydantic_ai,
    "inspect-ai": make_inspect,
    "mini-swe-agent": make_mini_swe_agent,
    "mlflow": make_mlflow,
    "arize-phoenix": make_phoenix,
}


def check_log(path: Path, name: str) -> list[str]:
    """What is wrong with the log of a library as it opens."""
    sessions = turnscope.load_all(path)
    session = max(sessions, key=lambda one: len(one.requests))
    blocks = session.blocks
    wrong = [] if len(sessions) == 1 else [f"{len(sessions)} sessions"]
    for what, words in (("prompt", PROMPT), ("result", SEEN), ("answer", ANSWER)):
        if not any(words in block.text for block in blocks) and (what, name) != ("answer", "mini-swe-agent"):
            wrong.append(f"the {what} is missing")
    calls = [block for block in blocks if block.kind == "tool_use"]
    if not calls or calls[0].pair < 0:
        wrong.append(f"{len(calls)} calls, the first without its result")
    used = [(r.usage.prompt_tokens, r.usage.output_tokens) for r in session.requests if r.usage]
    if used != list(USAGE):
        wrong.append(f"tokens {used} of {list(USAGE)} over {len(session.requests)} requests")
    skipped = [note.what for note in session.notes if note.severity != "info"]
    return [*wrong, *skipped]


def describe_version(name: str) -> str:
    """A library's name with its version."""
    return PHOENIX if PHOENIX.startswith(name) else f"{name}=={version(name)}"


def main(arguments: list[str]) -> int:
    failed = 0
    with tempfile.TemporaryDirectory() as held, serve() as url:
        folder = Path(arguments[0]) if arguments else Path(held)
        folder.mkdir(parents=True, exist_ok=True)
        for name, make in MAKERS.items():
            try:
                made = make(folder, f"{url}/v1" if name != "anthropic" else url)
                paths = made if isinstance(made, list) else [made]
                wrong = [f"{path.name}: {what}" for path in paths for what in check_log(path, name)]
            except Exception as error:  # noqa: BLE001 - the next library is tried as well
                wrong = [f"{type(error).__name__}: {str(error)[:300]}", traceback.format_exc(limit=-2)]
            failed += bool(wrong)
            print(f"{describe_version(name)}: {'; '.join(wrong) or 'opens right'}", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
