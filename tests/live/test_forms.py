"""Bodies in the forms of other APIs, held to the types of the vendors' SDKs."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from api_server import SEALED, chat_body, responses_body
from turnscope.live.forms import chat_completions, gemini, responses, shared
from turnscope.live.stream_assembler import StreamAssembler

PIXEL = b64encode(b"a picture").decode()
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
PDF = {"type": "document", "title": "paper.pdf", "source": {"type": "base64", "media_type": "application/pdf", "data": PIXEL}}
TEXT_FILE = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "of the file"}}
SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "rain"}}
BODY: dict[str, Any] = {
    "model": "m",
    "max_tokens": 8,
    "temperature": 0.5,
    "stop_sequences": ["END"],
    "system": [
        {"type": "text", "text": "Be brief."},
        {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}},
    ],
    "tools": [
        {"name": "look", "description": "Looks.", "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}}},
        {"type": "web_search_20250305", "name": "web_search"},
    ],
    "tool_choice": {"type": "tool", "name": "look"},
    "messages": [
        {"role": "user", "content": [IMAGE, PDF, TEXT_FILE, {"type": "text", "text": "What is it?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Claude's", "signature": "of-claude"},
                {"type": "thinking", "thinking": "mine", "signature": SEALED, "provider": {"name": "openai", "id": "rs_1"}},
                {"type": "text", "text": "I look."},
                SEARCH,
                {"type": "tool_use", "id": "a", "name": "look", "input": {"at": "left"}},
                {"type": "tool_use", "id": "b", "name": "look", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "a wall"}, IMAGE]},
                {"type": "tool_result", "tool_use_id": "b", "content": "no light", "is_error": True},
                {"type": "text", "text": "Go on."},
            ],
        },
        {"role": "system", "content": "The user left."},
        {"role": "assistant", "content": "So be it."},
        {
            "role": "user",
            "content": [{"type": "compaction", "content": "Before."}, {"type": "text", "text": "Hello?"}],
        },
    ],
}


@pytest.mark.parametrize("dialect", ["openai", "openrouter", "server"])
def test_chat_completions_have_roles_calls_images_and_the_limit_as_each_server_names_it(dialect: Any) -> None:
    made = chat_completions.build_arguments(BODY | {"cache_control": {"type": "ephemeral"}}, dialect, "key")
    chat_body().validate_python({"stream": True} | {name: value for name, value in made.items() if name != "extra_body"})
    roles = [message["role"] for message in made["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool", "user", "system", "assistant", "user"]
    assert made["messages"][0]["content"] == "Be brief.\n\nBe kind."
    assert [part["type"] for part in made["messages"][1]["content"]] == ["image_url", "file", "text", "text"]
    assert [call["id"] for call in made["messages"][2]["tool_calls"]] == ["a", "b"]
    assert "Claude's" not in str(made)
    assert "mine" not in str(made)
    assert made["messages"][5]["content"][0] == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    assert [tool["function"]["name"] for tool in made["tools"]] == ["look"]
    assert made["tool_choice"] == {"type": "function", "function": {"name": "look"}}
    assert made["stop"] == ["END"]
    assert made.get("max_completion_tokens" if dialect == "openai" else "max_tokens") == 8
    assert made.get("prompt_cache_key") == ("key" if dialect == "openai" else None)


def test_responses_have_items_own_reasoning_and_no_storage() -> None:
    made = responses.build_arguments(BODY | {"thinking": {"type": "adaptive"}}, "key")
    responses_body().validate_python(made | {"stream": True})
    kinds = [item["type"] for item in made["input"]]
    assert kinds == [
        "message",
        "reasoning",
        "message",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        *["message"] * 4,
    ]
    assert made["instructions"] == "Be brief.\n\nBe kind."
    assert made["input"][1]["encrypted_content"] == SEALED
    assert [part["type"] for part in made["input"][5]["output"]] == ["input_text", "input_image"]
    assert (made["store"], made["prompt_cache_key"], made["max_output_tokens"]) == (False, "key", 16)
    assert made["include"] == ["reasoning.encrypted_content"]
    assert "Claude's" not in str(made)


def test_gemini_has_names_with_results_schemas_and_signed_calls() -> None:
    from google.genai import types

    contents = [types.Content(**each) for each in gemini.build_contents(BODY | {"model": "gemini-3.5-flash"})]
    config = types.GenerateContentConfig(**gemini.build_config(BODY | {"thinking": {"type": "adaptive"}}))
    assert [content.role for content in contents] == ["user", "model", "user", "user", "model", "user"]
    assert contents[0].parts[0].inline_data.data == b"a picture"
    calls = [part for part in contents[1].parts if part.function_call]
    assert [bool(part.thought_signature) for part in calls] == [True, False]
    results = [part.function_response for part in contents[2].parts if part.function_response]
    assert [(each.id, each.name) for each in results] == [("a", "look"), ("b", "look")]
    assert [[*each.response] for each in results] == [["output"], ["error"]]
    assert config.system_instruction == "Be brief.\n\nBe kind."
    assert config.tool_config.function_calling_config.allowed_function_names == ["look"]
    assert config.thinking_config.include_thoughts
    older = gemini.build_contents(BODY | {"model": "gemini-2.5-pro"})
    assert "thought_signature" not in str(older)


def test_the_messages_api_gets_nothing_that_belongs_to_others() -> None:
    thought = {"type": "thinking", "thinking": "mine", "signature": "", "provider": {"name": "server"}}
    call = {"type": "tool_use", "id": "a", "name": "f", "input": {}, "provider": {"name": "gemini", "signature": "x"}}
    body = {
        "model": "m",
        "messages": [{"role": "assistant", "content": [thought, call]}, {"role": "assistant", "content": [thought]}],
    }
    first, second = shared.strip_foreign(body)["messages"]
    assert first["content"] == [{"type": "tool_use", "id": "a", "name": "f", "input": {}}]
    assert second["content"] == [{"type": "text", "text": "[The model only thought.]"}]
    assert shared.strip_foreign(BODY)["messages"][1]["content"][0]["signature"] == "of-claude"


def assemble(reader: Any, *chunks: dict[str, Any]) -> StreamAssembler:
    assembler = StreamAssembler()
    for chunk in chunks:
        for event in reader.read(chunk):
            [*assembler.add_event(event)]
    [*assembler.flush()]
    return assembler


def make_delta(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def test_calls_are_whole_however_a_server_splits_them() -> None:
    """Ollama sends a call at once and without an index; others split arguments, or repeat an index for a second call."""
    end = {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}
    at_once = {"id": "x", "function": {"name": "f", "arguments": {"a": 1}}}
    split = [
        {"index": 0, "id": "x", "function": {"name": "f", "arguments": '{"a"'}},
        {"index": 0, "function": {"arguments": ": 1}"}},
    ]
    again = [split[0], split[1], {"index": 0, "id": "y", "function": {"name": "g", "arguments": ""}}]
    wants = [{"type": "tool_use", "id": "x", "name": "f", "input": {"a": 1}}]
    second = {"type": "tool_use", "id": "y", "name": "g", "input": {}}
    for calls, expected in (([at_once], wants), (split, wants), (again, [*wants, second])):
        reader = chat_completions.ChatCompletionsEvents()
        answer = assemble(reader, *(make_delta(tool_calls=[call]) for call in calls), end)
        assert [*answer.content] == expected
        assert answer.stop_reason == "tool_use"


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_thinking_and_text_are_blocks_of_their_own(field: str) -> None:
    end = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    chunks = [make_delta(**{field: "hm"}), make_delta(**{field: "m"}), make_delta(content="Yes"), make_delta(content="."), end]
    thought, text = assemble(chat_completions.ChatCompletionsEvents(), *chunks).content
    assert (thought["thinking"], text["text"]) == ("hmm", "Yes.")


@pytest.mark.parametrize(
    ("chunk", "stop"),
    [
        ({"candidates": [{"finish_reason": "SAFETY"}]}, "refusal"),
        ({"prompt_feedback": {"block_reason": "PROHIBITED_CONTENT"}}, "refusal"),
        ({"candidates": [{"finish_reason": "MAX_TOKENS"}]}, "max_tokens"),
        ({"candidates": [{"finish_reason": "STOP", "content": {"parts": [{"function_call": {"name": "f"}}]}}]}, "tool_use"),
    ],
)
def test_an_end_at_gemini_has_its_reason(chunk: dict[str, Any], stop: str) -> None:
    assert assemble(gemini.GeminiEvents(), chunk).stop_reason == stop


def test_a_response_that_failed_is_an_error_in_any_of_its_forms() -> None:
    error = {"code": "server_error", "message": "no"}
    for event in (
        {"type": "error", "message": "no", "code": "server_error"},
        {"type": "response.failed", "response": {"status": "failed", "error": error}},
        {"object": "response", "status": "failed", "error": error},
    ):
        assert responses.find_failure(event)["message"] == "no"
    assert responses.find_failure({"type": "response.completed", "response": {"status": "completed"}}) is None
