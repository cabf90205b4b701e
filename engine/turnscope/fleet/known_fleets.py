"""Which tables of fleets were looked at on this machine, by an id: an address never opens what nobody typed here."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from turnscope.fleet.dataset import Fleet
from turnscope.library.user_file import read_file, write_file
from turnscope.settings import find_library_file

MOST = 30
NAME = "fleets.json"


def list_fleets(path: Path | None = None) -> dict[str, str]:
    """List the URLs by their ids, the one looked at last first.

    Args:
        path: the file; None = that of the data folder.

    Raises:
        BrokenFile: the file is not what this module writes.
    """
    urls = read_file(path or find_library_file(NAME), list[str], "the list of fleets is then gone")
    return {make_id(url): url for url in urls}


def remember_fleet(fleet: Fleet, path: Path | None = None) -> str:
    """Put tables first in the list; gives their id.

    Args:
        fleet: the tables.
        path: the file; None = that of the data folder.

    Raises:
        BrokenFile: the file is not what this module writes.
        TurnscopeError: it cannot be written.
    """
    url, file = fleet.storage.make_url(fleet.storage.root), path or find_library_file(NAME)
    known = [*list_fleets(file).values()]
    if known[:1] != [url]:
        write_file(file, [url, *(each for each in known if each != url)][:MOST])
    return make_id(url)


def make_id(url: str) -> str:
    """The id of tables in an address."""
    return sha256(url.encode()).hexdigest()[:12]
