"""Record what an app sends through LangChain, LlamaIndex or LiteLLM, so that it opens in Turnscope.

`turnscope.trace` records what goes over `httpx`. These listen to the libraries themselves, so they also hear models that are
reached in other ways. Each call becomes a line with its request and its response as Chat Completions has them; LiteLLM's lines
are its own log records. No key is recorded. The libraries are imported when a function is called.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from turnscope.live.call_recorder import append_line

_SETTINGS = ("model", "temperature", "max_tokens", "max_completion_tokens", "top_p", "tool_choice", "stop")


def build_langchain_handler(path: str | Path) -> Any:
    """Build a callback handler of LangChain that records each call of a model: `config={"callbacks": [handler]}`.

    Args:
        path: The file to which the calls are added, as JSON lines.

    Raises:
        ImportError: `langchain-core` is not installed.
    """
    from langchain_core.callbacks import BaseCallbackHandler

    calls = _Calls(Path(path))

    class Handler(BaseCallbackHandler):  # type: ignore[misc]
        """Hears when a model is called, and when it answered or failed."""

        def on_chat_model_start(self, _: Any, messages: Sequence[Sequence[Any]], *, run_id: Any, **about: Any) -> None:
            calls.begin(run_id, _convert_langchain(messages[0]), about.get("invocation_params") or {})

        def on_llm_start(self, _: Any, prompts: Sequence[str], *, run_id: Any, **about: Any) -> None:
            calls.begin(run_id, [{"role": "user", "content": prompts[0]}], about.get("invocation_params") or {})

        def on_llm_end(self, response: Any, *, run_id: Any, **_: Any) -> None:
            made = response.generations[0][0]
            message = getattr(made, "message", None)
            if message is None:
                calls.end(run_id, {"role": "assistant", "content": made.text}, {}, None)
                return
            about = message.response_metadata or {}
            reason = about.get("finish_reason") or about.get("stop_reason")
            facts = {"id": about.get("id") or message.id, "model": about.get("model_name") or about.get("model")}
            calls.end(run_id, _convert_langchain([message])[0], {**facts, "reason": reason}, message.usage_metadata)

        def on_llm_error(self, error: BaseException, *, run_id: Any, **_: Any) -> None:
            calls.fail(run_id, error)

    return Handler()


def listen_to_llama_index(path: str | Path) -> Any:
    """Record each call of a model that LlamaIndex makes in this process from now on. Gives the handler.

    Args:
        path: The file to which the calls are added, as JSON lines.

    Raises:
        ImportError: `llama-index-core` is not installed.
    """
    from llama_index.core.instrumentation import get_dispatcher
    from llama_index.core.instrumentation.event_handlers import BaseEventHandler

    calls = _Calls(Path(path))

    class Handler(BaseEventHandler):  # type: ignore[misc]
        """Hears the events of chats and completions."""

        @classmethod
        def class_name(cls) -> str:
            """The name under which LlamaIndex knows the handler."""
            return "TurnscopeHandler"

        def handle(self, event: Any, **_: Any) -> None:
            match event.class_name():
                case "LLMChatStartEvent":
                    messages = [_convert_llama_index(message) for message in event.messages]
                    calls.begin(event.span_id, messages, {**event.model_dict, **event.additional_kwargs})
                case "LLMCompletionStartEvent":
                    calls.begin(event.span_id, [{"role": "user", "content": event.prompt}], event.model_dict)
                case "LLMChatEndEvent" if event.response is not None:
                    answer = _convert_llama_index(event.response.message)
                    calls.end(event.span_id, answer, *_read_raw(event.response.raw))
                case "LLMCompletionEndEvent":
                    answer = {"role": "assistant", "content": event.response.text}
                    calls.end(event.span_id, answer, *_read_raw(event.response.raw))

    handler = Handler()
    get_dispatcher().add_event_handler(handler)
    return handler


def listen_to_litellm(path: str | Path) -> Any:
    """Record each call that LiteLLM makes in this process from now on, as LiteLLM logs it. Gives the logger.

    Args:
        path: The file to which the calls are added, as JSON lines.

    Raises:
        ImportError: `litellm` is not installed.
    """
    import litellm
    from litellm.integrations.custom_logger import CustomLogger

    target = Path(path)

    def write(kwargs: Mapping[str, Any], *_: Any, **__: Any) -> None:
        if record := kwargs.get("standard_logging_object"):
            append_line(target, json.loads(json.dumps(record, default=str)))

    class Logger(CustomLogger):  # type: ignore[misc]
        """Hears of every call that ended."""

        def log_success_event(self, *values: Any, **named: Any) -> None:
            write(*values, **named)

        def log_failure_event(self, *values: Any, **named: Any) -> None:
            write(*values, **named)

        async def async_log_success_event(self, *values: Any, **named: Any) -> None:
            write(*values, **named)

        async def async_log_failure_event(self, *values: Any, **named: Any) -> None:
            write(*values, **named)

    logger = Logger()
    litellm.callbacks = [*litellm.callbacks, logger]
    return logger


class _Calls:
    """The calls that have begun and not ended, by what the library calls them."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self._open: dict[Any, dict[str, Any]] = {}

    def begin(self, key: Any, messages: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any]) -> None:
        """Note a call. `parameters`: what the library sends beside the messages."""
        body: dict[str, Any] = {name: parameters[name] for name in _SETTINGS if parameters.get(name) is not None}
        body.setdefault("model", parameters.get("model_name") or parameters.get("model_id") or "")
        if parameters.get("tools"):
            body["tools"] = [_convert_tool(tool) for tool in parameters["tools"]]
        self._open[key] = {"sent_at": time.time(), "request": {**body, "messages": list(messages)}}

    def end(self, key: Any, message: Mapping[str, Any], about: Mapping[str, Any], usage: Any) -> None:
        """Write a call with its answer.

        Args:
            key: the call.
            message: the answer.
            about: its id, model and reason.
            usage: its tokens, as the library has them.
        """
        record = self._open.pop(key, None)
        if record is None:
            return
        reason = about.get("reason") or ("tool_calls" if message.get("tool_calls") else "stop")
        facts = {name: about[name] for name in ("id", "model") if about.get(name)}
        choice = {"index": 0, "message": message, "finish_reason": reason}
        self._write(record, {**facts, "choices": [choice], "usage": _convert_usage(usage)}, 200)

    def fail(self, key: Any, error: BaseException) -> None:
        """Write a call that failed."""
        record = self._open.pop(key, None)
        if record is not None:
            self._write(record, {"error": {"type": type(error).__name__, "message": str(error)}}, 500)

    def _write(self, record: Mapping[str, Any], response: Mapping[str, Any], status: int) -> None:
        fields = {**record, "answered_at": time.time(), "status": status, "response": response}
        append_line(self.target, json.loads(json.dumps(fields, default=str)))


