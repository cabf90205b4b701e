"""Files at a URL, through fsspec: a local folder, S3, Google Cloud, Azure, SSH, or the memory of this process.

Writes a file completely or not at all, and says in one sentence what a URL lacks.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import Any

from turnscope.errors import TurnscopeError

WHOLE_PUTS = frozenset(("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "memory"))
"""Storage that shows a file when all of it was written; elsewhere a file is written under another name first."""
_PACKAGES = frozenset(("botocore", "aiobotocore", "gcsfs", "azure", "aiohttp", "paramiko", "asyncssh"))
_PASSWORD = re.compile(r"\w+://[^/@]*:[^/@]+@")
LOCAL = frozenset(("file", "local"))
FULL = (errno.ENOSPC, errno.EDQUOT)
PART = ".part"
_PART_NAME = re.compile(r"\..+\.[0-9a-f]{8}\.part")


def import_package(name: str, extra: str = "fleet") -> Any:
    """Import a package that only fleets need.

    Args:
        name: the package.
        extra: the extra of Turnscope that installs it; "" = none does.

    Raises:
        TurnscopeError: it is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        what = f"turnscope[{extra}]" if extra else name
        raise TurnscopeError(
            f"this needs the package {name.partition('.')[0]}, which is not installed", hint=f"Type `pip install '{what}'`."
        ) from error


@dataclass(frozen=True, slots=True)
class Storage:
    """A folder of a file system, or one file of it.

    Attributes:
        fs: the file system, of fsspec.
        root: its path there.
        protocol: the first part of its URL, "file" for a local path.
        before: what stands before a path in a URL, as `ssh://host`; "" = what the file system says, which knows no host.
    """

    fs: Any
    root: str
    protocol: str
    before: str = ""

    @property
    def is_local(self) -> bool:
        """Whether it lies on this machine's own disk."""
        return self.protocol in LOCAL

    def join(self, *parts: str) -> str:
        """A path below it."""
        return "/".join((self.root.rstrip("/"), *parts))

    def make_url(self, path: str) -> str:
        """The URL of a path on its file system; of a local one the bare path."""
        if self.is_local:
            return path
        return f"{self.before}{path}" if self.before else str(self.fs.unstrip_protocol(path))

    def read(self, path: str) -> bytes:
        """The content of a file. TurnscopeError: it cannot be read."""
        with report_errors(self.make_url(path), "read"):
            data: bytes = self.fs.cat_file(path)
            return data

    def write(self, path: str, data: bytes) -> None:
        """Write a file completely or not at all.

        Args:
            path: its path.
            data: its content.

        Raises:
            TurnscopeError: it cannot be written.
        """
        with report_errors(self.make_url(path), "written"):
            if self.protocol in WHOLE_PUTS:
                self.fs.pipe_file(path, data)
                return
            part = self._write_part(path, data)
            try:
                self.fs.mv(part, path)
            except BaseException:
                self._drop(part)
                raise

    def create(self, path: str, data: bytes) -> bool:
        """Write a file that nobody else may have written meanwhile; False = there is one already.

        Args:
            path: its path.
            data: its content.

        Raises:
            TurnscopeError: it cannot be written.
        """
        with report_errors(self.make_url(path), "written"):
            if self.protocol in WHOLE_PUTS:
                return self._create_whole(path, data)
            part = self._write_part(path, data)
            try:
                if self.is_local:
                    os.link(part, path)
                elif self.fs.exists(path):
                    return False
                else:
                    self.fs.mv(part, path)
            except FileExistsError:
                return False
            finally:
                self._drop(part)
            return True

    def _create_whole(self, path: str, data: bytes) -> bool:
        try:
            self.fs.pipe_file(path, data, mode="create")
        except FileExistsError:
            return False
        except TypeError:  # an older file system, which takes no mode
            if self.fs.exists(path):
                return False
            self.fs.pipe_file(path, data)
        return True

    def _write_part(self, path: str, data: bytes) -> str:
        folder, _, name = path.rpartition("/")
        self.fs.makedirs(folder, exist_ok=True)
        part = f"{folder}/.{name}.{token_hex(4)}{PART}"
        try:
            self.fs.pipe_file(part, data)
        except BaseException:  # a full disk, Ctrl-C
            self._drop(part)
            raise
        return part

    def _drop(self, part: str) -> None:
        with suppress(Exception):
            self.fs.rm_file(part)

    def list_files(self, folder: str) -> list[str]:
        """Every file below a folder, by path; none where there is no such folder. TurnscopeError: it cannot be listed."""
        return [path for path in self._find(folder) if not PurePosixPath(path).name.startswith(".")]

    def list_parts(self) -> list[str]:
        """Every file that was not written to its end. TurnscopeError: they cannot be listed."""
        if self.protocol in WHOLE_PUTS:
            return []
        return [path for path in self._find(self.root) if _PART_NAME.fullmatch(PurePosixPath(path).name)]

    def _find(self, folder: str) -> list[str]:
        with report_errors(self.make_url(folder), "listed"):
            try:
                self.fs.invalidate_cache()
                return sorted(self.fs.find(folder))
            except FileNotFoundError:
                return []

    def remove(self, path: str) -> None:
        """Remove a file; one that is gone already is no error."""
        with report_errors(self.make_url(path), "removed"), suppress(FileNotFoundError):
            self.fs.rm_file(path)


