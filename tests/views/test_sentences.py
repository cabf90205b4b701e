"""What findings, markers and notes say of real sessions, computed again from the raw lines of their files.

Nothing of the engine is used here but the sentences themselves. A sentence of a kind that has no check fails.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import log_variants
import pytest
import turnscope
from conftest import shared
from turnscope.session.model import Session
from turnscope.views.cache_breaks import find_breaks
from turnscope.views.events import EVENTS
from turnscope.views.findings import mark_breaks, rank_findings
from turnscope.views.overview import build_overview
from wire import open_run

OPEN = ("cd95-3compactions", "b029-2compactions-apierrors", "d599-microcompact", "3799-glued-line")
PLAIN = "obra-long-conversation"
LEAST = 300  # sentences that are checked
NEVER = {"cut", "back", "overflow", "side"}  # kinds of markers that no log of this tool gives
# USD per million tokens: uncached, read, written for five minutes, written for one hour (list prices of these models)
PRICES = {  # by what names have behind `claude-`, the more exact ones first
    "opus-4-2": (15, 1.5, 18.75, 30),
    "opus-4-": (5, 0.5, 6.25, 10),
    "sonnet-4-": (3, 0.3, 3.75, 6),
    "haiku-4-5": (1, 0.1, 1.25, 2),
}
REGIONAL = 1.1  # what AWS charges more where a model is asked in one region
TIMES = {"once": 1, "twice": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
TIMES |= {"one": 1, "two": 2, "eleven": 11, "twelve": 12}
UNITS = {"s": 1, "minutes": 60, "hours": 3_600}
BILL = re.compile(
    r"(.*) (?:are|is) (\d+) % of (?:the|this branch's) input bill: "
    r"\$(.*) of \$(.*); request (\d+) paid the most of it, \$(\S+)\."
)
CUT = re.compile(r"(\w+) (\w+?)s? took out (\S+) tokens(?:; the largest, (\S+))? at request (\d+), leaving (\S+)\.")
FEW = 1_024  # tokens that a cache may lose by the size of its blocks


@dataclass(eq=False)
class Answer:
    """One answer of the model: its lines, what they say of its bill, and the lines since the answer before."""

    id: str
    before: list[dict[str, Any]]
    lines: list[dict[str, Any]] = field(default_factory=list)

    @property
    def usage(self) -> dict[str, Any]:
        return self.lines[-1]["message"]["usage"]

    @property
    def model(self) -> str:
        return self.lines[-1]["message"]["model"]

    @property
    def read(self) -> int:
        return self.usage["cache_read_input_tokens"]

    @property
    def written(self) -> int:
        return self.usage["cache_creation_input_tokens"]

    @property
    def prompt(self) -> int:
        return self.usage["input_tokens"] + self.read + self.written

    @property
    def sent(self) -> float:
        """When the newest message of the user before it was written."""
        return max(parse_at(line) for line in self.before if line.get("type") == "user")

    @property
    def errors(self) -> list[dict[str, Any]]:
        """Attempts that failed, since the newest message of the tool or the model."""
        found: list[dict[str, Any]] = []
        for line in self.before:
            found = [] if line.get("isApiErrorMessage") else [*found, line] if line.get("subtype") == "api_error" else found
        return found

    @property
    def prices(self) -> tuple[float, float, float, float]:
        """USD per million tokens: uncached, read, written for five minutes, written for one hour."""
        found = next(price for name, price in PRICES.items() if f"claude-{name}" in self.model)
        plain, read, short, long = (REGIONAL * price if self.model.startswith("us.") else price for price in found)
        return plain, read, short, long

    @property
    def cost(self) -> float:
        """USD of all of it as recorded. An answer's token costs five times one of the prompt."""
        plain, read, short, long = self.prices
        hours = (self.usage.get("cache_creation") or {}).get("ephemeral_1h_input_tokens", 0)
        prompt = plain * self.usage["input_tokens"] + read * self.read + short * (self.written - hours) + long * hours
        return (prompt + 5 * plain * self.usage["output_tokens"]) / 1e6

    def usd(self, tokens: int) -> float:
        """What so many tokens cost beyond reading them: those that were written for one hour, for five minutes, uncached."""
        plain, read, short, long = self.prices
        hours = min(tokens, (self.usage.get("cache_creation") or {}).get("ephemeral_1h_input_tokens", 0))
        minutes = min(tokens - hours, self.written - hours)
        return (long * hours + short * minutes + plain * (tokens - hours - minutes) - read * tokens) / 1e6


def find(pattern: str, text: str) -> tuple[str, ...]:
    """The groups of a pattern that the text must have."""
    found = re.search(pattern, text)
    assert found, text
    return found.groups()


def parse_at(line: dict[str, Any]) -> float:
    return datetime.fromisoformat(line["timestamp"]).timestamp()


def parts(line: dict[str, Any]) -> list[dict[str, Any]]:
    content = (line.get("message") or {}).get("content")
    return content if isinstance(content, list) else [{"type": "text", "text": content or ""}]


