"""HTML of a chat: its messages, the bar of the next request, the log of decisions. Text of sessions passes `esc`, always."""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from pathlib import Path

import streamlit as st

from engine import Session
from engine.live.events import Asked, Called, Condensing, Ending, Event, Failed, Held, Interrupted, Refused, Result
from engine.views import Block, Edit, Message, Plan, by_hand, next_request
from engine.views import overview as views
from engine.views.labels import label
from pages.parts import cards
from pages.parts.formats import esc, k, percent, short, usd

SHEET = Path(__file__).parent / "browser" / "chat.css"
MOST = 120  # messages shown; older ones are in the debugger
LONG = 20_000  # characters of one block shown
FOLD = 3_000  # characters of a text that is folded
NAMES = {"user": "You", "assistant": "Model", "tool": "Tool", "system": "System"}
VERDICTS = {"send": ("fits", "good"), "warn": ("close to the limit", "warn"), "overflow": ("over the limit", "bad"),
            "refuse": ("would be refused", "bad")}  # fmt: skip
ENDINGS = {Held: "On hold", Refused: "Not sent", Failed: "Failed", Interrupted: "Interrupted"}
RATINGS = {"up": "Good", "down": "Poor"}
LOUD = ("warn", "fallback", "refuse")


@cache
def _sheet() -> str:
    return SHEET.read_text(encoding="utf-8")


def style() -> None:
    """Put the page's style sheet on it."""
    st.html(f"<style>{_sheet()}</style>")


def conversation(session: Session, shared: int) -> str:
    """Every message, the newest last. `shared`: blocks that came from where this chat was begun."""
    said = [m for m in session.messages if m.role in ("user", "assistant")]
    more = f'<p class="chat-more">{len(said) - MOST:,} earlier messages are not drawn here.</p>' if len(said) > MOST else ""
    body, edge = "", False
    for message in said[-MOST:]:
        if shared and not edge and message.start >= shared:
            body, edge = body + '<p class="chat-more">the branch begins here</p>', True
        body += _message(session, message)
    return f'<div class="chat-list">{more}{body}</div>'


def _message(session: Session, message: Message) -> str:
    blocks = session.blocks[message.start : message.stop]
    tool = all(block.kind == "tool_result" for block in blocks) and bool(blocks)
    who = "tool" if tool else message.role
    body = "".join(_block(session, block) for block in blocks)
    return f'<article class="chat-msg {who}"><h4>{NAMES[who]}</h4>{body}</article>' if body else ""


def _block(session: Session, block: Block) -> str:
    text = block.text
    shown = esc(text[:LONG]) + (f"\n… {len(text) - LONG:,} more characters" if len(text) > LONG else "")
    if block.kind == "text" and len(text) > FOLD:
        rest = f"all {len(text):,} characters"
        head = f'<div class="said">{esc(text[: FOLD // 2])} …</div>'
        return f'{head}<details class="part"><summary>{rest}</summary><pre class="ts-text">{shown}</pre></details>'
    if block.kind == "text":
        return f'<div class="said">{shown}</div>' if text.strip() else ""
    if block.kind in ("tool_use", "tool_result", "thinking") or len(text) > 400:
        name = "thought" if block.kind == "thinking" else label(session, block)
        word = "calls " if block.kind == "tool_use" else ""
        head = f'{word}{esc(short(name, 70))} <span class="ts-faint">· {len(text):,} characters</span>'
        return f'<details class="part"><summary>{head}</summary><pre class="ts-text">{shown}</pre></details>'
    return f'<div class="said ts-faint">{esc(block.kind)}: {shown}</div>'


def streaming(text: str, thinking: str, last: Event | None) -> str:
    """The answer as far as it has come."""
    thought = f'<div class="said thought">{esc(thinking[-1_500:])}</div>' if thinking and not text else ""
    body = f'<div class="said">{esc(text)}<b class="caret">▌</b></div>' if text else ""
    body = body or thought or f'<div class="said ts-faint">{_waiting(last)}</div>'
    return f'<article class="chat-msg assistant now"><h4>{NAMES["assistant"]}</h4>{body}</article>'


def _waiting(last: Event | None) -> str:
    match last:
        case Called():
            return "Calling a tool …"
        case Asked() | Condensing():
            return "Condensing …"
        case Result():
            return "Sending the tool's result …"
    return "Waiting for the first word …"


