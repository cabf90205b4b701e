"""Chooses the importer of a source: the one whose `sniff` gives the highest score, for the file as it is or in another form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress

from turnscope.errors import ImporterError, UnknownFormat, UnreadableFile
from turnscope.extensions import report_problem
from turnscope.reading import cut_json, json_forms
from turnscope.reading.guards import guard_own
from turnscope.reading.import_errors import make_ambiguous_format_error, make_unknown_format_error
from turnscope.reading.importer import Importer
from turnscope.reading.registry import find_importers
from turnscope.reading.source import Source


def claim(source: Source) -> Importer:
    """Find the importer that recognises a source best.

    Raises:
        UnknownFormat: No importer recognises it, or several do equally well.
    """
    importer = find_claim(source)
    if importer is None:
        raise make_unknown_format_error(source, find_importers())
    return importer


def find_claim(source: Source) -> Importer | None:
    """Find the importer that recognises a source best; None where none does. UnknownFormat where several do equally well."""
    scores = {importer: _score(importer, source) for importer in find_importers()}
    best = max(scores.values())
    claims = [importer for importer, score in scores.items() if score == best > 0]
    if len(claims) > 1:
        raise make_ambiguous_format_error(source, claims, [importer for importer in scores if importer not in claims])
    return claims[0] if claims else None


def _score(importer: Importer, source: Source) -> int:
    """Score how well a source fits. An importer that fails scores 0.

    Its failure is reported once, and again where nothing else fits.
    """
    try:
        return guard_own(importer).sniff(source)
    except ImporterError as error:
        report_problem(f"sniff {importer.name}", error.what)
        return 0


def find_claims(files: Iterable[Source]) -> Iterator[tuple[Source, Importer]]:
    """Find the files that an importer recognises, each with its importer. A file that cannot be read is left out."""
    for file in files:
        with suppress(RecursionError, UnknownFormat, UnreadableFile):
            if importer := find_claim(file):
                yield file, importer


def recognize(source: Source) -> tuple[Source, Importer | None]:
    """Find the importer of a source as it is, of a file in another form (`json_forms`), or of what is whole of it (`cut_json`).

    None where no importer recognises any.
    """
    if source.kind != "file":
        return source, find_claim(source)
    if "claim" not in source.cache:  # the entries of a source are listed before one is read: look once
        source.cache["claim"] = find_claim(source)
    importer = source.cache["claim"]
    if importer is None:
        if "recognized" not in source.cache:
            wanted = len(json_forms.list_values(source)) <= json_forms.SNIFF_VALUES or any(
                find_claims(json_forms.iter_forms(source, json_forms.SNIFF_VALUES))
            )
            found = next(find_claims(json_forms.iter_forms(source)), None) if wanted else None
            source.cache["recognized"] = found or _recognize_cut(source)
        source, importer = source.cache["recognized"]
    return source, importer


def _recognize_cut(source: Source) -> tuple[Source, Importer | None]:
    """Find the importer of what is whole of a document that ends too early. Its note stays with the form that is read."""
    whole = cut_json.close_document(source)
    if whole is not None:
        with suppress(RecursionError, UnknownFormat, UnreadableFile):
            opened, importer = recognize(whole)
            opened.cut = whole.cut
            if importer is not None:
                return opened, importer
    return source, None