def text_of(part: dict[str, Any]) -> str:
    for key in ("text", "thinking", "content"):
        if isinstance(part.get(key), str):
            return part[key]
    if part.get("type") == "tool_use":
        return f"{part['name']} {json.dumps(part['input'], separators=(',', ':'), ensure_ascii=False)}"
    return "".join(map(text_of, part.get("content") or ())) if isinstance(part.get("content"), list) else ""


def list_preserved(line: dict[str, Any]) -> list[str]:
    """The messages that a compaction left as they were."""
    kept = (line.get("compactMetadata") or {}).get("preservedMessages") or {}
    return [*(kept.get("allUuids") or kept.get("uuids") or ())]


class Log:
    """A file of Claude Code, read with `json` alone: its lines, and the answers along the path to its last message."""

    def __init__(self, path: Path) -> None:
        self.lines: list[dict[str, Any]] = []
        self.numbers: dict[int, int] = {}  # id() of a record -> its line
        self.glued: dict[int, int] = {}  # line -> records on it
        decoder = json.JSONDecoder()
        for number, row in enumerate(path.read_text("utf-8").split("\n"), 1):
            rest = row.strip()
            while rest:
                record, end = decoder.raw_decode(rest)
                rest = rest[end:].lstrip()
                self.lines.append(record)
                self.numbers[id(record)] = number
                self.glued[number] = self.glued.get(number, 0) + 1
        self.by: dict[str, dict[str, Any]] = {}
        for line in self.lines:
            self.by.setdefault(line.get("uuid", ""), line)
        firsts = [agent.read_text("utf-8").split("\n")[0] for agent in path.with_suffix("").glob("subagents/agent-*.jsonl")]
        self.asked = {text_of(parts(json.loads(line))[0]) for line in firsts}  # of subagents with files of their own

    @cached_property
    def path(self) -> list[dict[str, Any]]:
        """The lines of the session itself, each once. None of these files has a branch."""
        chain = [line for line in self.lines if isinstance(line.get("uuid"), str) and self.by[line["uuid"]] is line]
        own = [line for line in chain if not line.get("isSidechain")] or chain  # a subagent's file has nothing else
        for boundary in [line for line in own if list_preserved(line)]:  # what it kept was said before it
            at = own.index(boundary)
            kept = [line for line in own[at:] if line["uuid"] in list_preserved(boundary)]
            own = [*own[:at], *kept, *(line for line in own[at:] if line not in kept)]
        return own

    @cached_property
    def answers(self) -> list[Answer]:
        found: dict[str, Answer] = {}
        before: list[dict[str, Any]] = []
        for line in self.path:
            message = line.get("message") or {}
            own = line.get("isApiErrorMessage") or message.get("model") == "<synthetic>"
            if line.get("type") != "assistant" or own:
                before.append(line)
                continue
            if message["id"] not in found:
                found[message["id"]] = Answer(message["id"], before)
                before = []
            found[message["id"]].lines.append(line)
        return [*found.values()]

    def between(self, n: int, key: str, value: Any) -> list[dict[str, Any]]:
        """The lines before an answer that have a value."""
        return [line for line in self.answers[n].before if line.get(key) == value]

    def compactions(self) -> list[int]:
        return [n for n in range(len(self.answers)) if self.between(n, "isCompactSummary", True)]

    def last_compaction(self, n: int) -> int:
        return max((c for c in self.compactions() if c <= n), default=0)

    def texts(self, n: int, kinds: Iterable[str]) -> list[str]:
        """The texts of these kinds that the prompt of an answer holds, as far as they were said since the last compaction."""
        start, held = self.last_compaction(n), list[str]()
        cleared = {id for m in range(start, n + 1) for id in self.list_cleared(m)}
        for m in range(start, n + 1):
            lines = [*(self.answers[m - 1].lines if m > start else ()), *self.answers[m].before]
            found = (part for line in lines for part in parts(line) if part.get("type") in kinds)
            held += [text_of(part) for part in found if part.get("tool_use_id") not in cleared]
        return held

    def list_cleared(self, n: int) -> list[str]:
        found = self.between(n, "subtype", "microcompact_boundary")
        return [id for line in found for id in line["microcompactMetadata"]["compactedToolIds"]]

    def gap(self, n: int) -> float:
        """Seconds from the end of the answer before to the prompt."""
        return max(0.0, self.answers[n].sent - parse_at(self.answers[n - 1].lines[-1]))

    def lost(self, n: int) -> int:
        """Tokens that the cache held, that were sent again and were not read; where nothing else of the prompt changed."""
        one, two = self.answers[n - 1], self.answers[n]
        return min(one.read + one.written, two.prompt) - two.read


def tokens(word: str) -> tuple[float, float]:
    """A number of tokens as it is written, and by how much its rounding may be off."""
    number = float(word.rstrip("kM").replace(",", ""))
    return (number * 1e6, 5e4) if word.endswith("M") else (number * 1e3, 500) if word.endswith("k") else (number, 0)


def is_about(word: str, truth: float, more: float = 0.0) -> bool:
    number, error = tokens(word)
    return abs(number - truth) <= error + 1 + more * truth


