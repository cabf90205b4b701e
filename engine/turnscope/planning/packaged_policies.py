"""Policies that packages bring: the TOML files in the folder of a module that an entry point of `turnscope.policies` names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import ModuleType

from turnscope.errors import ExtensionError
from turnscope.extensions import find_extensions, load_extension, report_problem

SHIPPED = Path(__file__).parent / "policies"


@dataclass(frozen=True, slots=True)
class PackagedPolicy:
    """A policy's TOML text, and the package that brings it."""

    text: str
    package: str


@cache
def find_packaged_policies() -> Mapping[str, PackagedPolicy]:
    """Policies of packages by their files' names. One that is called as a shipped policy is reported and left out."""
    shipped = {path.stem for path in SHIPPED.glob("*.toml")}
    found: dict[str, PackagedPolicy] = {}
    for extension in find_extensions("policies"):
        try:
            texts = load_extension(extension, "policies", _read_texts)
        except ExtensionError:  # it is reported
            continue
        for name, text in texts:
            if name in shipped or name in found:
                first = found[name].package if name in found else "Turnscope itself"
                sentence = f"The policy {name!r} of {extension.source} is left out: {first} has one of that name."
                report_problem(f"policy {name} {extension.source}", sentence)
            else:
                found[name] = PackagedPolicy(text, extension.source)
    return found


def _read_texts(module: ModuleType) -> list[tuple[str, str]]:
    """The TOML files in a module's folder, by name."""
    found = (file for file in files(module).iterdir() if file.name.endswith(".toml") and file.is_file())
    return sorted((file.name.removesuffix(".toml"), file.read_text(encoding="utf-8")) for file in found)
