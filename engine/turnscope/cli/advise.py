"""`turnscope advise`: search the parameters of a policy over sessions."""

from __future__ import annotations

import sys

import click

from turnscope.cli import options, output
from turnscope.cli.exit_codes import ExitCode
from turnscope.cli.sessions import name_errors, open_path
from turnscope.library import advising, trial_log
from turnscope.planning import policy_catalog
from turnscope.settings import find_data_folder


@click.command()
@click.argument("path", type=click.Path(), help="A session file, or a folder of them; `-` reads standard input.")
@options.policy("The policy whose parameters are searched: a built-in one, or one of yours.", None)
@click.option("--trials", type=click.IntRange(1), default=advising.TRIALS, show_default=True, help="How many settings to try.")
@click.option("--seed", type=int, default=0, show_default=True, help="The same seed gives the same advice.")
@click.option("--turn", multiple=True, metavar="KEY", help="A parameter to vary, such as 1.keep; repeatable.")
@click.option("--save", metavar="NAME", help="Save the advised policy among yours.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of sentences.")
def command(path: str, policy: str, trials: int, seed: int, turn: tuple[str, ...], save: str | None, as_json: bool) -> int:
    """Search the parameters of a policy over sessions.

    Exits with 1 where nothing can be advised. A search that was stopped goes on where it was when the same command runs again.
    """
    own = find_data_folder() / "policies"
    chosen = options.load_policy(policy)
    try:
        with open_path(path) as file, name_errors(path):
            found = advising.advise(
                file,
                chosen,
                trials=trials,
                seed=seed,
                keys=turn,
                folder=trial_log.find_advice_folder(),
                progress=_show_progress,
            )
    except KeyboardInterrupt:
        raise KeyboardInterrupt("Stopped by Ctrl-C. The same command goes on from there.") from None
    if save and found.chosen is not None:
        policy_catalog.save_policy(save, found.to_toml(found.chosen), own)
    output.write(found.to_json() if as_json else found.to_text())
    return ExitCode.NEGATIVE if found.chosen is None else ExitCode.DONE


def _show_progress(done: int, of: int) -> None:
    """How far the search is, where somebody watches."""
    if sys.stderr.isatty():
        click.echo(f"\r{done:,} of {of:,} settings tried", nl=done == of, err=True)
