"""Pretend tools over files in memory: read, search, edit, write, compare, and test runs that quote the real files.

Holds no story. Everything a tool prints is taken from the files, so outputs agree with each other.
"""

# ruff: noqa: E501 - what people, files and tools say is as long as it is

from __future__ import annotations

import difflib
import random
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Result:
    """What a tool gave back, and how many seconds it took."""

    content: str | list[dict[str, str]]
    error: bool = False
    seconds: float = 0.05
    meta: Any = None


@dataclass(frozen=True)
class Failure:
    """One failing test: where it broke, what was raised, and the line of our own code to blame."""

    test: str
    path: str
    line: str
    error: str


@dataclass
class Workshop:
    """A repository in memory. `root` is shown in paths; file names are relative to it."""

    root: str
    files: dict[str, str]
    rng: random.Random
    first: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.first = dict(self.files)

    def path(self, file: str) -> str:
        """Give the absolute path of a file."""
        return f"{self.root}/{file}"

    def commit(self) -> None:
        """Forget what was changed so far: the next `diff` starts here."""
        self.first = dict(self.files)

    def read(self, file: str, offset: int = 1, limit: int = 2000) -> Result:
        """Print a file with line numbers, from line `offset` on."""
        lines = self.files[file].splitlines()
        part = lines[offset - 1 : offset - 1 + limit]
        text = "\n".join(f"{n:>6}→{line}" for n, line in enumerate(part, offset))
        about = {"filePath": self.path(file), "numLines": len(part), "startLine": offset, "totalLines": len(lines)}
        return Result(text, seconds=self.rng.uniform(0.02, 0.09), meta={"type": "text", "file": about})

    def line_of(self, file: str, fragment: str) -> int:
        """Find the first line (from 1) that holds `fragment`."""
        return next(n for n, line in enumerate(self.files[file].splitlines(), 1) if fragment in line)

    def grep(self, pattern: str, where: str = "", mode: str = "content") -> Result:
        """Search all files below `where` for a regular expression."""
        hits = [
            (file, n, line)
            for file in sorted(self.files)
            if file.startswith(where)
            for n, line in enumerate(self.files[file].splitlines(), 1)
            if re.search(pattern, line)
        ]
        names = sorted({file for file, _, _ in hits})
        meta = {"mode": mode, "numFiles": len(names), "filenames": []}
        if mode == "files_with_matches":
            text = f"Found {len(names)} files\n" + "\n".join(self.path(n) for n in names) if names else "No files found"
        else:
            text = "\n".join(f"{file}:{n}:{line}" for file, n, line in hits) or "No matches found"
        return Result(text, seconds=self.rng.uniform(0.05, 0.3), meta=meta)

    def glob(self, where: str, ending: str) -> Result:
        """List the files below `where` with this ending."""
        names = [self.path(f) for f in sorted(self.files) if f.startswith(where) and f.endswith(ending)]
        return Result("\n".join(names), meta={"numFiles": len(names), "truncated": False})

    def edit(self, file: str, old: str, new: str) -> Result:
        """Replace the one place where `old` stands."""
        if self.files[file].count(old) != 1:
            raise ValueError(f"{file}: {self.files[file].count(old)} places hold {old!r}")
        self.files[file] = self.files[file].replace(old, new)
        return Result(
            f"The file {self.path(file)} has been updated successfully.",
            meta={"filePath": self.path(file), "userModified": False},
        )

    def write(self, file: str, text: str) -> Result:
        """Create or replace a file."""
        kind = "update" if file in self.files else "create"
        self.files[file] = text
        said = "File created successfully at: " if kind == "create" else "The file has been overwritten: "
        return Result(said + self.path(file), meta={"type": kind, "filePath": self.path(file)})

    def diff(self, files: Iterable[str] = ()) -> Result:
        """Print what has changed since the last commit, as git would."""
        out: list[str] = []
        for file in sorted(files) or sorted(self.files):
            old, new = self.first.get(file, ""), self.files.get(file, "")
            if old != new:
                out.append(f"diff --git a/{file} b/{file}")
                out += difflib.unified_diff(old.splitlines(), new.splitlines(), f"a/{file}", f"b/{file}", lineterm="")
        return Result("\n".join(out), seconds=0.2, meta={"stdout": "", "stderr": "", "interrupted": False})

    def stat(self) -> Result:
        """Print which files have changed, as `git diff --stat` would."""
        rows, plus, minus = [], 0, 0
        for file in sorted(self.files):
            old, new = self.first.get(file, "").splitlines(), self.files[file].splitlines()
            marks = [line[0] for line in difflib.ndiff(old, new)] if old != new else []
            a, b = marks.count("+"), marks.count("-")
            if marks:
                rows.append(f" {file:<44} | {a + b:>4} {'+' * min(30, a // 4 + 1)}{'-' * min(20, b // 4)}")
                plus, minus = plus + a, minus + b
        total = f" {len(rows)} files changed, {plus} insertions(+), {minus} deletions(-)"
        return Result("\n".join([*rows, total]), seconds=0.2)

    def tests_in(self, file: str) -> list[str]:
        """Name the test functions of a Python file."""
        return re.findall(r"^def (test_\w+)", self.files[file], re.MULTILINE)

    def source(self, file: str, function: str) -> list[str]:
        """Give the lines of one top-level function of a Python file."""
        lines = self.files[file].splitlines()
        start = next(n for n, line in enumerate(lines) if line.startswith(f"def {function}("))
        stop = next((n for n in range(start + 1, len(lines)) if lines[n] and not lines[n].startswith((" ", ")"))), len(lines))
        return [line for line in lines[start:stop] if line.strip()]

    def pytest(
        self, files: list[str], failures: Iterable[Failure] = (), *, noisy: bool = False, seconds: float = 6.0
    ) -> Result:
        """Run tests: a line per test, captured logs of failing ones (of all, when `noisy`), tracebacks, a short summary."""
        bad = {f.test: f for f in failures}
        all_tests = [(file, test) for file in files for test in self.tests_in(file)]
        out = ["=" * 29 + " test session starts " + "=" * 29, "platform linux -- Python 3.12.8, pytest-8.3.4, pluggy-1.5.0"]
        out += [
            f"rootdir: {self.root}",
            "configfile: pyproject.toml",
            f"plugins: anyio-4.8.0, cov-6.0.0, xdist-3.6.1\ncollected {len(all_tests)} items\n",
        ]
        for n, (file, test) in enumerate(all_tests, 1):
            share = f"[{100 * n // len(all_tests):>3}%]"
            if noisy:
                out += self.chatter(test, self.rng.randint(1, 4))
            out.append(f"{file}::{test} {'FAILED' if test in bad else 'PASSED':<8} {share}")
        if bad:
            out.append("\n" + "=" * 35 + " FAILURES " + "=" * 35)
        for file, test in all_tests:
            if test in bad:
                out += self.traceback(file, bad[test])
        if bad:
            out.append("=" * 27 + " short test summary info " + "=" * 27)
            out += [f"FAILED {file}::{test} - {bad[test].error}" for file, test in all_tests if test in bad]
        said = f"{len(bad)} failed, {len(all_tests) - len(bad)} passed" if bad else f"{len(all_tests)} passed"
        out.append(f"===== {said} in {seconds - 1.2:.2f}s =====")
        text = "\n".join(out)
        return Result(
            f"Exit code 1\n{text}" if bad else text,
            bool(bad),
            seconds,
            "Error: Exit code 1" if bad else {"stdout": "", "stderr": "", "interrupted": False},
        )

    def traceback(self, file: str, failure: Failure) -> list[str]:
        """Print a failing test the way pytest does, down to the line of our own code."""
        body = self.source(file, failure.test)
        at = self.line_of(file, f"def {failure.test}(")
        where = self.line_of(failure.path, failure.line)
        around = self.files[failure.path].splitlines()[max(0, where - 6) : where - 1]
        out = ["_" * 20 + f" {failure.test} " + "_" * 20, ""]
        out += [f"    {line}" for line in body[:-1]] + [f">   {body[-1]}", "", f"{file}:{at + len(body) - 1}: "]
        out += ["_ " * 30] + [f"    {line}" for line in around]
        out += [f">   {self.files[failure.path].splitlines()[where - 1]}", f"E   {failure.error}", ""]
        out += [f"{failure.path}:{where}: {failure.error.split(':')[0]}", "-" * 29 + " Captured log call " + "-" * 29]
        return out + self.chatter(failure.test, 5)

    def chatter(self, test: str, lines: int) -> list[str]:
        """Invent the log lines that one test leaves behind."""
        rng, out = self.rng, []
        topic = test.removeprefix("test_").split("_")[0]
        for _ in range(lines):
            user, ms, port = rng.randint(100, 9999), rng.uniform(0.1, 48), rng.randint(32768, 60999)
            ident = f"{rng.getrandbits(48):012x}"
            pick = rng.choice(
                (
                    f"DEBUG    redis.connection:connection.py:{rng.randint(180, 640)} send HGETALL ferrydesk:test:{topic}:{ident}",
                    f"DEBUG    redis.connection:connection.py:{rng.randint(180, 640)} recv {rng.randint(0, 9)} fields in {ms:.2f} ms from 127.0.0.1:{port}",
                    f"INFO     ferrydesk.auth.audit:audit.py:{rng.randint(30, 120)} user={user} event={topic} ident={ident} outcome=ok",
                    f"DEBUG    sqlalchemy.engine.Engine:base.py:{rng.randint(1000, 1999)} [generated in {ms / 1000:.5f}s] ({user}, '{ident}')",
                    f"WARNING  ferrydesk.config:config.py:{rng.randint(20, 90)} REDIS_URL not set, using redis://127.0.0.1:{port}/9",
                    f"DEBUG    asyncio:selector_events.py:{rng.randint(50, 70)} Using selector: EpollSelector",
                    f"INFO     tests.conftest:conftest.py:{rng.randint(12, 60)} frozen clock moved by {rng.randint(1, 7200)} s for user {user}",
                    f"DEBUG    ferrydesk.db.pool:pool.py:{rng.randint(40, 210)} checkout conn#{rng.randint(1, 8)} waited {ms:.1f} ms, {rng.randint(0, 7)} idle",
                )
            )
            out.append(pick)
        return out
