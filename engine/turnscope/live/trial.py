"""What a chat under a policy comes to, tried before anybody chats: whether its requests fit, and what its server must do.

A trial is the fold of a chat over a conversation that is made here: prompts, calls, long results, thinking, in a window that
is soon full. It sends nothing. What the shipped policies come to is kept in `trials.json`, which `python -m tests.trials`
writes; a policy that was turned by hand, or is somebody's own, is tried when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec
from msgspec import structs

from turnscope.envelope.plan import Plan
from turnscope.live import gateway
from turnscope.live.growing import Growing
from turnscope.live.offline.model import COUNTER
from turnscope.live.tools import DEFINITIONS
from turnscope.planning.answers import OFFLINE, answerer
from turnscope.planning.assemble import settle
from turnscope.planning.bodies import Bodies
from turnscope.planning.policy import Policy, names, sendable
from turnscope.pricing.prices import PRICES, Prices
from turnscope.session.destination import Destination
from turnscope.session.model import JSON, Session

MODEL, WINDOW, ANSWER = "offline-16k", 16_000, 1_024  # tokens
TURNS = 24
THINKING: dict[str, JSON] = {"type": "adaptive"}
WORDS = "Whoever carries the message further remembers everything that somebody mentioned about the weather. "
FEW = 2  # turns that may end unanswered before a policy makes room
# Sentences of a prompt, and lines of code in a result: one of them fills the window of whoever counts less than the provider.
COURSES = (0, 50), (3, 150)
ON_SERVERS = ("compact_on_demand",)  # rules that ask the provider for something beside those that say what they send
SERVER = "It asks the provider's server to cut, which Anthropic's API alone does. Another server ignores that, or refuses."
KEPT = Path(__file__).with_name("trials.json")


class Trial(msgspec.Struct, frozen=True):
    """What a trial came to, in turns. `since`: of the refused ones, those at the end, behind which none was answered.

    `summed`: whether a model was asked to sum up. `rejected`: what would be rejected of a request that fitted; "" = nothing.
    """

    turns: int = 0
    refused: int = 0
    first: int = -1  # of the turns, from 0
    since: int = 0
    summed: bool = False
    rejected: str = ""

    @property
    def ends(self) -> bool:
        """Whether nothing makes room any more, once the window is full."""
        return self.since > FEW

    @property
    def right(self) -> bool:
        """Whether messages were answered, all but a few before it made room."""
        return not (self.ends or self.rejected)


def tried(policy: Policy, summaries: bool = True) -> Trial:
    """Try a policy, with a fixed budget as if it were nine tenths of the window. `summaries`: whether a model may sum up."""
    if policy.budget.formula == "fixed":
        policy = replace(policy, budget=replace(policy.budget, tokens=9 * WINDOW // 10))
    chosen = sendable(policy)
    return max(
        (_tried(chosen, summaries, *course) for course in COURSES), key=lambda trial: (bool(trial.rejected), trial.since)
    )


def _tried(chosen: Policy, summaries: bool, words: int, lines: int) -> Trial:
    """One of the courses."""
    growing, bodies = Growing(Session("trial", source="trial"), COUNTER), Bodies()
    growing.message("tools", DEFINITIONS, origin="system")
    growing.message("system", "You are brief.", origin="system")
    answers = answerer(growing.recorded.answers.get, OFFLINE if summaries else {})
    plan: Plan | None = None
    found = Trial(TURNS)
    for turn in range(TURNS):
        growing.message("user", f"What of file {turn % 4}? {turn} {WORDS * words}", origin="prompt")
        for content in _said(turn):
            settings = {"max_tokens": ANSWER, "thinking": THINKING}
            asked = growing.request(model=MODEL, window=WINDOW, settings=settings)
            plan = gateway.stepped(plan, growing, asked, chosen, answers)
            if any(ask.kind in ("summary", "compact") for ask, _ in plan.asks):
                found = structs.replace(found, summed=True)
            refused = gateway.refusal(plan, growing.session, growing.ledger)
            if refused:
                first = turn if found.first < 0 else found.first
                found = structs.replace(found, refused=found.refused + 1, first=first, since=found.since + 1)
            elif wrong := gateway.unsendable(bodies.body(plan, growing.session), MODEL, growing.prices, bodies, None):
                return structs.replace(found, rejected=wrong.wrong)
            else:
                found = structs.replace(found, since=0)
                growing.message("assistant", content, origin="answer")
            plan = settle(structs.replace(plan, request=growing.answered(asked)))
            if refused:
                break
            if calls := [block["id"] for block in content if block["type"] == "tool_use"]:
                result = "".join(f"def function_{turn}_{i}(value): return value + {i}\n" for i in range(lines))
                growing.message("user", [{"type": "tool_result", "tool_use_id": calls[0], "content": result}], origin="tool")
    return found


def _said(turn: int) -> Iterator[list[JSON]]:
    """The answers of a turn: one that reads a file, one that says what stands there."""
    thought = {"type": "thinking", "thinking": f"{turn}: {WORDS * 3}", "signature": f"s{turn}"}
    call = {"type": "tool_use", "id": f"c{turn}", "name": "read_file", "input": {"path": f"file{turn % 4}.py"}}
    yield [thought, call]
    yield [{**thought, "signature": f"t{turn}"}, {"type": "text", "text": f"Answer {turn}. {WORDS * 4}"}]


@cache
def kept() -> Mapping[str, Trial]:
    """What the shipped policies came to, those alone that left a message without an answer."""
    return msgspec.json.decode(KEPT.read_bytes(), type=dict[str, Trial])


def known(policy: Policy, summaries: bool = True, shipped: bool = True) -> Trial:
    """What is kept of a policy that is as it was shipped, else a trial of it."""
    if summaries and shipped and policy.name in names():
        return kept().get(policy.name, Trial(TURNS))
    return tried(policy, summaries)


def on_server(policy: Policy) -> bool:
    """Whether it is the provider's server that cuts."""
    return any(part.rule.sends is not None or part.rule.name in ON_SERVERS for part in policy.rules)


def brief(policy: Policy, to: Destination) -> str:
    """Why a policy, as shipped, is not for chats at a place, in a few words for a list; "" where nothing speaks against it."""
    if on_server(policy):
        return "needs Anthropic's API" if to.kind == "server" else ""
    trial = kept().get(policy.name, Trial())
    if trial.rejected:
        return "the provider rejects it"
    return "ends when the window is full" if trial.ends else ""


def doubts(policy: Policy, to: Destination, trial: Trial, summaries: bool, prices: Prices = PRICES) -> tuple[str, ...]:
    """Why a policy must not send a chat to a place: sentences for people, none where nothing speaks against it.

    `trial`: of this policy as it is; `summaries`: whether a model may sum up.
    """
    if on_server(policy):  # what the server cuts cannot be tried here
        return (SERVER,) if to.kind == "server" else ()
    found, window = [], to.window or prices.find_facts(to.model).window or 0
    if policy.budget.formula == "fixed" and 0 < window < policy.budget.tokens:
        found.append(f"It begins to cut at {policy.budget.tokens:,} tokens; this model's window of {window:,} is full before.")
    if trial.summed and not trial.right and not summaries:
        found.append("It lets a model sum up what it cuts, and that is switched off here.")
    if trial.rejected:
        found.append(f"The provider would reject its requests: {trial.rejected}.")
    if trial.ends:
        told = f"Tried on {trial.turns} turns with tools in a window of {WINDOW:,} tokens, it left {trial.refused} unanswered"
        found.append(f"{told}, the first at turn {trial.first + 1}: it does not make room in time, and then nothing is sent.")
    return (*found,)
