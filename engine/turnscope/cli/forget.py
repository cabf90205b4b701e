"""`turnscope forget`: delete what is remembered of opened sessions; never a chat, never a session file."""

from __future__ import annotations

import click


@click.command()
def command() -> int:
    """Delete what Turnscope remembers of opened sessions.

    Chats and session files are not touched; a session that is opened again is read again.
    """
    return delete()


def delete() -> int:
    """Delete it, and say how much room that gave back."""
    from turnscope.library.store import Store  # `open` imports this module, and needs no store
    from turnscope.settings import find_database

    store = Store(find_database())
    size = store.delete()
    click.echo(f"Forgot what was remembered in {store.path} ({size / 1e6:,.1f} MB). Chats and session files were not touched.")
    return 0
