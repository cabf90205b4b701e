"""The list of policies in the browser: grouped, found by typing, names whole."""

from __future__ import annotations

from pathlib import Path

from turnscope import library
from turnscope.views import policy_groups, policy_pages

from pages.parts import theme
from pages.parts.components import define_component
from pages.parts.formats import shorten

_HERE = Path(__file__).parent / "browser"
_picker = define_component(
    "turnscope_picker",
    html=theme.read_files(_HERE, "picker.html"),
    css=theme.read_files(_HERE, "picker.css"),
    js=theme.read_files(_HERE, "picker.js"),
)


def draw(known: library.PolicyCatalog, name: str) -> str:
    """Draw the list; gives the name that was just chosen, "" where none was.

    Args:
        known: all policies.
        name: name of the one that is in force.
    """
    groups = [
        {"title": group.title, "policies": [_build_row(known, each) for each in group.names]}
        for group in policy_groups.group_policies(known)
    ]
    chosen = _picker(key=f"policy.pick.{name}", data={"groups": groups, "now": name}, on_chosen_change=lambda: None)
    return str(getattr(chosen, "chosen", None) or "")


def _build_row(known: library.PolicyCatalog, name: str) -> dict[str, str]:
    policy = known.policies[name]
    marks = {
        "doc": shorten(policy_pages.get_first_sentence(policy.doc), 170),
        "source": policy.source,
        "sure": policy_groups.summarize_fidelity(policy),
    }
    return {"name": name, "title": policy.title, **marks}
