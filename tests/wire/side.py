"""What an agent sends beside its conversation: titles, summaries, loop checks, counts; how often, of what size, for how much.

`python -m tests.wire FOLDER --side`. A side request is one that the server knew by its kind. It is in the log where the session
holds a request that was billed the same, beside those of the conversation.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from turnscope.pricing.prices import PRICES
from turnscope.reading.usage import convert_usage
from turnscope.session.model import Request, Usage
from turnscope.views.bill import charge
from turnscope.views.total_cost import sum_charges

from tests.wire import MAIN, Run
from tests.wire.compare import pair_requests, rebuilt

STAND_IN = "claude-sonnet-4-5"  # whose rates price a model that has none
KINDS = {"json": "loop check", "count_tokens": "count"}  # of the server -> what it is


@dataclass(frozen=True)
class Side:
    """Requests of one kind in a run: how many, in how many of them the log has a part, prompt and output tokens, and USD."""

    kind: str
    requests: int
    logged: int
    prompt: int
    output: int
    usd: Decimal


def measure(run: Run) -> tuple[Side, ...]:
    """The kinds of requests of a run, those of the conversation first. Counts are free, and have no usage."""
    answered = [row for row in run.rows if row["kind"] != "client-aborted"]
    logged = {row["n"] for row, found in pair_requests(answered, list(rebuilt(run.transcripts))) if found}
    kinds: Mapping[str, list[dict[str, Any]]] = defaultdict(list)
    for row in answered:
        kinds["conversation" if row["kind"] in MAIN else KINDS.get(row["kind"], row["kind"])].append(row)
    return tuple(
        measure_kind(kind, rows, logged) for kind, rows in sorted(kinds.items(), key=lambda one: one[0] != "conversation")
    )


def measure_kind(kind: str, rows: Sequence[dict[str, Any]], logged: set[int]) -> Side:
    """The requests of one kind, summed."""
    used = [(find_model(row), usage) for row in rows if (usage := read_usage(row))]
    requests = [Request(n, 0, 0, 0, find_priced(model), usage) for n, (model, usage) in enumerate(used)]
    share = sum_charges(1, ((request, charge(request, PRICES, [], len)) for request in requests))
    told = sum(row["n"] in logged for row in rows)
    return Side(kind, len(rows), told, share.prompt, share.output, share.usd or Decimal())


def read_usage(row: Mapping[str, Any]) -> Usage | None:
    """What a request was billed, whichever API it used; None where the server said nothing, as of a count."""
    usage = (row.get("response") or {}).get("usage") or {}
    if "promptTokenCount" in usage:
        output = usage.get("candidatesTokenCount", 0) + usage.get("thoughtsTokenCount", 0)
        cached = {"cached_tokens": usage.get("cachedContentTokenCount", 0)}
        usage = {"prompt_tokens": usage["promptTokenCount"], "completion_tokens": output, "prompt_tokens_details": cached}
    return convert_usage(usage)


def find_model(row: Mapping[str, Any]) -> str:
    """The model of a request: in its body, or in its path."""
    in_path = re.search(r"/models/([^:]+):", row["path"])
    return str((row["body"] or {}).get("model") or (in_path[1] if in_path else ""))


def find_priced(model: str) -> str:
    """The model where it has a list price; else the stand-in."""
    return model if PRICES.compute_cost(Usage(1), model) else STAND_IN


def format_side(name: str, run: Run) -> Iterator[str]:
    """A line per kind, with its share of all that the run cost."""
    found = measure(run)
    whole = sum((side.usd for side in found), Decimal()) or Decimal(1)
    for side in found:
        numbers = f"{side.requests:>9}{side.logged:>8}{side.prompt:>12,}{side.output:>9,}"
        yield f"{name:<28}{side.kind:<14}{numbers}{side.usd:>10.4f}{side.usd / whole:>8.1%}"


HEADING = f"{'run':<28}{'kind':<14}{'requests':>9}{'in log':>8}{'prompt':>12}{'output':>9}{'USD':>10}{'share':>8}"
