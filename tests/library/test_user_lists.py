"""Tags and saved views: what was written is read again, nonsense in a file is an error that names it, and no name is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from turnscope import TurnscopeError
from turnscope.library import saved_views, tags


def test_tags_are_kept_by_source_and_conversation_and_leave_when_a_session_has_none(tmp_path: Path) -> None:
    file = tmp_path / "new folder" / "tags.json"
    assert tags.read_tags(file) == {}
    tags.set_tags([("/a", ""), ("/a", "two")], [" to  read ", "slow", "slow", ""], file)
    assert tags.read_tags(file) == {("/a", ""): ("to read", "slow"), ("/a", "two"): ("to read", "slow")}
    tags.set_tags([("/a", "")], [], file)
    assert tags.read_tags(file) == {("/a", "two"): ("to read", "slow")}


def test_views_are_kept_in_order_replaced_by_name_and_deleted(tmp_path: Path) -> None:
    file = tmp_path / "views.json"
    saved_views.save_view("Dear", {"least": "10"}, file)
    saved_views.save_view("Codex", {"tool": "Codex CLI rollout"}, file)
    saved_views.save_view(" Dear ", {"least": "20"}, file)
    assert saved_views.read_views(file) == {"Dear": {"least": "20"}, "Codex": {"tool": "Codex CLI rollout"}}
    saved_views.delete_view("Dear", file)
    saved_views.delete_view("never there", file)
    assert list(saved_views.read_views(file)) == ["Codex"]
    with pytest.raises(TurnscopeError, match="needs a name"):
        saved_views.save_view("  ", {}, file)
    for n in range(saved_views.MAX_VIEWS - 1):
        saved_views.save_view(str(n), {}, file)
    with pytest.raises(TurnscopeError, match="already"):
        saved_views.save_view("one more", {}, file)


@pytest.mark.parametrize("content", [b"{", b"[1]", b'{"a": 1}', b"\xff"])
def test_a_file_of_another_kind_is_named_with_what_to_do(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "lists.json"
    file.write_bytes(content)
    for read in (tags.read_tags, saved_views.read_views):
        with pytest.raises(TurnscopeError, match=r"lists\.json cannot be read") as caught:
            read(file)
        assert str(file) in caught.value.hint
