"""`turnscope forget`: delete what is remembered of opened sessions; never a chat, never a session file of another tool."""

from __future__ import annotations

import click


@click.command()
@click.option("--tap", "taps", is_flag=True, help="Also delete what `turnscope tap` recorded.")
def command(taps: bool) -> int:
    """Delete what Turnscope remembers of opened sessions.

    Chats and session files are not touched; a session that is opened again is read again.
    """
    code = delete()
    if taps:
        delete_taps()
    return code


def delete() -> int:
    """Delete it, and say how much room that gave back."""
    from turnscope.library.store import Store  # `open` imports this module, and needs no store
    from turnscope.settings import find_data_folder, find_database
    from turnscope.statusline import FOLDER

    store = Store(find_database())
    size = store.delete()
    for file in (find_data_folder() / FOLDER).glob("*.*"):  # records of the status line
        file.unlink()
    click.echo(f"Forgot what was remembered in {store.path} ({size / 1e6:,.1f} MB). Chats and session files were not touched.")
    return 0


def delete_taps() -> None:
    """Delete the logs of taps, and say how many there were."""
    from turnscope.settings import find_tap_folder

    logs = [*find_tap_folder().glob("*.jsonl")]
    size = sum(log.stat().st_size for log in logs)
    for file in (*logs, *find_tap_folder().glob("*.ids"), *find_tap_folder().glob("*.sqlite*")):
        file.unlink()
    click.echo(f"Deleted {len(logs)} recordings of the tap ({size / 1e6:,.1f} MB).")
