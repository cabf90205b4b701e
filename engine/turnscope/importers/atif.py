"""ATIF trajectories, the interchange form of Harbor: `{schema_version: "ATIF-v1.x", agent, steps, final_metrics}`.

A step of the agent is one answer with the results of its calls, which may name none. Longer
than a mapping because of those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from turnscope.importers import Importer
from turnscope.reading.calls import as_text, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows, join_blocks, make_call, make_result, make_thinking
from turnscope.reading.messages import convert_content, convert_tool
from turnscope.reading.nodes import Node, NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.reading.usage import convert_usage
from turnscope.session.builder import Builder
from turnscope.session.thread import Thread
from turnscope.session.usage import parse_usd

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
        if isinstance(document.get("agent"), dict) and "step_id" in as_mapping(document["steps"][:1] and document["steps"][0])
        else 0
    )


def read(source: Source, _entry: Entry) -> Thread:
    document = as_mapping(source.document)
    agent, final = as_mapping(document.get("agent")), as_mapping(document.get("final_metrics"))
    about: dict[str, Any] = {
        "agent": agent.get("name"),
        "version": agent.get("version"),
        "session_id": document.get("session_id"),
    }
    builder, passed = Builder(source.path.stem, NAME, **about), SkippedRecords()
    cost = parse_usd(final.get("total_cost_usd"))
    if cost:
        builder.about["run_usd"] = cost
        builder.add_note("info", 0, f"the log reports the run's cost: {cost} USD")
    tools = [convert_tool(tool) for tool in as_rows(agent.get("tool_definitions"))]
    lead = [NodeMessage("tools", tools, "system")] if tools else []
    nodes = list(_make_nodes(as_rows(document.get("steps")), as_text(agent.get("model_name")), passed))
    passed.add_notes(builder)
    return build_thread(builder, nodes, lead=lead)


def _make_nodes(steps: list[Mapping[str, Any]], model: str, passed: SkippedRecords) -> Iterator[Node]:
    before: float | None = None
    for number, step in enumerate(steps):
        at, content = parse_time(step.get("timestamp")), convert_content(step.get("message"))
        node = Node(str(number), None, [], at)
        source = step.get("source")
        if source == "agent":
            uses = [
                make_call(as_text(use.get("tool_call_id")), as_text(use.get("function_name")), use.get("arguments"))
                for use in as_rows(step.get("tool_calls"))
            ]
            blocks = [*make_thinking(as_text(step.get("reasoning_content"))), *content, *uses]
            node.messages = [
                NodeMessage("assistant" if blocks else "", blocks, request={"sent_at": before, **_make_request(step, model)})
            ]
            node.messages += _convert_observation(step, [use["id"] for use in uses])
        elif source in ("user", "system"):
            system = source == "system"
            node.messages = [
                NodeMessage(
                    "system" if system else "user",
                    join_blocks(content),
                    "system" if system else "prompt",
                    fence=system and number > 0,
                )
            ]
        else:
            passed.add(f"step of {source}", step)
        before = at
        yield node


def _make_request(step: Mapping[str, Any], model: str) -> dict[str, Any]:
    metrics = as_mapping(step.get("metrics"))
    return {
        "model": as_text(step.get("model_name")) or model,
        "usage": convert_usage(metrics),
        "logged_usd": parse_usd(metrics.get("cost_usd")),
    }


def _convert_observation(step: Mapping[str, Any], ids: list[Any]) -> list[NodeMessage]:
    """What came back: results of calls, and what belongs to none."""
    found = as_rows(as_mapping(step.get("observation")).get("results"))
    reported = [
        (as_text(row.get("source_call_id")) or (ids[0] if len(ids) == 1 else ""), convert_content(row.get("content")))
        for row in found
    ]
    results = [make_result(id, join_blocks(blocks)) for id, blocks in reported if id]
    others = [block for id, blocks in reported if not id for block in blocks]
    return [
        *([NodeMessage("user", results, "tool")] if results else []),
        *([NodeMessage("user", join_blocks(others), "meta")] if others else []),
    ]


IMPORTER = Importer(
    NAME,
    "ATIF trajectory (JSON)",
    sniff,
    read,
    wants="`schema_version` ATIF-v1",
    right="each step's calls and results; usage as logged",
    version=2,
)