def lasts(said: str, seconds: float) -> bool:
    """Whether a duration as it is written is that of so many seconds."""
    number, unit = said.replace("idle ", "").split()
    step = 0.1 if "." in number or (unit == "minutes" and float(number) < 10) else 1
    return abs(float(number.replace(",", "")) - seconds / UNITS[unit]) <= step / 2 + 1e-6


# Markers ------------------------------------------------------------------------------------------------------------------


def check_break(log: Log, n: int, what: str) -> bool:
    one, two = log.answers[n - 1], log.answers[n]
    read, held = find(r"([\d,]+) of ([\d,]+) cached tokens were read$", what)
    if (int(read.replace(",", "")), int(held.replace(",", ""))) != (two.read, one.read + one.written):
        return False
    if two.read >= one.read + one.written - FEW or two.prompt - two.read <= FEW:
        return False  # nothing was billed again
    cause = find(r"cache miss \((\w+)\): ", what)[0]
    return CAUSES[cause](log, n, what)


def is_idle(log: Log, n: int, what: str) -> bool:
    if between := re.search(r"between (.*) and (.*) passed, (\d+) attempts", what):
        last = parse_at(log.answers[n].lines[-1]) - log.answers[n - 1].sent
        attempts = int(between[3]) == len(log.answers[n].errors) + 1
        return lasts(between[1], log.gap(n)) and lasts(between[2], last) and attempts and last > 300
    lives = find(r"lives (5 minutes|60 minutes)", what)[0]
    return lasts(find(r": (\S+ \w+) passed", what)[0], log.gap(n)) and log.gap(n) > {"5 minutes": 300}.get(lives, 3_600)


def is_edit(log: Log, n: int, what: str) -> bool:
    short = re.search(r"the prompt is ([\d,]+) tokens shorter", what)
    return (
        bool(log.list_cleared(n))
        if "microcompacted" in what
        else bool(short) and log.answers[n].prompt < log.answers[n - 1].prompt
    )


def is_unknown(log: Log, n: int, what: str) -> bool:
    one, two = log.answers[n - 1], log.answers[n]
    said = re.search(r"only (\S+ \w+) since", what)
    errors = bool(two.errors or one.errors) == ("answering with errors" in what)
    same = ("just what the request before had written" in what) == (one.read == two.read)
    plain = one.model == two.model and n not in log.compactions() and not log.list_cleared(n)
    hours = max((a.usage.get("cache_creation") or {}).get("ephemeral_1h_input_tokens", 0) for a in log.answers[:n])
    return bool(said) and lasts(said[1], log.gap(n)) and errors and same and plain and (log.gap(n) < 300 or hours > 0)


CAUSES: dict[str, Callable[[Log, int, str], bool]] = {
    "idle": is_idle,
    "edit": is_edit,
    "unknown": is_unknown,
    "compaction": lambda log, n, what: n in log.compactions() and check_compaction(log, n, what),
    "thinking": lambda log, n, _: drops_thinking(log, n),
    "off": lambda log, n, _: log.answers[n].read == log.answers[n].written == 0,
    "model": lambda log, n, _: log.answers[n].model != log.answers[n - 1].model,
    "static": lambda log, n, what: "tool search" in what and '"tool_reference"' in json.dumps(log.answers[n].before),
}


def drops_thinking(log: Log, n: int) -> bool:
    """Models up to Opus 4.1, Sonnet 4.5 and Haiku 4.5 keep no thinking of past turns; a new one began, and there was some."""
    model = log.answers[n].model
    old = "opus-4-2" in model or "sonnet-4-5" in model or "sonnet-4-2" in model or "haiku-4-5" in model
    past = [part for answer in log.answers[:n] for line in answer.lines for part in parts(line)]
    return old and any(map(is_prompt, log.answers[n].before)) and any(part.get("type") == "thinking" for part in past)


def check_compaction(log: Log, n: int, what: str) -> bool:
    if "messages were replaced by" in what:  # a fork's file may have its requests, and begin with the boundary
        return n in log.compactions()
    (line,) = log.between(n, "subtype", "compact_boundary")
    meta = line["compactMetadata"]
    counted = re.search(r"at ([\d,]+) tokens by its own count", what)
    right = int(counted[1].replace(",", "")) == meta["preTokens"] if counted else "preTokens" not in meta
    told = "(requested by the user" in what if meta["trigger"] == "manual" else "(the tool did it by itself" in what and right
    return n in log.compactions() and told


def check_unlogged(log: Log, n: int, what: str) -> bool:
    """The prompt fell, and no line between the two says why."""
    one, two = log.answers[n - 1], log.answers[n]
    silent = not log.list_cleared(n) and n not in log.compactions()
    gone, said = one.prompt - two.prompt, tokens(find(r"about ([\d,]+) tokens", what)[0])[0]
    new = sum(len(text_of(part)) for line in (*one.lines, *two.before) for part in parts(line))
    return silent and gone > 0 and gone <= said <= gone + new / 2  # what left is what the prompt fell by and what came in


