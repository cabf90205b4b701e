"""The next request of a chat, in the provider's tokens: its parts, its messages, and when the chat is cut next.

Its total is the plan's own projection, by which it is sent or refused. Hidden tokens and scale are those of all other numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from turnscope.counting.ledger import Ledger
from turnscope.counting.reconciliation import CELLS, Fit, Terms
from turnscope.envelope.pieces import Piece
from turnscope.envelope.plan import Plan
from turnscope.planning.prompt_cache import count_tokens_from
from turnscope.planning.session_fit import fit_session
from turnscope.session.model import Session
from turnscope.views import position

Fits = Sequence[Fit]


def fit_requests(session: Session, sizes: Sequence[int], plan: Plan | None = None) -> Fits:
    """Fit the requests of a chat, and the next one.

    Args:
        session: the chat.
        sizes: counted tokens of each request.
        plan: the plan of the next request.
    """
    requests = session.requests
    if plan and plan.request.n >= len(requests):
        return fit_session(session, (*requests, plan.request), (*sizes[: len(requests)], plan.seen.tokens))
    return fit_session(session, requests, sizes[: len(requests)])


def get_terms(fits: Fits, request: int) -> Terms:
    """The terms of one request; before the first request no hidden tokens and the counter's own scale.

    Args:
        fits: those of `fit_requests`.
        request: number of the request.
    """
    return next((fit for fit in fits if fit.start <= request < fit.stop), Fit(request, request + 1, 0, 1.0)).get_policy_terms()


def split_tokens(plan: Plan, fit: Terms) -> dict[str, int]:
    """Split the provider tokens of a plan into the parts of `CELLS`. They sum to `plan.expected_tokens`.

    Args:
        plan: the plan.
        fit: the terms of its request.
    """
    prefix = min(fit.prefix, plan.expected_tokens)
    earlier = min(fit.earlier, plan.expected_tokens - prefix)
    scale = (plan.expected_tokens - prefix - earlier) / max(1, plan.seen.tokens)
    named = {name: round(count * scale) for name, count in zip(CELLS[:5], plan.seen.counts, strict=True)}
    return {name: tokens for name, tokens in (("prefix", prefix), ("earlier", earlier)) if tokens} | named


def find_mid_prompt(plan: Plan, session: Session, ledger: Ledger) -> tuple[str, float] | None:
    """Find the task or the last instruction, if it is in the middle half of a long prompt.

    Args:
        plan: the next request.
        session: the chat.
        ledger: its token counts.

    Returns:
        What it is, in the words of `views.findings`, and the share of the prompt before it; None = neither is there.
    """
    prompts = [message.start for message in session.messages if message.origin == "prompt" and message.start < plan.seen.stop]
    if not prompts or plan.expected_tokens < position.LONG_PROMPT:
        return None
    named = {prompts[0]: "task"} | ({prompts[-1]: "last instruction"} if len(prompts) > 1 else {})
    for at, what in reversed(named.items()):
        before, upto = (
            1 - count_tokens_from(plan.seen, n, ledger) * plan.calibration.scale / plan.expected_tokens for n in (at, at + 1)
        )
        if position.is_mid_prompt(before, upto) and plan.seen.find_piece(at).body is None:
            return what, before
    return None


# The state of each message

State = Literal["whole", "shortened", "summarised", "left out"]


def list_states(plan: Plan, session: Session) -> tuple[State, ...]:
    """List what the request carries of each message, in order. Messages after the request are whole.

    Args:
        plan: the request.
        session: the chat.
    """
    pieces = [*_list_piece_states(plan)]
    starts = [piece.start for piece, _ in pieces]
    found: list[State] = []
    for message in session.messages:
        first = max(0, bisect_left(starts, message.start + 1) - 1)
        last = bisect_left(starts, message.stop)
        here = {state for piece, state in pieces[first:last] if message.start < piece.stop}
        found.append(here.pop() if len(here) == 1 else "shortened" if here else "whole")
    return tuple(found)


def _list_piece_states(plan: Plan) -> list[tuple[Piece, State]]:
    """Every piece that holds blocks, with its state. Dropped pieces right after a summary are part of what it replaces."""
    found: list[tuple[Piece, State]] = []
    summed = False
    for piece in plan.after.pieces:
        if any(part.kind == "summary" for part in piece.body or ()):
            summed = True
        elif piece.body != () and piece.start < piece.stop:
            summed = False
        state: State = "whole" if piece.body is None else "summarised" if summed else "shortened" if piece.body else "left out"
        if piece.start < piece.stop:
            found.append((piece, state))
    return found


def find_context_start(states: Sequence[State], numbers: Sequence[int]) -> int | None:
    """Find the message with which the context begins, after the first removed ones; None = none is removed.

    Args:
        states: those of `list_states`.
        numbers: numbers of the messages to look at.
    """
    gone = False
    for number in numbers:
        if states[number] in ("summarised", "left out"):
            gone = True
        elif gone:
            return number
    return None


# The next cut

FILLER = "word "  # about one token
MAX_TURNS = 64  # turns that are looked ahead


class NextCut(Struct, frozen=True):
    """When a chat is cut next.

    Attributes:
        cut_at: prompt tokens, before the policy, from which it is cut; None = none below its window.
        turns: turns until then, each as large as the newest ones; None = more than `MAX_TURNS`.
        growth: tokens of such a turn; 0 = there is none yet, and `cut_at` is that of turns of a usual size.
        blocked: nothing is cut there, and nothing is sent from there on.
    """

    cut_at: int | None
    turns: int | None
    growth: int
    blocked: bool = False


def measure_growth(session: Session, ledger: Ledger, scale: float) -> int:
    """Provider tokens that the newest turns added on average; 0 without turns.

    Args:
        session: the chat.
        ledger: its token counts.
        scale: provider tokens per counted token.
    """
    prompts = [message.start for message in session.messages if message.origin == "prompt"][-8:]
    return round(scale * ledger.count_tokens(prompts[0], len(ledger)) / len(prompts)) if prompts else 0


PlanNext = Callable[[Sequence[tuple[str, str]]], Plan]


def predict_next_cut(weigh: PlanNext, growth: int) -> NextCut:
    """Predict the next cut by planning requests with more messages.

    Args:
        weigh: plans the next request as if these messages (role and text) had been sent.
        growth: provider tokens of a turn, see `measure_growth`.
    """
    window = weigh(()).budget.window
    large = max(64, window // 32)  # tokens of a turn by which the window is full before `MAX_TURNS`
    usual = growth or large

    def plan_turns(turns: int, tokens: int) -> Plan:
        half = FILLER * (usual // 2 + 1)
        return weigh([*[("user", half), ("assistant", half)] * (turns - 1), ("user", FILLER * tokens)])

    turns = _find_first_cut(MAX_TURNS, lambda turns: plan_turns(turns, usual))
    known = turns if growth else None
    if turns is None and usual < large:  # too far away by small turns: a policy that cuts whole turns needs several
        usual = large
        turns = _find_first_cut(MAX_TURNS, lambda turns: plan_turns(turns, usual))
    most = window if turns is None else usual
    tokens = _find_first_cut(most, lambda tokens: plan_turns(turns or 1, tokens))
    if tokens is None:
        return NextCut(None, None, growth)
    plan = plan_turns(turns or 1, tokens)
    mark = min(window, plan.calibration.predict(plan.before.tokens))
    return NextCut(mark, known, growth, blocked=not plan.is_changed)


def _find_first_cut(most: int, plan: Callable[[int], Plan]) -> int | None:
    """Find the smallest number up to `most` with which something is cut or the request is not sent."""
    found = bisect_left(range(1, most + 1), True, key=lambda number: _is_cut(plan(number))) + 1
    return found if found <= most else None


def _is_cut(plan: Plan) -> bool:
    return plan.is_changed or plan.verdict in ("overflow", "refuse")
