"""Policies in groups for a list: what was sent, Turnscope's own, the user's, each package's, each system's, single ideas."""

from __future__ import annotations

from dataclasses import dataclass

from turnscope.planning.policy import OURS, Policy
from turnscope.planning.policy_catalog import PolicyCatalog

FIRST_GROUPS = ("What happened", "Turnscope's own", "Yours")  # the groups that come first
IDEAS, SEEDS, OTHERS = "One idea each, illustrative", "Published patterns", "Other systems"  # the groups that come last
SYSTEMS = {  # start of a policy's name -> the system that it ports; the longest match holds
    "chainreview": "ChainReview",
    "chatbot-ui": "Chatbot UI",
    "claude-code": "Claude Code",
    "cline": "Cline",
    "codex": "Codex",
    "continue": "Continue",
    "gemini-cli": "Gemini CLI",
    "goose": "goose",
    "inspect": "Inspect",
    "jan": "Jan",
    "langchain": "LangChain",
    "letta": "Letta",
    "librechat": "LibreChat",
    "litellm": "LiteLLM",
    "lobechat": "LobeChat",
    "lobehub": "LobeChat",
    "mini-swe-agent": "SWE-agent",
    "openai": "OpenAI",
    "opencode": "opencode",
    "openhands": "OpenHands",
    "openrouter": "OpenRouter",
    "openwebui": "Open WebUI",
    "pi": "pi",
    "qwen-code": "Qwen Code",
    "roo": "Roo Code",
    "server": "Anthropic's server",
    "swe-agent": "SWE-agent",
    "context-aware-chat": SEEDS,
    "five-buckets": SEEDS,
    "half-in-pairs": SEEDS,
    "multi-turn": SEEDS,
    "reactive-75": SEEDS,
}


@dataclass(frozen=True, slots=True)
class PolicyGroup:
    """Policies under one title. `names` are in the order of the list."""

    title: str
    names: tuple[str, ...]


def group_policies(catalog: PolicyCatalog) -> tuple[PolicyGroup, ...]:
    """Group all policies of a catalog; groups without a policy are left out."""
    found: dict[str, list[str]] = {title: [] for title in FIRST_GROUPS}
    systems = sorted({*SYSTEMS.values()} - {SEEDS}, key=str.lower)
    packages = sorted({f"Package {policy.package}" for policy in catalog.policies.values() if policy.package})
    found |= {title: [] for title in (*packages, *systems, OTHERS, SEEDS, IDEAS)}
    for name, policy in sorted(catalog.policies.items(), key=lambda item: item[1].title.lower()):
        found[_find_group(name, policy, name in catalog.own)].append(name)
    return tuple(PolicyGroup(title, tuple(names)) for title, names in found.items() if names)


def _find_group(name: str, policy: Policy, own: bool) -> str:
    recorded, ours, users = FIRST_GROUPS
    if own:
        return users
    if policy.package:
        return f"Package {policy.package}"
    if name in ("as-recorded", "keep-everything"):
        return recorded
    start = _find_start(name)
    if start or not policy.fidelity.startswith(OURS):
        return SYSTEMS.get(start, OTHERS)
    return IDEAS if "illustrative" in policy.fidelity else ours


def _find_start(name: str) -> str:
    return max((start for start in SYSTEMS if name.startswith(start)), key=len, default="")


def find_system(name: str) -> str:
    """Return the system that a policy ports, by the policy's name; "" where it ports none.

    >>> find_system("claude-code-2.1.330")
    'Claude Code'
    """
    system = SYSTEMS.get(_find_start(name), "")
    return "" if system == SEEDS else system


def summarize_fidelity(policy: Policy) -> str:
    """The first words of a policy's fidelity, at most 60 characters."""
    return policy.fidelity.split(":")[0].split(";")[0][:60]
