"""The tables of a fleet: their columns with types and units, what identifies a row, and their schemas in Arrow.

The data dictionary in the documentation is made from this module. It needs no package beyond the standard library until a
schema is requested.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from turnscope.counting.reconciliation import CELLS

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = 1  # count up when a column comes, goes, or means something else: everything is then read again
USD_DIGITS, USD_SCALE = 18, 12  # of a decimal: exact, and 64 bits in DuckDB; a row holds less than 1,000,000 USD
ID_DIGITS = 16  # hexadecimal digits of an identifier

Kind = Literal["string", "int", "double", "bool", "date", "timestamp", "usd"]
Privacy = Literal["", "text", "person", "path", "names"]

PRIVACY: dict[Privacy, str] = {
    "": "",
    "text": "empty without `--with-text`",
    "person": "hashed with `--hash-key-file`",
    "path": "hashed with `--hash-key-file`",
    "names": "empty with `--hash-key-file`",
}
ARROW_TYPES = {"string": "string", "int": "int64", "double": "float64", "bool": "bool", "date": "date32"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        meaning: one sentence.
        unit: of its values; "" = none.
        privacy: whether it is session text, or names a person or a path.
        nullable: whether a value may be missing, which is then not known.
    """

    name: str
    kind: Kind
    meaning: str
    unit: str = ""
    privacy: Privacy = ""
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        meaning: what a row is.
        key: the columns that identify a row.
        columns: all columns, in order.
        by_day: whether its files lie in a folder per day.
    """

    name: str
    meaning: str
    key: tuple[str, ...]
    columns: tuple[Column, ...]
    by_day: bool = True

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.columns)


def _id(name: str, meaning: str) -> Column:
    return Column(name, "string", meaning, nullable=False)


def _count(name: str, meaning: str, unit: str = "", *, nullable: bool = False) -> Column:
    return Column(name, "int", meaning, unit, nullable=nullable)


def _tokens(name: str, meaning: str, *, nullable: bool = True) -> Column:
    return Column(name, "int", meaning, "tokens", nullable=nullable)


def _usd(name: str, meaning: str) -> Column:
    return Column(name, "usd", meaning, "USD")


SESSION = _id("session", f"The session: {ID_DIGITS} hexadecimal digits, made of its source and its conversation.")
DAY = Column("day", "date", "The day in UTC; empty where the log has no time.")
OWNERS = (
    Column("team", "string", 'The team, from the path by `--layout`; "" = not known.', nullable=False),
    Column("project", "string", "The project: its working directory, else its folder.", "", "path", nullable=False),
    Column(
        "person", "string", 'The person, by `--layout`, else from a home folder; "" = not known.', "", "person", nullable=False
    ),
    Column("tool", "string", "The agent or chat tool that wrote the log.", nullable=False),
)
CELL_MEANINGS = {
    "system": "Part of the prompt: the system prompt.",
    "tools": "Part of the prompt: definitions of tools.",
    "messages": "Part of the prompt: messages.",
    "tool_results": "Part of the prompt: results of tools.",
    "thinking": "Part of the prompt: thinking.",
    "prefix": "Part of the prompt: system prompt and tools that the log does not hold.",
    "earlier": "Part of the prompt: conversation from before the file begins.",
    "reinjected": "Part of the prompt: what the tool injected and its log does not hold.",
    "unattributed": "Part of the prompt: what nothing explains.",
}

SESSIONS = Table(
    "sessions",
    "One conversation.",
    ("session",),
    (
        SESSION,
        DAY,
        _id("source_id", "Its row in `sources`."),
        Column("source", "string", "Where it was read: a URL.", "", "path", nullable=False),
        Column("entry", "string", 'Its conversation within the source; "" = the only one.', "", "path", nullable=False),
        _id("content", "Digest of the bytes that were read."),
        _id("made_by", "Version of all that made the row: these tables, importers, prices, options."),
        *OWNERS,
        Column(
            "model",
            "string",
            'Models, separated by commas, in the order of their first request; "" = none is named.',
            nullable=False,
        ),
        Column("title", "string", "Its title.", "", "text"),
        Column("started", "timestamp", "When its first request was sent.", "UTC"),
        Column("ended", "timestamp", "When its last request was sent.", "UTC"),
        _count("size", "Size of its source.", "bytes"),
        _count("requests", "Requests of its main path."),
        _count("all_requests", "All its requests, with branches and subagents, each once."),
        _count("turns", "Turns of its main path that made a request."),
        _count("branches", "Paths that were left."),
        _count("subagents", "Subagents, those of subagents included."),
        _usd("usd", "Cost of all its requests; empty where no price is known."),
        _count("unpriced", "Requests with usage whose model has no known price."),
        _tokens("peak_tokens", "Tokens of its largest prompt.", nullable=False),
        _tokens("window_tokens", "The model's window; 0 = not known.", nullable=False),
        Column("peak_fill", "double", "Its fullest prompt, as a share of the window.", "0 to 1"),
        Column("mean_fill", "double", "The mean of its prompts, each as a share of the window.", "0 to 1"),
        _count("peak_request", "Number of the fullest request, from 0; -1 = no window is known."),
        _count("compactions", "Times that older messages were replaced by a summary."),
        _count("cuts", "Times that messages were left out."),
        _count("clearings", "Times that old content was emptied or shortened."),
        _count("misses", "Cache misses."),
        _tokens("missed_tokens", "Tokens that cache misses billed again.", nullable=False),
        _usd("missed_usd", "What that cost beyond reading them; empty where no price is known."),
        _count("tool_calls", "Calls of tools on its main path."),
        _count("tool_errors", "Calls that ended with an error."),
        _count("good", "Answers that a person rated up."),
        _count("rated", "Answers that a person rated."),
    ),
)
REQUESTS = Table(
    "requests",
    "One request to a model: of the main path, a branch or a subagent, or sent beside the conversation.",
    ("session", "part", "number"),
    (
        SESSION,
        DAY,
        Column("part", "string", "`path`, `branch`, `subagent` or `side`.", nullable=False),
        _count("number", "Its number within its part, from 0."),
        Column("id", "string", "Digest of the id that the provider gave the answer; empty = it gave none."),
        Column(
            "counted",
            "bool",
            "Whether sums count it: false where another session holds the same request, as resumed sessions do.",
            nullable=False,
        ),
        *OWNERS,
        Column("sent_at", "timestamp", "When it was sent.", "UTC"),
        _count("turn", "The turn, from 0; empty off the main path.", nullable=True),
        Column("model", "string", 'The model; "" = not named.', nullable=False),
        _tokens("uncached", "Input that was neither read from the cache nor written to it.", nullable=False),
        _tokens("cache_write_5m", "Input written to the cache for five minutes.", nullable=False),
        _tokens("cache_write_1h", "Input written to the cache for an hour.", nullable=False),
        _tokens("cache_read", "Input read from the cache.", nullable=False),
        _tokens("output", "Output; counted where the log's number cannot be true.", nullable=False),
        _usd("usd", "Its cost; empty where its model has no known price."),
        _tokens("prompt", "Tokens of the prompt: recorded, else estimated; empty off the main path."),
        _tokens("window_tokens", "The model's window; empty where it is not known."),
        Column("fill", "double", "The prompt as a share of the window.", "0 to 1"),
        *(_tokens(name, CELL_MEANINGS[name]) for name in CELLS),
        Column("prompt_digest", "string", "Digest of system prompt and tools as sent; empty where the log holds neither."),
        Column("seconds", "double", "From sending to the end of the answer.", "seconds"),
        _count("attempts", "How often it was sent."),
        Column("stop_reason", "string", "Why the answer ended, in the provider's word."),
        Column("event", "string", "What left the window before it: `compact`, `cut`, `clear` or `unlogged`; empty = nothing."),
        Column("miss", "string", "Cause of its cache miss; empty = none."),
        _tokens("miss_tokens", "Tokens that its cache miss billed again."),
        _usd("miss_usd", "What they cost beyond reading them."),
        Column("idle", "double", "Time since the previous answer, at a cache miss.", "seconds"),
    ),
)
DECISIONS = Table(
    "decisions",
    "One change that the tool or the provider made to a request of the main path.",
    ("session", "number"),
    (
        SESSION,
        DAY,
        _count("number", "Its number within the session, from 0."),
        _count("request", "Number of the request, from 0."),
        _count("turn", "The turn, from 0."),
        Column("model", "string", 'The model; "" = not named.', nullable=False),
        Column("actor", "string", "Who made it: `policy` or `server`.", nullable=False),
        Column("rule", "string", "The rule that made it.", nullable=False),
        Column("action", "string", "What it did.", nullable=False),
        Column("because", "string", "Its reason in words, which may name a file.", "", "text"),
        _count("start", "The first block that it concerns.", nullable=True),
        _count("stop", "The block after the last one.", nullable=True),
        Column("changed", "bool", "Whether the prompt changed.", nullable=False),
        _tokens("before", "Tokens of the prompt before it, as the provider would bill them.", nullable=False),
        _tokens("after", "The same after it.", nullable=False),
        _tokens("budget", "Tokens that the prompt may have.", nullable=False),
        Column("verdict", "string", "What became of the request.", nullable=False),
        _usd("cache_usd", "Effect on the prompt cache at that request, simulated."),
    ),
)
FINDINGS = Table(
    "findings",
    "One thing that stands out in a session.",
    ("session", "rank"),
    (
        SESSION,
        DAY,
        _count("rank", "Its rank within the session, from 0: the most expensive first."),
        Column("kind", "string", "Its kind.", nullable=False),
        _count("request", "Number of the request to look at, from 0."),
        _usd("usd", "Its cost; empty where no price is known."),
        _tokens("tokens", "Its tokens.", nullable=False),
        Column("text", "string", "The sentence, which may name files.", "", "text"),
    ),
)
LOSSES = Table(
    "losses",
    "One session under one policy of `--policies`, replayed. Sessions without a price have no row.",
    ("session", "policy"),
    (
        SESSION,
        DAY,
        Column("policy", "string", "The policy.", nullable=False),
        _count("requests", "Requests of the main path."),
        Column(
            "kinds", "string", "What the session is like, separated by commas: short, long, idle, tools, chat.", nullable=False
        ),
        Column(
            "usd",
            "double",
            "Cost under the policy, simulated with the prompt cache and scaled to the bill.",
            "USD",
            nullable=False,
        ),
        Column("record_usd", "double", "What the record cost.", "USD", nullable=False),
        Column("uncached", "double", "Cost under the policy if nothing were cached.", "USD", nullable=False),
        Column("record_uncached", "double", "The same of the record.", "USD", nullable=False),
        _count("hits", "Lost references."),
        _count("uses", "References of later answers."),
        Column("peak", "double", "The fullest window, as a share.", "0 to 1", nullable=False),
        _count("unsent", "Requests that the provider would refuse."),
        _count("calls", "Summaries that a model would have been requested for."),
    ),
)
TOOLS = Table(
    "tools",
    "One tool that a session called, on its main path.",
    ("session", "name"),
    (
        SESSION,
        DAY,
        Column("name", "string", "Name of the tool, as the model calls it.", nullable=False),
        _count("calls", "Calls."),
        _count("errors", "Calls that ended with an error."),
        _tokens("call_tokens", "Tokens of its calls, each counted once.", nullable=False),
        _tokens("result_tokens", "Tokens of its results, each counted once.", nullable=False),
        _tokens("sent_tokens", "Tokens of its results over all requests that carried them.", nullable=False),
        Column("usd", "double", "What its results cost in all requests that carried them; empty without prices.", "USD"),
    ),
)
SOURCES = Table(
    "sources",
    "One file that was read, or could not be. A run reads a source again where its digest or version is another.",
    ("source_id",),
    (
        _id("source_id", f"The source: {ID_DIGITS} hexadecimal digits, made of its URL."),
        Column("source", "string", "Its URL.", "", "path"),
        Column(
            "state", "string", "`read`, `unreadable`, `set aside` (crashed or hung too often) or `forgotten`.", nullable=False
        ),
        _id("stamp", 'Digest of the etags of its files, else of their sizes and times; "" = it has to be read again.'),
        _id("content", 'Digest of the bytes that were read; "" = none were.'),
        _id("made_by", "Version of all that made its rows."),
        _count("size", "Its size.", "bytes"),
        _count("sessions", "Sessions that it held."),
        _count("batch", "Number of the commit that wrote its rows."),
        Column("error", "string", "What is wrong with it, which may name a file.", "", "names"),
        _count("tries", "How often it was tried."),
        Column("read_at", "timestamp", "When it was read.", "UTC", nullable=False),
        Column("cpu_seconds", "double", "CPU time that reading it took.", "seconds", nullable=False),
    ),
    by_day=False,
)

TABLES: dict[str, Table] = {table.name: table for table in (SESSIONS, REQUESTS, DECISIONS, FINDINGS, LOSSES, TOOLS, SOURCES)}


@cache
def make_schema(name: str) -> pa.Schema:
    """Make the Arrow schema of a table.

    Args:
        name: its name, a key of `TABLES`.
    """
    import pyarrow as pa

    special = {"timestamp": pa.timestamp("us", tz="UTC"), "usd": pa.decimal128(USD_DIGITS, USD_SCALE)}
    table = TABLES[name]
    fields = [
        pa.field(
            column.name,
            special.get(column.kind) or pa.type_for_alias(ARROW_TYPES[column.kind]),
            nullable=column.nullable,
            metadata={"meaning": column.meaning, "unit": column.unit},
        )
        for column in table.columns
    ]
    return pa.schema(fields, metadata={"table": name, "version": str(VERSION), "key": ",".join(table.key)})


def format_dictionary() -> str:
    """Format the data dictionary as Markdown: of each table what a row is, what identifies it, and every column."""
    return "\n".join(line for table in TABLES.values() for line in _format_table(table))


def _format_table(table: Table) -> Iterator[str]:
    yield from (f"### `{table.name}`", "")
    yield f"{table.meaning} A row is identified by {', '.join(f'`{name}`' for name in table.key)}."
    yield from ("", "| column | type | unit | meaning |", "| --- | --- | --- | --- |")
    for column in table.columns:
        kept = f" ({PRIVACY[column.privacy]})" if column.privacy else ""
        yield f"| `{column.name}` | {column.kind} | {column.unit} | {column.meaning}{kept} |"
    yield ""
