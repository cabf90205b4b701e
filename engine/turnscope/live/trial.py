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
from turnscope.live import request_checks
from turnscope.live.live_session import LiveSession
from turnscope.live.offline.model import COUNTER
from turnscope.live.tools import DEFINITIONS
from turnscope.planning.answers import OFFLINE, make_answerer
from turnscope.planning.assemble import reconcile_plan
from turnscope.planning.bodies import Bodies
from turnscope.planning.policy import Policy, list_policies, make_sendable
from turnscope.pricing.prices import PRICES, Prices
from turnscope.session.destination import Destination
from turnscope.session.model import JSON, Session

MODEL, WINDOW, ANSWER = "offline-16k", 16_000, 1_024  # tokens
TURNS = 24
THINKING: dict[str, JSON] = {"type": "adaptive"}
FILLER = "Whoever carries the message further remembers everything that somebody mentioned about the weather. "
MAX_UNANSWERED = 2  # turns that may end unanswered before a policy makes room
# Sentences of a prompt, and lines of code in a result: one of them fills the window of whoever counts less than the provider.
COURSES = (0, 50), (3, 150)
SERVER_RULES = ("compact_on_demand",)  # rules that ask the provider for something beside those that say what they send
SERVER_DOUBT = (
    "It asks the provider's server to cut, which Anthropic's API alone does. Another server ignores that, or refuses."
)
TRIALS_FILE = Path(__file__).with_name("trials.json")


class Trial(msgspec.Struct, frozen=True):
    """The outcome of a trial, counted in turns. The names in `trials.json` are older: `first`, `since`, `summed`.

    `refused_at_end`: refused turns after the last answered one. `asked_for_summary`: whether a model was asked for a summary.
    `rejected`: why the provider would reject a request that fits; "" = it would not.
    """

    turns: int = 0
    refused: int = 0
    first_refused: int = msgspec.field(default=-1, name="first")  # of the turns, from 0
    refused_at_end: int = msgspec.field(default=0, name="since")
    asked_for_summary: bool = msgspec.field(default=False, name="summed")
    rejected: str = ""

    @property
    def runs_full(self) -> bool:
        """Whether nothing makes room any more, once the window is full."""
        return self.refused_at_end > MAX_UNANSWERED

    @property
    def is_usable(self) -> bool:
        """Whether messages were answered, all but a few before it made room."""
        return not (self.runs_full or self.rejected)


