"""Counting: what the estimates add up to, what they survive, and what images and documents weigh."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from importlib.util import find_spec
from pathlib import Path

import pytest
import toktok
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from PIL import Image
from turnscope.counting import counting_process, tokens
from turnscope.counting.ledger import build_ledger
from turnscope.counting.media import (
    CLAUDE_IMAGE_DEFAULT,
    OPENAI_IMAGE_DEFAULT,
    PDF_PAGE,
    count_claude_image,
    count_media,
    count_openai_image,
    count_pdf_pages,
    read_image_size,
)
from turnscope.counting.tokens import (
    CHARS,
    NAMED_COUNTERS,
    Counter,
    count_blocks,
    count_texts,
    count_with_tiktoken,
    get_counter,
    make_estimator,
    make_exact_counter,
)
from turnscope.errors import TurnscopeError
from turnscope.library import loading
from turnscope.library.loading import load
from turnscope.library.opening import count_session
from turnscope.session.builder import Builder
from turnscope.session.model import JSON, Block, Bucket, Part

O200K = make_estimator("o200k_base")
HARD = {
    "empty": "",
    "plain": "def f(x: int) -> int:\n    return x + 1\n",
    "NUL": "a\0b\0\0c",
    "200k repeated characters": "a" * 200_000,
    "long run of spaces": " " * 5_000 + "x",
    "CJK": "上下文窗口的调试器。" * 50,
    "emoji": "👩‍👩‍👧‍👦 🇩🇪 🧠" * 20,
    "special token": "<|endoftext|> <|im_start|>",
    "lone surrogate": "before \ud800 after \udfff",
    "surrogate pair in two halves": "\ud83e\udde0",
}


def block(raw: JSON, digest: str = "", kind: str = "text") -> Block:
    return Block(0, 0, 0, "user", Bucket.MESSAGES, kind, digest or str(raw), content=raw)


def picture(form: str, width: int, height: int) -> str:
    out = io.BytesIO()
    Image.new("RGB", (width, height), (20, 90, 200)).save(out, form)
    return base64.b64encode(out.getvalue()).decode()


def image(data: str, kind: str = "image/png") -> dict[str, JSON]:
    return {"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}


def pdf(body: bytes) -> str:
    return base64.b64encode(b"%PDF-1.7\n" + body + b"\n%%EOF").decode()


# --- counters ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("family", "label"),
    [
        ("claude-3", "estimate: o200k x 1.20, ±10 %"),
        ("claude-4.7", "estimate: o200k x 1.47, ±15 %"),
        ("claude-4.8", "estimate: o200k x 1.45, ±15 %"),
        ("o200k_base", "exact: o200k (toktok, offline)"),
        ("cl100k_base", "exact: cl100k (toktok, offline)"),
        ("", "estimate: o200k x 1.00, ±35 %, tokenizer unknown"),
        ("llama-9", "estimate: o200k x 1.00, ±35 %, tokenizer unknown"),
    ],
)
def test_a_counter_says_what_it_counts_with_and_how_sure_it_is(family: str, label: str) -> None:
    assert make_estimator(family).label == label


def test_only_claude_and_openai_families_have_an_exact_counter() -> None:
    claude, newer = make_exact_counter("claude-3"), make_exact_counter("claude-4.8")
    assert claude is not None
    assert newer is not None
    assert claude.label == "offline count: ctok, claude-3"
    assert newer.label.endswith("not verified on 5.5 models")
    assert make_exact_counter("o200k_base") == O200K
    assert make_exact_counter("") is None


# --- texts ------------------------------------------------------------------------------------------------------------


def test_hard_texts_are_counted_and_the_empty_text_is_nothing() -> None:
    counts = dict(zip(HARD, count_texts(list(HARD.values()), O200K), strict=True))
    assert counts.pop("empty") == 0
    assert all(n > 0 for n in counts.values()), counts
    assert counts["200k repeated characters"] == 25_000
    assert counts["surrogate pair in two halves"] == toktok.batch_count(["🧠"], "o200k_base")[0]
    assert counts["lone surrogate"] == toktok.batch_count(["before � after �"], "o200k_base")[0]


def test_a_lone_surrogate_changes_no_other_count() -> None:
    others = [text for name, text in HARD.items() if "surrogate" not in name]
    assert count_texts([*others, "\ud800"], O200K)[:-1] == count_texts(others, O200K)


@given(st.lists(st.text(st.characters(), max_size=40), max_size=8))
def test_a_factor_rounds_each_text_once(texts: list[str]) -> None:
    plain = count_texts(texts, O200K)
    for family, percent in (("claude-3", 120), ("claude-4.7", 147), ("claude-4.8", 145)):
        assert count_texts(texts, make_estimator(family)) == [(n * percent + 50) // 100 for n in plain]


def test_four_characters_make_a_token_for_the_coarse_counter() -> None:
    assert count_texts(["", "abcd", "abcdefgh" * 10], CHARS) == [0, 1, 20]


def test_an_unknown_counter_is_an_error() -> None:
    with pytest.raises(ValueError, match="guess"):
        count_texts(["a"], Counter("guess", "", 1.0, ""))


# --- blocks -----------------------------------------------------------------------------------------------------------


def test_counts_of_blocks_add_text_and_media() -> None:
    counter = make_estimator("claude-3")
    shot = [{"type": "text", "text": "look at this"}, image(picture("PNG", 1000, 1000))]
    seen = block({"type": "tool_result", "content": shot}, kind="tool_result")
    assert count_blocks([seen], counter) == [count_texts(["look at this"], counter)[0] + 1296]


@given(st.lists(st.sampled_from(["alpha", "beta gamma", "δέλτα", "", "long " * 40]), max_size=12), st.integers(0, 12))
def test_counting_in_two_parts_with_a_memo_equals_counting_at_once(texts: list[str], cut: int) -> None:
    counter, blocks = make_estimator("claude-4.8"), [block(text) for text in texts]
    memo: dict[str, int] = {}
    parts = count_blocks(blocks[:cut], counter, memo) + count_blocks(blocks[cut:], counter, memo)
    assert parts == count_blocks(blocks, counter)
    assert memo.keys() == {b.digest for b in blocks}


def test_a_digest_in_the_memo_is_not_counted_again() -> None:
    assert count_blocks([block("much longer than this", digest="d"), block("x", digest="e")], O200K, {"d": 7}) == [7, 1]


# --- the reference ----------------------------------------------------------------------------------------------------


def vocabularies() -> Path:
    """The folder of tiktoken vocabularies inside the litellm package, found without importing it."""
    spec = find_spec("litellm")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("litellm, whose wheel carries tiktoken's vocabularies, is not installed")
    return Path(spec.submodule_search_locations[0], "litellm_core_utils", "tokenizers")


@pytest.mark.parametrize("encoding", ["o200k_base", "cl100k_base"])
def test_toktok_counts_what_tiktoken_counts(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tiktoken", reason="tiktoken is not installed")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(vocabularies()))
    root = Path(__file__).parents[2]
    texts = [*HARD.values(), *(path.read_text("utf-8") for path in sorted(root.glob("engine/turnscope/*.py")))]
    assert count_texts(texts, make_estimator(encoding)) == count_with_tiktoken(texts, encoding)
    assert count_texts(texts, Counter("tiktoken", encoding, 1.0, "")) == count_texts(texts, make_estimator(encoding))


def test_tiktoken_never_goes_to_the_network_for_its_vocabulary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(TurnscopeError, match="not on this computer") as caught:
        count_with_tiktoken(["a"], "o200k_base")
    assert "TIKTOKEN_CACHE_DIR" in caught.value.hint


# --- images -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
def test_the_size_of_an_image_is_read_from_its_header(form: str) -> None:
    assert read_image_size(picture(form, 321, 123)) == (321, 123)


def test_the_size_of_other_webp_and_jpeg_kinds_is_read_too() -> None:
    out = io.BytesIO()
    Image.new("RGBA", (70, 50), (1, 2, 3, 4)).save(out, "WEBP", lossless=True)
    assert read_image_size(base64.b64encode(out.getvalue()).decode()) == (70, 50)
    out = io.BytesIO()
    frames = [Image.new("RGB", (90, 40), color) for color in ("red", "blue")]
    frames[0].save(out, "WEBP", save_all=True, append_images=frames[1:])
    assert read_image_size(base64.b64encode(out.getvalue()).decode()) == (90, 40)
    tables_first = b"\xff\xd8\xff\xc4\0\x0a" + b"\7" * 8 + b"\xff\xff\xc2\0\x11\x08\0\x30\x02\x80" + b"\0" * 12
    assert read_image_size(base64.b64encode(tables_first).decode()) == (640, 48), (
        "Huffman tables before the frame are passed over"
    )
    out = io.BytesIO()
    Image.new("L", (640, 48)).save(out, "JPEG", progressive=True, exif=b"Exif\0\0" + b"x" * 40_000)
    assert read_image_size(base64.encodebytes(out.getvalue()).decode()) == (640, 48), "line breaks in base64 do no harm"


@pytest.mark.parametrize(
    ("width", "height", "standard", "high"),
    [
        (28, 28, 1, 1),
        (29, 28, 2, 2),
        (200, 200, 64, 64),
        (1000, 1000, 1296, 1296),
        (1092, 1092, 1521, 1521),
        (1920, 1080, 1560, 2691),
        (2000, 1500, 1564, 3888),
        (3840, 2160, 1560, 4784),
        (1, 30_000, 56, 92),
    ],
)
def test_claude_charges_a_token_per_patch_after_scaling(width: int, height: int, standard: int, high: int) -> None:
    """The sizes in the middle are rows of the provider's own table."""
    assert count_claude_image(width, height, "claude-3") == standard
    assert count_claude_image(width, height, "claude-4.8") == high


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_no_image_costs_more_than_its_tier_or_less_than_a_token(width: int, height: int) -> None:
    assert 1 <= count_claude_image(width, height, "claude-3") <= 1568
    assert 1 <= count_claude_image(width, height, "claude-4.7") <= 4784
    assert 255 <= count_openai_image(width, height) <= 85 + 170 * 8


