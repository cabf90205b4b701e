"""What the debugger says of a policy as a whole, and its style sheet."""

from __future__ import annotations

from turnscope.views.rejections import format_problems
from turnscope.views.stepper import VERDICTS

from pages.debugger import policy_replay
from pages.debugger.policy_replay import Replay
from pages.parts import opening, policies
from pages.parts.formats import escape, format_cost, format_tokens, format_usd

TONES = {"warn": "warn", "overflow": "bad", "refuse": "bad"}
SAID = {"warn": "warned", "overflow": "over the limit", "refuse": "refused"}


def render_verdict(shown: opening.ShownSession, replay: Replay) -> str:
    """One line about the whole session under the policy; a clear notice where it changes nothing.

    Args:
        shown: the session that is shown.
        replay: the replay that is shown.
    """
    made, count = replay.steps, len(replay.trace.plans)
    peak, top = made.peak
    limit = format_tokens(replay.trace.plans[top].budget.limit)
    largest = f"largest request {format_tokens(peak)} tokens, number {top:,}, limit {limit}"
    over = sum(made.verdicts[1:])
    chips = "".join(
        f'<span class="ts-chip {TONES[name]}">{many:,} {SAID[name]}</span>'
        for name, many in zip(VERDICTS, made.verdicts, strict=True)
        if many and name != "send"
    )
    chips += _render_rejections(replay) + _render_cost(shown, replay)
    if not made.changes:
        hint = "It would send every request as it stands." if not over else "It lets requests grow past the limit."
        return (
            f'<div class="ts-card nothing" role="status"><b>This policy changes nothing in this session.</b> '
            f"<span>{count:,} requests, {largest}. {hint}</span>{chips}</div>"
        )
    share = made.sent_tokens / made.uncut_tokens if made.uncut_tokens else 1.0
    numbers = (
        f'<span class="ts-chip warn" title="of {count:,} requests">{_many(len(made.changes), "change")} in '
        f"{_many(made.changed, 'request')}</span>"
        f'<span class="ts-chip" title="tokens of all requests: {made.sent_tokens:,}; '
        f'with everything kept: {made.uncut_tokens:,}">'
        f"sends {share:.0%}</span>"
        f'<span class="ts-chip" title="{escape(largest)}">peak {format_tokens(peak)} of {limit}</span>'
    )
    return f'<div class="policy-line">{numbers}{chips}</div>'


def _render_cost(shown: opening.ShownSession, replay: Replay) -> str:
    """What the requests would cost, with the prompt cache that they would have met, beside what they did."""
    recorded, spent = shown.view.path_total, replay.steps.costs.simulated
    if replay.policy.name == policies.RECORDED or recorded is None or spent.total is None:
        return ""
    hint = (
        "Simulated at list prices with the recorded answers: what each request would have found in the prompt cache, and what "
        "its summaries would have cost. The same figure as on the compare page."
    )
    cost = format_cost(spent.total, spent.unpriced_requests, simulated=True)
    return f'<span class="ts-chip" title="{hint}">{cost} · as it ran {format_usd(recorded)}</span>'


def _render_rejections(replay: Replay) -> str:
    """How many requests the provider would not take, and why."""
    found = policy_replay.find_rejections(replay)
    hint = (
        f"The first is request {found.first_request:,}: {format_problems(found.requests[found.first_request])}"
        if found.count
        else ""
    )
    return f'<span class="ts-chip bad" title="{escape(hint)}">{escape(found.sentence)}</span>' if found.count else ""


def _many(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
