"""Does an answer suffer? A model takes the recorded next step under several policies.

`python tests/bench/next_step.py SESSION --policies as-recorded,balanced --kind chat --url http://127.0.0.1:11434 --model qwen3`

Chosen are requests whose recorded answer calls a tool and whose prompt is not the same under all of the policies, spread evenly
over the session. Each prompt is sent to the model, and the first call of its answer is held against the recorded one. Without
`--send` nothing is sent: the number of requests, their tokens and their price are printed. A row per policy:

- tool: answers that call the recorded tool. target: those that call it on the same file, command or query.
- only here: requests whose target is met under this policy and not under the first one; only first: the other way round.
- chance: of so uneven a split, or a more uneven one, if both were equally good (sign test). 0.05 and more show nothing.
- failed: requests that got no answer. They count as missed.
- tokens, USD: of all prompts, at the prices of the model; the model's own answers are not in them.

Thinking is left out, because another model may not continue it. A log without the definitions of tools gets the names and
arguments of those that it calls. The recorded step is one good step among several: compare policies, not a policy with 100 %.
The built-in model does not read its prompt; with it, only the way there and back is tried.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import Any, get_args

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import turnscope
from turnscope.errors import ProviderError, TurnscopeError
from turnscope.live.endpoints import Endpoint, Kind, connect_endpoint
from turnscope.live.offline import OfflineServer
from turnscope.live.provider import Provider, translate_errors
from turnscope.planning.render import render
from turnscope.planning.trace import Trace
from turnscope.session.model import JSON, Block, Session
from turnscope.views.labels import find_subject

MAX_TOKENS = 2_000  # of an answer: a call fits
THINKING = ("thinking", "redacted_thinking")


@dataclass(frozen=True, slots=True)
class Step:
    """What a model did at a request under a policy: whether it called the recorded tool, and on the recorded target.

    `failed`: why no answer came; "" = one came.
    """

    request: int
    policy: str
    tool: bool = False
    target: bool = False
    failed: str = ""


def choose_requests(traces: Sequence[Trace], most: int) -> list[int]:
    """The requests to send: at most `most` whose answers call a tool and whose prompts differ between the policies."""
    session = traces[0].session
    found = [
        request.n
        for request in session.requests
        if find_recorded_call(session, request.n) and len({tuple(trace.plans[request.n].after.pieces) for trace in traces}) > 1
    ]
    return found if len(found) <= most else [found[n * len(found) // most] for n in range(most)]


def find_recorded_call(session: Session, request: int) -> Block | None:
    """The first tool call of a recorded answer; None = it calls none."""
    answer = session.blocks[session.requests[request].cut : session.requests[request].stop]
    return next((block for block in answer if block.kind == "tool_use"), None)


def build_step(trace: Trace, request: int, model: str) -> dict[str, JSON]:
    """The body of a request as the policy plans it, for another model."""
    body = render(trace.plans[request].after, trace.session)
    messages: list[Any] = []
    for message in body["messages"]:
        content = message["content"]
        if not isinstance(content, str):
            content = [each for each in content if each.get("type") not in THINKING]
        if content:
            messages.append({**message, "content": content})
    tools = body.get("tools") or describe_called_tools(trace.session)
    return {**body, "model": model, "max_tokens": MAX_TOKENS, "messages": messages, "tools": tools}


def describe_called_tools(session: Session) -> list[JSON]:
    """Definitions of the tools that a session calls, from the arguments of all calls."""
    arguments: dict[str, dict[str, JSON]] = {}
    for block in session.blocks:
        if block.kind == "tool_use" and isinstance(block.raw, Mapping):
            given = block.raw.get("input")
            arguments.setdefault(block.name, {}).update({key: {} for key in given} if isinstance(given, Mapping) else {})
    return [
        {"name": name, "description": f"The agent's tool {name}.", "input_schema": {"type": "object", "properties": keys}}
        for name, keys in arguments.items()
    ]


def take_step(provider: Provider, trace: Trace, request: int, model: str) -> Step:
    """Send a request under a policy and hold the first call of its answer against the recorded one."""
    recorded = find_recorded_call(trace.session, request)
    assert recorded
    try:
        with translate_errors(provider):
            answer = provider.complete(build_step(trace, request, model))
    except ProviderError as error:
        return Step(request, trace.policy.name, failed=error.what)
    call = next((each for each in answer.content if isinstance(each, Mapping) and each.get("type") == "tool_use"), {})
    made = Block(0, 0, 0, "assistant", recorded.bucket, "tool_use", "", name=str(call.get("name", "")), content=dict(call))
    tool = made.name == recorded.name
    return Step(request, trace.policy.name, tool, tool and find_subject(made) == find_subject(recorded))


def compute_chance(one: int, other: int) -> float:
    """The chance of a split of `one` to `other` or a more uneven one, if each is as likely as the other."""
    count, fewer = one + other, min(one, other)
    return min(1.0, 2 * sum(comb(count, k) for k in range(fewer + 1)) / 2**count)


def format_rows(steps: Sequence[Step], traces: Sequence[Trace], model: str) -> Iterator[str]:
    """The table: a row per policy."""
    yield (
        f"{'policy':<28}{'requests':>9}{'tool':>7}{'target':>8}{'only here':>11}{'only first':>12}{'chance':>8}{'failed':>8}"
        f"{'tokens':>12}{'USD':>9}"
    )
    first = {step.request: step.target for step in steps if step.policy == traces[0].policy.name}
    for trace in traces:
        own = [step for step in steps if step.policy == trace.policy.name]
        here = sum(step.target and not first[step.request] for step in own)
        there = sum(first[step.request] and not step.target for step in own)
        tokens, usd = count_prompts(trace, [step.request for step in own], model)
        priced = f"{usd:.2f}" if usd is not None else "-"
        yield (
            f"{trace.policy.name:<28}{len(own):>9}{sum(step.tool for step in own) / len(own):>7.0%}"
            f"{sum(step.target for step in own) / len(own):>8.0%}{here:>11}{there:>12}"
            f"{compute_chance(here, there):>8.2f}{sum(bool(step.failed) for step in own):>8}{tokens:>12,}{priced:>9}"
        )


def count_prompts(trace: Trace, requests: Sequence[int], model: str) -> tuple[int, float | None]:
    """The tokens of some prompts, and their price in USD for `model` without a cache; None = it has no known price."""
    sizes = [trace.count_tokens(n) for n in requests]
    rates = [trace.prices.find_rates(model, size, None) for size in sizes]
    if not all(rates):
        return sum(sizes), None
    return sum(sizes), sum(float(rate.input * size) for rate, size in zip(rates, sizes, strict=True) if rate) / 1_000_000


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A model takes the recorded next step under several policies.")
    parser.add_argument("session", type=Path)
    parser.add_argument(
        "--policies", default="as-recorded,balanced", help="names with commas between; all are held to the first"
    )
    parser.add_argument("--model", default="offline-200k")
    parser.add_argument("--kind", default="offline", choices=get_args(Kind), help="where the model is, as the chat names it")
    parser.add_argument("--url", default="", help="the address of a server")
    parser.add_argument("--key", default="", metavar="NAME", help="the environment variable that holds the key of that server")
    parser.add_argument("--most", type=int, default=20, help="requests for each policy")
    parser.add_argument("--send", action="store_true", help="send them; otherwise their number and price are printed")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Print the table, or what it would cost. Gives 1 where there is nothing to compare or the model cannot be reached."""
    given = read_arguments(arguments)
    try:
        session = turnscope.load(given.session)
        traces = [turnscope.replay(session, name.strip()) for name in given.policies.split(",")]
        chosen = choose_requests(traces, given.most)
        if not chosen:
            print("No request that calls a tool has different prompts under these policies.", file=sys.stderr)
            return 1
        if not given.send:
            priced = [count_prompts(trace, chosen, given.model) for trace in traces]
            known = [usd for _, usd in priced if usd is not None]
            cost = f"${sum(known):,.2f}" if len(known) == len(priced) else "no known price"
            print(f"{len(chosen)} requests under {len(traces)} policies: {sum(size for size, _ in priced):,} tokens, {cost}.")
            print("Add --send to send them.")
            return 0
        with OfflineServer() as offline:
            provider = connect_endpoint(Endpoint(given.kind, given.url, os.environ.get(given.key, "")), offline)
            steps = [take_step(provider, trace, request, given.model) for request in chosen for trace in traces]
    except TurnscopeError as error:
        print(f"{error.what}. {error.short_hint}", file=sys.stderr)
        return 1
    if all(step.failed for step in steps):
        print(f"No answer came: {steps[0].failed}", file=sys.stderr)
        return 1
    if given.kind == "offline":
        print("The built-in model does not read its prompt: these figures show that the way works, and nothing else.")
    print(*format_rows(steps, traces, given.model), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
