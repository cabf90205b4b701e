"""What a worker of the cluster does for one source: fetch it, have it read, and look whether it changed meanwhile."""

from __future__ import annotations

import atexit
import time
from collections.abc import Iterable, Mapping
from functools import cache
from threading import local

from msgspec import Struct
from msgspec.structs import replace

from turnscope import __version__
from turnscope.errors import PolicyError, TurnscopeError
from turnscope.fleet.reader import Reader, ReadResult, ReadTask
from turnscope.fleet.sources import SourceUnit, fetch, stamp_again
from turnscope.fleet.storage import open_storage
from turnscope.library import session_summary
from turnscope.library.indexing import get_reader_version
from turnscope.planning.policy import parse
from turnscope.reading.registry import find_importers

FETCH_TRIES = 4  # of a source whose storage fails
BACK_OFF = 0.5  # seconds before the second try; each further one waits twice as long
CHANGED = "changed"  # the state of a source that was another one after it was read
MISFIT = "misfit"  # the state of a source that came to a worker which has other versions
_here = local()


class Options(Struct, frozen=True):
    """How sources are read.

    Attributes:
        made_by: version of all that makes rows.
        policies: names of policies to replay, each with its text in TOML: workers need not have it.
        with_text: whether rows hold texts.
        limit: seconds after which a source counts as hung.
        versions: what the worker has to have; none = it is not looked at.
    """

    made_by: str
    policies: dict[str, str] = {}
    with_text: bool = False
    limit: float = 600.0
    versions: tuple[str, ...] = ()


class Outcome(Struct, frozen=True):
    """What became of a source. `unit`: as it was when it was read; `content`: digest of its bytes, "" = none were read."""

    unit: SourceUnit
    result: ReadResult
    content: str = ""


def run_task(unit: SourceUnit, options: Options) -> Outcome:
    """Read a source. It is read as it is now; if it changes meanwhile, that is the outcome.

    Args:
        unit: the source.
        options: how it is read.
    """
    problem = find_version_problem(options.versions)  # workers may join at any time
    if problem:
        return Outcome(unit, ReadResult(MISFIT, error=problem))
    for number in range(FETCH_TRIES):
        if number:
            time.sleep(BACK_OFF * 2 ** (number - 1))
        try:
            return _read_once(stamp_again(unit), options)
        except (TurnscopeError, OSError) as error:
            problem = f"{error}. {getattr(error, 'short_hint', '')}".strip()
    return Outcome(unit, ReadResult("unreadable", error=problem))


def _read_once(unit: SourceUnit, options: Options) -> Outcome:
    began = time.thread_time()
    with fetch(unit) as (path, content):
        own = time.thread_time() - began
        task = ReadTask(
            path=str(path),
            source_id=unit.id,
            url=unit.url,
            content=content,
            size=unit.size,
            owner=unit.owner,
            made_by=options.made_by,
            policies=options.policies,
            with_text=options.with_text,
        )
        result = _get_reader(options.limit).read(task)
    if stamp_again(unit).stamp != unit.stamp:
        return Outcome(unit, ReadResult(CHANGED, error="it changed while it was read", cpu_seconds=result.cpu_seconds))
    return Outcome(unit, replace(result, cpu_seconds=result.cpu_seconds + own), content)


def _get_reader(limit: float) -> Reader:
    """The process that reads for this thread, started when it is first needed."""
    reader: Reader | None = getattr(_here, "reader", None)
    if reader is None:
        reader = _here.reader = Reader(limit)
        atexit.register(reader.close)
    reader.limit = limit
    return reader


def find_problem(options: Options, urls: Iterable[str]) -> str:
    """Find out whether this machine lacks what a run needs: a version, the package of a rule or of a storage; "" = nothing.

    Args:
        options: of the run.
        urls: where its sources lie.
    """
    problem = find_version_problem(options.versions) or find_policy_problem(options.policies)
    try:
        for url in urls if not problem else ():
            open_storage(url)
    except TurnscopeError as error:
        return f"{error}. {error.short_hint}".strip()
    return problem


def find_version_problem(versions: Iterable[str]) -> str:
    """Find out whether this machine has other versions than another one; "" = the same.

    Args:
        versions: what `list_versions` gave there.
    """
    lacked = sorted({*versions} - {*list_versions()})
    return f"it lacks {', '.join(lacked)}" if lacked else ""


@cache
def list_versions() -> tuple[str, ...]:
    """What makes rows on this machine: Turnscope, the prices and all importers, each with its version."""
    importers = (f"the importer {each.name} {each.version} of {each.package or 'Turnscope'}" for each in find_importers())
    prices = f"the prices {session_summary.get_version()}"
    return (f"Turnscope {__version__}", prices, *importers)


def find_policy_problem(policies: Mapping[str, str]) -> str:
    """Find out whether this machine lacks what a policy needs, as the package of a rule; "" = it lacks nothing.

    Args:
        policies: as of `Options`.
    """
    try:
        for name, text in policies.items():
            parse(name, text)
    except PolicyError as error:
        return f"{error}. {error.short_hint}".strip()
    return ""


def get_version() -> str:
    """The version of importers and prices on this machine: all workers have to have the same."""
    return get_reader_version()
