"""Tokens of images, documents and thinking without text, estimated from published formulas and from what stands in the block.

The module holds formulas and reads sizes from file headers. It counts no text and opens no file or address: a source that is
not in the block (url, file id) gets a stated default. Everything here is an estimate; nothing here raises.

Sources:
- Claude images: platform.claude.com/docs/en/build-with-claude/vision (2026): one token per started patch of 28 x 28 px after
  scaling down to the model's tier, 1,568 px and 1,568 tokens, or 2,576 px and 4,784 tokens from Claude 4.7 on. This replaced
  the older "width x height / 750", 2 % higher at the limit (count_tokens says 1,560 for a 16:9 screenshot, as patches do).
- Claude PDFs: .../build-with-claude/pdf-support: 1,500-3,000 tokens per page, by density; the middle is used here. Totals
  measured in 2026 (dataset JOHNISKING/pdf-token-cost): 1,600 for a scanned page, 2,115-2,480 for a page of text or a table.
- Thinking without text (`display: omitted`, and redacted thinking): its signature is the encrypted thinking in base64. In 483
  answers of real sessions that hold both, the shortest signatures are 230 characters + 4/3 per byte of text; long ones are
  longer, for there the text is a summary of what was thought.
- OpenAI images: platform.openai.com/docs/guides/images-vision, GPT-4o: 85 + 170 per 512 px tile after scaling into 2,048 px
  and to a short side of 768 px (smaller images are not enlarged); 85 at detail "low". No range for PDFs: as Claude.
"""

from __future__ import annotations

import binascii
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from math import ceil
from typing import Literal

from turnscope.session.content import UNRECORDED
from turnscope.session.model import JSON
from turnscope.session.usage import MAX_COUNT

PATCH = 28  # px
STANDARD_TIER = (1568, 1568)  # longest edge in px, most tokens per image
HIGH_TIER = (2576, 4784)
HIGH_FAMILIES = frozenset({"claude-4.7", "claude-4.8"})

CLAUDE_IMAGE_DEFAULT = 1568  # size unknown: a full image of the standard tier, which most screenshots are
OPENAI_IMAGE_DEFAULT = 765  # size unknown: OpenAI's published example, 1024 x 1024 at high detail
PDF_PAGE = 2250  # middle of the published 1,500-3,000 tokens per page

ENCRYPTED = "gAAAA"  # what `encrypted_content` of OpenAI begins with: a Fernet token, version 0x80 and a time
SIGNATURE_FRAME = 230  # characters of a signature that hold no thinking
SIGNATURE_CHARS = 16 / 3  # characters of base64 per token: 4/3 per byte, 4 bytes per token

_HEADER_CHARS = 88  # base64 characters, 66 bytes: enough for PNG, GIF and WebP
_JPEG_CHARS = 1 << 20  # a JPEG's size may come after Exif, thumbnails and colour profiles
_INFLATE_BYTES = 1 << 24  # bytes read from one compressed stream of a PDF
_URLSAFE = str.maketrans("-_", "+/")
_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_OBJECT_STREAM = re.compile(rb"/ObjStm\b[^\0]{0,400}?stream\r?\n")

_IMAGES = ("image", "image_url", "input_image")  # types of blocks
_PLAIN_TYPES = ("text", "thinking", "tool_use", "tool_result")  # such a block is no media itself; what it holds may be

Style = Literal["patches", "tiles"]


def count_media(raw: JSON, family: str) -> int:
    """Count the tokens of all images and documents in a content block, also inside a tool result. Never raises.

    Thinking without text counts with the tokens of what its signature holds, and content that is not in the log with those
    that the log states.

    Args:
        raw: The block as sent. Its texts are not counted.
        family: The model's tokenizer family; "" = unknown, then the block's shape decides the formula.

    Returns:
        Tokens. Unknown sizes and broken data count with the defaults above.
    """
    if not isinstance(raw, (dict, list)):
        return 0
    if is_sealed(raw):
        return count_sealed_thinking(raw)
    if isinstance(raw, dict) and raw.get("type") == UNRECORDED:
        return get_stated_tokens(raw)
    total = 0
    for node in _iter_media(raw):
        total += _count_image(node, family) if node.get("type") in _IMAGES else _count_document(node)
    return total


