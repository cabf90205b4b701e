"""Bodies in pieces: joined they are the body to the letter, and what later bodies repeat is the same piece."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnscope.tap.body_pieces import split_body

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["messages", "tools", "system", "request"]), VALUES), st.sampled_from([None, 0, 2]))
def test_the_parts_of_a_body_are_the_body(body: dict[str, Any], indent: int | None) -> None:
    text = json.dumps(body, indent=indent, ensure_ascii=False)
    parts = split_body(text)
    assert ("".join(parts), len(parts) % 2) == (text, 1)


@given(st.text(alphabet='{}[]",:\\ab1 \n', max_size=60))
def test_the_parts_of_any_text_are_the_text(text: str) -> None:
    assert "".join(split_body(text)) == text


LONG = "what was said, again and again. " * 20


@pytest.mark.parametrize("indent", [None, 2])
def test_a_cache_mark_that_moves_on_leaves_the_piece_as_it_is(indent: int | None) -> None:
    def write(*mark: str) -> str:
        block = {"type": "text", "text": LONG} | {name: {"type": "ephemeral", "ttl": "1h"} for name in mark}
        return json.dumps({"messages": [{"role": "user", "content": [block]}]}, indent=indent)

    assert split_body(write())[1::2] == split_body(write("cache_control"))[1::2] != []


def test_messages_tools_and_long_texts_are_pieces_also_where_a_body_wraps_another() -> None:
    inner = {
        "system": LONG,
        "contents": [{"role": "user", "parts": [{"text": LONG}]}, {"role": "user", "parts": [{"text": "a"}]}],
    }
    parts = split_body(json.dumps({"model": "m", "request": inner}))
    assert [part[:9] for part in parts[1::2]] == ['"what was', '{"role": ']
    assert split_body("no JSON") == ["no JSON"]
