"""Notices of stored chats: errors of earlier versions keep their words."""

from __future__ import annotations

from pages.chat.notices import KINDS


def test_an_error_that_had_another_name_is_shown_as_today() -> None:
    assert KINDS["WrongPlace"] == KINDS["WrongDestination"] == "Not sent"