def get_stated_tokens(raw: JSON) -> int:
    """Return the tokens that a log states of a block whose content it does not hold; 0 where they cannot be right."""
    tokens = raw.get("tokens") if isinstance(raw, dict) else None
    return tokens if isinstance(tokens, int) and 0 <= tokens < MAX_COUNT else 0


def count_largest_images(raw: JSON) -> int:
    """Count the most tokens that the images of a content block may have, under any provider's formula. Never raises.

    Args:
        raw: The block as sent.
    """
    return HIGH_TIER[1] * sum(node.get("type") in _IMAGES for node in _iter_media(raw))


def _iter_media(raw: JSON) -> Iterator[dict[str, JSON]]:
    """Iterate over the images and documents of a content block, also inside a tool result."""
    if isinstance(raw, dict) and raw.get("type") in _PLAIN_TYPES and not isinstance(raw.get("content"), (dict, list)):
        return
    todo = [raw]
    while todo:  # a loop, because a log may be nested deeper than Python recurses
        node = todo.pop()
        if isinstance(node, list):
            todo.extend(node)
        elif isinstance(node, dict):
            kind = node.get("type")
            if kind in _IMAGES:
                yield node
            elif kind in ("document", "file", "input_file"):
                yield node
                todo.append(_get_content(node.get("source")))
            else:
                todo.append(_get_content(node))


def is_sealed(raw: JSON) -> bool:
    """Whether a block is thinking whose text the log does not hold."""
    if not isinstance(raw, dict):
        return False
    kind = raw.get("type")
    return (kind == "thinking" and not raw.get("thinking") and bool(raw.get("signature"))) or kind == "redacted_thinking"


def is_summarized(raw: JSON) -> bool:
    """Whether a block is thinking of which the log holds a summary and the whole encrypted, as OpenAI's Responses API gives it.

    The whole is sent back and billed, not the summary.
    """
    sealed = raw.get("signature") if isinstance(raw, dict) and raw.get("type") == "thinking" else None
    return isinstance(sealed, str) and sealed.startswith(ENCRYPTED)


def count_sealed_thinking(raw: JSON) -> int:
    """Tokens of thinking without text, from the length of its signature; at least 1."""
    sealed = raw.get("signature") or raw.get("data") if isinstance(raw, dict) else None
    length = len(sealed) if isinstance(sealed, str) else 0
    return max(1, round((length - SIGNATURE_FRAME) / SIGNATURE_CHARS))


def count_claude_image(width: int, height: int, family: str) -> int:
    """Count the tokens of an image for a Claude family, after the API's scaling.

    Args:
        width: Pixels.
        height: Pixels.
        family: The tokenizer family.

    >>> count_claude_image(1920, 1080, "claude-3")
    1560
    """
    max_edge, budget = HIGH_TIER if family in HIGH_FAMILIES else STANDARD_TIER
    long, short = max(width, height), min(width, height)

    def count_patches(edge: int) -> int:
        return ceil(edge / PATCH) * ceil(max(round(edge * short / long), 1) / PATCH)

    fits = bisect_right(range(1, min(long, max_edge) + 1), budget, key=count_patches)
    return count_patches(max(fits, 1))


def count_openai_image(width: int, height: int, detail: str = "high") -> int:
    """Count the tokens of an image by OpenAI's tile formula (GPT-4o).

    Args:
        width: Pixels.
        height: Pixels.
        detail: "low" or "high".

    >>> count_openai_image(1024, 1024)
    765
    """
    if detail == "low":
        return 85
    scale = min(1.0, 2048 / max(width, height))
    scale *= min(1.0, 768 / max(min(width, height) * scale, 1))
    return 85 + 170 * max(ceil(round(width * scale) / 512), 1) * max(ceil(round(height * scale) / 512), 1)