def ended(event: Ending) -> str:
    """Why a turn ended early, with what to do about it."""
    if isinstance(event, Held):
        what, hint = event.why, "Go on if that is what you want, or raise the limit in the settings."
    else:
        what, hint = event.error.what, event.error.hint
    return f'<div class="ts-card ts-notice" role="alert"><b>{ENDINGS[type(event)]}: {esc(what)}</b><p>{esc(hint)}</p></div>'


def stopped() -> str:
    """The newest answer did not come to its end."""
    return '<p class="chat-more" role="status">The answer was interrupted here; what had come of it is kept.</p>'


def envelope(plan: Plan | None, fits: next_request.Fits, typed: bool, busy: bool) -> str:
    """The bar of the next request, a line per part, and where it stands against window and limit."""
    if plan is None:
        return '<div class="ts-empty">Planning the first request …</div>'
    drawn = next_request.parts(plan, next_request.fit(fits, plan.request.n))
    most = max(1, *drawn.values())
    rows = "".join(
        f'<div class="chat-row"><span><i class="ts-swatch" style="{_colour(name)}"></i>{views.LABELS[name]}</span>'
        f'<span class="meter"><i style="width:{100 * tokens / most:.1f}%;{_colour(name)}"></i></span>'
        f"<b>{k(tokens)}</b></div>"
        for name, tokens in drawn.items()
    )
    word = "being answered" if busy else "with what you are typing" if typed else "next request"
    said, tone = VERDICTS[plan.verdict]
    limit, window = plan.budget.limit, plan.budget.window
    chips = f'<span class="ts-chip {tone}">{said}</span>'
    if plan.model:
        chips += f'<span class="ts-chip">{esc(plan.model)}</span>'
    if not plan.budget.known:
        chips += '<span class="ts-chip warn" title="No table knows this model: its window is assumed">window assumed</span>'
    if plan.changed:
        chips += f'<span class="ts-chip warn">{plan.calibration.predict(plan.before.tokens):,} before the policy</span>'
    line = (
        f'<div class="chat-fill" data-tokens="{plan.projected}"><b>{plan.projected:,}</b> of {window:,} tokens '
        f"({percent(plan.projected / max(1, window))}) · the policy keeps it below {limit:,}</div>"
    )
    head = f'<h3 class="chat-h">Live envelope <em>{word}</em></h3>'
    return f'{head}{_bar(plan, drawn)}{line}{rows}<div class="ts-chips">{chips}</div>'


def _colour(name: str) -> str:
    return cards.filled(name) if name in cards.HATCHED else f"background:var(--ts-{name.replace('_', '-')})"


def _bar(plan: Plan, drawn: dict[str, int]) -> str:
    """The wide bar: buckets, free space, the answer's reserve, and where the policy begins to cut."""
    window, limit, prompt = plan.budget.window, plan.budget.limit, plan.projected
    whole = max(window, prompt, 1)
    parts = ""
    for name, tokens in drawn.items():
        width = 100 * tokens / whole
        label = f"{views.LABELS[name]} {k(tokens)}"
        shown = label if width * 4.6 > 8.2 * len(label) + 18 else ""  # pixels of the column on a page of 1440
        thin = "" if shown else " thin"
        hint = f"{views.LABELS[name]}: {tokens:,} tokens"
        style = f"width:{width:.3f}%;{_colour(name)};color:var(--ts-ink-{name.replace('_', '-')})"
        parts += f'<div class="ts-seg{thin}" title="{hint}" style="{style}"><span>{shown}</span></div>' if tokens else ""
    free = f'<div class="ts-seg free">{k(whole - prompt)} free</div>' if whole - prompt > whole * 0.2 else ""
    reserve = min(int(plan.request.settings.get("max_tokens") or 0), window)
    held = f'<div class="ts-reserve" style="width:{100 * reserve / whole:.2f}%" title="kept for the answer: {reserve:,}"></div>'
    left = min(100.0, 100 * limit / whole)
    tick = f'<div class="ts-tick" style="left:{left:.2f}%"></div>' if limit < whole else ""
    scale = (
        f'<span style="right:{min(60.0, 100 - left):.2f}%;color:var(--ts-warn);padding-right:6px">cut from {k(limit)}</span>'
    )
    scale = (scale if left < 88 else "") + f'<span style="right:0;color:var(--ts-bad)">window {k(window)}</span>'
    aria = f"{prompt:,} of {window:,} tokens"
    return (
        f'<div class="ts-barbox"><div class="ts-scale">{scale}</div>'
        f'<div class="ts-bar slim" role="img" aria-label="{aria}">{parts}{free}{held}{tick}</div></div>'
    )


