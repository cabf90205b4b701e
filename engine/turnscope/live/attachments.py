"""Attachments of a message: images and text files as blocks, recognised by their content, not by their name.

An image is a block of the Messages API with its bytes in base64. A text file is a text block that names it. Loads nothing.
"""

from __future__ import annotations

import re
import struct
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from turnscope.counting.media import read_image_size
from turnscope.errors import TurnscopeError
from turnscope.session.content import extract_text, replace_surrogates
from turnscope.session.model import JSON

# Limits of the Messages API (platform.claude.com/docs/en/build-with-claude/vision, 2026): size and sides of an image.
MAX_ENCODED = 5 << 20  # characters of base64
MAX_SIDE = 8_000  # pixels
MANY_IMAGES, MAX_SIDE_OF_MANY = 20, 2_000  # with more images than that, the sides of each may have so many pixels
MAX_IMAGE = MAX_ENCODED // 4 * 3  # bytes, before base64
MAX_TEXT = 1_000_000  # bytes of a text file; a larger one fits few windows
MAX_FILES = 10  # files of one message
IMAGE_TYPES = {"image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF", "image/webp": "WebP"}
_FILE = re.compile(r'<file name="([^"\n]*)">\n(.*)\n</file>', re.DOTALL)
_MAX_NAME = 120  # characters of a file's name


class ImageInfo(Struct, frozen=True):
    """An image whose bytes are at hand: media type, sides in pixels (0 = unknown), bytes."""

    type: str
    width: int
    height: int
    bytes: int

    def __str__(self) -> str:
        size = f"{self.bytes / 1_000_000:.1f} MB" if self.bytes > 999_500 else f"{max(1, round(self.bytes / 1_000))} kB"
        return f"{IMAGE_TYPES[self.type]}, {self.width:,} × {self.height:,}, {size}"


def build_content(text: str, files: Sequence[tuple[str, bytes]]) -> str | list[JSON]:
    """Build the content of a message: the attachments, then the text.

    Args:
        text: what was typed.
        files: name and bytes of each file.

    Raises:
        TurnscopeError: there are too many files, or one cannot be attached (see `encode_file`).
    """
    if not files:
        return text
    if len(files) > MAX_FILES:
        raise TurnscopeError(f"{len(files)} files are too many for one message", hint=f"Attach at most {MAX_FILES} at once.")
    return append_text([encode_file(name, data) for name, data in files], text)


def append_text(files: Sequence[JSON], text: str) -> str | list[JSON]:
    """Build the content of a message from blocks of attachments and a text.

    Args:
        files: blocks of the attachments.
        text: what was typed.
    """
    return [*files, *([{"type": "text", "text": text}] if text.strip() else [])] if files else text


def encode_file(name: str, data: bytes) -> JSON:
    """Build the block of a file.

    Args:
        name: its name.
        data: its bytes.

    Raises:
        TurnscopeError: it is too large, or neither text nor an image of `IMAGE_TYPES`.
    """
    shown = _clean_name(name)
    kind = detect_image_type(data[:16])
    if kind:
        encoded = b64encode(data[: MAX_IMAGE + 1]).decode()
        size = read_image_size(encoded)
        if not size:
            raise TurnscopeError(f"{shown} is damaged: it does not state its size", hint="Save it again in another program.")
        _check_image_size(shown, *size, len(data))
        return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": encoded}}
    if len(data) > MAX_TEXT:
        raise TurnscopeError(f"{shown} is too large: {len(data):,} bytes", hint=f"A text file may have {MAX_TEXT:,} bytes.")
    return encode_text(name, _decode_text(data, shown))


def encode_text(name: str, text: str) -> JSON:
    r"""Build the block of a text file.

    Args:
        name: its name.
        text: its text.

    >>> encode_text("notes/todo.txt", "Buy flour")
    {'type': 'text', 'text': '<file name="todo.txt">\nBuy flour\n</file>'}
    """
    return {"type": "text", "text": f'<file name="{_clean_name(name)}">\n{text}\n</file>'}


def build_placeholder_image(name: str, width: int, height: int, size: int) -> JSON:
    """Build a block that has the tokens of an image, from its size. It holds only the head of a PNG file.

    Args:
        name: its name.
        width, height: pixels.
        size: bytes.

    Raises:
        TurnscopeError: the image is too large.
    """
    _check_image_size(_clean_name(name), width, height, size)
    head = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", width, height)
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": b64encode(head).decode()}}


def detect_image_type(head: bytes) -> str:
    """The media type of a file from its first 12 bytes; "" = none of `IMAGE_TYPES`.

    >>> detect_image_type(b"GIF89a"), detect_image_type(b"%PDF-1.7")
    ('image/gif', '')
    """
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if head.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if head.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else ""


