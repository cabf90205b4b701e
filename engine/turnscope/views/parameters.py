"""A policy turned by hand: its parameters as a form shows them, changes as small as a link needs them, and a folder to keep it.

Holds values and the reading of parameter types; what a policy does is the rules' business. `save_policy` and `load_catalog`
touch the disk, and nothing outside the folder that they are given.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from turnscope.envelope.budget import FORMULAS
from turnscope.errors import PolicyError
from turnscope.planning import policy as policies
from turnscope.planning.policy import Policy, Step
from turnscope.session.model import JSON
from turnscope.views.parameter_labels import describe_parameter

FIRST_GROUPS = ("What happened", "Turnscope's own", "Yours")  # groups that come first
IDEAS, SEEDS, OTHERS = "One idea each, for learning", "Published patterns", "Other systems"  # and those that come last
SYSTEMS = {  # beginning of a policy's name -> the system that it does as; the longest that fits holds
    "chainreview": "ChainReview", "chatbot-ui": "Chatbot UI", "claude-code": "Claude Code", "cline": "Cline", "codex": "Codex",
    "continue": "Continue", "gemini-cli": "Gemini CLI", "goose": "goose", "inspect": "Inspect", "jan": "Jan",
    "langchain": "LangChain", "letta": "Letta", "librechat": "LibreChat", "litellm": "LiteLLM", "lobechat": "LobeChat",
    "lobehub": "LobeChat", "mini-swe-agent": "SWE-agent", "openai": "OpenAI", "opencode": "opencode", "openhands": "OpenHands",
    "openrouter": "OpenRouter", "openwebui": "Open WebUI", "roo": "Roo Code", "server": "Anthropic's server",
    "swe-agent": "SWE-agent", "context-aware-chat": SEEDS, "five-buckets": SEEDS, "half-in-pairs": SEEDS, "multi-turn": SEEDS,
    "reactive-75": SEEDS,
}  # fmt: skip
Kind = Literal["flag", "whole", "real", "text", "choice", "list", "table"]
NAME_PATTERN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,58}[a-z0-9])?")
_KINDS: Mapping[Any, Kind] = {bool: "flag", int: "whole", float: "real", str: "text", tuple: "list", Mapping: "table"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. `key`: `<group>.<field>`; `label`: what a person calls it, with its unit; `help`: one line.

    `choices`: of a `choice`; `optional`: it may be None.
    """

    key: str
    name: str
    label: str
    help: str
    kind: Kind
    value: JSON
    choices: tuple[str, ...] = ()
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters that belong together: the budget's, or those of one rule. `memory` is "" for the budget."""

    key: str
    title: str
    doc: str
    source: str
    memory: str
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True, slots=True)
class PolicyCatalog:
    """Policies by name, the built-in ones first, and what is wrong with files that could not be read."""

    policies: Mapping[str, Policy]
    own: frozenset[str]  # names of those from the user's folder
    problems: Mapping[str, PolicyError]


@dataclass(frozen=True, slots=True)
class PolicyGroup:
    """Policies that belong together, under a title for people; names in the order in which they are offered."""

    title: str
    names: tuple[str, ...]


def group_policies(shelf: PolicyCatalog) -> tuple[PolicyGroup, ...]:
    """All policies of a shelf in groups: what was sent, our own, the user's, each system's, patterns, single ideas."""
    found: dict[str, list[str]] = {title: [] for title in FIRST_GROUPS}
    systems = sorted({*SYSTEMS.values()} - {SEEDS}, key=str.lower)
    found |= {title: [] for title in (*systems, OTHERS, SEEDS, IDEAS)}
    for name, policy in sorted(shelf.policies.items(), key=lambda item: item[1].title.lower()):
        found[_find_group(name, policy, name in shelf.own)].append(name)
    return tuple(PolicyGroup(title, tuple(names)) for title, names in found.items() if names)


