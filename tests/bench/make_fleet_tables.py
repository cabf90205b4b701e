"""Writes the tables of a made-up fleet, for benches and to look at its page: `python tests/bench/make_fleet_tables.py DEST`.

The rows have the proportions of real ones: a few sessions are very long, prompts grow until they are compacted, most input is
read from the cache. Nothing is random beyond the seed: the same arguments give the same rows. Two things stand out: on one day
(`ODD_DAY`) a project costs several times as much, and from another (`PROMPT_DAY`) one tool has another system prompt.

    python tests/bench/make_fleet_tables.py /tmp/fleet --requests 10000000 --sessions 100000 --days 365
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "engine"))

from turnscope.fleet.dataset import Fleet, PartFile, open_fleet
from turnscope.fleet.sums import store_sums
from turnscope.fleet.tables import TABLES, make_schema

START = date(2026, 1, 1)
ODD_DAY, PROMPT_DAY = 0.4, 0.6  # of all days
DAYS_AT_ONCE = 8  # in memory
TEAMS = tuple("search payments mobile platform data growth support research".split())
TOOLS = ("Claude Code", "Codex", "Cline", "Gemini CLI")
MODELS = ("claude-opus-4-5-20251101", "claude-sonnet-4-6", "gpt-5.2-codex", "gemini-3-pro", "claude-haiku-4-5", "local-model")
PRICES = np.array([5.0, 3.0, 1.75, 2.0, 1.0, 0.0])  # USD of a million uncached tokens; 0 = not known
WINDOWS = np.array([200_000, 1_000_000, 400_000, 1_000_000, 200_000, 128_000])
CALLED = tuple("Bash Read Edit Grep Write Glob WebFetch Task TodoWrite mcp__tracker__search apply_patch shell".split())
CAUSES = tuple("idle compaction edit thinking model static settings unknown".split())
CAUSE_SHARES = (0.5, 0.16, 0.1, 0.06, 0.05, 0.05, 0.03, 0.05)
POLICIES = {
    "as-recorded": (1.0, 0.0),
    "keep-everything": (1.3, 0.0),
    "clear-tool-results": (0.8, 0.04),
    "last-20-messages": (0.5, 0.2),
}
FINDINGS = ("cache", "bill", "repeated", "standing", "cuts", "thinking")
PICO = 10**12
Array = np.ndarray[Any, Any]


def pick(names: tuple[str, ...] | list[str], at: Array, known: Array | None = None) -> pa.Array:
    """Texts by their numbers; empty where not known."""
    index = pa.array(at.astype(np.int32), mask=None if known is None else ~known)
    return pa.DictionaryArray.from_arrays(index, pa.array([*names])).cast(pa.string())


def make_usd(pico: Array, known: Array | None = None) -> pa.Array:
    """Exact decimals of whole 10**-12 USD."""
    pairs = np.zeros((len(pico), 2), np.int64)
    pairs[:, 0], pairs[:, 1] = pico, np.where(pico < 0, -1, 0)
    bits = None if known is None else pa.py_buffer(np.packbits(known, bitorder="little").tobytes())
    return pa.Array.from_buffers(make_schema("requests").field("usd").type, len(pico), [bits, pa.py_buffer(pairs.tobytes())])


def make_ids(numbers: Array) -> list[str]:
    """Sixteen hexadecimal digits of numbers; neighbours lie far apart."""
    mixed = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    return [f"{number:016x}" for number in mixed.tolist()]


def build(name: str, /, **columns: Any) -> pa.Table:
    """A table of columns. A plain value stands in every row."""
    size = next(len(values) for values in columns.values() if isinstance(values, (np.ndarray, pa.Array, list)))
    schema = make_schema(name)
    arrays = []
    for field in schema:
        values = columns[field.name]
        if not isinstance(values, (np.ndarray, pa.Array, list)):
            values = pa.nulls(size, field.type) if values is None else pa.repeat(pa.scalar(values, field.type), size)
        array = pa.array(values) if isinstance(values, (np.ndarray, list)) else values
        arrays.append(array.cast(field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def number_within(sizes: Array) -> Array:
    """0, 1, 2 ... within each of some groups of these sizes."""
    return np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)


class Maker:
    """Makes the rows of some days, for sessions of given lengths.

    Args:
        sizes: requests of each session.
        days: the day of each session, from 0, in order.
        span: days in all.
        seed: of the generator of random numbers.
    """

    def __init__(self, sizes: Array, days: Array, span: int, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.sizes, self.days, many = sizes, days, len(sizes)
        self.first = 0  # number of the first session
        self.person = rng.zipf(1.6, many) % 120
        self.team = self.person % len(TEAMS)
        self.project = self.team * 8 + rng.integers(0, 8, many)
        self.tool = rng.choice(len(TOOLS), many, p=(0.55, 0.25, 0.12, 0.08))
        self.model = rng.choice(len(MODELS), many, p=(0.35, 0.3, 0.15, 0.08, 0.1, 0.02))
        self.odd = (days == int(span * ODD_DAY)) & (self.project == 3)
        self.newer_prompt = (days >= int(span * PROMPT_DAY)) & (self.tool == 0)
        self.start = 28_800 + rng.normal(20_000, 9_000, many).clip(-28_000, 50_000)

    def get_owners(self, of: Array) -> dict[str, Any]:
        """Team, project, person and tool of sessions."""
        return {
            "team": pick(TEAMS, self.team[of]),
            "project": pick([f"/work/{TEAMS[n // 8]}/service-{n % 8}" for n in range(8 * len(TEAMS))], self.project[of]),
            "person": pick([f"person{n:03d}" for n in range(120)], self.person[of]),
            "tool": pick(TOOLS, self.tool[of]),
        }

    def make(self, of: Array, ids: list[str]) -> dict[str, pa.Table]:
        """The rows of some sessions.

        Args:
            of: numbers of the sessions.
            ids: their identifiers.
        """
        sizes, rng = self.sizes[of], self.rng
        index, n = np.repeat(np.arange(len(of)), sizes), number_within(sizes)
        of_row = of[index]
        window = WINDOWS[self.model[of_row]]
        step = rng.integers(400, 2_600, len(of))[index]
        grown = 18_000 + n * step
        most = (window * 0.8).astype(np.int64)
        cycle = np.maximum(1, (most - 30_000) // step)
        prompt = np.where(grown > most, 30_000 + (n % cycle) * step, grown).clip(1, window)
        compacted = (grown > most) & (n % cycle == 0) & (n > 0)
        missed = (rng.random(len(n)) < 0.03) & (n > 0)
        cause = rng.choice(len(CAUSES), len(n), p=CAUSE_SHARES)
        new = np.minimum(prompt, step + rng.integers(0, 800, len(n)))
        read = np.where((n == 0) | missed | compacted, 0, prompt - new)
        output = rng.integers(30, 1_200, len(n)) * np.where(self.odd[of_row], 40, 1)
        price = np.round(PRICES[self.model[of_row]] * PICO / 1e6).astype(np.int64)
        known = price > 0
        pico = (price * (prompt - read) * 5) // 4 + price * read // 10 + price * output * 5
        at = self.make_times(of_row, n)
        miss_pico = price * (prompt - 1_000).clip(0) * 23 // 20
        facts = {"index": index, "n": n, "prompt": prompt, "window": window, "compacted": compacted, "missed": missed}
        facts |= {"known": known, "pico": pico, "read": read, "new": prompt - read, "output": output, "at": at}
        facts |= {"cause": cause, "miss_pico": miss_pico}
        return {
            "requests": self.make_requests(of_row, ids, facts),
            "sessions": self.make_sessions(of, ids, facts),
            "decisions": self.make_decisions(of, ids, facts),
            "findings": self.make_findings(of, ids),
            "losses": self.make_losses(of, ids, facts),
            "tools": self.make_tools(of, ids),
            "sources": self.make_sources(of, ids),
        }

    def make_times(self, of_row: Array, n: Array) -> Array:
        """When each request was sent, in microseconds."""
        origin = datetime(START.year, START.month, START.day, tzinfo=UTC).timestamp()
        seconds = origin + self.days[of_row] * 86_400.0 + self.start[of_row] + n * 11.0
        return (seconds * 1e6).astype("datetime64[us]")

    def make_requests(self, of_row: Array, ids: list[str], f: dict[str, Array]) -> pa.Table:
        size, prompt = len(f["n"]), f["prompt"]
        none = np.zeros(size, np.int64)
        results, messages = (prompt * 0.45).astype(np.int64), (prompt * 0.2).astype(np.int64)
        thinking = (prompt * 0.1).astype(np.int64)
        prefix = np.minimum(18_000, prompt - results - messages - thinking)
        digests = make_ids(np.array([1, 2, 3, 4, 5]) + 10**9)
        event = np.where(f["compacted"], 0, 1)
        return build(
            "requests",
            session=pick(ids, f["index"]),
            day=f["at"].astype("datetime64[D]"),
            part="path",
            number=f["n"],
            id=make_ids(of_row.astype(np.int64) * 1_000_003 + f["n"]),
            counted=True,
            **self.get_owners(of_row),
            sent_at=pa.array(f["at"]).cast(pa.timestamp("us", tz="UTC")),
            turn=f["n"] // 6,
            model=pick(MODELS, self.model[of_row]),
            uncached=np.where(f["new"] > 1_000, 1_000, f["new"]),
            cache_write_5m=(f["new"] - 1_000).clip(0),
            cache_write_1h=none,
            cache_read=f["read"],
            output=f["output"],
            usd=make_usd(f["pico"], f["known"]),
            prompt=prompt,
            window_tokens=f["window"],
            fill=prompt / f["window"],
            system=none,
            tools=none,
            messages=messages,
            tool_results=results,
            thinking=thinking,
            prefix=prefix,
            earlier=none,
            reinjected=none,
            unattributed=prompt - results - messages - thinking - prefix,
            prompt_digest=pick(digests, np.where(self.newer_prompt[of_row], 4, self.tool[of_row])),
            seconds=self.rng.gamma(2.0, 4.0, size),
            attempts=1,
            stop_reason="tool_use",
            event=pick(["compact", ""], event, f["compacted"]),
            miss=pick(CAUSES, f["cause"], f["missed"]),
            miss_tokens=pa.array(prompt - 1_000, mask=~f["missed"]),
            miss_usd=make_usd(f["miss_pico"], f["missed"] & f["known"]),
            idle=pa.array(self.rng.exponential(600.0, size), mask=~f["missed"]),
        )

    def make_sessions(self, of: Array, ids: list[str], f: dict[str, Array]) -> pa.Table:
        many, sizes = len(of), self.sizes[of]
        starts = np.cumsum(sizes) - sizes

        def total(values: Array) -> Array:
            return np.add.reduceat(values, starts)

        fill = f["prompt"] / f["window"]
        peak, known = np.maximum.reduceat(fill, starts), f["known"][starts]
        last = starts + sizes - 1
        zone = pa.timestamp("us", tz="UTC")
        return build(
            "sessions",
            session=ids,
            day=f["at"][starts].astype("datetime64[D]"),
            source_id=ids,
            source=[f"s3://logs/{id}.jsonl" for id in ids],
            entry="",
            content=ids,
            made_by="made up",
            **self.get_owners(of),
            model=pick(MODELS, self.model[of]),
            title=None,
            started=pa.array(f["at"][starts]).cast(zone),
            ended=pa.array(f["at"][last]).cast(zone),
            size=sizes * 14_000,
            requests=sizes,
            all_requests=sizes,
            turns=(sizes + 5) // 6,
            branches=np.zeros(many, np.int64),
            subagents=np.zeros(many, np.int64),
            usd=make_usd(total(f["pico"]), known),
            unpriced=np.where(known, 0, sizes),
            peak_tokens=np.maximum.reduceat(f["prompt"], starts),
            window_tokens=f["window"][starts],
            peak_fill=peak,
            mean_fill=total(fill) / sizes,
            peak_request=sizes - 1,
            compactions=total(f["compacted"].astype(np.int64)),
            cuts=np.zeros(many, np.int64),
            clearings=np.zeros(many, np.int64),
            misses=total(f["missed"].astype(np.int64)),
            missed_tokens=total(np.where(f["missed"], f["prompt"] - 1_000, 0)),
            missed_usd=make_usd(total(np.where(f["missed"], f["miss_pico"], 0)), known),
            tool_calls=sizes,
            tool_errors=sizes // 25,
            good=self.rng.integers(0, 2, many),
            rated=np.ones(many, np.int64),
        )

    def make_decisions(self, of: Array, ids: list[str], f: dict[str, Array]) -> pa.Table:
        at = np.flatnonzero(f["compacted"])
        rows, none = f["index"][at], np.zeros(len(at), np.int64)
        before = (f["window"][at] * 0.8).astype(np.int64)
        per = np.bincount(rows, minlength=len(of))
        return build(
            "decisions",
            session=pick(ids, rows),
            day=f["at"][at].astype("datetime64[D]"),
            number=number_within(per),
            request=f["n"][at],
            turn=f["n"][at] // 6,
            model=pick(MODELS, self.model[of[rows]]),
            actor="policy",
            rule="as-recorded",
            action="condense",
            because=None,
            start=none,
            stop=f["n"][at] * 2,
            changed=True,
            before=before,
            after=f["prompt"][at],
            budget=f["window"][at],
            verdict="fits",
            cache_usd=None,
        )

    def make_findings(self, of: Array, ids: list[str]) -> pa.Table:
        many = self.rng.integers(0, 4, len(of))
        rows = np.repeat(np.arange(len(of)), many)
        pico = (self.rng.exponential(0.4, len(rows)) * PICO).astype(np.int64)
        return build(
            "findings",
            session=pick(ids, rows),
            day=self.make_times(of[rows], np.zeros(len(rows))).astype("datetime64[D]"),
            rank=number_within(many),
            kind=pick(FINDINGS, self.rng.integers(0, len(FINDINGS), len(rows))),
            request=self.sizes[of[rows]] // 2,
            usd=make_usd(pico),
            tokens=pico // 4_000_000,
            text=None,
        )

    def make_losses(self, of: Array, ids: list[str], f: dict[str, Array]) -> pa.Table:
        starts = np.cumsum(self.sizes[of]) - self.sizes[of]
        cost = np.add.reduceat(f["pico"], starts) / PICO
        rows = np.repeat(np.arange(len(of)), len(POLICIES))
        factors, lost = (np.tile([each[k] for each in POLICIES.values()], len(of)) for k in (0, 1))
        factors = factors * np.where(factors == 1.0, 1.0, self.rng.lognormal(0, 0.2, len(rows)))
        uses = self.sizes[of[rows]] * 3
        return build(
            "losses",
            session=pick(ids, rows),
            day=self.make_times(of[rows], np.zeros(len(rows))).astype("datetime64[D]"),
            policy=pick([*POLICIES], np.tile(np.arange(len(POLICIES)), len(of))),
            requests=self.sizes[of[rows]],
            kinds=pick(["short", "long,tools", "tools"], np.digitize(self.sizes[of[rows]], (50, 200)) % 3),
            usd=cost[rows] * factors,
            record_usd=cost[rows],
            uncached=cost[rows] * factors * 4,
            record_uncached=cost[rows] * 4,
            hits=(uses * lost * self.rng.random(len(rows))).astype(np.int64),
            uses=uses,
            peak=np.minimum(1.0, 0.8 * factors),
            unsent=np.zeros(len(rows), np.int64),
            calls=np.zeros(len(rows), np.int64),
        )

    def make_tools(self, of: Array, ids: list[str]) -> pa.Table:
        many = np.minimum(len(CALLED), 1 + self.sizes[of] // 4)
        rows, name = np.repeat(np.arange(len(of)), many), number_within(many)
        calls = 1 + self.sizes[of[rows]] // (2 + name)
        results = calls * self.rng.integers(100, 4_000, len(rows))
        sent = results * np.minimum(40, self.sizes[of[rows]])
        return build(
            "tools",
            session=pick(ids, rows),
            day=self.make_times(of[rows], np.zeros(len(rows))).astype("datetime64[D]"),
            name=pick(CALLED, name),
            calls=calls,
            errors=calls // 20,
            call_tokens=calls * 90,
            result_tokens=results,
            sent_tokens=sent,
            usd=sent * PRICES[self.model[of[rows]]] / 1e7,
        )

    def make_sources(self, of: Array, ids: list[str]) -> pa.Table:
        return build(
            "sources",
            source_id=ids,
            source=[f"s3://logs/{id}.jsonl" for id in ids],
            state="read",
            stamp=ids,
            content=ids,
            made_by="made up",
            size=self.sizes[of] * 14_000,
            sessions=1,
            batch=1,
            error=None,
            tries=1,
            read_at=datetime(START.year, START.month, START.day, tzinfo=UTC) + timedelta(days=400),
            cpu_seconds=self.sizes[of] * 0.002,
        )


def write(dest: str, requests: int, sessions: int, days: int, seed: int = 7) -> Fleet:
    """Write the tables.

    Args:
        dest: their URL; there may be none yet.
        requests: about so many.
        sessions, days: exactly so many.
        seed: of the generator of random numbers.
    """
    rng = np.random.default_rng(seed)
    weights = rng.lognormal(0.0, 1.3, sessions)
    sizes = np.maximum(1, np.round(weights * requests / weights.sum())).astype(np.int64)
    made_on = np.sort(rng.integers(0, days, sessions))
    maker, fleet = Maker(sizes, made_on, days, seed), open_fleet(dest)
    files: list[PartFile] = []
    for start in range(0, days, DAYS_AT_ONCE):
        of = np.flatnonzero((made_on >= start) & (made_on < start + DAYS_AT_ONCE))
        if not len(of):
            continue
        made = maker.make(of, make_ids(of))
        files += [file for name in TABLES for file in fleet.write_rows(name, made[name], [1])]
    return fleet.commit("read", files)


def main() -> int:
    parser = argparse.ArgumentParser(description="Tables of a made-up fleet.")
    parser.add_argument("dest")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--sessions", type=int, default=2_000)
    parser.add_argument("--days", type=int, default=90)
    given = parser.parse_args()
    fleet = write(given.dest, given.requests, given.sessions, given.days)
    store_sums(fleet)
    for name in TABLES:
        size = sum(file.bytes for file in fleet.files.values() if file.table == name)
        print(f"{name:<10}{fleet.count_rows(name):>12,} rows{len(fleet.list_files(name)):>7,} files{size / 1e6:>9,.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
