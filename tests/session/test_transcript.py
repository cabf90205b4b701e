"""Transcripts: versions of a growing text share their lines, and each reads as if it had been built alone."""

from __future__ import annotations

import pickle
from hashlib import blake2b

from hypothesis import example, given
from hypothesis import strategies as st
from turnscope.session.transcript import Transcript

LINES = st.lists(st.sampled_from(["user: a", "assistant: b\nc", "tool: \ud800", "", "x" * 40]), max_size=6)


@given(st.lists(LINES, max_size=5), st.integers(0, 200))
@example([["user: a", "assistant: b\nc"]], len("user: a\n"))  # it ends with the break between two lines
def test_every_version_reads_as_the_text_of_its_lines(steps: list[list[str]], length: int) -> None:
    versions, lines = [Transcript("head\0", None)], list[str]()
    told = [""]
    for more in steps:
        versions.append(versions[-1].extend(more, None))
        lines += more
        told.append("\n".join(lines))
    assert len({id(version.lines) for version in versions}) == 1
    for version, text in zip(versions, told, strict=True):
        digest = blake2b(f"head\0{text}".encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        assert (version.text, version.length, version.digest) == (text, len(text), digest)
        assert version.read_beginning(length) == text[:length]
        sent = pickle.loads(pickle.dumps(version))
        assert version == sent == Transcript("", None).extend(text.split("\n"), None)
        assert sent.extend(["end"], None).digest == version.extend(["end"], None).digest
        assert version != Transcript("", None).extend([f"{text}."], None)


def test_two_texts_that_go_on_from_one_leave_each_other_alone() -> None:
    first = Transcript("", None).extend(["one"], None)
    left, right = first.extend(["left"], None), first.extend(["right"], None)
    assert (first.text, left.text, right.text) == ("one", "one\nleft", "one\nright")
    assert right.extend(["end"], None).text == "one\nright\nend"
    assert left.added < right.added, "the second has a copy of the lines"
