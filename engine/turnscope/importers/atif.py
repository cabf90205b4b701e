"""ATIF trajectories, the interchange form of Harbor: `{schema_version: "ATIF-v1.x", agent, steps, final_metrics}`.

A step of the agent is one answer with the results of its calls, which may name none. Longer
than a mapping because of those. From the schema; no real sample was at hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, when
from turnscope.reading.messages import blocks_of, tool_of
from turnscope.reading.nodes import Node, Passed, Said, thread
from turnscope.reading.parts import call, joined, mapping, result, rows, thinking
from turnscope.reading.source import Entry, Source
from turnscope.reading.usage import counted
from turnscope.session.builder import Builder, parse_usd
from turnscope.session.thread import Thread

NAME = "atif"


def sniff(source: Source) -> int:
    document = source.document if source.kind == "file" else None
    if not isinstance(document, dict) or not isinstance(document.get("steps"), list):
        return 0
    named = as_text(document.get("schema_version")).upper().startswith("ATIF")
    return (
        95
        if named
        else 80
        if isinstance(document.get("agent"), dict) and "step_id" in mapping(document["steps"][:1] and document["steps"][0])
        else 0
    )


def read(source: Source, _entry: Entry) -> Thread:
    document = mapping(source.document)
    agent, final = mapping(document.get("agent")), mapping(document.get("final_metrics"))
    about: dict[str, Any] = {
        "agent": agent.get("name"),
        "version": agent.get("version"),
        "session_id": document.get("session_id"),
    }
    builder, passed = Builder(source.path.stem, NAME, **about), Passed()
    cost = parse_usd(final.get("total_cost_usd"))
    if cost:
        builder.about["run_usd"] = cost
        builder.add_note("info", 0, f"the log tells the run's cost: {cost} USD")
    tools = [tool_of(tool) for tool in rows(agent.get("tool_definitions"))]
    lead = [Said("tools", tools, "system")] if tools else []
    nodes = list(_make_nodes(rows(document.get("steps")), as_text(agent.get("model_name")), passed))
    passed.tell(builder)
    return thread(builder, nodes, lead=lead)


def _make_nodes(steps: list[Mapping[str, Any]], model: str, passed: Passed) -> Iterator[Node]:
    before: float | None = None
    for number, step in enumerate(steps):
        at, content = when(step.get("timestamp")), blocks_of(step.get("message"))
        node = Node(str(number), None, [], at)
        source = step.get("source")
        if source == "agent":
            uses = [
                call(as_text(use.get("tool_call_id")), as_text(use.get("function_name")), use.get("arguments"))
                for use in rows(step.get("tool_calls"))
            ]
            blocks = [*thinking(as_text(step.get("reasoning_content"))), *content, *uses]
            node.said = [Said("assistant" if blocks else "", blocks, request={"sent_at": before, **_make_request(step, model)})]
            node.said += _convert_observation(step, [use["id"] for use in uses])
        elif source in ("user", "system"):
            system = source == "system"
            node.said = [
                Said(
                    "system" if system else "user",
                    joined(content),
                    "system" if system else "prompt",
                    fence=system and number > 0,
                )
            ]
        else:
            passed.add(f"step of {source}", step)
        before = at
        yield node


def _make_request(step: Mapping[str, Any], model: str) -> dict[str, Any]:
    metrics = mapping(step.get("metrics"))
    return {
        "model": as_text(step.get("model_name")) or model,
        "usage": counted(metrics),
        "logged_usd": parse_usd(metrics.get("cost_usd")),
    }


def _convert_observation(step: Mapping[str, Any], ids: list[Any]) -> list[Said]:
    """What came back: results of calls, and what belongs to none."""
    found = rows(mapping(step.get("observation")).get("results"))
    told = [
        (as_text(row.get("source_call_id")) or (ids[0] if len(ids) == 1 else ""), blocks_of(row.get("content")))
        for row in found
    ]
    results = [result(id, joined(blocks)) for id, blocks in told if id]
    others = [block for id, blocks in told if not id for block in blocks]
    return [*([Said("user", results, "tool")] if results else []), *([Said("user", joined(others), "meta")] if others else [])]


IMPORTER = Importer(
    NAME,
    "ATIF trajectory (JSON)",
    sniff,
    read,
    wants="`schema_version` ATIF-v1",
    right="each step's calls and results; usage as logged",
    sample=False,
    version=2,
)