def open_storage(url: str) -> Storage:
    """Open the storage of a URL or a local path. Nothing is read or written.

    Args:
        url: such as `s3://bucket/logs`, `ssh://host/path`, `memory://tables` or a local path. A local path is made absolute.

    Raises:
        TurnscopeError: fsspec, or the package of this kind of storage, is not installed, or there is no such kind.
    """
    core = import_package("fsspec.core")
    protocol = url.partition("://")[0] if "://" in url else "file"
    if "://" in url and _PASSWORD.match(url):
        hint = f"Tables would hold it. Use a key, or set FSSPEC_{protocol.upper()} as fsspec's documentation says."
        raise TurnscopeError("the URL holds a password", hint=hint)
    try:
        fs, root = core.url_to_fs(str(Path(url).expanduser()) if protocol == "file" else url)
    except ImportError as error:
        raise TurnscopeError(
            f"{protocol}:// needs a package that is not installed: {error}", hint="Install it with pip."
        ) from error
    except Exception as error:
        if not isinstance(error, (ValueError, OSError, TypeError)) and not _is_of_storage(error):
            raise
        raise TurnscopeError(f"{url} cannot be opened: {error}", hint="Check the URL.") from error
    path, whole = str(root), url.rstrip("/")
    before = whole.removesuffix(path.rstrip("/")) if path.rstrip("/") and whole.endswith(path.rstrip("/")) else ""
    return Storage(fs, path, protocol, before if "://" in before else "")


@contextmanager
def report_errors(url: str, what: str) -> Iterator[None]:
    """Raise what goes wrong with storage as a sentence.

    Args:
        url: what is worked with.
        what: what is done to it, as "read".
    """
    try:
        yield
    except TurnscopeError:
        raise
    except PermissionError as error:
        raise TurnscopeError(f"{url} cannot be {what}: access is denied", hint="Check your credentials for it.") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        hint = "Make room there." if getattr(error, "errno", None) in FULL else "Check the URL and your access to it."
        raise TurnscopeError(f"{url} cannot be {what}: {why}", hint=hint) from error
    except Exception as error:
        if not _is_of_storage(error):
            raise
        raise TurnscopeError(f"{url} cannot be {what}: {error}", hint="Check your credentials and the network.") from error


def _is_of_storage(error: Exception) -> bool:
    """Whether a package of a storage raised an error, and no defect of ours."""
    return type(error).__module__.partition(".")[0] in _PACKAGES
