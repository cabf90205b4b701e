"""`turnscope tokens`: what prompt and tool files add to every request, before and after a change."""

from __future__ import annotations

from pathlib import Path

import click

from turnscope.cli import options, output
from turnscope.cli.exit_codes import ExitCode


@click.command()
@click.argument(
    "paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...", help="Prompts, or tools as JSON."
)
@click.option("--against", default="", metavar="COMMIT", help="Compare with the files of this commit, such as HEAD.")
@click.option("--model", default="", metavar="NAME", help="Count as this model does; default: as OpenAI's newer models do.")
@click.option("--max-growth", type=click.IntRange(0), metavar="TOKENS", help="Exit with 1 where all files grew by more.")
@options.rows
def command(paths: tuple[Path, ...], against: str, model: str, max_growth: int | None, as_json: bool, as_csv: bool) -> int:
    """Count the tokens of prompt and tool files.

    A JSON file of tools is counted tool by tool. A file that is no longer there was deleted.
    """
    from turnscope.counting.tokens import make_estimator  # these load a tokenizer and prices
    from turnscope.library.file_tokens import count_files
    from turnscope.pricing.prices import PRICES

    family = PRICES.find_facts(model).family if model else "o200k_base"
    found = count_files(paths, make_estimator(family), against)
    output.write_rows(found, as_json=as_json, as_csv=as_csv)
    if max_growth is not None and found.growth > max_growth:
        output.note(f"The files grew by {found.growth:,} tokens, more than {max_growth:,}; every request carries them.")
        return ExitCode.NEGATIVE
    return ExitCode.DONE