def _find_group(name: str, policy: Policy, own: bool) -> str:
    recorded, ours, users = FIRST_GROUPS
    if own:
        return users
    if name in ("as-recorded", "keep-everything"):
        return recorded
    begun = max((begin for begin in SYSTEMS if name.startswith(begin)), key=len, default="")
    if begun or not policy.fidelity.startswith(policies.OURS):
        return SYSTEMS.get(begun, OTHERS)
    return IDEAS if "for learning" in policy.fidelity else ours


def summarize_fidelity(policy: Policy) -> str:
    """How sure a policy is, in few words."""
    return policy.fidelity.split(":")[0].split(";")[0][:60]


def group_parameters(policy: Policy) -> tuple[Group, ...]:
    """Every parameter of a policy, the budget's first, then rule by rule. Rules are numbered from 1, as in the file."""
    budget = Group("budget", "Budget", "What a request may have.", "", "", _list_parameters("budget", "budget", policy.budget))
    rules = (
        Group(
            str(n),
            part.rule.name,
            part.rule.doc,
            part.rule.source,
            part.rule.memory,
            _list_parameters(str(n), part.rule.name, part.params),
        )
        for n, part in enumerate(policy.rules, 1)
    )
    return (budget, *rules)


def _list_parameters(group: str, rule: str, params: Any) -> tuple[Parameter, ...]:
    hints = get_type_hints(type(params), include_extras=True)
    return tuple(_build_parameter(group, rule, f.name, hints[f.name], getattr(params, f.name)) for f in fields(params))


def _build_parameter(group: str, rule: str, name: str, hint: Any, value: JSON) -> Parameter:
    text = ""
    if get_origin(hint) is Annotated:
        hint, text = get_args(hint)[:2]
    inner = [part for part in get_args(hint) if part is not type(None)]
    optional = type(None) in get_args(hint)
    hint = inner[0] if optional else hint
    origin = get_origin(hint) or hint
    choices = tuple(FORMULAS) if (group, name) == ("budget", "formula") else get_args(hint) if origin is Literal else ()
    kind: Kind = "choice" if choices else "table" if origin is dict else _KINDS.get(origin, "text")
    shown = list(value) if kind == "list" else dict(value) if kind == "table" else value
    return Parameter(
        f"{group}.{name}", name, describe_parameter(rule, name), text, kind, shown, tuple(map(str, choices)), optional
    )


def apply_changes(policy: Policy, changes: Mapping[str, JSON]) -> Policy:
    """The policy with some parameters changed, by key as in `group_parameters`. PolicyError names an unknown or ill-typed
    one."""
    parts: dict[str, dict[str, JSON]] = {}
    for key, value in changes.items():
        group, _, name = key.partition(".")
        parts.setdefault(group, {})[name] = value
    known = {group.key for group in group_parameters(policy)}
    if unknown := sorted(set(parts) - known):
        raise PolicyError(
            f"policy {policy.name!r} has no part {unknown[0]!r}", hint=f"Its parts are: {', '.join(sorted(known))}."
        )
    steps = tuple(Step(part.rule, _change_params(part.params, parts.get(str(n), {}))) for n, part in enumerate(policy.rules, 1))
    budget = _change_params(policy.budget, parts.get("budget", {}))
    if budget.formula not in FORMULAS:
        raise PolicyError(f"there is no budget formula {budget.formula!r}", hint=f"Known: {', '.join(FORMULAS)}.")
    return replace(policy, budget=budget, rules=steps)


def _change_params(params: Any, given: Mapping[str, JSON]) -> Any:
    hints = get_type_hints(type(params), include_extras=True)
    if unknown := sorted(set(given) - set(hints)):
        raise PolicyError(f"there is no parameter {unknown[0]!r}", hint=f"Its parameters are: {', '.join(hints) or 'none'}.")
    try:
        new = {name: msgspec.convert(value, hints[name], strict=True) for name, value in given.items()}
    except msgspec.ValidationError as error:
        raise PolicyError(f"{', '.join(given)}: {error}", hint="Give a value of the kind that the parameter has.") from error
    try:
        return replace(params, **new) if new else params
    except ValueError as error:  # the rule itself knows what it cannot do
        raise PolicyError(str(error), hint="Give another value.") from error


