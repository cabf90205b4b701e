"""What the debugger says of a policy as a whole, and its style sheet."""

from __future__ import annotations

from turnscope.numbering import format_request
from turnscope.views.rejections import format_problems
from turnscope.views.stepper import VERDICTS

from pages.debugger import policy_replay
from pages.debugger.policy_replay import Replay
from pages.parts import opening, policies, replays
from pages.parts.formats import escape, format_cost, format_factor, format_tokens, format_usd

TONES = {"warn": "warn", "overflow": "bad", "refuse": "bad"}
WORDS = {"warn": "warned", "overflow": "sent over the limit", "refuse": "refused"}


def render_verdict(shown: opening.ShownSession, replay: Replay) -> str:
    """One line about the whole session under the policy; a clear notice where it changes nothing.

    Args:
        shown: the session that is shown.
        replay: the replay that is shown.
    """
    made, count = replay.steps, len(replay.trace.plans)
    peak, top = made.peak
    limit = format_tokens(replay.trace.plans[top].budget.limit)
    largest = f"largest request {format_tokens(peak)} tokens, number {format_request(top)}, limit {limit}"
    over = sum(made.verdicts[1:])
    chips = "".join(
        f'<span class="ts-chip {TONES[name]}">{many:,} {WORDS[name]}</span>'
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
        f"{share:.0%} of uncut tokens</span>"
        f'<span class="ts-chip" title="{escape(largest)}">peak {format_tokens(peak)} of {limit}</span>'
    )
    return f'<div class="policy-line">{numbers}{chips}</div>'


def _render_cost(shown: opening.ShownSession, replay: Replay) -> str:
    """What the requests would cost, with the prompt cache that they would have met, as a factor of what they did."""
    recorded, spent = replays.price_record(shown).total, replay.steps.costs
    if replay.policy.name == policies.RECORDED or not recorded or spent.total is None:
        return ""
    hint = (
        "Simulated with the recorded answers: what each request would have found in the prompt cache, and what its summaries "
        "would have cost; scaled so that the record costs its bill. The same figure as on Compare."
    )
    cost = format_cost(spent.total, spent.unpriced_requests, simulated=True)
    if replay.is_whole:
        cost += f", {format_factor(float(spent.total / recorded))} of what it cost ({format_usd(recorded)})"
    return f'<span class="ts-chip" title="{hint}">{cost}</span>'


def _render_rejections(replay: Replay) -> str:
    """How many requests the provider would not take, and why."""
    if not replay.is_whole:  # of a part it would be found anew with each part
        return ""
    found = policy_replay.find_rejections(replay)
    hint = (
        f"The first is request {format_request(found.first_request)}: {format_problems(found.requests[found.first_request])}"
        if found.count
        else ""
    )
    return f'<span class="ts-chip bad" title="{escape(hint)}">{escape(found.sentence)}</span>' if found.count else ""


def _many(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"
