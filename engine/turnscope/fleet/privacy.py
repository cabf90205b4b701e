"""Who and where: hashed with a key where that is requested, and forgotten on request.

A key never leaves the process that writes the tables: workers send names, and what is written holds hashes.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from turnscope.errors import TurnscopeError
from turnscope.fleet.storage import import_package
from turnscope.fleet.tables import ID_DIGITS, TABLES

if TYPE_CHECKING:
    import pyarrow as pa

    from turnscope.fleet.dataset import Fleet

LEAST_KEY = 16  # bytes
_HASH = re.compile(f"[0-9a-f]{{{ID_DIGITS}}}")


def read_key(path: Path) -> bytes:
    """Read a key from a file. White space around it is no part of it. TurnscopeError: it cannot be read, or is too short."""
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise TurnscopeError(
            f"{path} cannot be read: {error.strerror or error}", hint="Name a file that holds a key."
        ) from error
    if len(key) < LEAST_KEY:
        hint = "Make one by `openssl rand -hex 32`, keep it, and let nobody read it."
        raise TurnscopeError(f"the key in {path} is shorter than {LEAST_KEY} bytes", hint=hint)
    return key


def hash_name(key: bytes, name: str) -> str:
    """The hash of a name; of "" "" itself.

    Args:
        key: the key.
        name: a person, a project or a path.
    """
    return hmac.new(key, name.encode("utf-8", "surrogatepass"), sha256).hexdigest()[:ID_DIGITS] if name else ""


def hide_names(name: str, rows: pa.Table, key: bytes) -> pa.Table:
    """Hash the people and paths of a table.

    Args:
        name: the table.
        rows: its rows.
        key: the key.
    """
    pa = import_package("pyarrow")
    for number, column in enumerate(TABLES[name].columns):
        if column.privacy in ("person", "path"):
            coded = rows.column(column.name).combine_chunks().dictionary_encode()
            hidden = pa.array([hash_name(key, each) for each in coded.dictionary.to_pylist()], pa.string())
            values = pa.DictionaryArray.from_arrays(coded.indices, hidden).cast(pa.string())
        elif column.privacy == "names":
            values = pa.nulls(rows.num_rows, pa.string())
        else:
            continue
        rows = rows.set_column(number, rows.schema.field(column.name), values)
    return rows


def has_hashed_people(fleet: Fleet) -> bool:
    """Whether the people of some tables are hashes, all of them. TurnscopeError: the tables cannot be read."""
    people = [person for person in fleet.read("sessions", ["person"])["person"].unique().to_pylist() if person]
    return bool(people) and all(map(_HASH.fullmatch, people))


def digest_person(salt: str, person: str) -> str:
    """What is kept of a person who is forgotten, so that later runs leave their sessions out.

    Args:
        salt: of the tables.
        person: as it stands in the tables.
    """
    return hash_name(salt.encode(), person)


def find_forgotten(sessions: pa.Table, salt: str, forgotten: Collection[str]) -> set[str]:
    """The ids of the sessions of people who are forgotten.

    Args:
        sessions: rows of `sessions`.
        salt, forgotten: of the tables.
    """
    if not forgotten:
        return set()
    people = {person for person in sessions["person"].unique().to_pylist() if digest_person(salt, person) in forgotten}
    listed = zip(sessions["session"].to_pylist(), sessions["person"].to_pylist(), strict=True)
    return {session for session, person in listed if person in people}