def _convert_langchain(messages: Sequence[Any]) -> list[dict[str, Any]]:
    from langchain_core.messages import convert_to_openai_messages

    return [dict(message) for message in convert_to_openai_messages(list(messages))]


def _convert_llama_index(message: Any) -> dict[str, Any]:
    """A message of LlamaIndex as Chat Completions has it."""
    texts, calls = [], []
    for block in message.blocks:
        if hasattr(block, "tool_kwargs"):
            calls.append(_convert_call(block.tool_call_id, block.tool_name, block.tool_kwargs))
        elif isinstance(getattr(block, "text", None), str):
            texts.append({"type": "text", "text": block.text})
        elif isinstance(getattr(block, "content", None), str):
            texts.append({"type": "reasoning", "text": block.content})
        else:
            texts.append(block.model_dump(mode="json"))
    more = message.additional_kwargs
    calls = calls or [dict(call) if isinstance(call, Mapping) else call.model_dump() for call in more.get("tool_calls") or ()]
    plain = len(texts) == 1 and texts[0]["type"] == "text"
    found = {"role": str(getattr(message.role, "value", message.role)), "content": texts[0]["text"] if plain else texts or None}
    found |= {"tool_calls": calls} if calls else {}
    return found | ({"tool_call_id": more["tool_call_id"]} if more.get("tool_call_id") else {})


def _convert_call(id: str | None, name: str, arguments: Any) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {"id": id or "", "type": "function", "function": {"name": name, "arguments": text}}


def _convert_tool(tool: Any) -> Any:
    """A tool as Chat Completions has it; Anthropic's form names its schema otherwise."""
    if isinstance(tool, Mapping) and "input_schema" in tool:
        about = {"name": tool.get("name"), "description": tool.get("description"), "parameters": tool["input_schema"]}
        return {"type": "function", "function": about}
    return tool


def _read_raw(raw: Any) -> tuple[dict[str, Any], Any]:
    """What the response of a provider says of itself, and its usage."""
    fields = raw if isinstance(raw, Mapping) else raw.model_dump() if hasattr(raw, "model_dump") else {}
    return {"id": fields.get("id"), "model": fields.get("model")}, fields.get("usage")


def _convert_usage(usage: Any) -> dict[str, Any] | None:
    """Tokens as Chat Completions has them; LangChain's names are its own."""
    fields = usage if isinstance(usage, Mapping) else usage.model_dump() if hasattr(usage, "model_dump") else None
    if not fields or ("input_token_details" not in fields and "total_tokens" not in fields) or "prompt_tokens" in fields:
        return dict(fields) if fields else None
    details = fields.get("input_token_details") or {}
    found = {"prompt_tokens": fields.get("input_tokens"), "completion_tokens": fields.get("output_tokens")}
    cached = {"cached_tokens": details.get("cache_read") or 0, "cache_write_tokens": details.get("cache_creation") or 0}
    thought = {"reasoning_tokens": (fields.get("output_token_details") or {}).get("reasoning") or 0}
    return {
        **found,
        "total_tokens": fields.get("total_tokens"),
        "prompt_tokens_details": cached,
        "completion_tokens_details": thought,
    }
