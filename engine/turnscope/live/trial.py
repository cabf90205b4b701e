"""Try a policy on a simulated chat before anybody chats under it: whether its requests fit, and what it needs of the server.

The simulated conversation has prompts, tool calls, long results and thinking, in a window that is soon full. Nothing is
sent. `trials.json` holds the outcomes of the shipped policies; `python -m tests.regenerate trials` writes it. A policy with
changed parameters, or a user's own, is tried when it is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import msgspec
from msgspec import structs

from turnscope.envelope.plan import Plan
from turnscope.errors import RuleError
from turnscope.live import request_checks
from turnscope.live.live_session import LiveSession
from turnscope.live.offline.model import COUNTER
from turnscope.live.tools import DEFINITIONS
from turnscope.numbering import format_turn
from turnscope.planning.answers import OFFLINE, make_answerer
from turnscope.planning.assemble import reconcile_plan
from turnscope.planning.bodies import Bodies
from turnscope.planning.policy import Policy, list_policies, make_sendable
from turnscope.pricing.prices import PRICES, Prices
from turnscope.session.destination import Destination
from turnscope.session.model import JSON, Session

MODEL, WINDOW, ANSWER = "offline-16k", 16_000, 1_024  # window and answer in tokens
TURNS = 24
THINKING: dict[str, JSON] = {"type": "adaptive"}
FILLER = "Whoever carries the message further remembers everything that somebody mentioned about the weather. "
MAX_UNANSWERED = 2  # turns at the end that may be refused before the policy makes room
# Sentences of a prompt, and lines of code in a tool result. The second course fills the window of a policy that counts fewer
# tokens than the provider.
COURSES = (0, 50), (3, 150)
SERVER_RULES = ("compact_on_demand",)  # rules without `sends` that need the provider's server all the same
SERVER_DOUBT = "It uses context editing of the provider's server, which Anthropic's API has. Other servers ignore or reject it."
TRIALS_FILE = Path(__file__).with_name("trials.json")


class Trial(msgspec.Struct, frozen=True):
    """The outcome of a trial. `trials.json` calls three of its fields `first`, `since` and `summed`.

    Args:
        turns: How many turns the trial had.
        refused: How many of them ended with a refused request.
        first_refused: The first of those, counted from 0; -1 = none.
        refused_at_end: Refused turns after the last answered one.
        requested_summary: Whether a model was called for a summary.
        rejected: Why the provider would reject a request that fits; "" = it would not.
        failed: Which rule failed, and how; "" = none.
    """

    turns: int = 0
    refused: int = 0
    first_refused: int = msgspec.field(default=-1, name="first")
    refused_at_end: int = msgspec.field(default=0, name="since")
    requested_summary: bool = msgspec.field(default=False, name="summed")
    rejected: str = ""
    failed: str = ""

    @property
    def runs_full(self) -> bool:
        """Whether the window fills up and the policy makes no room any more."""
        return self.refused_at_end > MAX_UNANSWERED

    @property
    def is_usable(self) -> bool:
        """Whether the chat goes on to its end, apart from a few refused turns."""
        return not (self.runs_full or self.rejected or self.failed)


def run_trial(policy: Policy, summaries: bool = True) -> Trial:
    """Try a policy. A fixed budget is replaced by nine tenths of the trial's window.

    Args:
        policy: The policy.
        summaries: Whether a model may write summaries.
    """
    if policy.budget.formula == "fixed":
        policy = replace(policy, budget=replace(policy.budget, tokens=9 * WINDOW // 10))
    chosen = make_sendable(policy)
    try:
        courses = [_run_course(chosen, summaries, *course) for course in COURSES]
    except RuleError as error:  # of a rule that a package brings
        return Trial(TURNS, failed=error.what)
    return max(courses, key=lambda trial: (bool(trial.rejected), trial.refused_at_end))


def _run_course(chosen: Policy, summaries: bool, sentences: int, lines: int) -> Trial:
    """Run one course of the trial.

    Args:
        chosen: The policy as it would be sent.
        summaries: Whether a model may write summaries.
        sentences: Sentences in each prompt.
        lines: Lines of code in each tool result.
    """
    live_session, bodies = LiveSession(Session("trial", source="trial"), COUNTER), Bodies()
    live_session.append_message("tools", DEFINITIONS, origin="system")
    live_session.append_message("system", "You are brief.", origin="system")
    answers = make_answerer(live_session.facts.answers.get, OFFLINE if summaries else {})
    plan: Plan | None = None
    found = Trial(TURNS)
    for turn in range(TURNS):
        live_session.append_message("user", f"What of file {turn % 4}? {turn} {FILLER * sentences}", origin="prompt")
        for content in _write_answers(turn):
            settings = {"max_tokens": ANSWER, "thinking": THINKING}
            request = live_session.build_request(model=MODEL, window=WINDOW, settings=settings)
            plan = request_checks.plan_request(plan, live_session, request, chosen, answers)
            if any(ask.kind in ("summary", "compact") for ask, _ in plan.asks):
                found = structs.replace(found, requested_summary=True)
            refused = request_checks.check_window(plan, live_session.session, live_session.ledger)
            if refused:
                first = turn if found.first_refused < 0 else found.first_refused
                found = structs.replace(
                    found, refused=found.refused + 1, first_refused=first, refused_at_end=found.refused_at_end + 1
                )
            elif wrong := request_checks.check_body(
                bodies.build(plan, live_session.session), MODEL, live_session.prices, bodies, None
            ):
                return structs.replace(found, rejected=wrong.wrong)
            else:
                found = structs.replace(found, refused_at_end=0)
                live_session.append_message("assistant", content, origin="answer")
            plan = reconcile_plan(structs.replace(plan, request=live_session.append_request(request)))
            if refused:
                break
            if calls := [block["id"] for block in content if block["type"] == "tool_use"]:
                result = "".join(f"def function_{turn}_{i}(value): return value + {i}\n" for i in range(lines))
                live_session.append_message(
                    "user", [{"type": "tool_result", "tool_use_id": calls[0], "content": result}], origin="tool"
                )
    return found


def _write_answers(turn: int) -> Iterator[list[JSON]]:
    """Yield the answers of a turn: one that reads a file, and one that describes it."""
    thought = {"type": "thinking", "thinking": f"{turn}: {FILLER * 3}", "signature": f"s{turn}"}
    call = {"type": "tool_use", "id": f"c{turn}", "name": "read_file", "input": {"path": f"file{turn % 4}.py"}}
    yield [thought, call]
    yield [{**thought, "signature": f"t{turn}"}, {"type": "text", "text": f"Answer {turn}. {FILLER * 4}"}]


@cache
def load_trials() -> Mapping[str, Trial]:
    """Load the outcomes of the shipped policies. Policies that answered every turn are not in the file."""
    return msgspec.json.decode(TRIALS_FILE.read_bytes(), type=dict[str, Trial])


def get_trial(policy: Policy, summaries: bool = True, shipped: bool = True) -> Trial:
    """Return the outcome for a policy: the stored one if the policy is as shipped, else that of a new trial.

    Args:
        policy: The policy.
        summaries: Whether a model may write summaries.
        shipped: Whether the policy has its shipped parameters.
    """
    if summaries and shipped and policy.name in list_policies():
        return load_trials().get(policy.name, Trial(TURNS))
    return run_trial(policy, summaries)


def edits_on_server(policy: Policy) -> bool:
    """Return whether the provider's server edits the context, and not we."""
    return any(part.rule.sends is not None or part.rule.name in SERVER_RULES for part in policy.rules)


