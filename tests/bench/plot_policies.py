"""The chart of `which_policy.py`, in both themes: `python tests/bench/plot_policies.py TABLE.csv [FOLDER]`.

Reads what `which_policy.py --csv` printed and writes `which-policy-dark.webp` and `which-policy-light.webp` into a folder
(default: that of the documentation), as the page Policies draws them. Wants Chromium.
"""

from __future__ import annotations

import csv
import io
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import get_args

from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from conftest import FLAGS, chromium  # noqa: E402
from playwright.sync_api import sync_playwright  # noqa: E402
from turnscope import figures  # noqa: E402
from turnscope.figures import PALETTES, Theme  # noqa: E402
from turnscope.library.policy_table import KINDS, PolicyRow, find_best  # noqa: E402

SIZE = {"width": 1_000, "height": 440}


def read_table(lines: Iterable[str]) -> list[PolicyRow]:
    """The rows of a table as CSV. An empty cell is a number that is not known."""
    names = [each.name for each in fields(PolicyRow)][2:-1]
    return [
        PolicyRow(
            row["policy"],
            int(row["sessions"]),
            *(float(row[name] or "nan") for name in names),
            by_kind=tuple(float(row[kind] or "nan") for kind in KINDS),
        )
        for row in csv.DictReader(lines)
    ]


def draw(table: Sequence[PolicyRow], folder: Path) -> None:
    """Write the chart in both themes."""
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as work:
        browser = playwright.chromium.launch(executable_path=chromium(), args=[*FLAGS])
        page = browser.new_page(viewport=SIZE, device_scale_factor=2)
        for theme in get_args(Theme):
            made = figures.draw_policy_table(table, find_best(table), theme, SIZE["height"])
            file = Path(work, f"{theme}.html")
            html = figures.to_html(made, PALETTES[theme]["ground"]).replace("<body>", '<body style="margin:0">')
            file.write_text(html, encoding="utf-8")
            page.goto(file.as_uri())
            page.locator(".plotly .main-svg").first.wait_for()
            picture = Image.open(io.BytesIO(page.screenshot()))
            picture.save(folder / f"which-policy-{theme}.webp", quality=80)
        browser.close()


def main(arguments: Sequence[str]) -> int:
    table, *more = arguments
    folder = Path(more[0] if more else ROOT / "engine" / "turnscope" / "docs")
    draw(read_table(Path(table).read_text(encoding="utf-8").splitlines()), folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
