"""What the golden cases call directly is what the rules call: no function is kept for its cases alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.goldens import ROOT

# What whole preparations of an original need and no rule does: the rules stand on the helpers below them.
ALONE = {
    # builds a body, which rendering does here; with its texts, and the compaction that is stored beside a history
    "cline_sdk": {"Builder", "compute_budget", "apply_stored", "OUTDATED", "NO_RESULT"},
    "lobehub_2026": {"read_reasoning"},  # a field that the original leaves on messages; `test_lobehub_policy` replays the cases
    "jan_2026": {"convert_to_model"},  # the AI SDK's form; `test_jan_policy` replays the cases
    # files that are images, which an importer makes parts; `test_openwebui_policy` replays the cases
    "openwebui_prepare": {"insert_images"},
    # over lists with the originals' counts; `test_continue_policy` replays the cases
    "continue_ide": {"compile_messages", "RefusalError"},
    # single strategies over lists of messages, with their texts; the rule edits an envelope
    "inspect_ai": {"build_strategy", "CALL_REMOVED", "SAVED"},
    # a turn of its loop, stored marks and texts and all; `test_opencode_policy` replays the cases
    "opencode": {"Reply", "Conversation", "answer_prompt", "CONTINUE", "CONTINUE_AFTER_MEDIA", "MEDIA"},
    # a stored view of events, which no session holds, and requests for condensations; `test_openhands_policy` replays
    "openhands_legacy": {"build_view"},
    "openhands_sdk": {"build_view"},
    "swe_agent": {"process"},  # over lists; `test_swe_agent_policy` replays the cases
}
ENGINE = ROOT / "engine" / "turnscope"
PORTS = "turnscope.ports"
ADAPTERS = sorted(path for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("test_"))


def iter_used(path: Path) -> Iterator[str]:
    """Names that a file takes from the ports: imported by name, or read off an imported module."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PORTS}."):
            for alias in node.names:  # a module of the tool's folder, or a name of one of its modules
                if (ENGINE.parent / Path(*node.module.split("."), f"{alias.name}.py")).is_file():
                    modules.add(alias.asname or alias.name)
                else:
                    yield alias.name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            yield node.attr


def names(node: ast.AST) -> set[str]:
    """Everything that a piece of code refers to, by its last name."""
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return found | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


@cache
def find_reached() -> set[str]:
    """Names that rules refer to, and those that functions of the ports that they reach refer to in turn."""
    found = {name for path in (ENGINE / "rules").rglob("*.py") for name in names(ast.parse(path.read_text(encoding="utf-8")))}
    held = [node for path in (ENGINE / "ports").rglob("*.py") for node in ast.parse(path.read_text(encoding="utf-8")).body]
    defined: dict[str, list[ast.AST]] = {}
    for node in held:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):  # two tools may have functions of one name
            defined.setdefault(node.name, []).append(node)
    todo = [name for name in found if name in defined]
    while todo:
        new = set().union(*map(names, defined.pop(todo.pop()))) - found
        found |= new
        todo += [name for name in new if name in defined]
    return found


@pytest.mark.parametrize("path", ADAPTERS, ids=lambda path: path.stem)
def test_what_an_adapter_calls_is_reached_from_a_rule(path: Path) -> None:
    assert set(iter_used(path)) - find_reached() == ALONE.get(path.stem, set())


def test_the_scan_finds_what_adapters_use() -> None:
    everything = {name for path in ADAPTERS for name in iter_used(path)}
    assert {"truncate", "select_effective"} <= everything <= find_reached().union(*ALONE.values())
