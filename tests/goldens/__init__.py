"""Cases whose expected outputs came from running the original tools: `python -m tests.goldens [DIR]`.

One module per system in this folder defines `SYSTEM` and `run(case, file) -> dict`, which gives what `case["expect"]` should
hold. Kinds that are a whole preparation build a session and go through `turnscope.replay`; helper kinds call the very function
that the rule calls. Cases that are not met on purpose stand in the module's `DEPARTS` with their reason.
"""

from __future__ import annotations

import importlib
import json
import math
import pkgutil
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DEFAULT = ROOT.parent / "shared" / "goldens"
OWN = Path(__file__).with_name("own")  # worked out by hand from what is documented of each system, or by running it
TOLERANCE = 1e-6  # for numbers that are floats in the original


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case. `wrong` is "" where it passes, else what differs; `departs` the reason where we differ on purpose."""

    system: str
    case: str
    kind: str
    wrong: str
    departs: str = ""


def adapters() -> Mapping[str, ModuleType]:
    """Adapter modules by the name of the system that they port."""
    names = [m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_")]
    found = (importlib.import_module(f"{__name__}.{name}") for name in names)
    return {module.SYSTEM: module for module in found if hasattr(module, "SYSTEM")}


def cases(folder: Path) -> Iterator[tuple[ModuleType, dict[str, Any], dict[str, Any]]]:
    """Every case of every ported system in `folder`, as `judge` takes it: adapter, case, file."""
    known = adapters()
    for path in sorted(folder.glob("*.json")):
        file = json.loads(path.read_text(encoding="utf-8"))
        module = known.get(file["system"])
        for case in file["cases"] if module else ():
            yield module, case, file


def outcomes(folder: Path) -> Iterator[Outcome]:
    """What becomes of every case of every ported system in `folder`."""
    return (judge(*case) for case in cases(folder))


def judge(module: ModuleType, case: dict[str, Any], file: dict[str, Any]) -> Outcome:
    """Run one case against what the original gave."""
    try:
        wrong = difference(case["expect"], module.run(case, file))
    except Exception:  # noqa: BLE001 - whatever the port raises is a failed case, and the run goes on
        wrong = traceback.format_exc(limit=-3)
    return Outcome(file["system"], case["id"], case["kind"], wrong, getattr(module, "DEPARTS", {}).get(case["id"], ""))


def difference(expect: Any, got: Any, path: str = "") -> str:
    """The first place where two values differ; "" where they are equal, floats within `TOLERANCE`."""
    numbers = isinstance(expect, (int, float)) and isinstance(got, (int, float))
    if numbers and not isinstance(expect, bool) and not isinstance(got, bool):
        same = (
            math.isclose(expect, got, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
            if float in (type(expect), type(got))
            else expect == got
        )
        return "" if same else f"{path or 'value'}: expected {expect!r}, got {got!r}"
    if isinstance(expect, dict) and isinstance(got, dict):
        for key in [*expect, *(k for k in got if k not in expect)]:
            if key not in got or key not in expect:
                return f"{path}.{key}: {'missing' if key not in got else 'not expected: ' + repr(got[key])[:200]}"
            if wrong := difference(expect[key], got[key], f"{path}.{key}"):
                return wrong
        return ""
    if isinstance(expect, list) and isinstance(got, (list, tuple)):
        for i, (a, b) in enumerate(zip(expect, got, strict=False)):
            if wrong := difference(a, b, f"{path}[{i}]"):
                return wrong
        return (
            ""
            if len(expect) == len(got)
            else f"{path}: expected {len(expect)} items {expect!r:.300}, got {len(got)} {got!r:.300}"
        )
    return "" if expect == got and type(expect) is type(got) else f"{path}: expected {expect!r:.300}, got {got!r:.300}"
