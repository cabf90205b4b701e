"""Formats, one file (or folder) each. A module here defines `IMPORTER`, which `turnscope.reading.registry` finds by its name.

A format reads a `Source`, lists an `Entry` for each of its conversations, makes a session of one with a `Builder`
(`turnscope.session.builder`), and gives it as a `Thread` (`turnscope.session.thread`).
"""

from turnscope.reading.importer import Follower, Importer, Place
from turnscope.reading.source import Entry, Source

__all__ = ["Entry", "Follower", "Importer", "Place", "Source"]