def read_image_size(data: str) -> tuple[int, int] | None:
    """Read width and height in pixels from the header of a base64 PNG, JPEG, GIF or WebP. None where that fails."""
    head = _decode(data, _HEADER_CHARS)
    if head[:3] == b"\xff\xd8\xff":
        size = _read_jpeg_size(_decode(data, _JPEG_CHARS))
    elif head[:8] == b"\x89PNG\r\n\x1a\n" and head[12:16] == b"IHDR":
        size = int.from_bytes(head[16:20]), int.from_bytes(head[20:24])
    elif head[:6] in (b"GIF87a", b"GIF89a"):
        size = int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    elif head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        size = _read_webp_size(head)
    else:
        return None
    return size if size and all(size) else None


def count_pdf_pages(data: str) -> int:
    """Count the pages of a base64 PDF, at least 1. Page objects inside compressed object streams count too."""
    content = _decode(data, len(data))
    pages = len(_PAGE.findall(content))
    if not pages:
        for match in _OBJECT_STREAM.finditer(content):
            try:
                inflated = zlib.decompressobj().decompress(content[match.end() :], _INFLATE_BYTES)
            except zlib.error:
                continue
            pages += len(_PAGE.findall(inflated))
    return max(pages, 1)


def _get_content(node: JSON) -> JSON:
    return node.get("content") if isinstance(node, dict) else None


def _count_image(node: dict[str, JSON], family: str) -> int:
    style: Style = "tiles" if family in ("o200k_base", "cl100k_base") else "patches"
    if not family and node["type"] != "image":
        style = "tiles"
    detail = node.get("detail")
    data: JSON = node.get("data")
    for key in ("source", "image_url"):
        inner = node.get(key)
        if isinstance(inner, dict):
            data, detail = inner.get("data") or inner.get("url"), inner.get("detail", detail)
        elif isinstance(inner, str):
            data = inner
    size = read_image_size(_extract_base64(data))
    if style == "patches":
        return count_claude_image(*size, family) if size else CLAUDE_IMAGE_DEFAULT
    if size is None:
        return 85 if detail == "low" else OPENAI_IMAGE_DEFAULT
    return count_openai_image(*size, detail=str(detail or "high"))


def _count_document(node: dict[str, JSON]) -> int:
    source = node.get("source") or node.get("file") or node
    if not isinstance(source, dict):
        return PDF_PAGE
    if source.get("type") in ("text", "content"):
        return 0  # its text is counted as text, its inner blocks on their own
    data = _extract_base64(source.get("data") or source.get("file_data"))
    return PDF_PAGE * count_pdf_pages(data) if data else PDF_PAGE


def _extract_base64(data: JSON) -> str:
    """Get the base64 part of a data URL, or of bare base64; "" for any other address."""
    if not isinstance(data, str):
        return ""
    if data.startswith("data:"):
        return data.partition(",")[2]
    return "" if "://" in data[:16] else data


def _decode(data: str, chars: int) -> bytes:
    """Decode the first `chars` characters of base64, as far as they are base64."""
    head = "".join(data[:chars].split()).translate(_URLSAFE).rstrip("=")
    head += "=" * (-len(head) % 4)
    try:
        return binascii.a2b_base64(head)
    except (binascii.Error, ValueError):
        return b""


def _read_jpeg_size(content: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 <= len(content) and content[at] == 0xFF:
        marker = content[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):  # a frame header
            return int.from_bytes(content[at + 7 : at + 9]), int.from_bytes(content[at + 5 : at + 7])
        else:
            at += 2 + int.from_bytes(content[at + 2 : at + 4])
    return None


def _read_webp_size(head: bytes) -> tuple[int, int] | None:
    form = head[12:16]
    if form == b"VP8X":
        return int.from_bytes(head[24:27], "little") + 1, int.from_bytes(head[27:30], "little") + 1
    if form == b"VP8L":
        bits = int.from_bytes(head[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8 ":
        return int.from_bytes(head[26:28], "little") & 0x3FFF, int.from_bytes(head[28:30], "little") & 0x3FFF
    return None
