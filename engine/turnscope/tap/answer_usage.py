"""What a request that passed is billed: as its answer reports, else as its texts count. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import structs

from turnscope.counting import media
from turnscope.counting.tokens import count_texts, make_estimator
from turnscope.reading.calls import parse_if_json
from turnscope.reading.content_blocks import as_mapping
from turnscope.session.model import JSON, Usage
from turnscope.tap.upstream_answers import read_answer

_PACKED = re.compile(r"[A-Za-z0-9+/]{1000,}={0,2}")  # a picture or another file in a text
_PDF = "JVBERi"  # "%PDF" in base64
_WRITTEN = ("delta", "text", "content", "arguments", "partial_json", "thinking")  # keys of what was written


def count_prompt(body: str, family: str = "") -> int:
    """Count the tokens of a body by its whole text, which is a little more than its prompt. Media count as such.

    Args:
        body: The body.
        family: The tokenizer family of its model; "" = unknown.
    """
    packed = _PACKED.findall(body)
    (tokens,) = count_texts([_PACKED.sub("", body) if packed else body], make_estimator(family))
    return tokens + sum(map(_count_packed, packed))


def _count_packed(data: str) -> int:
    """Count the tokens of a file in base64: a PDF by its pages; else a signature, or a picture at the most that one takes."""
    if data.startswith(_PDF):
        return media.PDF_PAGE * max(1, media.count_pdf_pages(data))
    return min(int(len(data) / media.SIGNATURE_CHARS), media.HIGH_TIER[1])


def measure_answer(api: str, count: Callable[[], int], answer: str, model: str = "") -> tuple[str, Usage]:
    """Give the model that answered, and what is billed: as reported, else as counted by the texts.

    An answer that broke off has reported its prompt alone: what it wrote is counted.

    Args:
        api: The API.
        count: Counts the prompt, where the answer does not say it.
        answer: What came back.
        model: The model, where the answer does not name it.
    """
    call = read_answer(api, {}, answer, model)
    about: Mapping[str, Any] = call.about if call else {}
    usage: Usage | None = about.get("usage")
    if usage is None:
        usage = Usage(count(), output_tokens=_count_written(answer))
    elif not about.get("stop_reason"):
        usage = structs.replace(usage, output_tokens=max(usage.output_tokens, _count_written(answer)))
    return str(about.get("model") or "") or model, usage


def _count_written(answer: str) -> int:
    """Count what an answer says, by its events or its texts."""
    events = [line[5:] for line in answer.splitlines() if line.startswith("data:")] or [answer]
    texts = [text for event in events for text in _find_written(parse_if_json(event))]
    (tokens,) = count_texts(["".join(texts)], make_estimator(""))
    return tokens


def _find_written(value: JSON, key: str = "") -> Iterator[str]:
    if isinstance(value, str):
        yield from [value] if key in _WRITTEN else []
    elif isinstance(value, list):
        for one in value:
            yield from _find_written(one, key)
    else:
        for name, one in as_mapping(value).items():
            yield from _find_written(one, name)
