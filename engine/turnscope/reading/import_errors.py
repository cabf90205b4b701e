"""Makes the errors of a file that cannot be opened: which formats were tried, and what to do instead."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from turnscope.errors import BrokenFile, ImporterError, UnknownEntry, UnknownFormat, UnreadableFile
from turnscope.reading.cut_json import is_broken
from turnscope.reading.importer import Importer
from turnscope.reading.source import TOO_DEEP, Source
from turnscope.reading.source_description import describe_source
from turnscope.session.model import Note


def make_unknown_format_error(source: Source, importers: Sequence[Importer]) -> UnknownFormat:
    """No importer recognises the content.

    Args:
        source: The file.
        importers: The importers that were tried.
    """
    if broken := _find_break(source):
        what, read = broken
        hint = f"{read} Copy or export it again; what comes before that place is whole."
        return UnknownFormat(f"{source.path.name} is damaged JSON: {what}", hint=hint)
    tried = explain_refusals(source, importers)
    hint = f"It is {describe_source(source)}. These were tried:\n{_list_refusals(tried)}"
    return UnknownFormat(f"{source.path.name} is in no format that Turnscope knows", hint=hint, tried=tried)


def _find_break(source: Source) -> tuple[str, str] | None:
    """Find where a file breaks that begins as one JSON document: the place, and how much was read; None where it does not."""
    if not is_broken(source):
        return None
    text = source.data.decode("utf-8-sig", "replace")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        read = f"{error.pos:,} of {len(text):,} characters could be read."
        return f"{error.msg} at line {error.lineno}, column {error.colno}", read
    except (ValueError, RecursionError):
        pass
    return None


def make_ambiguous_format_error(source: Source, claims: Sequence[Importer], others: Sequence[Importer]) -> UnknownFormat:
    """Several importers recognise the content equally well.

    Args:
        source: The file.
        claims: Those importers.
        others: The importers that fit less.
    """
    tried = explain_refusals(source, others)
    return UnknownFormat(
        f"{source.path.name} looks like {' and like '.join(importer.label for importer in claims)}",
        hint=f"Please report this file's shape. The others fit less:\n{_list_refusals(tried)}",
        tried=tried,
    )


def explain_refusals(source: Source, importers: Iterable[Importer]) -> tuple[tuple[str, str], ...]:
    """Explain why importers do not recognise a source: the title and the reason of each.

    Args:
        source: The file.
        importers: The importers.
    """
    return tuple((importer.label, _explain_refusal(importer, source)) for importer in importers)


def _explain_refusal(importer: Importer, source: Source) -> str:
    try:
        importer.sniff(source)
    except ImporterError as error:
        return error.what
    end = source.path.suffix if source.kind == "file" else ""
    usual = ""
    if end and importer.suffixes and end not in importer.suffixes:
        usual = f"; its files end in {' or '.join(importer.suffixes)}"
    return f"no {importer.wants}{usual}" if importer.wants else f"its content does not fit{usual}"


def _list_refusals(tried: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"{title}: {why}." for title, why in tried)


def make_no_session_error(source: Source) -> UnreadableFile:
    """The folder holds nothing that can be opened."""
    return UnreadableFile(
        f"{source.path.name or source.path} is a folder without a session that Turnscope knows",
        hint="Choose another one, or one of the files inside it.",
    )


def make_no_such_entry_error(source: Source, id: str) -> UnknownEntry:
    """The source holds no conversation of that id.

    Args:
        source: The source.
        id: The id.
    """
    return UnknownEntry(
        f"{source.path.name} holds no conversation {id!r}", hint="It may have been removed. Choose another one from the list."
    )


def make_no_message_error(source: Source, importer: Importer, cut: Note | None = None) -> BrokenFile:
    """The format is known, but the file holds no message.

    Args:
        source: The file.
        importer: Its importer.
        cut: What is lost of a file that ends too early.
    """
    error = BrokenFile(f"{source.path.name} is {importer.title}, but holds no message", hint="Open a session with messages.")
    return make_cut_error(error, cut) if cut else error


def make_cut_error(error: BrokenFile, cut: Note) -> BrokenFile:
    """What is whole of a file that ends too early cannot be read.

    Args:
        error: Why not.
        cut: What is lost.
    """
    return BrokenFile(f"{error.what}: {cut.what}", hint="Copy or export it again.")


def make_nesting_error(source: Source) -> BrokenFile:
    """The file holds JSON inside JSON, far deeper than any tool writes it."""
    return BrokenFile(f"{source.path.name} is {TOO_DEEP}", hint="No chat tool writes such a file; check where it comes from.")
