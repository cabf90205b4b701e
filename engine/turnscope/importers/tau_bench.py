"""Runs of tau-bench: a list of trajectories (`traj`, in OpenAI's shape), or tau2's `simulations`. A run is a session.

From the schema and what was seen of real lists; no real sample was at hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text
from turnscope.reading.content_blocks import as_mapping
from turnscope.reading.listing import get_conversation, make_entries, peek_first
from turnscope.reading.messages import make_nodes
from turnscope.reading.nodes import SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.reading.usage import convert_usage
from turnscope.session.builder import Builder
from turnscope.session.thread import Thread
from turnscope.session.usage import parse_usd

NAME = "tau-bench"
ABOUT = ("task_id", "trial", "reward", "termination_reason", "seed")


def sniff(source: Source) -> int:
    if source.kind != "file":
        return 0
    head = peek_first(source, "simulations")
    run = isinstance(head.get("traj"), list) and {"task_id", "reward"} & head.keys()
    simulated = (
        isinstance(head.get("messages"), list) and "task_id" in head and {"reward_info", "termination_reason"} & head.keys()
    )
    return 90 if run or simulated else 0


def list_entries(source: Source) -> Iterator[Entry]:
    return make_entries(source, _make_entry, "simulations")


def _make_entry(run: Mapping[str, Any]) -> Entry:
    trial = f".{run['trial']}" if isinstance(run.get("trial"), int) else ""
    reward = run.get("reward", as_mapping(run.get("reward_info")).get("reward"))
    return Entry(f"{run.get('task_id')}{trial}", f"task {run.get('task_id')}{trial}: reward {reward}")


def read(source: Source, entry: Entry) -> Thread:
    run = get_conversation(source, entry, "simulations")
    about = {key: run[key] for key in ABOUT if run.get(key) is not None}
    builder, passed = (
        Builder(f"{source.path.stem}/{entry.id}" if entry.id else source.path.stem, NAME, _make_entry(run).title),
        SkippedRecords(),
    )
    builder.about |= about  # a reward of 0 is one
    cost = parse_usd(run.get("agent_cost")) or parse_usd(as_mapping(run.get("info")).get("total_cost"))
    if cost:
        builder.about["run_usd"] = cost
        builder.add_note("info", 0, f"the log tells the run's cost: {cost} USD")
    agent = as_mapping(as_mapping(as_mapping(source.document).get("info")).get("agent_info"))
    model = as_text(agent.get("llm"))

    def request(message: Mapping[str, Any]) -> dict[str, Any]:
        used = convert_usage(message.get("usage"))
        return {"model": as_text(message.get("model")) or model, "usage": used, "logged_usd": parse_usd(message.get("cost"))}

    messages = run.get("traj") or run.get("messages")
    nodes = list(make_nodes(messages if isinstance(messages, list) else [], request, passed))
    passed.add_notes(builder)
    return build_thread(builder, nodes)


IMPORTER = Importer(
    NAME,
    "tau-bench runs (JSON)",
    sniff,
    read,
    list_entries,
    wants="list of runs with `traj`, nor `simulations`",
    right="a session for each run",
    sample=False,
    version=3,
)
