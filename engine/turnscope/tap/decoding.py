"""Decodes bodies as they come over the wire: gzip, deflate, brotli, zstd, UTF-8.

For the record alone: what passes stays as it is.
"""

from __future__ import annotations

import codecs
import sys
import zlib
from typing import Any

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MAX_BYTES = 256_000_000  # of one decoded body; the rest is not recorded


class Decoder:
    """Decodes a body that arrives in parts. What cannot be decoded is left out, and `trouble` says why."""

    def __init__(self, encoding: str = "") -> None:
        self.trouble = ""
        self._size = 0
        self._unpack = [_make_unpacker(name) for name in reversed(_split(encoding))]
        self._text = codecs.getincrementaldecoder("utf-8")("replace")

    def decode(self, data: bytes) -> str:
        """Decode a part. Gives the text that is complete."""
        return self._text.decode(self.unpack(data))

    def unpack(self, data: bytes) -> bytes:
        """Decode a part, but for its characters."""
        if self.trouble:
            return b""
        try:
            for unpack in self._unpack:
                data = unpack(data, MAX_BYTES + 1 - self._size)  # a few bytes may stand for more than there is memory
        except Exception as error:  # noqa: BLE001 - each library has its own
            self.trouble = f"the body cannot be decoded: {error}"
            return b""
        self._size += len(data)
        if self._size > MAX_BYTES:
            self.trouble = f"the body has more than {MAX_BYTES:,} bytes"
            return b""
        return data

    def end(self) -> str:
        """Give what is left of a character that was cut."""
        return self._text.decode(b"", final=True)


def decode_all(data: bytes, encoding: str) -> tuple[bytes, str]:
    """Decode a whole body. Gives its bytes, and why not all of it could be decoded, "" = it could.

    Args:
        data: The body.
        encoding: The header `content-encoding`.
    """
    decoder = Decoder(encoding)
    return decoder.unpack(data), decoder.trouble


def _split(encoding: str) -> list[str]:
    names = (name.strip().lower() for name in encoding.split(","))
    return [name for name in names if name not in ("", "identity")]


def _make_unpacker(name: str) -> Any:
    if name in ("gzip", "x-gzip", "deflate"):
        return _Inflater().decompress
    if name == "zstd":
        return _Frames().decompress
    if name == "br":
        return _Brotli().decompress

    def refuse(_data: bytes, _most: int) -> bytes:
        raise ValueError(f"the encoding {name} is not known")

    return refuse


class _Inflater:
    """gzip, or deflate with or without the header that belongs to it."""

    def __init__(self) -> None:
        self._inflate: Any = None

    def decompress(self, data: bytes, most: int) -> bytes:
        if self._inflate is None and data:
            has_header = data[:1] == b"\x1f" or (data[0] & 0x0F == 8 and data[0] >> 4 <= 7)
            self._inflate = zlib.decompressobj(47 if has_header else -15)
        return bytes(self._inflate.decompress(data, most)) if self._inflate else b""


class _Frames:
    """zstd: one frame after the other."""

    def __init__(self) -> None:
        self._frame = zstd.ZstdDecompressor()

    def decompress(self, data: bytes, most: int) -> bytes:
        found = b""
        while data and len(found) < most:
            found += self._frame.decompress(data, most - len(found))
            data = self._frame.unused_data if self._frame.eof else b""
            if self._frame.eof:
                self._frame = zstd.ZstdDecompressor()
        return found


class _Brotli:
    def __init__(self) -> None:
        import brotli

        self._stream = brotli.Decompressor()

    def decompress(self, data: bytes, most: int) -> bytes:
        return bytes(self._stream.process(data, output_buffer_limit=most))
