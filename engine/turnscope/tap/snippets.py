"""What a person copies to lead a tool to a tap that runs: a command, a line of settings, or lines of code.

Facts about other tools, as `tools` has them.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from turnscope.tap.apis import Upstreams
from turnscope.tap.tools import build_command, build_environment


@dataclass(frozen=True, slots=True)
class Snippet:
    """A text to copy. `language`: how it is shown; `where`: what it is for."""

    tool: str
    text: str
    language: str = "bash"
    where: str = "In a terminal:"


COMMANDS = {  # tool -> its command, and the variables that lead it to the tap
    "Claude Code": ("claude", ("ANTHROPIC_BASE_URL",)),
    "Codex": ("codex", ()),
    "Gemini CLI": ("gemini", ("GOOGLE_GEMINI_BASE_URL",)),
    "Qwen Code": ("qwen", ("OPENAI_BASE_URL",)),
    "opencode": ("opencode", ("OPENCODE_CONFIG_CONTENT",)),
    "aider": ("aider", ("OPENAI_API_BASE", "ANTHROPIC_API_BASE")),
    "llm": ("llm", ("OPENAI_BASE_URL",)),
    "mini-swe-agent": ("mini", ("OPENAI_BASE_URL", "OPENAI_API_BASE", "ANTHROPIC_API_BASE")),
}


def list_snippets(tap: str, upstreams: Upstreams) -> tuple[Snippet, ...]:
    """List a snippet for each tool.

    Args:
        tap: The tap's address.
        upstreams: Where requests go from there.
    """
    variables = build_environment(tap, upstreams, {})
    found = []
    for tool, (command, names) in COMMANDS.items():
        words = [f"{name}={shlex.quote(variables[name])}" for name in names]
        words += [shlex.quote(word) for word in build_command([command], tap, upstreams)]
        found.append(Snippet(tool, " ".join(words)))
    bases = {name: upstreams.make_base(tap, name) for name in ("anthropic", "openai", "gemini")}
    cline = f"cline auth openai-compatible -k KEY -m MODEL -b {bases['openai']}"
    pi = json.dumps({"providers": {"anthropic": {"baseUrl": bases["anthropic"]}}}, indent=2)
    sdks = (
        f'client = anthropic.Anthropic(base_url="{bases["anthropic"]}")',
        f'client = openai.OpenAI(base_url="{bases["openai"]}")',
        f'client = google.genai.Client(http_options={{"base_url": "{bases["gemini"]}"}})',
    )
    lines = [f"export {name}={shlex.quote(variables[name])}" for name in ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL")]
    lines.append(f"export GOOGLE_GEMINI_BASE_URL={shlex.quote(variables['GOOGLE_GEMINI_BASE_URL'])}")
    return (
        *found,
        Snippet("Cline", cline),
        Snippet("pi", pi, "json", "In ~/.pi/agent/models.json:"),
        Snippet("Python SDKs", "\n".join(sdks), "python", "In your code, one of:"),
        Snippet("Any other", "\n".join(lines), where="In the terminal that starts it:"),
    )
