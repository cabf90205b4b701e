"""How much CPU counting costs beyond the bare tokenizer: `python tests/bench/bench_counting.py`; exit 1 above 1.5."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from statistics import median
from time import process_time

import toktok

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from turnscope.counting.tokens import count_texts, make_estimator

LIMIT = 1.5
ROUNDS = 5


def corpus(size: int) -> list[str]:
    """Paragraphs of the installed packages' sources, at least `size` bytes where there are so many."""
    texts: list[str] = []
    total = 0
    for path in sorted(Path(sysconfig.get_paths()["purelib"]).rglob("*.py")):
        text = path.read_text("utf-8", errors="replace")
        texts.extend(part for part in text.split("\n\n") if part)
        total += len(text)
        if total > size:
            break
    return texts


def main() -> int:
    """Print the ratio of median CPU times, measured in turns; 1 if it is above the limit."""
    texts = corpus(8_000_000)
    counter = make_estimator("claude-4.8")
    raw: list[float] = []
    ours: list[float] = []
    for _ in range(ROUNDS + 1):
        start = process_time()
        toktok.batch_count(texts, counter.encoding)
        middle = process_time()
        count_texts(texts, counter)
        raw.append(middle - start)
        ours.append(process_time() - middle)
    ratio = median(ours[1:]) / median(raw[1:])  # the first round loads the vocabulary
    megabytes = sum(map(len, texts)) / 1e6
    print(
        f"{len(texts):,} texts, {megabytes:.1f} MB: count_texts {median(ours[1:]):.3f} s CPU, "
        f"toktok alone {median(raw[1:]):.3f} s CPU, ratio {ratio:.2f} (limit {LIMIT})"
    )
    return int(ratio > LIMIT)


if __name__ == "__main__":
    sys.exit(main())
