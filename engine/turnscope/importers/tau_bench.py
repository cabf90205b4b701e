"""Runs of tau-bench: a list of trajectories (`traj`, in OpenAI's shape), or tau2's `simulations`. A run is a session.

tau2 keeps its runs in one file, or in a folder `simulations` next to `results.json`. What the simulated user did with tools of
its own is not what the agent saw. Longer than a mapping for that folder and for runs with voices, which are logged in ticks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text
from turnscope.reading.content_blocks import as_mapping, as_rows
from turnscope.reading.listing import get_conversation, make_entries, peek_first
from turnscope.reading.messages import make_nodes
from turnscope.reading.nodes import NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.reading.usage import convert_usage
from turnscope.session.builder import Builder
from turnscope.session.thread import Thread
from turnscope.session.usage import parse_usd

NAME = "tau-bench"
ABOUT = ("task_id", "trial", "reward", "termination_reason", "seed", "mode")
Run = Mapping[str, Any]


def _is_run(head: Run) -> bool:
    simulated = any(isinstance(head.get(key), list) for key in ("messages", "ticks")) and "task_id" in head
    traced = isinstance(head.get("traj"), list) and {"task_id", "reward"} & head.keys()
    return bool(traced or (simulated and {"reward_info", "termination_reason"} & head.keys()))


def sniff(source: Source) -> int:
    head = peek_first(source, "simulations") if source.kind == "file" else {}
    return 90 if _is_run(head) or (isinstance(head.get("tasks"), list) and _get_info(head).get("environment_info")) else 0


def _get_info(document: Any) -> Run:
    return as_mapping(as_mapping(document).get("info"))


def find_runs(source: Source) -> list[Source]:
    """Find the runs in the folder next to a file of results."""
    apart = source.kind == "file" and isinstance(source.document, dict) and "tasks" in source.document
    return source.find_siblings("simulations/*.json") if apart and not source.document.get("simulations") else []


def list_entries(source: Source) -> Iterator[Entry]:
    aside = find_runs(source)
    if not aside:
        yield from make_entries(source, _make_entry, "simulations")
    for one in aside:
        yield Entry(one.path.stem, _make_entry(as_mapping(one.document)).title, one.modified_at, one.size)


def _make_entry(run: Run) -> Entry:
    if "task_id" not in run:
        return Entry()
    trial = f".{run['trial']}" if isinstance(run.get("trial"), int) else ""
    reward = run.get("reward", as_mapping(run.get("reward_info")).get("reward"))
    return Entry(f"{run.get('task_id')}{trial}", f"task {run.get('task_id')}{trial}: reward {reward}")


def read(source: Source, entry: Entry) -> Thread:
    aside = next((one for one in find_runs(source) if one.path.stem == entry.id), None)
    run = as_mapping(aside.document) if aside else get_conversation(source, entry, "simulations")
    info = _get_info(source.document)
    if not info and (results := source.open_sibling("../results.json")):
        info = _get_info(results.document)
    name, passed = f"{source.path.stem}/{entry.id}" if entry.id else source.path.stem, SkippedRecords()
    builder = Builder(name, NAME, _make_entry(run).title)
    builder.about |= {key: run[key] for key in ABOUT if run.get(key) is not None}  # a reward of 0 is one
    cost = parse_usd(run.get("agent_cost")) or parse_usd(as_mapping(run.get("info")).get("total_cost"))
    if cost:
        builder.about["run_usd"] = cost
        builder.add_note("info", 0, f"the log reports the run's cost: {cost} USD")
    model = as_text(as_mapping(info.get("agent_info")).get("llm"))

    def request(message: Mapping[str, Any]) -> dict[str, Any]:
        used = convert_usage(message.get("usage"))
        return {"model": as_text(message.get("model")) or model, "usage": used, "logged_usd": parse_usd(message.get("cost"))}

    messages = run.get("traj") or run.get("messages") or _join_ticks(as_rows(run.get("ticks")))
    seen = [one for one in messages if _saw(one, passed)] if isinstance(messages, list) else []
    policy = as_text(as_mapping(info.get("environment_info")).get("policy"))
    if "task_id" not in run:
        builder.add_note(
            "warning", 0, "no run is in this file, and none in a folder `simulations` next to it: the policy alone"
        )
    led = any(as_mapping(one).get("role") == "system" for one in seen)
    lead = [NodeMessage("system", policy, "system")] if policy and not led else []
    nodes = list(make_nodes(seen, request, passed))
    passed.add_notes(builder)
    return build_thread(builder, nodes, lead=lead)


def _saw(message: Any, passed: SkippedRecords) -> bool:
    """Whether the agent saw a message."""
    fields = as_mapping(message)
    apart = fields.get("requestor") == "user" or (fields.get("role") == "user" and fields.get("tool_calls"))
    if apart:
        passed.add("what the simulated user did with its tools", message)
    return not apart


def _join_ticks(ticks: Sequence[Run]) -> list[Run]:
    """Join the words of agent and user tick by tick, with the agent's calls between."""
    found: list[dict[str, Any]] = []
    for tick in ticks:
        for key in ("user_chunk", "agent_chunk"):
            chunk = as_mapping(tick.get(key))
            role, text, last = as_text(chunk.get("role")), as_text(chunk.get("content")), found[-1] if found else {}
            if text and last.get("role") == role and not last.get("tool_calls"):
                last["content"] += text
            elif text:
                found.append({"role": role, "content": text, "timestamp": chunk.get("timestamp") or tick.get("timestamp")})
        if calls := as_rows(tick.get("agent_tool_calls")):
            found.append({"role": "assistant", "content": "", "tool_calls": calls, "timestamp": tick.get("timestamp")})
        found += [{**one, "role": "tool"} for one in as_rows(tick.get("agent_tool_results"))]
    return [one for one in found if one["role"] in ("user", "assistant", "tool")]


IMPORTER = Importer(
    NAME,
    "tau-bench runs (JSON)",
    sniff,
    read,
    list_entries,
    related=find_runs,
    version=4,
    suffixes=(".json",),
    wants="list of runs with `traj`, nor `simulations`",
    right="a session for each run, with its policy; what the agent did not see is left out",
)