@pytest.mark.parametrize(
    ("width", "height", "detail", "tokens"),
    [(1024, 1024, "high", 765), (2048, 4096, "high", 1105), (4096, 8192, "low", 85), (512, 512, "auto", 255)],
)
def test_openai_charges_tiles(width: int, height: int, detail: str, tokens: int) -> None:
    """The first three are OpenAI's published examples."""
    part = {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64," + picture("PNG", width, height), "detail": detail},
    }
    assert count_openai_image(width, height, detail) == tokens
    assert count_media(part, "o200k_base") == tokens
    assert count_media(part, "") == tokens, "an OpenAI part of an unknown model is counted as OpenAI counts"


def test_images_inside_a_tool_result_count_wherever_they_are() -> None:
    small = image(picture("PNG", 200, 200))
    result = {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "shots"}, small, small]}
    assert count_media(result, "claude-3") == 128
    assert count_media([result, small], "claude-3") == 192
    deep: JSON = small
    for _ in range(100_000):
        deep = {"type": "tool_result", "content": [deep]}
    assert count_media(deep, "claude-3") == 64


@pytest.mark.parametrize(
    "source",
    [
        {"type": "base64", "data": "this is no image"},
        {"type": "base64", "data": "%%%"},
        {"type": "base64", "data": picture("PNG", 9, 9)[:20]},
        {"type": "base64", "data": "iVBORw0KGgoé"},
        {"type": "base64", "data": None},
        {"type": "base64"},
        {"type": "url", "url": "https://example.com/a.png"},
        {"type": "file", "file_id": "file_1"},
        "nonsense",
        None,
    ],
)
def test_an_image_of_unknown_size_gets_the_default(source: JSON) -> None:
    assert count_media({"type": "image", "source": source}, "claude-4.8") == CLAUDE_IMAGE_DEFAULT
    assert count_media({"type": "image", "source": source}, "o200k_base") == OPENAI_IMAGE_DEFAULT


