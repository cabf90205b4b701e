"""`turnscope mcp`: answer an agent's questions about its own session, as a server of the Model Context Protocol."""

from __future__ import annotations

from pathlib import Path

import click

from turnscope.errors import TurnscopeError

PROJECT_VARIABLE = "CLAUDE_PROJECT_DIR"  # Claude Code's own, for the servers that it starts
SESSION_VARIABLE = "CLAUDE_CODE_SESSION_ID"


@click.command()
@click.option(
    "--project",
    envvar=PROJECT_VARIABLE,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="The project whose sessions may be asked for; default: this folder.",
)
@click.option(
    "--session", envvar=SESSION_VARIABLE, default="", metavar="ID", help="The session; default: the one written last."
)
def command(project: Path | None, session: str) -> int:
    """Answer an agent's questions about its own session.

    A server of the Model Context Protocol over standard input and output. Its tools only read: what fills the context, what
    compaction removed, text that left and where it is, cost so far, which tool results could go.
    """
    try:
        from turnscope.mcp.server import build_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise TurnscopeError("the MCP SDK is not installed", hint="Run `pip install 'turnscope[mcp]'`.") from error
    build_server(project or Path.cwd(), session).run()
    return 0
