"""Damaged files of every format: typed errors and notes, nothing else. The bench bench_mutations.py makes thousands."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from conftest import ROOT
from turnscope.reading.registry import find_importers

from tests.bench.bench_mutations import Case, Whole, _damage, open_damaged, try_case, turns, wholes

CASES = 200
SEED = 11


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Whole]:
    return wholes(tmp_path_factory.mktemp("whole"), large=False)


@pytest.fixture(scope="module")
def cases(found: list[Whole]) -> list[Case]:
    return [try_case(turn, SEED) for turn in turns(found, CASES, Random(SEED))]


@pytest.mark.thorough
def test_every_format_has_a_file(found: list[Whole]) -> None:
    bare = {importer.name for importer in find_importers()} - {whole.format for whole in found}
    assert not bare, "name a small file of it in MADE_BY of tests/bench/bench_mutations.py"


@pytest.mark.thorough
def test_damage_gives_typed_errors_and_notes(cases: list[Case]) -> None:
    assert [f"{case.name}: {case.fault}" for case in cases if case.fault] == []
    ends = {case.end for case in cases}
    assert {"", "UnknownFormat", "UnreadableFile"} <= ends, "some open, some cannot"


@pytest.mark.thorough
def test_the_same_seed_makes_the_same_damage(found: list[Whole], tmp_path: Path) -> None:
    def iter_damaged(seed: int) -> Iterator[bytes]:
        for number, whole in enumerate(each for each in found if each.path.is_file()):
            path = tmp_path / "copy"
            path.write_bytes(whole.path.read_bytes())
            _damage(path, Random(f"{seed} {number}"))
            yield path.read_bytes()

    one, again, other = list(iter_damaged(1)), list(iter_damaged(1)), list(iter_damaged(2))
    assert one == again != other


@pytest.mark.parametrize("error", [KeyError("x"), RecursionError("deep"), TimeoutError("never")])
def test_any_other_error_is_a_fault(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(_path: Path) -> None:
        raise error

    monkeypatch.setattr("tests.bench.bench_mutations.draw_up", breaks)
    sample = ROOT / "sample_sessions" / "thinking-grows.jsonl"
    end, fault = open_damaged(sample, Whole("claude-code", sample))
    assert (end, fault.partition(" ")[0]) == ("fault", type(error).__name__)
