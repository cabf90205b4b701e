"""The policy of an agent on a recorded run, held against what the agent did: `python -m tests.wire FOLDER --policies`.

The run's main session is replayed under the policy of its agent, with the settings of the run. A recorded cut is a request at
which the agent compacted, masked or cleared; a cut of the policy is one at which it did. The bodies are those that were sent.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import turnscope
from msgspec import structs
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Piece
from turnscope.envelope.plan import Plan
from turnscope.planning.policy import Policy, load
from turnscope.planning.render import build_body
from turnscope.ports.claude_code.conversation import SLOT
from turnscope.session.model import ObservedEdit, Part, Session
from turnscope.views.parameters import apply_changes

from tests.wire import Run
from tests.wire.compare import HEAD, PARTS, Compared, Rebuilt, compare_body, pair_requests, sessions
from tests.wire.leaves import leaves

REQUESTED = "requested by the user"  # how a policy says that it follows what the log shows
SPOKEN = ("", "prompt", "answer", "tool")  # origins of messages that a person, a model or a tool said


class Agent(NamedTuple):
    """An agent's policy, and which of its parameters the settings of a run set."""

    policy: str | Callable[[Run], str]
    read_settings: Callable[[Path, Run], Mapping[str, Any]]
    actions: tuple[str, ...] = ("condense",)  # what it does to make room
    context: bool = False  # it sends a context before the first prompt that its log does not hold


@dataclass(frozen=True)
class Held:
    """A policy against a run: requests with a recorded cut, those with one of the policy, and the share of each body equal.

    `requested`: recorded cuts that a person requested, by the log: the policy follows those at whatever size. `more`: how many
    characters of each body were not sent. `context`: of an agent whose log lacks the texts before the first prompt, their
    characters in each body; `logged`: the share of the other characters of messages that is equal.

    Where the policy does not know what the log holds of a compaction: `stays`: for each, whether the same blocks stay; `files`:
    for each after which the log of Claude Code lists files that came back, those and the ones of the policy, in their order.
    """

    policy: str
    recorded: tuple[int, ...]
    made: tuple[int, ...]
    equal: Mapping[str, tuple[float, ...]]
    requested: tuple[int, ...]
    more: tuple[int, ...]
    context: tuple[int, ...]
    logged: tuple[float, ...]
    stays: Mapping[int, bool] = field(default_factory=dict)
    files: tuple[tuple[list[str], list[str]], ...] = ()

    @property
    def met(self) -> tuple[int, ...]:
        """Recorded cuts that the policy made at the same request."""
        return tuple(sorted({*self.recorded} & {*self.made}))


def read_claude(folder: Path, _run: Run) -> Mapping[str, Any]:
    """The window that the run's command sets, and the share of it."""
    command = (folder / "command.sh").read_text("utf-8")
    names = {"1.window": "CLAUDE_CODE_AUTO_COMPACT_WINDOW", "1.percent": "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE"}
    found = {key: re.search(rf"\b{name}=[\"']?(\d+)", command) for key, name in names.items()}
    return {key: int(one[1]) for key, one in found.items() if one}


def read_opencode(_folder: Path, run: Run) -> Mapping[str, Any]:
    """The limits of the model in opencode's configuration."""
    for file in run.transcripts.rglob("opencode.json"):
        providers = json.loads(file.read_text("utf-8"))["provider"].values()
        limits = [model["limit"] for provider in providers for model in provider["models"].values()]
        return {"budget.window": limits[0]["context"], "budget.output": limits[0]["output"]}
    return {}


def read_pi(folder: Path, _run: Run) -> Mapping[str, Any]:
    """The window of the model that the run's command sets."""
    found = re.search(r"\bCTX=(\d+)", (folder / "command.sh").read_text("utf-8"))
    return {"budget.window": int(found[1])} if found else {}


def read_codex(folder: Path, _run: Run) -> Mapping[str, Any]:
    """The limit of Codex's configuration."""
    file = folder / "config.toml"
    found = re.search(
        r"^model_auto_compact_token_limit = (\d+)", file.read_text("utf-8") if file.exists() else "", re.MULTILINE
    )
    return {"1.tokens": int(found[1])} if found else {}


def read_gemini(folder: Path, _run: Run) -> Mapping[str, Any]:
    """The share of the window at which the run's settings compress."""
    file = folder / "settings.json"
    settings = json.loads(file.read_text("utf-8")) if file.exists() else {}
    share = settings.get("model", {}).get("compressionThreshold")
    return {"budget.share": share} if share else {}