def run_trial(policy: Policy, summaries: bool = True) -> Trial:
    """Try a policy, with a fixed budget as if it were nine tenths of the window. `summaries`: whether a model may sum up."""
    if policy.budget.formula == "fixed":
        policy = replace(policy, budget=replace(policy.budget, tokens=9 * WINDOW // 10))
    chosen = make_sendable(policy)
    return max(
        (_run_course(chosen, summaries, *course) for course in COURSES),
        key=lambda trial: (bool(trial.rejected), trial.refused_at_end),
    )


def _run_course(chosen: Policy, summaries: bool, words: int, lines: int) -> Trial:
    """One of the courses."""
    growing, bodies = LiveSession(Session("trial", source="trial"), COUNTER), Bodies()
    growing.append_message("tools", DEFINITIONS, origin="system")
    growing.append_message("system", "You are brief.", origin="system")
    answers = make_answerer(growing.facts.answers.get, OFFLINE if summaries else {})
    plan: Plan | None = None
    found = Trial(TURNS)
    for turn in range(TURNS):
        growing.append_message("user", f"What of file {turn % 4}? {turn} {FILLER * words}", origin="prompt")
        for content in _write_answers(turn):
            settings = {"max_tokens": ANSWER, "thinking": THINKING}
            asked = growing.build_request(model=MODEL, window=WINDOW, settings=settings)
            plan = request_checks.plan_request(plan, growing, asked, chosen, answers)
            if any(ask.kind in ("summary", "compact") for ask, _ in plan.asks):
                found = structs.replace(found, asked_for_summary=True)
            refused = request_checks.check_window(plan, growing.session, growing.ledger)
            if refused:
                first = turn if found.first_refused < 0 else found.first_refused
                found = structs.replace(
                    found, refused=found.refused + 1, first_refused=first, refused_at_end=found.refused_at_end + 1
                )
            elif wrong := request_checks.check_body(bodies.build(plan, growing.session), MODEL, growing.prices, bodies, None):
                return structs.replace(found, rejected=wrong.wrong)
            else:
                found = structs.replace(found, refused_at_end=0)
                growing.append_message("assistant", content, origin="answer")
            plan = reconcile_plan(structs.replace(plan, request=growing.append_request(asked)))
            if refused:
                break
            if calls := [block["id"] for block in content if block["type"] == "tool_use"]:
                result = "".join(f"def function_{turn}_{i}(value): return value + {i}\n" for i in range(lines))
                growing.append_message(
                    "user", [{"type": "tool_result", "tool_use_id": calls[0], "content": result}], origin="tool"
                )
    return found


def _write_answers(turn: int) -> Iterator[list[JSON]]:
    """The answers of a turn: one that reads a file, one that says what stands there."""
    thought = {"type": "thinking", "thinking": f"{turn}: {FILLER * 3}", "signature": f"s{turn}"}
    call = {"type": "tool_use", "id": f"c{turn}", "name": "read_file", "input": {"path": f"file{turn % 4}.py"}}
    yield [thought, call]
    yield [{**thought, "signature": f"t{turn}"}, {"type": "text", "text": f"Answer {turn}. {FILLER * 4}"}]


@cache
def load_trials() -> Mapping[str, Trial]:
    """What the shipped policies came to, those alone that left a message without an answer."""
    return msgspec.json.decode(TRIALS_FILE.read_bytes(), type=dict[str, Trial])


def get_trial(policy: Policy, summaries: bool = True, shipped: bool = True) -> Trial:
    """What is kept of a policy that is as it was shipped, else a trial of it."""
    if summaries and shipped and policy.name in list_policies():
        return load_trials().get(policy.name, Trial(TURNS))
    return run_trial(policy, summaries)


def edits_on_server(policy: Policy) -> bool:
    """Whether it is the provider's server that cuts."""
    return any(part.rule.sends is not None or part.rule.name in SERVER_RULES for part in policy.rules)


def summarize_doubts(policy: Policy, to: Destination) -> str:
    """Why a policy, as shipped, is not for chats at a place, in a few words for a list; "" where nothing speaks against it."""
    if edits_on_server(policy):
        return "needs Anthropic's API" if to.kind == "server" else ""
    trial = load_trials().get(policy.name, Trial())
    if trial.rejected:
        return "the provider rejects it"
    return "ends when the window is full" if trial.runs_full else ""


def list_doubts(policy: Policy, to: Destination, trial: Trial, summaries: bool, prices: Prices = PRICES) -> tuple[str, ...]:
    """Why a policy must not send a chat to a place: sentences for people, none where nothing speaks against it.

    `trial`: of this policy as it is; `summaries`: whether a model may sum up.
    """
    if edits_on_server(policy):  # what the server cuts cannot be tried here
        return (SERVER_DOUBT,) if to.kind == "server" else ()
    found, window = [], to.window or prices.find_facts(to.model).window or 0
    if policy.budget.formula == "fixed" and 0 < window < policy.budget.tokens:
        found.append(f"It begins to cut at {policy.budget.tokens:,} tokens; this model's window of {window:,} is full before.")
    if trial.asked_for_summary and not trial.is_usable and not summaries:
        found.append("It lets a model sum up what it cuts, and that is switched off here.")
    if trial.rejected:
        found.append(f"The provider would reject its requests: {trial.rejected}.")
    if trial.runs_full:
        told = f"Tried on {trial.turns} turns with tools in a window of {WINDOW:,} tokens, it left {trial.refused} unanswered"
        found.append(
            f"{told}, the first at turn {trial.first_refused + 1}: it does not make room in time, and then nothing is sent."
        )
    return (*found,)