def check_clearing(log: Log, n: int, what: str) -> bool:
    cleared = log.list_cleared(n)
    there = {part.get("tool_use_id") for line in log.lines for part in parts(line)}
    if gone := re.search(r"(\d+) of (\d+) tool results that it cleared are not in this file; it saved (\S+) tokens", what):
        (line,) = log.between(n, "subtype", "microcompact_boundary")
        missing = sum(id not in there for id in cleared)
        return [missing, len(cleared)] == [int(gone[1]), int(gone[2])] and is_about(
            gone[3], line["microcompactMetadata"]["tokensSaved"]
        )
    return bool(there & {*cleared}) and what == "microcompacted: an old tool result was cleared, its call stays"


def check_retries(log: Log, n: int, what: str) -> bool:
    return int(find(r"sent (\d+) times", what)[0]) == len(log.answers[n].errors) + 1


def check_subagent(log: Log, n: int, what: str) -> bool:
    """A call in the answer has the prompt that a subagent begins with, and the marker has its beginning."""
    title = " ".join(what.removeprefix("started subagent ").split()).rstrip("…")
    begun = log.asked | {
        text_of(parts(line)[0]) for line in log.lines if line.get("isSidechain") and not line.get("parentUuid")
    }
    calls = [part["input"] for line in log.answers[n].lines for part in parts(line) if part.get("type") == "tool_use"]
    return any(" ".join(call.get("prompt", "").split()).startswith(title) and call["prompt"] in begun for call in calls)


MARKERS: dict[str, Callable[[Log, int, str], bool]] = {
    "break": check_break,
    "compact": check_compaction,
    "unlogged": check_unlogged,
    "clear": check_clearing,
    "retry": check_retries,
    "subagent": check_subagent,
}

# Findings -----------------------------------------------------------------------------------------------------------------


def check_bill(log: Log, text: str) -> bool:
    """The dollars of all prompts; that kind's share; what the request that paid most for it paid, by its prompt's price."""
    paid = []
    for answer in log.answers:
        paid.append(answer.cost - 5 * answer.prices[0] * answer.usage["output_tokens"] / 1e6)
    whole = sum(paid)
    said = BILL.fullmatch(text)
    assert said
    what, share, part, of, n, most = said.groups()
    if (
        abs(float(of.replace(",", "")) - whole) > 0.0051
        or abs(float(part) / float(of) - int(share) / 100) > 0.01 + 0.01 / whole
    ):
        return False
    n = int(n) - 1
    if what == "System prompt and tools":  # what the first prompt has beside what was said
        return float(most) <= paid[n] + 0.0051 and float(most) * len(paid) >= float(part) - 0.0051 * len(paid)
    if what == "The conversation before this file begins":  # no more than the first prompt, until it was compacted away
        carrying = range(next(iter(log.compactions()), len(paid)))
        bound = sum(paid[m] * min(1, log.answers[0].prompt / log.answers[m].prompt) for m in carrying)
        return n in carrying and float(most) <= paid[n] + 0.0051 and float(part) <= bound + 0.0051
    held = [sum(map(len, log.texts(m, ("tool_result",)))) / max(1, answer.prompt) for m, answer in enumerate(log.answers)]
    about = held[n] / 3.5 * paid[n]  # characters of its results by characters of a token, at the mean price of its prompt
    return about / 2 < float(most) + 0.0051 and float(most) - 0.0051 <= min(paid[n], 2 * about)


def check_cache(log: Log, breaks: list[tuple[int, str]], text: str) -> bool:
    """How often, the worst one with its time and idle time, and for idle ones also the tokens and the dollars."""
    words = {
        "The cache expired": "idle",
        "Unexplained": "unknown",
        "A change to earlier": "edit",
        "A changed system": "static",
        "Compaction": "compaction",
        "Switching": "model",
        "Dropping the thinking": "thinking",
        "The prompt was sent without": "off",
    }
    cause = next(cause for word, cause in words.items() if text.startswith(word))
    group = [n for n, what in breaks if what.startswith(f"cache miss ({cause})")]
    often = re.search(r" (once|twice|(\w+) times), worst", text)
    worst = int(find(r"at request (\d+)", text)[0]) - 1
    if (count_word(often) if often else 1) != len(group) or worst not in group:
        return False
    usd, size = find(r"\$([\d.,]+) extra to send (\S+) tokens again", text)
    lost, cost = sum(map(log.lost, group)), [log.answers[n].usd(log.lost(n)) for n in group]
    if cause != "idle":  # more may have left the prompt than was lost
        return tokens(size)[0] <= lost * 1.01 + max(500, tokens(size)[1]) and float(usd.replace(",", "")) <= sum(cost) + 0.005
    clock = datetime.fromisoformat(
        next(x["timestamp"] for x in log.answers[worst].before[::-1] if parse_at(x) == log.answers[worst].sent)
    )
    idle = re.search(r"after (\S+) idle (\w+)", text)
    right = f"({clock:%H:%M} UTC" in text and cost[group.index(worst)] == max(cost)
    # Something may have left the prompt as well, so what was lost is a little less than all that was not read.
    right = right and is_about(size, lost, 0.01) and 0.99 * sum(cost) - 0.005 <= float(usd) <= sum(cost) + 0.005
    return right and (idle is None or lasts(f"{idle[1]} {idle[2]}", log.gap(worst)))


