"""What makes a tool send its requests through the tap: environment variables, and arguments where it reads no variable.

Facts about other tools, and no more. Versions they were checked with are in the documentation of the tap.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from turnscope.tap.apis import Upstreams

LOOPBACK = "127.0.0.1,localhost,::1"
BASE_VARIABLES = {
    "ANTHROPIC_BASE_URL": "anthropic",  # Anthropic's SDKs, Claude Code
    "ANTHROPIC_API_BASE": "anthropic",  # LiteLLM: mini-swe-agent, aider
    "OPENAI_BASE_URL": "openai",  # OpenAI's SDKs, Qwen Code, llm
    "OPENAI_API_BASE": "openai",  # LiteLLM, aider
    "GOOGLE_GEMINI_BASE_URL": "gemini",  # Google's SDKs, Gemini CLI
}
UPSTREAM_VARIABLES = {"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL", "gemini": "GOOGLE_GEMINI_BASE_URL"}


def read_upstreams(only: str, environment: Mapping[str, str]) -> Upstreams:
    """Read where tools would send their requests without the tap: what their variables say, else each provider's own address.

    Args:
        only: One address for all of them; "" = as said.
        environment: The environment variables.
    """
    named = {name: environment.get(variable, "") for name, variable in UPSTREAM_VARIABLES.items()}
    return Upstreams(only, {name: address for name, address in named.items() if address})


def build_environment(tap: str, upstreams: Upstreams, environment: Mapping[str, str]) -> dict[str, str]:
    """Build the environment of a tool that is to go through the tap.

    Args:
        tap: The tap's address.
        upstreams: Where requests go from there.
        environment: The environment without the tap.
    """
    bases = {variable: upstreams.make_base(tap, name) for variable, name in BASE_VARIABLES.items()}
    direct = {name: ",".join(filter(None, (environment.get(name, ""), LOOPBACK))) for name in ("NO_PROXY", "no_proxy")}
    anthropic, openai = (upstreams.make_base(tap, name) for name in ("anthropic", "openai"))
    providers = {"anthropic": f"{anthropic}/v1", "openai": openai}
    config = {"provider": {name: {"options": {"baseURL": base}} for name, base in providers.items()}}
    opencode = {} if "OPENCODE_CONFIG_CONTENT" in environment else {"OPENCODE_CONFIG_CONTENT": json.dumps(config)}
    return {**environment, **direct, **bases, **opencode}


def build_command(command: Sequence[str], tap: str, upstreams: Upstreams) -> list[str]:
    """Build the command line of a tool: its own, with what makes it go through the tap where no variable does.

    Args:
        command: The tool's command line.
        tap: The tap's address.
        upstreams: Where requests go from there.
    """
    if PurePath(command[0]).stem.lower() == "codex":
        base = upstreams.make_base(tap, "openai")
        return [command[0], "-c", f'openai_base_url="{base}"', *command[1:]]
    return [*command]
