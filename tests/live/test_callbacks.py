"""Callbacks of LangChain, LlamaIndex and LiteLLM: what the real libraries send to a server of this machine opens as it was."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import library_logs
import pytest
import turnscope
from library_logs import ANSWER, PROMPT, SEEN, TOOL, USAGE, wait_until
from turnscope.live import callbacks

NO_LANGCHAIN = "langchain-core cannot be imported: it comes with turnscope[logs]"
NO_LLAMA_INDEX = "llama-index-core cannot be imported: it comes with turnscope[logs]"


@pytest.fixture
def url() -> Iterator[str]:
    with library_logs.serve() as address:
        yield f"{address}/v1"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "calls.jsonl"


def test_langchain_is_heard(url: str, log: Path) -> None:
    pytest.importorskip("langchain_core", reason=NO_LANGCHAIN)
    openai = pytest.importorskip("langchain_openai", reason=NO_LANGCHAIN)
    from langchain_core.messages import HumanMessage, ToolMessage

    heard = {"callbacks": [callbacks.build_langchain_handler(log)]}
    model = openai.ChatOpenAI(model="gpt-4o-mini", base_url=url, api_key="none").bind_tools([TOOL])
    messages: list[Any] = [HumanMessage(PROMPT)]
    messages.append(model.invoke(messages, config=heard))
    messages.append(ToolMessage(SEEN, tool_call_id=messages[-1].tool_calls[0]["id"]))
    model.invoke(messages, config=heard)
    assert library_logs.check_log(log, "langchain-core") == []
    session = turnscope.load(log)
    assert [block.name for block in session.blocks if block.kind == "tool"] == ["look"]
    assert {request.model for request in session.requests} == {"gpt-4o-mini"}


def test_a_model_of_langchain_without_a_wire_is_heard_with_its_cache_and_its_failure(log: Path) -> None:
    pytest.importorskip("langchain_core", reason=NO_LANGCHAIN)
    from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
    from langchain_core.messages import AIMessage

    details = {"input_token_details": {"cache_read": 60, "cache_creation": 20}}
    usage = {"input_tokens": 100, "output_tokens": 7, "total_tokens": 107, **details}
    heard = {"callbacks": [callbacks.build_langchain_handler(log)]}
    model = FakeMessagesListChatModel(responses=[AIMessage(ANSWER, usage_metadata=usage)])
    assert model.invoke(PROMPT, config=heard).content == ANSWER
    (request,) = turnscope.load(log).requests
    assert request.usage is not None
    read, made = request.usage.cache_read_input_tokens, request.usage.cache_creation_input_tokens
    assert (request.usage.prompt_tokens, read, made, request.usage.output_tokens) == (100, 60, 20, 7)
    with pytest.raises(IndexError):
        FakeMessagesListChatModel(responses=[]).invoke(PROMPT, config=heard)
    assert '"IndexError"' in log.read_text().splitlines()[-1]


def test_llama_index_is_heard(url: str, log: Path) -> None:
    core = pytest.importorskip("llama_index.core.llms", reason=NO_LLAMA_INDEX)
    models = pytest.importorskip("llama_index.llms.openai", reason="its model of OpenAI wants an older openai than ours")
    callbacks.listen_to_llama_index(log)
    model, messages = models.OpenAI(model="gpt-4o-mini", api_base=url, api_key="none"), [core.ChatMessage(PROMPT)]
    first = model.chat(messages, tools=[TOOL])
    result = core.ChatMessage(SEEN, role="tool", additional_kwargs={"tool_call_id": "call_0"})
    model.chat([*messages, first.message, result], tools=[TOOL])
    assert library_logs.check_log(log, "llama-index-core") == []
    assert [block.name for block in turnscope.load(log).blocks if block.kind == "tool"] == ["look"]


def test_a_model_of_llama_index_without_a_wire_is_heard(log: Path) -> None:
    core = pytest.importorskip("llama_index.core.llms", reason=NO_LLAMA_INDEX)
    from llama_index.core.base.llms.types import ToolCallBlock
    from llama_index.core.llms.callbacks import llm_chat_callback

    class Model(core.MockLLM):  # type: ignore[misc, name-defined]
        """Calls a tool first, then answers."""

        @llm_chat_callback()
        def chat(self, messages: Any, **_: Any) -> Any:
            again = len(messages) > 1
            call = ToolCallBlock(tool_call_id="call_0", tool_name="look", tool_kwargs={"at": "a.txt"})
            blocks = [core.TextBlock(text=ANSWER)] if again else [call]
            asked, answered = USAGE[again]
            usage = {"prompt_tokens": asked, "completion_tokens": answered}
            return core.ChatResponse(
                message=core.ChatMessage(role="assistant", blocks=blocks), raw={"model": "made", "usage": usage}
            )

    handler = callbacks.listen_to_llama_index(log)
    assert handler.class_name() == "TurnscopeHandler"
    messages = [core.ChatMessage(PROMPT)]
    first = Model().chat(messages)
    result = core.ChatMessage(SEEN, role="tool", additional_kwargs={"tool_call_id": "call_0"})
    Model().chat([*messages, first.message, result])
    assert library_logs.check_log(log, "llama-index-core") == []


def test_litellm_is_heard(url: str, log: Path) -> None:
    litellm = pytest.importorskip("litellm", reason="litellm cannot be imported: it comes with turnscope[logs]")
    callbacks.listen_to_litellm(log)
    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    for number, _ in enumerate(USAGE, 1):
        answer = litellm.completion("openai/gpt-4o-mini", messages, api_base=url, api_key="none", tools=[TOOL])
        result = {"role": "tool", "tool_call_id": "call_0", "content": SEEN}
        messages = [*messages, answer.choices[0].message.model_dump(), result]
        wait_until(lambda count=number: log.exists() and len(log.read_text().splitlines()) >= count, 60)
    assert library_logs.check_log(log, "litellm") == []


@pytest.mark.parametrize(
    ("listen", "module"),
    [
        (callbacks.build_langchain_handler, "langchain_core"),
        (callbacks.listen_to_llama_index, "llama_index"),
        (callbacks.listen_to_litellm, "litellm"),
    ],
)
def test_a_library_that_is_missing_is_named(
    listen: Callable[[Path], Any], module: str, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    for name in [name for name in sys.modules if name.startswith(f"{module}.")]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=module):
        listen(log)
