"""HTML of a chat: its messages, the bar of the next request, the log of decisions. Text of sessions passes `esc`, always."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from turnscope import Session
from turnscope.live.events import Event, QueryAnswered, SummaryStarted, ToolCalled, ToolResult
from turnscope.numbering import format_request
from turnscope.views import Block, Edit, Message, Plan, decision_log, manual_summaries, next_request
from turnscope.views.labels import label_block

from pages.chat import attachments, markdown
from pages.parts import cards
from pages.parts.formats import escape, format_percent, format_tokens, format_usd, shorten

MOST = 60  # messages drawn at once
FOLD = 3_000  # characters of a text that is folded
NAMES = {"user": "You", "assistant": "Model", "tool": "Tool", "system": "System"}
RATINGS = {"up": "Good", "down": "Poor"}
STATES = {
    "whole": "The next request carries it as it stands.",
    "shortened": "The next request carries a part of it, or something shorter in its place.",
    "summarised": "A summary stands for it in the next request.",
    "left out": "The next request carries nothing of it.",
}
STATE_WORDS = {"whole": "in full"}  # of states whose name is not what people read
FENCE = re.compile(r"^```(?=[^`\n]*$)", re.MULTILINE)
LOUD = ("warn", "fallback", "refuse")


def render_conversation(
    session: Session, states: Sequence[next_request.State], shared: int, first: int = 0, sought: int | None = None
) -> str:
    """The messages from number `first` on, the newest last, each with what the next request carries of it.

    Args:
        session: the chat.
        states: what the next request carries of each message, by its number in the session.
        shared: blocks that came from where this chat was begun.
        first: number of the first message that is shown, counting those of user and assistant.
        sought: where a message begins that is marked; None = no message is.
    """
    numbers = [n for n, m in enumerate(session.messages) if m.role in ("user", "assistant")]
    begins = next_request.find_context_start(states, numbers) if states else None
    body, edge = "", False
    for number in numbers[first:]:
        message = session.messages[number]
        if shared and not edge and message.start >= shared:
            body, edge = body + '<p class="chat-more">the branch begins here</p>', True
        if number == begins:
            body += '<p class="chat-edge"><span>the context begins here</span></p>'
        body += _render_message(session, message, states[number] if number < len(states) else "whole", message.start == sought)
    return f'<div class="chat-list">{body}</div>'


def _render_message(session: Session, message: Message, state: next_request.State, sought: bool) -> str:
    blocks = session.blocks[message.start : message.stop]
    tool = all(block.kind == "tool_result" for block in blocks) and bool(blocks)
    who = "tool" if tool else message.role
    body = "".join(_render_block(session, block) for block in blocks)
    mark = f'<em class="{state.split()[0]}" title="{STATES[state]}">{STATE_WORDS.get(state, state)}</em>'
    kind = f"{who} {state.split()[0]}{' sought' if sought else ''}"
    return f'<article class="chat-msg {kind}"><h3>{NAMES[who]}{mark}</h3>{body}</article>' if body else ""


def _render_block(session: Session, block: Block) -> str:
    if attached := attachments.render_attachment(block):
        return attached
    text = block.text
    shown = escape(text[: markdown.LONG]) + (
        f"\n… {len(text) - markdown.LONG:,} more characters" if len(text) > markdown.LONG else ""
    )
    if block.kind == "text" and block.role == "assistant":
        return f'<div class="chat-text md">{markdown.render_answer(text)}</div>' if text.strip() else ""
    if block.kind == "text" and len(text) > FOLD:
        rest = f"all {len(text):,} characters"
        head = f'<div class="chat-text">{escape(text[: FOLD // 2])} …</div>'
        return f'{head}<details class="part"><summary>{rest}</summary><pre class="ts-text">{shown}</pre></details>'
    if block.kind == "text":
        return _render_fences(shown) if text.strip() else ""
    if block.kind in ("tool_use", "tool_result", "thinking") or len(text) > 400:
        name = "thought" if block.kind == "thinking" else label_block(session, block)
        word = "calls " if block.kind == "tool_use" else ""
        head = f'{word}{escape(shorten(name, 70))} <span class="ts-faint">· {len(text):,} characters</span>'
        return f'<details class="part"><summary>{head}</summary><pre class="ts-text">{shown}</pre></details>'
    return f'<div class="chat-text ts-faint">{escape(block.kind)}: {shown}</div>'


def _render_fences(shown: str) -> str:
    """A text with its fenced code set as code. It is escaped already, and nothing else of it is taken for markup."""
    body, code = "", False
    for n, part in enumerate(FENCE.split(shown)):
        code = n % 2 == 1
        text = part.partition("\n")[2] if code else part.strip("\n")
        body += (
            (f'<pre class="ts-text">{text}</pre>' if code else f'<div class="chat-text">{text}</div>') if text.strip() else ""
        )
    return body


def render_growing_answer(text: str, thinking: str, last: Event | None, stopping: bool = False, behind: int = 0) -> str:
    """The answer as far as it has come; "" once nothing of it is left to come.

    Args:
        text: its text so far.
        thinking: its thinking so far.
        last: the newest event of the turn.
        stopping: whether somebody pressed Stop.
        behind: number of messages before it.
    """
    if stopping and not text and not thinking:
        return '<p class="chat-more" role="status">Stopping …</p>'
    thought = f'<div class="chat-text thought">{escape(thinking[-1_500:])}</div>' if thinking and not text else ""
    body = f'<div class="chat-text md">{markdown.render_growing(text)}</div>' if text else ""
    body = body or thought or f'<div class="chat-text ts-faint">{_describe_wait(last)}</div>'
    return f'<article class="chat-msg assistant now" data-n="{behind}"><h3>{NAMES["assistant"]}</h3>{body}</article>'


def _describe_wait(last: Event | None) -> str:
    match last:
        case ToolCalled():
            return "Calling a tool …"
        case QueryAnswered() | SummaryStarted():
            return "Condensing …"
        case ToolResult():
            return "Sending the tool's result …"
    return "Waiting for the first word …"


def render_interruption() -> str:
    """The newest answer did not come to its end."""
    return '<p class="chat-more" role="status">The answer was interrupted here; what had come of it is kept.</p>'


def render_decisions(log: dict[int, Plan], fits: next_request.Fits, session: Session | None, most: int = 14) -> str:
    """What the policy did to the newest requests and why, the newest first; a cut that merely still stands is left out.

    Args:
        log: plans by the number of their request.
        fits: prefix (tokens) and scale of the chat's requests.
        session: the chat; None where it has none yet.
        most: how many are shown.
    """
    lines: list[str] = []
    seen: set[tuple[object, ...]] = set()
    for n in sorted(log):
        plan, expected = log[n], next_request.get_terms(fits, n).predict
        for by, decision in decision_log.iter_decisions(plan):
            edit = decision.edit
            mark = (decision.rule, decision.action, edit.span, edit.slot, n if edit.facts.get("by_hand") else -1)
            if (decision.splice is None and decision.action not in LOUD) or mark in seen:
                continue
            seen.add(mark)
            size = (
                f"{format_tokens(expected(decision.before))} → {format_tokens(expected(decision.after))}"
                if decision.splice
                else ""
            )
            tone = "warn" if decision.action in LOUD else ""
            rule = escape(decision.rule.replace("_", " ")) + (" · by the server" if by == "server" else "")
            rule += _describe_rating(edit, session)
            lines.append(
                f'<div class="chat-log {tone}"><span><b>{decision.action}</b> at request {format_request(n)}'
                f" <em>{rule}</em></span>"
                f"<b>{size}</b><p>{escape(edit.because)}</p></div>"
            )
    body = "".join(reversed(lines[-most:])) or '<div class="ts-empty">Nothing yet: every request was sent unchanged.</div>'
    return cards.render_panel("Decision log", body, f"the last {len(log)} requests" if log else "")


def _describe_rating(edit: Edit, session: Session | None) -> str:
    """What somebody thought of the summary that an edit put there."""
    rated = manual_summaries.get_rating(edit, session) if session else ""
    return f" · rated {RATINGS.get(rated, escape(rated))}" if rated else ""


def render_summary(summary: manual_summaries.ManualSummary) -> str:
    """A summary that stands in the next request."""
    shown = escape(shorten(summary.text, 220))
    size = f"{summary.tokens:,} tokens for {summary.replaced_blocks:,} blocks"
    return f'<div class="chat-log"><span><b>summary</b> <em>{size}</em></span><p>{shown}</p></div>'


def render_spending(session: Session, spent: Decimal, limit: Decimal | None, since: int) -> str:
    """Requests, tokens and money of this chat.

    Args:
        session: the chat.
        spent: USD spent so far.
        limit: USD from which on the chat asks before it sends; None = no limit.
        since: the first request of this chat itself; those before it came with its beginning.
    """
    billed = [each for r in session.requests[since:] if r.usage for each in r.usage.passes]
    prompt, read = sum(u.prompt_tokens for u in billed), sum(u.cache_read_input_tokens for u in billed)
    left = f" · {format_usd(max(limit - spent, Decimal(0)))} of {format_usd(limit)} left" if limit else ""
    chips = [f"{len(session.requests) - since:,} requests", f"{format_tokens(prompt)} tokens sent"]
    chips += [f"{format_percent(read / prompt)} read from cache"] if prompt else []
    chips += [f"{format_usd(spent)} spent{left}"]
    return '<div class="ts-chips">' + "".join(f'<span class="ts-chip">{chip}</span>' for chip in chips) + "</div>"


def render_title(name: str, to: str, address: str, model: str, before: str) -> str:
    """The chat's name and where its next request goes.

    Args:
        name: the chat's name.
        to: the provider.
        address: the provider's URL.
        model: the model.
        before: where it went so far, if the form says otherwise now.
    """
    chips = f'<span class="ts-chip">{escape(to)}</span>'
    chips += f'<span class="ts-chip">{escape(address)}</span>' if address else ""
    chips += f'<span class="ts-chip">{escape(model or "no model")}</span>'
    if before:
        chips += f'<span class="ts-chip warn">from the next message on; so far: {escape(before)}</span>'
    return f'<div class="ts-title"><h1>{escape(shorten(name, 80))}</h1>{chips}</div>'


def render_welcome(provider: str) -> str:
    """What an empty chat says."""
    honest = (
        "<br>The built-in model understands nothing and says so. It counts, caches and refuses as a provider does, and calls "
        "tools: try “calculate 12*(3+4)”, or choose a folder in the settings and say “read file README.md”."
        if provider == "offline"
        else ""
    )
    return f'<div class="chat-empty"><b>Say something.</b> Next to it you see what the next request will carry.{honest}</div>'