def count_word(found: re.Match[str]) -> int:
    word = found[2] or found[1]
    return int(word) if word.isdigit() else TIMES[word.lower()]


def check_cut(log: Log, text: str) -> bool:
    """The compactions or clearings, what each took out of the prompt, and what the largest left."""
    said = CUT.fullmatch(text)
    assert said
    many, what, size, most, number, left = said.groups()
    n = int(number) - 1
    prompts = [answer.prompt for answer in log.answers]
    if what == "clearing":
        came = (*log.answers[int(n) - 1].lines, *log.answers[int(n)].before)
        new = sum(len(text_of(part)) for line in came for part in parts(line)) / 2
        fell = prompts[int(n) - 1] - prompts[int(n)]
        return (
            bool(log.list_cleared(int(n))) and fell - 500 <= tokens(size)[0] <= fell + new and is_about(left, prompts[int(n)])
        )
    fell_by = {
        n: prompts[n - 1] - prompts[n] for n in log.compactions() if prompts[n - 1] - prompts[n] >= 0.05 * prompts[n - 1]
    }
    largest = max(fell_by.values()) == fell_by[int(n)] and (most is None or is_about(most, fell_by[int(n)]))
    right = TIMES[many.lower()] == len(fell_by) and is_about(size, sum(fell_by.values()))
    return right and largest and is_about(left, prompts[int(n)])


def check_forgotten(log: Log, text: str) -> bool:
    n = int(find(r"at request (\d+), and the model has a summary of it since", text)[0]) - 1
    (line,) = log.between(n, "subtype", "compact_boundary")
    kept = json.dumps(line["compactMetadata"])
    said, first = next((m, line) for m, answer in enumerate(log.answers) for line in answer.before if is_prompt(line))
    if said >= n:  # the prompts before stand in the records of whole requests alone
        return n in log.compactions() and any(line.get("type") == "api-request-blob" for line in log.lines)
    return n == next(m for m in log.compactions() if m > said) and first["uuid"] not in kept


def check_middle(log: Log, text: str) -> bool:
    """The prompt's size, and how much stood before the task or instruction when it came in."""
    what, share, number, size = find(
        r"The (task|last instruction) sits (\d+) % into the prompt of request (\d+) \((\S+) tokens", text
    )
    n = int(number) - 1
    asked = [m for m in range(int(n) + 1) if any(is_prompt(line) for line in log.answers[m].before)]
    m = asked[0] if what == "task" else asked[-1]
    came = next(line for line in log.answers[m].before[:: 1 if what == "task" else -1] if is_prompt(line))
    words = sum(len(text_of(part)) for part in parts(came))
    behind = (log.answers[m].prompt - words / 4) / log.answers[int(n)].prompt
    return is_about(size, log.answers[int(n)].prompt) and abs(int(share) / 100 - behind) < 0.06


def is_prompt(line: dict[str, Any]) -> bool:
    if line.get("type") != "user" or line.get("isMeta") or line.get("isCompactSummary"):
        return False
    text = text_of(parts(line)[0])
    aside = ("<local-command-stdout>", "<bash-", "[Request interrupted", "<task-notification>")
    return parts(line)[0].get("type") != "tool_result" and not text.lstrip().startswith(aside)


def check_repeated(log: Log, text: str) -> bool:
    """The calls that read a file, and their results, within the prompt that holds all of them; before, one was missing."""
    said = re.search(r"of a file read (\w+)(?: times)?, all of them at request (\d+) \((.*)\)", text)
    assert said
    many, n, name = TIMES[said[1]], int(said[2]) - 1, said[3]
    first, last, size = find(r"Requests ([\d,]+)–([\d,]+) carry up to (\S+) tokens", text)

    def read(m: int) -> list[str]:
        start, found = log.last_compaction(m), {}
        for answer in log.answers[start:m]:
            for part in (part for line in answer.lines for part in parts(line) if part.get("type") == "tool_use"):
                if str(part["input"].get("file_path", "")).endswith(name) and part["name"] == "Read":
                    found[part["id"]] = ""
        for line in (line for answer in log.answers[start : m + 1] for line in answer.before):
            found |= {part["tool_use_id"]: text_of(part) for part in parts(line) if part.get("tool_use_id") in found}
        return [text for text in found.values() if text]

    return (
        len(read(n)) >= many > len(read(n - 1)) - len(read(n)) + many
        and sum(map(len, read(n))) / 5 < tokens(size)[0] < sum(map(len, read(n))) / 2
        and int(first.replace(",", "")) <= n + 1 <= int(last.replace(",", ""))
    )


def check_retry_finding(log: Log, text: str) -> bool:
    n, often = find(r"Request (\d+) was sent (\w+) times", text)
    answer = log.answers[int(n) - 1]
    took = re.search(r", (\S+ \w+) after the first time", text)
    most = max(len(each.errors) for each in log.answers) + 1
    spent = parse_at(answer.lines[-1]) - answer.sent
    return TIMES[often] == len(answer.errors) + 1 == most and (took is None or lasts(took[1], spent))