def serves_edits(policy: Policy, to: Destination) -> bool:
    """Return whether a destination has the context editing that a policy uses. OpenAI compacts on demand, and no more.

    Args:
        policy: The policy.
        to: The destination.
    """
    sends = any(part.rule.sends is not None for part in policy.rules)
    return to.is_anthropic or (to.kind == "openai" and not sends)


def summarize_doubts(policy: Policy, to: Destination) -> str:
    """Return in a few words why a shipped policy is not for live chats at a destination; "" if it is.

    Args:
        policy: The policy, as shipped.
        to: The destination.
    """
    if edits_on_server(policy):
        return "" if serves_edits(policy, to) else "needs Anthropic's API"
    trial = load_trials().get(policy.name, Trial())
    if trial.rejected:
        return "the provider rejects it"
    return "ends when the window is full" if trial.runs_full else ""


def list_doubts(policy: Policy, to: Destination, trial: Trial, summaries: bool, prices: Prices = PRICES) -> tuple[str, ...]:
    """Return sentences that say why a policy must not send a chat to a destination; none if it may.

    Args:
        policy: The policy as it is.
        to: The destination.
        trial: The outcome of a trial of this policy.
        summaries: Whether a model may write summaries.
        prices: The models that are known.
    """
    if edits_on_server(policy):  # a trial without the server cannot show what it does
        return () if serves_edits(policy, to) else (SERVER_DOUBT,)
    found, window = [], to.window or prices.find_facts(to.model).window or 0
    if policy.budget.formula == "fixed" and 0 < window < policy.budget.tokens:
        found.append(f"It begins to cut at {policy.budget.tokens:,} tokens, but the model's window holds only {window:,}.")
    if trial.requested_summary and not trial.is_usable and not summaries:
        found.append("It needs summaries by a model, which are switched off here.")
    if trial.failed:
        found.append(f"It cannot plan a request: {trial.failed}.")
    if trial.rejected:
        found.append(f"The provider would reject its requests: {trial.rejected}.")
    if trial.runs_full:
        outcome = (
            f"In a trial of {trial.turns} turns with tools and a window of {WINDOW:,} tokens it left {trial.refused} unanswered"
        )
        first = format_turn(trial.first_refused)
        found.append(f"{outcome}, the first at turn {first}: it does not make room in time, and then nothing is sent.")
    return (*found,)