KEYS = st.sampled_from(["type", "content", "source", "data", "file", "image_url", "url", "detail"])
KINDS = st.sampled_from(["image", "image_url", "document", "file", "base64", "text"])
SHAPES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | KINDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
)


@given(SHAPES)
def test_no_shape_of_a_block_raises(raw: JSON) -> None:
    assert count_media(raw, "claude-3") >= 0
    assert count_media(raw, "") >= 0


def test_text_has_no_media() -> None:
    for raw in ("a string", None, {"type": "text", "text": "image"}, {"type": "tool_use", "input": {"type": "image"}}):
        assert count_media(raw, "claude-3") == 0


# --- documents --------------------------------------------------------------------------------------------------------


def test_a_pdf_costs_the_middle_of_the_published_range_per_page() -> None:
    data = pdf(b"1 0 obj <</Type /Pages /Count 3>>" + b" 2 0 obj <</Type /Page>> endobj" * 2 + b"<< /Type/Page/Parent 1 0 R>>")
    assert count_pdf_pages(data) == 3
    document = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": data}}
    assert count_media(document, "claude-4.8") == 3 * PDF_PAGE
    part = {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{data}"}}
    assert count_media(part, "o200k_base") == 3 * PDF_PAGE


def test_pages_in_a_compressed_object_stream_are_found() -> None:
    packed = zlib.compress(b"<</Type /Page>>" * 7 + b"<</Type /Pages>>")
    stream = b"5 0 obj <</Type /ObjStm /N 8 /Filter /FlateDecode /Length %d>>\nstream\n" % len(packed) + packed + b"\nendstream"
    assert count_pdf_pages(pdf(stream)) == 7


@pytest.mark.parametrize("data", ["", "no pdf at all", pdf(b"/ObjStm stream\n" + struct.pack(">I", 7)), pdf(b"")])
def test_a_pdf_that_cannot_be_read_has_one_page(data: str) -> None:
    assert count_pdf_pages(data) == 1


def test_a_document_that_is_text_or_blocks_is_not_charged_as_pages() -> None:
    assert count_media({"type": "document", "source": {"type": "text", "data": "hello"}}, "claude-3") == 0
    inner = {"type": "content", "content": [{"type": "text", "text": "x"}, image(picture("PNG", 200, 200))]}
    assert count_media({"type": "document", "source": inner}, "claude-3") == 64
    address = {"type": "url", "url": "https://example.com/a.pdf"}
    assert count_media({"type": "document", "source": address}, "claude-3") == PDF_PAGE


# --- a process of its own ----------------------------------------------------------------------------------------------------


def test_a_process_of_its_own_counts_the_same_and_whoever_asks_counts_on_where_it_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = ["", "def f(x):\n    return x\n" * 500, "naïve 漢字 🙂", "half \ud800 of one"]
    here = count_texts(texts, O200K)
    monkeypatch.setattr(tokens, "_LOADED", set())
    monkeypatch.setattr(tokens, "_PROCESSES", {})
    monkeypatch.setattr(tokens, "_load_vocabulary", lambda _encoding: pytest.fail("it was loaded here"))
    tokens.start_process()
    assert count_texts(texts, O200K) == here
    tokens._PROCESSES["o200k_base"].end()
    monkeypatch.undo()
    assert count_texts(texts, O200K) == here


@pytest.mark.parametrize("family", ["claude-4.7", "o200k_base"])
def test_texts_that_were_heard_while_a_file_was_read_are_counted_as_any_other(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each once, and what was not heard as well; whoever counts next finds nothing of them."""
    builder = Builder("s", "test")
    for text in ("", "def f(x):\n    return x\n" * 50, "naïve 漢字 🙂", "half \ud800 of one", "never heard"):
        builder.add_message("user", text)
    blocks, counter = builder.build().blocks, make_estimator(family)
    wanted = count_blocks(blocks, counter)
    with tokens.count_while_reading() as hear:
        for block in blocks[:-1]:
            hear(block.text)
    tokens._EAGER["o200k_base"].wait_for_counts()
    asked: list[str] = []
    count = tokens._count_with_toktok
    monkeypatch.setattr(tokens, "_count_with_toktok", lambda texts, encoding: (asked.extend(texts), count(texts, encoding))[1])
    assert count_blocks(blocks, counter) == wanted
    assert asked == ["never heard"]
    assert tokens._EAGER == {}


def test_a_long_file_is_counted_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = ROOT / "sample_sessions" / "cache-goes-cold.jsonl"
    wanted = count_session(load(path)).total
    monkeypatch.setattr(loading, "LONG_FILE", 1)
    session = load(path)
    ahead = tokens._EAGER["o200k_base"]
    known = ahead.wait_for_counts()
    assert sum((hash(block.text), len(block.text)) in known for block in session.blocks) > 0.9 * len(session.blocks)
    assert count_session(session).total == wanted


def test_a_process_that_dies_or_cannot_be_started_costs_nothing_but_time(monkeypatch: pytest.MonkeyPatch) -> None:
    here = count_texts(["some words"], O200K)
    monkeypatch.setattr(tokens, "_LOADED", set())
    monkeypatch.setattr(tokens, "_PROCESSES", {})
    tokens.start_process()
    tokens._PROCESSES["o200k_base"]._process.kill()
    assert count_texts(["some words"], O200K) == here
    assert tokens._PROCESSES == {}
    assert "o200k_base" in tokens._LOADED
    monkeypatch.setattr(tokens, "_LOADED", set())
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    tokens.start_process()
    assert tokens._PROCESSES == {}
    assert count_texts(["some words"], O200K) == here


@pytest.mark.parametrize(
    ("name", "texts", "tokens"),
    [
        ("chars", ["abcde"], 1),  # to the nearest
        ("chars-up", ["abcde"], 2),  # as two published designs count: Math.ceil(text.length / 4)
        ("chars-down", ["abcde"], 1),
        ("chars-down", ["abc"], 0),  # as a third counts: len(content) // 4
        ("words", ["abcde"], 2),
        ("words", ["one two three"], 4),
        ("chars-up", ["abcde", "abcde"], 3),  # a message is rounded once, not each of its texts
        ("chars-down", ["abc", "abc"], 1),
        ("chars", ["abc", "abc"], 2),
    ],
)
def test_counters_by_name_round_as_they_say(name: str, texts: list[str], tokens: int) -> None:
    builder = Builder("s", "test")
    builder.add_message("user", [{"type": "text", "text": text} for text in texts])
    session, counter = builder.build(), get_counter(name)
    ledger = build_ledger(session, counter, per_message=0)
    assert ledger.count_tokens(0, len(session.blocks)) == tokens
    grown = build_ledger(structs.replace(session, blocks=(), messages=()), counter, per_message=0)
    grown.extend(session.blocks, session.messages[0])
    assert grown.total == ledger.total
    assert ledger.count_placeholder((Part("user", "text", texts[0]),))[2] == count_texts([texts[0]], counter)[0]


def test_counters_have_names_and_labels_of_their_own() -> None:
    assert len({get_counter(name).label for name in NAMED_COUNTERS}) == len(NAMED_COUNTERS)
    assert all(get_counter(name).error for name in NAMED_COUNTERS)
    with pytest.raises(TurnscopeError, match="no counter 'letters'"):
        get_counter("letters")


def test_a_process_without_questions_ends_and_the_next_question_begins_another(monkeypatch: pytest.MonkeyPatch) -> None:
    here = count_texts(["some words"], O200K)
    monkeypatch.setattr(tokens, "_LOADED", set())
    monkeypatch.setattr(tokens, "_PROCESSES", {})
    monkeypatch.setattr(tokens, "_load_vocabulary", lambda _encoding: pytest.fail("it was loaded here"))
    monkeypatch.setattr(counting_process, "IDLE_SECONDS", 0.05)
    tokens.start_process()
    first = tokens._PROCESSES["o200k_base"]
    assert first._process.wait(10) == 0
    monkeypatch.setattr(counting_process, "IDLE_SECONDS", 60.0)
    assert count_texts(["some words"], O200K) == here
    assert tokens._PROCESSES["o200k_base"] is not first
    tokens._PROCESSES["o200k_base"].end()


def test_a_second_vocabulary_is_loaded_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["some words", "naïve 漢字 🙂"]
    other = make_estimator("cl100k_base")
    here = toktok.batch_count(texts, "cl100k_base")
    monkeypatch.setattr(tokens, "_LOADED", {"o200k_base"})
    monkeypatch.setattr(tokens, "_PROCESSES", {})
    monkeypatch.setattr(tokens, "_load_vocabulary", lambda _encoding: pytest.fail("it was loaded here"))
    assert count_texts(texts, other) == here
    assert [*tokens._PROCESSES] == ["cl100k_base"]
    tokens._PROCESSES["cl100k_base"].end()