def check_standing(log: Log, text: str) -> bool:
    """The sizes of listings and files that the tool put in, by their characters, and how many requests have the first kind."""
    often = find(r" tokens in (every request|[\d,]+ of [\d,]+ requests)", text)[0]
    named = [(kind, size[1]) for kind, word in PUT_IN.items() if (size := re.search(rf"(?i){word}:? ([\d.,k]+)", text))]
    carried = {kind: [count_put_in(log, n, kind) for n in range(len(log.answers))] for kind, _ in named}
    sizes = {kind: sorted(row)[-(len([one for one in row if one]) + 1) // 2] for kind, row in carried.items()}
    many = max(sum(map(bool, row)) for kind, row in carried.items() if text.lower().startswith(PUT_IN[kind]))
    right = all(sizes[kind] / 6 < tokens(size.rstrip(",."))[0] < sizes[kind] / 2 for kind, size in named)
    return right and bool(named) and often in ("every request", f"{many} of {len(log.answers)} requests")


PUT_IN = {"skill_listing": "skill listings", "file": "attached files", "agent_listing_delta": "agent listings"}
PUT_IN |= {"deferred_tools_delta": "names of deferred tools", "nested_memory": "memory", "hook": "text from hooks"}


def count_put_in(log: Log, n: int, kind: str) -> int:
    """Characters of what the tool put in of a kind, as far as a prompt still holds it."""
    lines = [line for answer in log.answers[log.last_compaction(n) : n + 1] for line in answer.before]
    put = [line for line in lines if line.get("type") == "attachment" and line["attachment"]["type"].startswith(kind)]
    return sum(len(str(line.get("rendered") or json.dumps(line["attachment"]))) for line in put)


def check_full(log: Log, text: str) -> bool:
    n, share, size, window = find(r"Request (\d+) filled (\d+) % of the window \((\S+) of (\S+) tokens", text)
    prompts = [answer.prompt for answer in log.answers]
    largest = prompts[int(n) - 1] == max(prompts) == tokens(size)[0]
    return largest and abs(int(share) / 100 - max(prompts) / tokens(window)[0]) <= 0.005


def check_thinking(log: Log, text: str) -> bool:
    """By characters: what a prompt of that size can hold of the thinking that was said before it."""
    share, n, size = find(r"to (\d+) % of the prompt at request (\d+) \((\S+) tokens", text)
    answer, said = log.answers[int(n) - 1], sum(map(len, log.texts(int(n) - 1, ("thinking",))))
    return abs(int(share) / 100 - tokens(size)[0] / answer.prompt) < 0.01 and tokens(size)[0] <= max(said, answer.prompt / 2)


def check_stubs(log: Log, text: str) -> bool:
    many, whole, first = find(r"(\d+) of (\d+) answers, the first at request (\d+), record fewer", text)
    short = [n for n, answer in enumerate(log.answers, 1) if is_short(answer)]
    recorded = find(r"to a recorded \$([\d,]+\.\d\d)", text)[0] if "recorded $" in text else ""
    priced = sum(answer.cost for answer in log.answers)
    right = not recorded or abs(float(recorded.replace(",", "")) - priced) <= 0.0051
    return right and [int(many), int(whole), int(first)] == [len(short), len(log.answers), short[0]]


def check_unattributed(log: Log, text: str) -> bool:
    """The prompt that it names grew by far more than was said, or has fallen again right after it."""
    n = int(find(r"request (\d+) has the most of it", text)[0]) - 1
    prompts = [answer.prompt for answer in log.answers]
    new = sum(len(text_of(part)) for line in log.answers[n].before for part in parts(line))
    return n > 0 and prompts[n] - prompts[n - 1] > new / 2


def check_unlogged_cut(log: Log, cut: set[int], text: str) -> bool:
    """The requests are those with a marker; how often, and what left at all of them together."""
    n, size = int(find(r"at request (\d+)", text)[0]) - 1, tokens(find(r"about (\S+) tokens", text)[0])[0]
    often = re.search(r"something (once|twice|(\w+) times),", text)
    fell = sum(log.answers[m - 1].prompt - log.answers[m].prompt for m in cut)
    came = sum(
        len(text_of(part)) for m in cut for line in (*log.answers[m - 1].lines, *log.answers[m].before) for part in parts(line)
    )
    return n in cut and (count_word(often) if often else 1) == len(cut) and 0.9 * fell <= size <= fell + came / 2


FINDINGS: dict[str, Callable[[Log, str], bool]] = {
    "bill": check_bill,
    "cut": check_cut,
    "forgotten": check_forgotten,
    "middle": check_middle,
    "full": check_full,
    "repeated": check_repeated,
    "retry": check_retry_finding,
    "standing": check_standing,
    "stub": check_stubs,
    "thinking": check_thinking,
    "unattributed": check_unattributed,
}

# Notes --------------------------------------------------------------------------------------------------------------------


def check_note(log: Log, line: int, what: str) -> bool | None:
    """None for a note that nothing here checks."""
    here = [record for record in log.lines if log.numbers[id(record)] == line]
    if found := re.match(r"(\d+) answers record fewer output tokens", what):
        return int(found[1]) == sum(map(is_short, log.answers))
    if what.startswith("line types that carry no message"):
        listed = {kind: int(count) for kind, count in re.findall(r"([\w-]+) \((\d+)\)", what)}
        real = Counter(record.get("type") for record in log.lines if not isinstance(record.get("uuid"), str))
        return all(real[kind] == count for kind, count in listed.items())
    if what.startswith("a message of the tool itself, never sent"):
        (record,) = here
        return record["message"]["model"] == "<synthetic>" or record.get("isApiErrorMessage") is True
    if found := re.match(r"(\d+) records are on one line", what):
        return log.glued[line] == int(found[1])
    if "the same uuid stands earlier" in what:
        return any(log.numbers[id(log.by[record["uuid"]])] < line or len(here) > 1 for record in here)
    if what.startswith("its parent line is not in the file"):
        return here[0]["parentUuid"] not in log.by
    return None


def is_short(answer: Answer) -> bool:
    """Whether an answer's tokens are too few: one for a call, or more than ten characters for each."""
    tokens = answer.usage["output_tokens"]
    written = [part for line in answer.lines for part in parts(line)]
    size = sum(len(text_of(part)) for part in written)
    if tokens == 1 and any(part["type"] == "tool_use" for part in written):
        return True
    return size > (20 if 0 < tokens <= 8 else 200) and size > 10 * tokens


# The sessions -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sentence:
    where: str
    kind: str
    text: str
    check: Callable[[str], bool]

    @property
    def holds(self) -> bool:
        return self.check(self.text)


def read_sentences(path: Path) -> Iterator[Sentence]:
    """Every sentence about a file's session, and about its subagents with files of their own, with what checks it."""
    session = turnscope.load(path)
    yield from judge(session, Log(path), path.stem)
    for agent in session.subagents:
        file = path.with_suffix("") / "subagents" / f"agent-{agent.id}.jsonl"
        if file.is_file():
            yield from judge(agent, Log(file), file.stem)


def judge(session: Session, log: Log, where: str) -> Iterator[Sentence]:
    """Every sentence about one session, with what checks it."""
    trace = turnscope.replay(session)
    view, broken = build_overview(trace), find_breaks(trace)
    assert [answer.id for answer in log.answers] == [request.id for request in session.requests], where
    breaks = [(marker.request, marker.what) for marker in mark_breaks(broken)]
    for marker in (*view.markers, *mark_breaks(broken)):
        yield Sentence(where, f"marker {marker.kind}", marker.what, partial(MARKERS[marker.kind], log, marker.request))
    cut = {marker.request for marker in view.markers if marker.kind == "unlogged"}
    for finding in rank_findings(trace, view, broken, most=99):
        check = partial(FINDINGS[finding.kind], log) if finding.kind in FINDINGS else partial(check_unlogged_cut, log, cut)
        check = partial(check_cache, log, breaks) if finding.kind == "cache" else check
        yield Sentence(where, f"finding {finding.kind}", finding.text, check)
    for note in session.notes:
        if check_note(log, note.line, note.what) is not None:
            yield Sentence(where, "note", note.what, lambda text, line=note.line: check_note(log, line, text) is True)


def make_variants(folder: Path, target: Path) -> Iterator[Path]:
    """The files as other real ones are: other models, an hour's cache, pauses, few requests, a beginning in another file."""
    clearing, errors, plain = (
        log_variants.read_lines(folder / f"{name}.jsonl") for name in (f"entire-{OPEN[2]}", f"entire-{OPEN[1]}", PLAIN)
    )
    hour = log_variants.write_for_an_hour(plain)
    made = {
        "late-clearing": log_variants.begin_late(clearing, 8),
        "late-errors": log_variants.begin_late(errors, 8),
        "late-plain": log_variants.begin_late(plain, 8),
        "few": log_variants.take_first(errors, 7),
        "hour": hour,
        "hour-and-pause": log_variants.pause(hour, 30, 7_200),
        "opus-4": log_variants.rename_model(clearing, "claude-opus-4-20250514"),
        "haiku": log_variants.rename_model(errors, "claude-haiku-4-5-20251001"),
        "bedrock": log_variants.rename_model(clearing, "us.anthropic.claude-opus-4-5-20251101-v1:0"),
        "switched": log_variants.rename_model(log_variants.pause(clearing, 5, 0), "claude-opus-4-6", 5),
        "off": log_variants.read_nothing(clearing, 20),
        "full": log_variants.add_to_prompts(clearing, 60_000, range(99)),
        "unexplained": log_variants.add_to_prompts(clearing, 60_000, range(5, 57, 6)),
        "thinking": log_variants.think_more(log_variants.take_first(clearing, 35), 40),
    }
    for name, lines in made.items():
        yield log_variants.write_lines(lines, target / f"{name}.jsonl")
    own, agents = log_variants.split_sidechains(log_variants.read_lines(folder / "dkimuson-inline-sidechains.jsonl"))
    (target / "split" / "subagents").mkdir(parents=True)
    for name, lines in agents.items():
        log_variants.write_lines(lines, target / "split" / "subagents" / f"agent-{name}.jsonl")
    yield log_variants.write_lines(own, target / "split.jsonl")


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> list[Sentence]:
    folder = shared("data", "open", "claude-code")
    files = [folder / f"entire-{name}.jsonl" for name in OPEN]
    files += [folder / f"{PLAIN}.jsonl", *sorted((folder / "worktrees").glob("*.jsonl"))]
    files += make_variants(folder, tmp_path_factory.mktemp("variants"))
    found = [each for path in files for each in read_sentences(path)]
    for run in ("A", "B2-acwindow100k", "C", "D-tui", "E-raw"):
        with open_run(shared("data", "wire", "claude", run)) as recorded:
            for path in sorted(recorded.transcripts.rglob("*.jsonl")):
                if path.parent.name not in ("subagents", "raw"):
                    found += read_sentences(path)
    return found


@pytest.mark.thorough
def test_every_sentence_about_real_sessions_is_true(sentences: list[Sentence]) -> None:
    wrong = [each for each in sentences if not each.holds]
    assert not wrong, "\n".join(f"{each.where}, {each.kind}: {each.text}" for each in wrong)


def test_hundreds_of_sentences_of_all_kinds_were_checked(sentences: list[Sentence]) -> None:
    kinds = Counter(each.kind for each in sentences)
    assert len(sentences) >= LEAST
    assert MARKERS.keys() == EVENTS.keys() - NEVER
    assert {f"marker {kind}" for kind in MARKERS} <= kinds.keys()
    assert {f"finding {kind}" for kind in (*FINDINGS, "cache", "unlogged")} <= kinds.keys()
    causes = {found[1] for each in sentences if (found := re.match(r"cache miss \((\w+)\)", each.text))}
    assert causes == {"compaction", "edit", "thinking", "model", "static", "idle", "off", "unknown"}
    assert kinds["note"] >= 10


def test_a_sentence_that_is_not_true_is_found(tmp_path: Path) -> None:
    def usage(read: int, written: int) -> dict[str, int]:
        counts = {"cache_read_input_tokens": read, "cache_creation_input_tokens": written}
        return {"input_tokens": 3, "output_tokens": 9} | counts

    lines: list[dict[str, Any]] = []
    for n, (read, written, minute) in enumerate([(0, 50_000, 0), (0, 50_500, 12), (50_500, 100, 13)]):
        prompt = {"type": "user", "message": {"content": f"prompt {n}"}, "timestamp": f"2026-01-02T03:{minute:02}:00Z"}
        said = {"id": f"m{n}", "model": "claude-opus-4-5", "content": [], "usage": usage(read, written)}
        answer = {"type": "assistant", "message": said, "timestamp": f"2026-01-02T03:{minute:02}:30Z"}
        lines += [{**prompt, "uuid": f"u{n}"}, {**answer, "uuid": f"a{n}"}]
    path = tmp_path / "made-up.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    log = Log(path)
    idle = "cache miss (idle): 12 minutes passed since the answer before, and an entry lives 5 minutes after its last use; "
    figures = "0 of 50,000 cached tokens were read"
    assert check_break(log, 1, idle + figures)
    assert not check_break(log, 1, idle + "0 of 49,000 cached tokens were read")
    assert not check_break(log, 1, idle.replace("12", "13") + figures)
    assert not check_break(
        log,
        2,
        "cache miss (idle): 30 s passed since the answer before, and an entry lives 5 minutes; "
        "0 of 50,500 cached tokens were read",
    )
    cold = "The cache expired at request 2 (03:12 UTC) after 12 idle minutes: $0.29 extra to send 50k tokens again."
    breaks = [(1, idle + figures)]
    assert check_cache(log, breaks, cold)
    for wrong in (cold.replace("0.29", "0.31"), cold.replace("50k", "53k"), cold.replace("03:12", "03:13")):
        assert not check_cache(log, breaks, wrong)
    assert not check_bill(log, "Tool results are 60 % of the input bill: $0.60 of $1.00; request 3 paid the most of it, $0.30.")
    assert check_note(log, 0, "1 answers record fewer output tokens than their text can have") is False


def change_numbers(text: str) -> Iterator[str]:
    """The sentence with one of its numbers made a third larger, each in turn."""
    for found in re.finditer(r"\d[\d,]*(?:\.\d+)?", text):
        number = float(found[0].replace(",", ""))
        larger = f"{number * 4 / 3 + 1:,.2f}" if "." in found[0] else f"{round(number * 4 / 3) + 1:,}"
        yield text[: found.start()] + larger + text[found.end() :]


def test_most_sentences_are_found_wrong_where_one_of_their_numbers_is(sentences: list[Sentence]) -> None:
    """So that the checks mean something: a check that takes any number would pass the test above as well."""

    def passes(each: Sentence, text: str) -> bool:
        try:
            return each.check(text)
        except (AssertionError, AttributeError, IndexError, KeyError, StopIteration, ValueError):
            return False

    changed = [(each, text) for each in sentences for text in change_numbers(each.text)]
    passed = Counter(each.kind for each, text in changed if passes(each, text))
    assert passed.total() < 0.1 * len(changed), passed.most_common()
