"""What the masking of shared texts takes out of real sessions, by kind: `python -m tests.false_alarms [FILE ...] [--values]`.

Of each kind: how many values, how often they stand in the texts, and how many files have one. With `--values` each value too,
which is how a wrong pattern is found. Real sessions hold few secrets, so most of what is called one is a false alarm.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import turnscope
from turnscope.errors import TurnscopeError
from turnscope.share.private_data import find_private

from tests.formats_table import list_files

MAX_BYTES = 3_000_000  # of a file; the two larger ones repeat what smaller ones of their formats hold


def list_texts(path: Path) -> dict[str, None]:
    """Every text of a file's sessions, once. Empty where a session cannot be opened."""
    texts: dict[str, None] = {}
    for entry in turnscope.entries(path):
        try:
            session = turnscope.load(path, entry)
        except TurnscopeError:  # an entry of a file of many may hold no message
            continue
        texts |= dict.fromkeys((session.title, *(block.text for block in session.blocks)))
    return texts


def iter_alarms(path: Path) -> Iterator[tuple[str, str]]:
    """Kind and value of everything that would be taken out of a file's texts."""
    for text in list_texts(path):
        yield from ((one.kind, text[one.start : one.stop]) for one in find_private(text))


def count_alarms(paths: Iterable[Path]) -> tuple[dict[str, Counter[str]], dict[str, int]]:
    """Count the values of each kind, and the files that have one."""
    values: dict[str, Counter[str]] = defaultdict(Counter)
    files: dict[str, int] = Counter()
    for path in paths:
        kinds = set()
        for kind, value in iter_alarms(path):
            values[kind][value] += 1
            kinds.add(kind)
        for kind in kinds:
            files[kind] += 1
    return values, files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--values", action="store_true")
    given = parser.parse_args()
    paths = given.files or [path for path in list_files() if path.stat().st_size <= MAX_BYTES]
    values, files = count_alarms(paths)
    print(f"{'kind':24} {'values':>8} {'places':>8} {'files':>6} of {len(paths)}")
    for kind, found in sorted(values.items(), key=lambda item: -len(item[1])):
        print(f"{kind:24} {len(found):8,} {found.total():8,} {files[kind]:6}")
        for value, count in found.most_common() if given.values else ():
            print(f"    {count:6,} {value[:110]!r}")


if __name__ == "__main__":
    main()
