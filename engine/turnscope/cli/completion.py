"""`turnscope completion`: the script with which a shell completes commands, options, policies and files."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from turnscope.cli.output import write

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS), metavar="SHELL", help="One of bash, zsh, fish.")
@click.pass_context
def command(ctx: click.Context, shell: str) -> int:
    """Print the script for shell completion.

    \b
    bash: turnscope completion bash > ~/.local/share/bash-completion/completions/turnscope
    zsh:  turnscope completion zsh > a file `_turnscope` in a folder of your $fpath
    fish: turnscope completion fish > ~/.config/fish/completions/turnscope.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    root = ctx.find_root()
    write(kind(root.command, {}, "turnscope", "_TURNSCOPE_COMPLETE").source() + "\n")
    return 0