def read_qwen(folder: Path, _run: Run) -> Mapping[str, Any]:
    """The window of the run's settings."""
    file = folder / "settings.json"
    settings = json.loads(file.read_text("utf-8")) if file.exists() else {}
    window = settings.get("model", {}).get("generationConfig", {}).get("contextWindowSize")
    return {"budget.window": window} if window else {}


def choose_qwen(run: Run) -> str:
    """Qwen Code's policy by the version that its log names: from 0.24 on all but the newest call is summed up."""
    logs = (json.loads(line) for file in run.transcripts.rglob("chats/*.jsonl") for line in file.open(encoding="utf-8"))
    version = next((log["version"] for log in logs if log.get("version")), "0")
    return "qwen-code-0.24" if tuple(map(int, re.findall(r"\d+", version)[:2])) >= (0, 24) else "qwen-code"


def choose_cline(run: Run) -> str:
    """Cline's policy, by what its newest compaction left: a summary, or prompts with notices, which no model wrote."""
    kept = (json.loads(file.read_text("utf-8"))["messages"] for file in run.transcripts.rglob("*.compaction.json"))
    basic = any((message.get("metadata") or {}).get("kind") == "compaction" for messages in kept for message in messages)
    return "cline-sdk-basic" if basic else "cline-sdk"


AGENTS: Mapping[str, Agent] = {
    "claude-code": Agent("claude-code-2.1.330", read_claude),
    "codex": Agent("codex", read_codex),
    "opencode": Agent("opencode", read_opencode),
    "pi": Agent("pi", read_pi),
    "qwen-code": Agent(choose_qwen, read_qwen, context=True),
    "gemini-cli": Agent("gemini-cli-0.61", read_gemini, ("truncate", "condense")),
    "mini-swe-agent": Agent("mini-swe-agent", lambda _folder, _run: {}, ("truncate",)),
    "cline-sdk": Agent(choose_cline, lambda _folder, _run: {}),
}


def hold(folder: Path, run: Run) -> Held | None:
    """Replay a run's longest session under the policy of its agent; None where there is no policy of that agent."""
    session = max(sessions(run.transcripts), key=lambda one: len(one.requests), default=None)
    agent = AGENTS.get(session.source) if session else None
    if session is None or agent is None:
        return None
    name = agent.policy if isinstance(agent.policy, str) else agent.policy(run)
    policy = apply_changes(load(name), agent.read_settings(folder, run))
    held, plans = hold_session(run, session, policy, agent.actions), dict(plan_unknown(session, policy))
    files = tuple(hold_files(run, session, plans)) if session.source == "claude-code" else ()
    return replace(held, stays=hold_stays(session, plans), files=files)


def hold_session(run: Run, session: Session, policy: Policy, actions: Collection[str]) -> Held:
    """Replay one session of a run under a policy, and hold it against what was done and sent."""
    trace = turnscope.replay(session, policy)
    recorded = {seen.request for seen in session.observed if seen.edit.action in actions}
    made = {plan.request.n for plan in trace.outlines if any(action in actions for action in plan.actions)}
    rebuilt = [
        Rebuilt(session.id, n, build_body(plan, session), (usage.prompt_tokens, usage.output_tokens), exact=False)
        for n, plan in enumerate(trace.plans)
        if (usage := plan.request.usage)
    ]
    pairs = [(row, one) for row, one in pair_requests(run.main, rebuilt) if one]
    held = [compare_body(row, one) for row, one in pairs]
    context = [count_context(row, session) for row, _ in pairs] if AGENTS[session.source].context else []
    logged = [find_logged(*one) for one in zip(held, pairs, context, strict=True)] if context else []
    equal = {part: tuple(one.equal[part] for one in held) for part in PARTS}
    requested = [n for n in sorted(recorded) if any(one.edit.because.startswith(REQUESTED) for one in trace.plans[n].decisions)]
    more = tuple(one.more for one in held)
    cuts = (tuple(sorted(recorded)), tuple(sorted(made)))
    return Held(policy.name, *cuts, equal, tuple(requested), more, tuple(context), tuple(logged))


def count_context(row: Mapping[str, Any], session: Session) -> int:
    """Characters of a request's messages before the first text that the log holds."""
    said = {block.text for block in session.blocks}
    said |= {part.text for seen in session.observed for part in seen.edit.body or ()}
    return sum(map(len, takewhile(lambda text: text not in said, leaves(row["body"])["messages"])))


def find_logged(held: Compared, pair: tuple[Mapping[str, Any], Rebuilt], context: int) -> float:
    """The share of the characters of messages that is equal, those set aside that no log holds."""
    whole = sum(map(len, leaves(pair[0]["body"])["messages"]))
    return min(1.0, held.equal["messages"] * whole / (whole - context)) if whole > context else 1.0


