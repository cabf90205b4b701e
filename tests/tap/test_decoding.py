"""Bodies are decoded for the record with a bound: a few bytes may stand for more than there is memory."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Callable

import brotli
import pytest
from turnscope.tap import decoding

from tests.tap.test_gateway import pack_zstd


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("zstd", pack_zstd),
        ("zstd", lambda data: b"".join(pack_zstd(data[:1_000_000]) for _ in range(50))),
        ("br", brotli.compress),
        ("gzip, gzip", lambda data: gzip.compress(gzip.compress(data))),
    ],
)
def test_what_grows_beyond_the_bound_is_left_out_and_takes_no_memory(
    monkeypatch: pytest.MonkeyPatch, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(decoding, "MAX_BYTES", 1_500_000)
    packed = pack(bytes(50_000_000))
    tracemalloc.start()
    data, trouble = decoding.decode_all(packed, encoding)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (data, trouble) == (b"", "the body has more than 1,500,000 bytes")
    assert peak < 10_000_000


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("zstd", pack_zstd), ("br", brotli.compress)])
def test_what_comes_in_parts_is_the_same_text(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    text = "h\u00e9llo " * 100_000
    packed, decoder = pack(text.encode()), decoding.Decoder(encoding)
    assert "".join(decoder.decode(packed[at : at + 7]) for at in range(0, len(packed), 7)) + decoder.end() == text
    assert decoder.trouble == ""