def find_changes(policy: Policy, base: Policy) -> dict[str, JSON]:
    """What `apply_changes(base, ...)` needs to give `policy`. Both have the same rules."""
    before = {knob.key: knob.value for group in group_parameters(base) for knob in group.parameters}
    after = {knob.key: knob.value for group in group_parameters(policy) for knob in group.parameters}
    return {key: value for key, value in after.items() if before.get(key) != value}


def encode_changes(changed: Mapping[str, JSON]) -> str:
    """Changes as text for a link; "" where there are none."""
    return json.dumps(dict(changed), separators=(",", ":"), ensure_ascii=False) if changed else ""


def decode_changes(text: str) -> dict[str, JSON]:
    """Changes from a link. PolicyError where it is no such text."""
    try:
        found = json.loads(text) if text else {}
    except ValueError as error:
        raise PolicyError("the link's changed parameters cannot be read", hint="Open the policy without them.") from error
    if not isinstance(found, dict):
        raise PolicyError("the link's changed parameters are no table", hint="Open the policy without them.")
    return found


def load_catalog(folder: Path, pairs: int | None = None) -> PolicyCatalog:
    """All policies: built-in ones, and those in the user's folder. What cannot be read is reported, never raised.

    `pairs`: how many last pairs to keep, where the environment says so.
    """
    found: dict[str, Policy] = {}
    problems: dict[str, PolicyError] = {}
    for home in (policies.HERE, folder):
        for name, policy in _iter_policies(home):
            if isinstance(policy, PolicyError):
                problems[name] = policy
            else:
                found.setdefault(name, policies.set_pairs(policy, pairs))
    own = frozenset(name for name in found if name not in policies.list_policies())
    return PolicyCatalog(found, own, problems)


def _iter_policies(folder: Path) -> Iterator[tuple[str, Policy | PolicyError]]:
    for name in policies.list_policies(folder):
        try:
            yield name, policies.load(name, folder)
        except PolicyError as error:
            yield name, error
        except (OSError, UnicodeDecodeError) as error:
            yield (
                name,
                PolicyError(f"policy {name!r} cannot be read: {error}", hint="See whether the file is text and readable."),
            )


def resolve_name(name: str) -> str:
    """What a policy is called now that a link calls by an earlier name."""
    return policies.resolve_name(name)


def to_toml(policy: Policy) -> str:
    """A policy as the TOML text that `save_policy` keeps."""
    return policies.write(policy)


def save_policy(name: str, text: str, folder: Path) -> Policy:
    """Keep a policy's TOML text in the user's folder; gives the policy. PolicyError for a bad name or text, OSError too.

    A name is small letters, digits and hyphens, so that it is a file name everywhere, and it is no built-in policy's.
    """
    if not NAME_PATTERN.fullmatch(name):
        raise PolicyError(
            f"{name!r} cannot be a policy's name", hint="Use small letters, digits and hyphens, at most 60, such as my-policy."
        )
    if policies.resolve_name(name) in policies.list_policies():
        raise PolicyError(f"{name!r} is a built-in policy", hint="Save yours under another name.")
    policy = policies.parse(name, text)
    folder.mkdir(parents=True, exist_ok=True)
    half = folder / f".{name}.toml.part"
    half.write_text(text, encoding="utf-8")
    half.replace(folder / f"{name}.toml")
    return policy


def parse_field(knob: Parameter, given: Any) -> JSON:
    """What a form's field holds as the parameter's value: lists are written with commas, tables as lines of `name = value`."""
    if knob.kind == "list":
        return [part.strip() for part in str(given).split(",") if part.strip()]
    if knob.kind == "table":
        pairs = (line.partition("=") for line in str(given).splitlines() if line.strip())
        return {name.strip(): _parse_number(value.strip()) for name, _, value in pairs}
    return given


def format_field(knob: Parameter) -> JSON:
    """A parameter's value as a form's field shows it."""
    if knob.kind == "list":
        return ", ".join(map(str, knob.value))
    if knob.kind == "table":
        return "\n".join(f"{name} = {value}" for name, value in knob.value.items())
    return knob.value


def _parse_number(text: str) -> JSON:
    try:
        return float(text)
    except ValueError:
        return text