def plan_unknown(session: Session, policy: Policy) -> Iterator[tuple[int, Plan]]:
    """For each recorded compaction, by its request: the plan of a policy that does not know what the log holds of it."""
    for request in sorted({seen.request for seen in session.observed if seen.edit.action == "condense"}):
        observed = tuple(hide_body(seen) if seen.request == request else seen for seen in session.observed)
        yield request, turnscope.replay(structs.replace(session, observed=observed), policy).plans[request]


def hold_files(run: Run, session: Session, plans: Mapping[int, Plan]) -> Iterator[tuple[list[str], list[str]]]:
    """The files that came back after each compaction that the tool made by itself, and those of a policy, in their order."""
    for plan, sent in zip(plans.values(), list_returned(run, session), strict=True):
        parts = (
            part for piece in plan.after.pieces for part in get_parts(piece) if piece.slot == SLOT and part.kind == "files"
        )
        if sent:
            yield sent, [re.split(r", as it is now|\s+was read", part.text, maxsplit=1)[0] for part in parts]


def list_returned(run: Run, session: Session) -> list[list[str]]:
    """For each compaction of a log of Claude Code: the files that it attached before the next prompt or answer."""
    found: list[list[str]] = []
    (log,) = run.transcripts.rglob(f"{session.id}.jsonl")
    follows = False
    for record in (json.loads(line) for line in log.read_text("utf-8").split("\n") if line):
        attached = record.get("attachment") or {}
        if record.get("subtype") == "compact_boundary":
            found.append([])
            follows = True
        elif record.get("type") == "assistant" or (record.get("type") == "user" and not record.get("isCompactSummary")):
            follows = False
        elif follows and attached.get("type") in ("file", "compact_file_reference"):
            found[-1].append(attached["filename"])
    return found


def hold_stays(session: Session, plans: Mapping[int, Plan]) -> Mapping[int, bool]:
    """Whether a policy leaves what its agent left, at each compaction."""
    record = turnscope.replay(session).plans
    return {n: find_spoken(session, plan.after) == find_spoken(session, record[n].after) for n, plan in plans.items()}


def hide_body(seen: ObservedEdit) -> ObservedEdit:
    """A recorded compaction without what came in place of what went."""
    return structs.replace(seen, edit=structs.replace(seen.edit, body=())) if seen.edit.action == "condense" else seen


def find_spoken(session: Session, envelope: Envelope) -> Counter[str]:
    """How what is sent as it was said begins, shortened results with it, wherever it stands: a placeholder may repeat it."""
    said = (block for block in session.blocks if session.messages[block.message].origin in SPOKEN)
    spoken = {block.text[:HEAD] for block in said if block.kind in ("text", "tool_use", "tool_result")}
    texts = [
        text[:HEAD]
        for piece in envelope.pieces
        for text in (
            [b.text for b in session.blocks[piece.start : piece.stop]]
            if piece.body is None
            else [part.text for part in get_parts(piece)]
        )
    ]
    return Counter(text for text in texts if text and text in spoken)


def get_parts(piece: Piece) -> Sequence[Part]:
    """The parts of a placeholder."""
    return piece.body or ()


def format_held(name: str, held: Held) -> str:
    """A line: run, policy, cuts (recorded, met, requested, others), after how many the same stays, the characters equal."""
    others, same = len(held.made) - len(held.met), f"{sum(held.stays.values())}/{len(held.stays)}"
    shares = "".join(f"{median(share):>11.1%} ({min(share):>6.1%})" for share in held.equal.values() if share)
    cuts = f"{len(held.recorded):>9}{len(held.met):>6}{len(held.requested):>10}{others:>7}{same:>8}"
    more = f"{median(held.more):>10,.0f} ({max(held.more):>7,})" if held.more else ""
    line = f"{name:<28}{held.policy:<24}{cuts}  {shares}{more}"
    if held.logged:
        there = [size for size in held.context if size]
        line += f"\n    of the texts that the log holds: {median(held.logged):.1%} ({min(held.logged):.1%});"
        line += f" before them, in no log: {median(there or [0]):,.0f} characters in {len(there)} requests"
    if not held.files:
        return line
    same, order = sum(set(a) == set(b) for a, b in held.files), sum(a == b for a, b in held.files)
    return f"{line}\n    files back: the same after {same} of {len(held.files)} compactions, in the same order after {order}"


HEADING = f"{'run':<28}{'policy':<24}{'recorded':>9}{'met':>6}{'requested':>10}{'others':>7}{'stays':>8}  " + "".join(
    f"{part:>20}" for part in PARTS
)
