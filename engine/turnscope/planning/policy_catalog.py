"""All policies by name: those that ship with Turnscope, those of packages, and the files of the user's folder.

Reads and writes the folder that it is given, and no other place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from turnscope.atomic_file import replace_file
from turnscope.errors import PolicyError
from turnscope.planning import policy as policies
from turnscope.planning.packaged_policies import find_packaged_policies
from turnscope.planning.policy import Policy
from turnscope.planning.rule_registry import load_packaged_rules

NAME_PATTERN = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,58}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class PolicyCatalog:
    """Policies by name. `own`: names of those in the user's folder; `problems`: files that could not be read, by name."""

    policies: Mapping[str, Policy]
    own: frozenset[str]
    problems: Mapping[str, PolicyError]

    def resolve_name(self, name: str) -> str:
        """The name of a policy now, where a link or a file has an earlier name of it; else `name`."""
        return name if name in self.policies else policies.resolve_name(name)


def load_catalog(folder: Path, pairs: int | None = None) -> PolicyCatalog:
    """Load every policy: Turnscope's, those of packages, and those in the user's folder.

    A file that cannot be read is in `problems`. What is wrong with a package is in `extensions.list_problems`.

    Args:
        folder: the user's policies; it need not exist.
        pairs: how many last pairs a policy keeps that keeps the last ones; None = as its file says.
    """
    found: dict[str, Policy] = {}
    problems: dict[str, PolicyError] = {}
    load_packaged_rules()
    packaged = [
        (name, policy) for name, policy in _iter_policies(find_packaged_policies(), policies.HERE) if isinstance(policy, Policy)
    ]
    for name, policy in (*_iter_policies(policies.list_policies(), policies.HERE), *packaged, *_iter_own(folder)):
        if isinstance(policy, PolicyError):
            problems[name] = policy
        else:
            found[name] = policies.set_pairs(policy, pairs)
    own = frozenset(name for name in policies.list_policies(folder) if name in found and not _find_owner(name))
    return PolicyCatalog(found, own, problems)


def load_shipped() -> PolicyCatalog:
    """Load the policies that ship with Turnscope. PolicyError where one cannot be read."""
    return PolicyCatalog({name: policies.load(name) for name in policies.list_policies()}, frozenset(), {})


def save_policy(name: str, text: str, folder: Path) -> Policy:
    """Save a policy in the user's folder, under `<name>.toml`.

    Args:
        name: small letters, digits and hyphens, so that it is a file name everywhere; not the name of another's policy.
        text: the policy as TOML.
        folder: the user's policies; it is made where it does not exist.

    Returns:
        The policy as it was read from the text.

    Raises:
        PolicyError: the name or the text is wrong.
        TurnscopeError: the file cannot be written.
        OSError: the folder cannot be made.
    """
    if not NAME_PATTERN.fullmatch(name):
        raise PolicyError(
            f"{name!r} cannot be a policy's name", hint="Use small letters, digits and hyphens, at most 60, such as my-policy."
        )
    if policies.resolve_name(name) in policies.list_policies():
        raise PolicyError(f"{name!r} is a built-in policy", hint="Save yours under another name.")
    if owner := _find_owner(name):
        raise PolicyError(f"{name!r} is a policy of {owner}", hint="Save yours under another name.")
    policy = policies.parse(name, text)
    for pattern in policy.models:
        policies.check_pattern(pattern)
    folder.mkdir(parents=True, exist_ok=True)
    with replace_file(folder / f"{name}.toml") as part:
        part.write_text(text, encoding="utf-8")
    return policy


def _iter_own(folder: Path) -> Iterator[tuple[str, Policy | PolicyError]]:
    """The policies of the user's folder. A file with the name of another's policy is a problem."""
    names = policies.list_policies(folder)
    for name in names:
        if owner := _find_owner(name):
            yield name, PolicyError(f"{owner} has a policy of that name", hint=f"Rename the file {folder / name}.toml.")
    yield from _iter_policies([name for name in names if not _find_owner(name)], folder)


def _find_owner(name: str) -> str:
    """Who else has a policy of that name; "" = nobody."""
    if name in policies.list_policies():
        return "Turnscope itself"
    packaged = find_packaged_policies().get(name)
    return packaged.package if packaged else ""


def _iter_policies(names: Iterable[str], folder: Path) -> Iterator[tuple[str, Policy | PolicyError]]:
    for name in names:
        try:
            yield name, policies.load(name, folder)
        except PolicyError as error:
            yield name, error
        except (OSError, UnicodeDecodeError) as error:
            hint = "See whether the file is text and readable."
            yield name, PolicyError(f"policy {name!r} cannot be read: {error}", hint=hint)
