"""Writes everything in the repository that is generated: `python -m tests.regenerate [NAME ...] [--check]`.

Without a name it writes all. With `--check` it writes nothing: it says what is stale. Without names, either says what a format,
a rule or a policy lacks that a person has to write. Exit code 1 where something is left to do, 2 for an unknown name.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path

import msgspec
from turnscope.fleet.tables import format_dictionary
from turnscope.live.trial import TRIALS_FILE
from turnscope.planning.policy import OURS, list_policies, load
from turnscope.planning.policy_catalog import load_shipped
from turnscope.planning.rule_registry import find_rule_package, load_rules
from turnscope.reading.registry import find_importers
from turnscope.views import policy_pages
from turnscope.views.parameter_labels import LABELS, SHARED_LABELS
from turnscope.views.policy_figures import FILE as FIGURES_FILE
from turnscope.views.policy_groups import OTHERS

from tests import example_notebook, formats_table, policy_figures, trials

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "sample_sessions"
GUIDE = ROOT / "engine" / "turnscope" / "docs" / "adding.md"
FLEET = ROOT / "engine" / "turnscope" / "docs" / "fleet.md"
PICTURES = ROOT / "tests" / "pictures"
NEEDED = ("When to use it", "Loss", "Cost to build", "Source", "Fidelity")  # facts of a policy that its file has to give
Files = Mapping[Path, bytes]


def make_formats() -> Files:
    """The table of formats in the documentation, from what importers say of themselves."""
    return {formats_table.FORMATS: formats_table.make_page().encode()}


def make_policies() -> Files:
    """The page about all policies, from their files."""
    return {policy_pages.README: policy_pages.to_markdown(load_shipped()).encode()}


def make_trials() -> Files:
    """What each policy comes to in a chat. Takes some twenty seconds."""
    return {TRIALS_FILE: msgspec.json.format(msgspec.json.encode(trials.wrong(list_policies()))) + b"\n"}


def make_figures() -> Files:
    """What each policy comes to on the samples. Takes about a minute."""
    measured = policy_figures.measure(list_policies())
    rows = ",\n".join(f'"{name}": {msgspec.json.encode(figures).decode()}' for name, figures in measured.items())
    return {FIGURES_FILE: f"{{\n{rows}\n}}\n".encode()}


def make_samples() -> Files:
    """The sample sessions."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, str(SAMPLES / "make.py"), folder], check=True, capture_output=True, timeout=300)
        made = (path for path in Path(folder).rglob("*") if path.is_file())
        return {SAMPLES / path.relative_to(folder): path.read_bytes() for path in made}


def make_guide() -> Files:
    """The guide to adding things, with the files of the example package in it."""
    text = GUIDE.read_text(encoding="utf-8")
    for found in re.finditer(r"(<!-- file: (\S+) -->\n).*?(<!-- end of file -->)", text, re.DOTALL):
        begin, name, end = found.groups()
        kind = {".py": "python", ".toml": "toml"}[Path(name).suffix]
        content = (ROOT / name).read_text(encoding="utf-8")
        text = text.replace(found[0], f"{begin}\n```{kind}\n{content}```\n\n{end}")
    return {GUIDE: text.encode()}


def make_dictionary() -> Files:
    """The data dictionary of a fleet's tables, from their columns."""
    before, begin, after = FLEET.read_text(encoding="utf-8").partition("<!-- tables -->\n")
    end = "<!-- end of tables -->"
    return {FLEET: f"{before}{begin}\n{format_dictionary()}\n{end}{after.partition(end)[2]}".encode()}


def make_notebook() -> Files:
    """The example notebook of the documentation, executed."""
    return {example_notebook.NOTEBOOK: example_notebook.make_notebook()}


GENERATED: dict[str, Callable[[], Files]] = {
    "formats": make_formats,
    "guide": make_guide,
    "policies": make_policies,
    "trials": make_trials,
    "figures": make_figures,
    "samples": make_samples,
    "dictionary": make_dictionary,
    "notebook": make_notebook,
}


def find_lacks() -> Iterator[str]:
    """What formats, rules and policies lack that nobody can generate, a sentence each."""
    for importer in find_importers():
        for field in ("wants", "right"):
            if not importer.package and not getattr(importer, field):
                yield f"The format {importer.name} has no `{field}`: see `Importer`."
    for name, rule in load_rules().items():
        if find_rule_package(name):
            continue
        if not (PICTURES / f"{name}.txt").is_file():
            yield f"The rule {name} has no picture: write tests/pictures/{name}.txt."
        for param in fields(rule.params):
            if f"{name}.{param.name}" not in LABELS and param.name not in SHARED_LABELS:
                yield f"The parameter {name}.{param.name} has no words: add them to views/parameter_labels.py."
    for page in policy_pages.build_pages(load_shipped()):
        told = dict(page.facts)
        if page.group == OTHERS:
            yield f"The policy {page.name} belongs to no system: name it in SYSTEMS of views/policy_groups.py."
        policy = load(page.name)
        if policy.fidelity.startswith(OURS) and policy.rules and not {"paired", "prefix"} <= set(policy.guarantees):
            yield f'The policy {page.name} is ours and needs at least guarantees = ["paired", "prefix"].'
        for fact in NEEDED:
            if not told.get(fact):
                yield f"The policy {page.name} does not say: {fact}."


def find_stale(files: Files) -> Iterator[Path]:
    """Those files that hold something else, or are not there."""
    for path, data in files.items():
        if not path.is_file() or path.read_bytes() != data:
            yield path


def main(arguments: Sequence[str]) -> int:
    """Write what is stale, or say it. Gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.regenerate", description="Write what is generated.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(GENERATED)}; default: all")
    parser.add_argument("--check", action="store_true", help="write nothing, say what is stale or lacks something")
    given = parser.parse_args(arguments)
    if unknown := sorted(set(given.names) - set(GENERATED)):
        parser.error(f"there is no {unknown[0]!r}: the names are {', '.join(GENERATED)}")
    lacks = [] if given.names else list(find_lacks())
    stale = 0
    for name in given.names or GENERATED:
        files = GENERATED[name]()
        for path in find_stale(files):
            stale += 1
            shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            print(f"{name}: {shown} {'is stale' if given.check else 'written'}")
            if not given.check:
                path.write_bytes(files[path])
    print(*lacks, sep="\n", end="\n" if lacks else "")
    if not stale and not lacks:
        print("Nothing to do: all that is generated is as it would be made now.")
    return 1 if lacks or (given.check and stale) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
