"""The gauge of a chat: the bar of the next request, where its policy will cut, and what becomes of what is being typed.

Text of sessions passes `esc`, always.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnscope.views import Decision, Plan, next_request, slots
from turnscope.views import overview as views

from pages.chat.preview import RequestPreview
from pages.chat.typing_box import Draft
from pages.parts import cards
from pages.parts.formats import escape, format_percent, format_tokens, format_usd, shorten

VERDICTS = {
    "send": ("fits", "good"),
    "warn": ("close to the limit", "warn"),
    "overflow": ("over the limit", "bad"),
    "refuse": ("would be refused", "bad"),
}


def render_envelope(
    weighed: RequestPreview | None, fits: next_request.Fits, ahead: next_request.NextCut | None, typed: bool, busy: bool
) -> str:
    """The bar of the next request, what becomes of it, and a line per part.

    Args:
        weighed: the next request; None = it is not planned yet.
        fits: prefix (tokens) and scale of the chat's requests.
        ahead: the next cut that is expected; None = none is in sight.
        typed: whether something is typed or attached.
        busy: whether a turn is under way.
    """
    if weighed is None:
        return '<div class="ts-empty">Planning the first request …</div>'
    plan = weighed.plan
    drawn = next_request.split_tokens(plan, next_request.get_terms(fits, plan.request.n))
    most = max(1, *drawn.values())
    rows = "".join(
        f'<div class="chat-row"><span><i class="ts-swatch" style="{_fill_style(name)}"></i>{views.LABELS[name]}</span>'
        f'<span class="meter"><i style="width:{100 * tokens / most:.1f}%;{_fill_style(name)}"></i></span>'
        f"<b>{format_tokens(tokens)}</b></div>"
        for name, tokens in drawn.items()
    )
    begun = typed or any(message.role == "user" for message in weighed.session.messages)  # else a placeholder opens the prompt
    inserts = slots.describe_slots(plan.seen, [_compute_scale(plan, drawn)] * 5) if begun else ()
    word = "being answered" if busy else "with what you are typing" if typed else "next request"
    sentence, tone = _describe_verdict(weighed)
    window, mark = plan.budget.window, ahead.cut_at if ahead else None
    verb = "blocked above" if ahead and ahead.blocked else "compacts at"
    chips = f'<span class="ts-chip {tone}">{sentence}</span>'
    if plan.model:
        chips += f'<span class="ts-chip">{escape(plan.model)}</span>'
    if not plan.budget.known:
        chips += '<span class="ts-chip warn" title="No table knows this model: its window is assumed">window assumed</span>'
    if find_cuts(plan):
        chips += f'<span class="ts-chip warn">{plan.calibration.predict(plan.before.tokens):,} before the policy</span>'
    line = (
        f'<div class="chat-fill" data-tokens="{plan.expected_tokens}"><b>{plan.expected_tokens:,}</b> of {window:,} tokens '
        f"({format_percent(plan.expected_tokens / max(1, window))}){f' · {verb} about {mark:,}' if mark else ''}</div>"
    )
    head = f'<h2 class="chat-h">Live envelope <em>{word}</em></h2>'
    note = "" if busy else _render_outlook(weighed, ahead, typed) + _render_middle(weighed)
    bar = _render_bar(plan, drawn, inserts, None if ahead and ahead.blocked else mark)
    return f'{head}{bar}{line}{note}{rows}<div class="ts-chips">{chips}{cards.render_slots(inserts)}</div>'


def _compute_scale(plan: Plan, drawn: dict[str, int]) -> float:
    """Provider tokens for one counted, as the parts are drawn."""
    return sum(tokens for name, tokens in drawn.items() if name not in cards.HATCHED) / max(1, plan.seen.tokens)


def find_cuts(plan: Plan) -> list[Decision]:
    """The decisions that take something away: what is put in is none of them."""
    return [made for made in plan.decisions if made.splice and not (made.edit.slot and made.edit.body)]


def render_attachments(weighed: RequestPreview | None, typed: Draft) -> str:
    """What each chosen file will cost in every request that carries it, or why it will not go; "" where none is chosen.

    Args:
        weighed: the next request; None = it is not planned yet.
        typed: what is typed and attached.
    """
    if not typed.names and not typed.refused:
        return ""
    sizes = weighed.attachment_tokens if weighed else ()
    lines = [f"<b>{escape(shorten(name, 40))}</b> {tokens:,} tokens" for name, tokens in zip(typed.names, sizes, strict=False)]
    good = f'<p class="chat-note">Attached: {", ".join(lines)}, again in every request that carries it.</p>' if lines else ""
    bad = "".join(f'<p class="chat-note bad"><b>{escape(e.what)}.</b> {escape(e.hint)}</p>' for e in typed.refused)
    return good + bad


def _describe_verdict(weighed: RequestPreview) -> tuple[str, str]:
    if weighed.refused:
        return "would be refused", "bad"
    return ("fits after a cut", "warn") if find_cuts(weighed.plan) else VERDICTS[weighed.plan.verdict]


def _render_outlook(weighed: RequestPreview, ahead: next_request.NextCut | None, typed: bool) -> str:
    """What will happen with the next request, in a sentence; and when the chat will be cut."""
    plan, refused = weighed.plan, weighed.refused
    if not typed and not any(message.role == "user" for message in weighed.session.messages):
        return ""
    if refused:
        return f'<p class="chat-note bad"><b>Would not be sent:</b> {escape(refused.what)}. {escape(refused.hint)}</p>'
    made = find_cuts(plan)
    if made:
        verbs = ", ".join(dict.fromkeys(f"{d.action} ({d.rule.replace('_', ' ')})" for d in made))
        before, after = plan.calibration.predict(made[0].before), plan.calibration.predict(made[-1].after)
        size = f"{before:,} → {after:,} tokens"
        why = escape(made[0].edit.because)
        return f'<p class="chat-note warn"><b>Will be cut before it is sent:</b> {escape(verbs)}, {size}. {why}.</p>'
    fits = "<b>Fits as it is:</b> nothing will be cut. " if typed else ""
    return f'<p class="chat-note">{fits}{_describe_next_cut(ahead)}</p>'


def _render_middle(weighed: RequestPreview) -> str:
    """What models will make least of: the task or the last instruction in the middle of a long prompt."""
    if weighed.middle is None or weighed.refused:
        return ""
    what, before = weighed.middle
    place = f"{before * 100:.0f} % into this prompt ({format_tokens(weighed.plan.expected_tokens)} tokens)"
    return f'<p class="chat-note warn">Lost in the middle: the {what} sits {place}, where models recall least.</p>'


def render_lost_rules(weighed: RequestPreview | None) -> str:
    """Which rules of the user's the next request lacks, and what repeating them costs; "" where it has all.

    Args:
        weighed: the next request; None = it is not planned yet.
    """
    lost = weighed.lost_rules if weighed else None
    if lost is None:
        return ""
    them, price = "it" if len(lost.rules) == 1 else "them", f", {format_usd(lost.usd)} at most" if lost.usd else ""
    cost = f"Repeating {them} takes {lost.tokens:,} tokens in each request{price}."
    return f'<p class="chat-note warn" role="status"><b>{escape(lost.sentence)}</b> {cost}</p>'


def _describe_next_cut(ahead: next_request.NextCut | None) -> str:
    if ahead is None or (ahead.turns is None and ahead.cut_at is None):
        return "Nothing will be cut before the window is full."
    if not ahead.growth:
        return ""
    if ahead.turns is None:
        return f"At {ahead.growth:,} tokens a turn, as now, nothing is cut within {next_request.MAX_TURNS} turns."
    when = "with the next turn" if ahead.turns == 1 else f"in about {ahead.turns} turns"
    if ahead.blocked:
        return f"At {ahead.growth:,} tokens a turn, as now, the window is full {when}: this policy makes no room."
    return f"At {ahead.growth:,} tokens a turn, as now, the next cut comes {when}."


def _fill_style(name: str) -> str:
    return cards.fill_style(name) if name in cards.HATCHED else f"background:var(--ts-{name.replace('_', '-')})"


def _render_bar(plan: Plan, drawn: dict[str, int], inserts: Sequence[tuple[str, str, int]], mark: int | None) -> str:
    """The wide bar: buckets, free space, the answer's reserve, and where the policy begins to cut."""
    window, limit, prompt = plan.budget.window, mark or plan.budget.window, plan.expected_tokens
    whole = max(window, prompt, 1)
    parts = ""
    for name, tokens in drawn.items():
        width = 100 * tokens / whole
        label = f"{views.LABELS[name]} {format_tokens(tokens)}"
        shown = label if width * 4.6 > 8.2 * len(label) + 18 else ""  # pixels of the column on a page of 1440
        thin = "" if shown else " thin"
        hint = f"{views.LABELS[name]}: {tokens:,} tokens"
        style = f"width:{width:.3f}%;{_fill_style(name)};color:var(--ts-ink-{name.replace('_', '-')})"
        filling = f"<span>{shown}</span>{cards.render_inserts(inserts, name, tokens)}"
        parts += f'<div class="ts-seg{thin}" title="{hint}" style="{style}">{filling}</div>' if tokens else ""
    reserve = min(int(plan.request.settings.get("max_tokens") or 0), window)
    # At the right, next to what is kept for the answer: at the left the mark would cross it.
    place = f"justify-content:flex-end;padding-right:calc({100 * reserve / whole:.2f}% + 9px)"
    free = (
        f'<div class="ts-seg free" style="{place}">{format_tokens(whole - prompt)} free</div>'
        if whole - prompt > whole * 0.2
        else ""
    )
    filling = (
        f'<div class="ts-reserve" style="width:{100 * reserve / whole:.2f}%" title="kept for the answer: {reserve:,}"></div>'
    )
    left = min(100.0, 100 * limit / whole)
    tick = f'<div class="ts-tick" style="left:{left:.2f}%"></div>' if limit < whole else ""
    style = f"right:{min(60.0, 100 - left):.2f}%;color:var(--ts-warn);padding-right:6px"
    scale = f'<span style="{style}">compacts at {format_tokens(limit)}</span>'
    right = 100 - 100 * window / whole  # 0 where all fits
    at = f"right:{right:.2f}%" if right < 60 else f"left:{100 - right:.2f}%"
    end = (
        f'<div class="ts-tick" style="left:{100 - right:.2f}%;border-left:2px solid var(--ts-bad)"></div>' if right else filling
    )
    scale = (
        scale if left < 88 and not right else ""
    ) + f'<span style="{at};color:var(--ts-bad)">window {format_tokens(window)}</span>'
    aria = f"{prompt:,} of {window:,} tokens"
    return (
        f'<div class="ts-barbox"><div class="ts-scale">{scale}</div>'
        f'<div class="ts-bar slim" role="img" aria-label="{aria}">{parts}{free}{tick}{end}</div></div>'
    )