def decisions(log: dict[int, Plan], fits: next_request.Fits, session: Session | None, most: int = 14) -> str:
    """What the policy did to the newest requests and why, the newest first; a cut that merely still stands is left out.

    `fits`: prefix and scale of the chat's requests.
    """
    lines: list[str] = []
    seen: set[tuple[object, ...]] = set()
    for n in sorted(log):
        plan, expected = log[n], next_request.fit(fits, n).expected
        for decision in plan.decisions:
            edit = decision.edit
            mark = (decision.rule, decision.action, edit.span, edit.slot, n if edit.facts.get("by_hand") else -1)
            if (decision.splice is None and decision.action not in LOUD) or mark in seen:
                continue
            seen.add(mark)
            size = f"{k(expected(decision.before))} → {k(expected(decision.after))}" if decision.splice else ""
            tone = "warn" if decision.action in LOUD else ""
            rule = esc(decision.rule.replace("_", " "))
            rule += _rating(edit, session)
            lines.append(
                f'<div class="chat-log {tone}"><span><b>{decision.action}</b> at request {n} <em>{rule}</em></span>'
                f"<b>{size}</b><p>{esc(edit.because)}</p></div>"
            )
    body = "".join(reversed(lines[-most:])) or '<div class="ts-empty">Nothing yet: every request was sent as it stood.</div>'
    return cards.panel("Decision log", body, f"the last {len(log)} requests" if log else "")


def _rating(edit: Edit, session: Session | None) -> str:
    """What somebody thought of the summary that an edit put there."""
    rated = by_hand.rating(edit, session) if session else ""
    return f" · rated {RATINGS.get(rated, esc(rated))}" if rated else ""


def standing(summary: by_hand.Summary) -> str:
    """A summary that stands in the next request."""
    shown = esc(short(summary.text, 220))
    size = f"{summary.tokens:,} tokens for {summary.stands_for:,} blocks"
    return f'<div class="chat-log"><span><b>summary</b> <em>{size}</em></span><p>{shown}</p></div>'


def spending(session: Session, spent: Decimal, limit: Decimal | None, since: int) -> str:
    """Requests, tokens and money of this chat."""
    billed = [r.usage for r in session.requests[since:] if r.usage]
    prompt, read = sum(u.prompt_tokens for u in billed), sum(u.cache_read_input_tokens for u in billed)
    left = f" · {usd(max(limit - spent, Decimal(0)))} of {usd(limit)} left" if limit else ""
    chips = [f"{len(session.requests) - since:,} requests", f"{k(prompt)} tokens sent"]
    chips += [f"{percent(read / prompt)} read from cache"] if prompt else []
    chips += [f"{usd(spent)} spent{left}"]
    return '<div class="ts-chips">' + "".join(f'<span class="ts-chip">{chip}</span>' for chip in chips) + "</div>"


def title(name: str, provider: str, model: str) -> str:
    """The chat's name and where it is sent."""
    where = {"offline": "built-in offline model", "anthropic": "Anthropic API"}.get(provider, "another server")
    chips = f'<span class="ts-chip">{where}</span><span class="ts-chip">{esc(model or "no model")}</span>'
    return f'<div class="ts-title"><h1>{esc(short(name, 80))}</h1>{chips}</div>'


def welcome(provider: str) -> str:
    """What an empty chat says."""
    honest = (
        "<br>The built-in model understands nothing and says so. It counts, caches and refuses as a provider does, and calls "
        "tools: try “calculate 12*(3+4)”, or choose a folder in the settings and say “read file README.md”."
        if provider == "offline"
        else ""
    )
    return f'<div class="chat-empty"><b>Say something.</b> Beside it you see what the next request will carry.{honest}</div>'