def read_image(raw: JSON) -> ImageInfo | None:
    """The type and size of an image block; None = it holds no bytes of a known type."""
    source = raw.get("source") if isinstance(raw, Mapping) and raw.get("type") == "image" else None
    data = source.get("data") if isinstance(source, Mapping) else None
    if not isinstance(data, str) or not (kind := _sniff_type(data)):
        return None
    width, height = read_image_size(data) or (0, 0)
    return ImageInfo(kind, width, height, len(data) // 4 * 3 - data[-2:].count("="))


def read_text_file(raw: JSON) -> tuple[str, str] | None:
    """The name and text of a block that is an attached text file; None = it is none."""
    text = raw.get("text") if isinstance(raw, Mapping) and raw.get("type") == "text" else None
    found = _FILE.fullmatch(text) if isinstance(text, str) and text.startswith("<file ") else None
    return (found[1], found[2]) if found else None


def split_content(content: JSON) -> tuple[list[JSON], str]:
    """Split the content of a message into its attachments and the typed text."""
    blocks = content if isinstance(content, list) else [content]
    files = [raw for raw in blocks if read_text_file(raw) or (isinstance(raw, Mapping) and raw.get("type") == "image")]
    return files, extract_text([raw for raw in blocks if raw not in files])


def find_image_error(raw: Mapping[str, Any]) -> str:
    """Why the Messages API rejects an image block, in its own words; "" = it does not."""
    return next(_find_image_errors(raw.get("source")), "")


def find_oversized_image(messages: Sequence[JSON]) -> tuple[str, str] | None:
    """Find the first image that is too large for a request with so many images.

    Returns:
        Its path and why the Messages API rejects it; None = there is none.
    """
    found = [*_iter_images(messages, "messages")]
    if len(found) <= MANY_IMAGES:
        return None
    for path, raw in found:
        source = raw.get("source")
        size = read_image_size(str(source.get("data") or "")) if isinstance(source, Mapping) else None
        if size and max(size) > MAX_SIDE_OF_MANY:
            what = "At least one of the image dimensions exceed max allowed size for many-image requests"
            return path, f"{what}: {MAX_SIDE_OF_MANY} pixels"
    return None


def _iter_images(value: JSON, path: str) -> Iterator[tuple[str, Mapping[str, JSON]]]:
    """The images of messages, those in tool results included, each with its path."""
    if isinstance(value, list):
        for n, each in enumerate(value):
            yield from _iter_images(each, f"{path}.{n}")
    elif isinstance(value, Mapping) and value.get("type") == "image":
        yield path, value
    elif isinstance(value, Mapping) and isinstance(value.get("content"), list):
        yield from _iter_images(value["content"], f"{path}.content")


def _find_image_errors(source: JSON) -> Iterator[str]:
    if not isinstance(source, Mapping) or source.get("type") not in ("base64", "url", "file"):
        yield "image.source: Field required"
        return
    if source["type"] != "base64":
        return
    kind, data = source.get("media_type"), str(source.get("data") or "")
    if kind not in IMAGE_TYPES:
        yield f"image.source.base64.media_type: Input should be {', '.join(IMAGE_TYPES)}"
    if not data:
        yield "image.source.base64.data: Field required"
    if len(data) > MAX_ENCODED:
        yield f"image.source.base64: image exceeds 5 MB maximum: {len(data)} bytes > {MAX_ENCODED} bytes"
    if _sniff_type(data) != kind:
        yield f"image.source.base64.data: The image was specified using the {kind} media type, but does not appear to be one"
    size = read_image_size(data)
    if not size:
        yield "image.source.base64.data: Could not process image"
    elif max(size) > MAX_SIDE:
        yield f"image.source.base64.data: At least one of the image dimensions exceed max allowed size: {MAX_SIDE} pixels"


def _sniff_type(data: str) -> str:
    try:
        return detect_image_type(b64decode(data[:24], validate=True))
    except ValueError:
        return ""


def _check_image_size(shown: str, width: int, height: int, size: int) -> None:
    if size > MAX_IMAGE:
        raise TurnscopeError(f"{shown} is too large: {size:,} bytes", hint=f"An image may have {MAX_IMAGE:,} bytes.")
    if max(width, height) > MAX_SIDE:
        what = f"{shown} is too large: {width:,} × {height:,} pixels"
        raise TurnscopeError(what, hint=f"Each side may have {MAX_SIDE:,} pixels.")


def _clean_name(name: str) -> str:
    """A file's name without folders and without characters that would end the tag around it."""
    bare = re.split(r"[/\\]", replace_surrogates(name))[-1]
    return re.sub(r'["<>\x00-\x1f]', "_", bare)[-_MAX_NAME:] or "file"


def _decode_text(data: bytes, shown: str) -> str:
    text = None
    for start, encoding in ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"", "utf-8-sig")):
        if data.startswith(start):
            try:
                text = data.decode(encoding)
            except UnicodeDecodeError:
                continue
            break
    if text is None or "\0" in text:
        hint = "PNG, JPEG, GIF and WebP images and text files (UTF-8) can be attached."
        raise TurnscopeError(f"{shown} is neither an image that models accept nor text", hint=hint)
    if not text.strip():
        raise TurnscopeError(f"{shown} is empty", hint="Attach a file with something in it.")
    return text
