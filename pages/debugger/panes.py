"""Under the stepper: the block before and after, why it is here or not, what was sent, and what differs from before.

Only the one pane that is looked at is made. Session text goes through `st.code` without a language, or escaped.
"""

from __future__ import annotations

import streamlit as st
from turnscope import Trace
from turnscope.numbering import format_request, format_turn, number_request
from turnscope.views import Cursor, closeup, decision_log, exact_body, rejections, summary_quality
from turnscope.views.cached_cost import CachePrice
from turnscope.views.stepper import find_summary_block

from pages.debugger import address, decision_list, dry_run, overflow_pane, policy_replay
from pages.debugger.address import Place
from pages.debugger.policy_replay import Replay
from pages.parts import cards, opening, url, widgets
from pages.parts.formats import escape, format_tokens

_BLOCK = "debugger.block"
PANES = {
    "text": "Before and after",
    "list": "All decisions",
    "sent": "What was sent",
    "difference": "Diff with previous",
    "ladder": "Overflow handling",
    "asks": "Rule queries",
    "log": "This decision",
}
DRY_RUN = {"dry": "Dry run"}
HERE = {
    "here": ("Here", "good"),
    "replaced": ("Replaced", "warn"),
    "absent": ("Not here", "bad"),
    "unseen": ("Sent, not seen", "warn"),
    "later": ("Not yet", "faint"),
}


def draw(shown: opening.ShownSession, replay: Replay, at: Place) -> None:
    """Everything that depends on the place.

    Args:
        shown: the session that is shown.
        replay: the replay that is shown.
        at: where the stepper stands.
    """
    cursor = Cursor(at.request, at.step)
    close = closeup.build_closeup(replay.trace, cursor, at.block)
    overflow_pane.draw_line(shown, replay, at)
    if close:
        _draw_reason(shown, replay, at, close)
    if replay.is_whole and (wrong := rejections.format_problems(policy_replay.find_rejections(replay).requests[at.request])):
        heading = "The API would reject this request"
        st.html(
            f'<div class="why-line refused" role="status"><b class="tone-bad">{heading}</b> <span>{escape(wrong)}</span></div>'
        )
    queries = len(replay.trace.plans[at.request].asks)
    offered = PANES | (DRY_RUN if dry_run.is_recorded(shown) else {})
    names = {key: f"{name} ({queries})" if key == "asks" and queries else name for key, name in offered.items()}
    pane = url.draw_choice("Look at", names, "pane", "debugger.pane")
    if pane == "text":
        _draw_texts(replay, at, close)
    elif pane == "list":
        decision_list.draw(replay, at)
    elif pane == "sent":
        _draw_body(replay, at)
    elif pane == "difference":
        widgets.draw_text(exact_body.diff_with_previous(replay.trace, at.request))
    elif pane == "ladder":
        overflow_pane.draw(shown, replay, at)
    elif pane == "asks":
        _draw_queries(replay, at)
    elif pane == "dry":
        dry_run.draw(shown, at)
    else:
        _draw_decision(replay, at)


def _draw_reason(shown: opening.ShownSession, replay: Replay, at: Place, close: closeup.Closeup) -> None:
    """Why the block is here or is not; another block by number, for those who use no mouse."""
    if close.at < 0:
        st.html(f'<div class="why-line"><b>{escape(close.name)}</b> is an insert: the policy added it.</div>')
        return
    standing = replay.trace.explain(close.at, at.request)
    word, tone = HERE[standing.state]
    summary = _find_summary(replay, at, close)
    if summary is not None and standing.state == "absent":
        word, tone = "In a summary", "accent"
    made = standing.decision if standing.by == "policy" else None
    there = closeup.get_cursor_after(replay.trace, made) if made else None
    leaves = cards.render_departure_link(url.make_link(shown, "compare", text=f"#{close.at}"))
    left, middle, right = st.columns([12, 2.4, 1.6], vertical_alignment="center")
    left.html(
        f'<div class="why-line"><b class="tone-{tone}">{word}</b> <span>#{close.at} · {escape(close.name)} · '
        f"turn {format_turn(close.turn)} · "
        f"{close.tokens:,} tokens</span> <span>{escape(standing.sentence)}</span> <span>{escape(close.note)}</span> "
        f"{leaves}</div>"
    )
    away = there is not None and there != Cursor(at.request, at.step)
    middle.button(
        "Go to decision",
        key="debugger.there",
        disabled=not away,
        width="stretch",
        on_click=address.go,
        args=(shown,),
        kwargs=there._asdict() if there else {},
    )
    with right:
        _draw_block_field(shown, replay, at)


def _draw_block_field(shown: opening.ShownSession, replay: Replay, at: Place) -> None:
    """A field for the number of any block, which the stepper then follows."""
    # Never set by the app: what a browser in a hurry still held of an earlier block would count as a block chosen by hand, and
    # take the stepper back to where it stood then.
    key = f"{_BLOCK}.{at.seq}"

    def choose_other() -> None:
        if (chosen := st.session_state.get(key)) is not None:
            address.go(shown, block=int(chosen))

    st.number_input(
        "Block",
        0,
        len(replay.trace.session.blocks) - 1,
        None,
        key=key,
        placeholder="Block",
        label_visibility="collapsed",
        on_change=choose_other,
        help="Any block by its number; a click on a tile chooses it too",
    )


def _find_summary(replay: Replay, at: Place, close: closeup.Closeup) -> closeup.Closeup | None:
    """The summary that stands for a block of the request, where it is a message of its own."""
    found = find_summary_block(replay.trace, Cursor(at.request, at.step), close.at)
    return closeup.build_closeup(replay.trace, Cursor(at.request, at.step), found) if found is not None else None


def _draw_texts(replay: Replay, at: Place, close: closeup.Closeup | None) -> None:
    if close is None:
        st.html('<div class="ts-empty">No block yet.</div>')
        return
    left, right = st.columns(2)
    more = f" · one of {close.touched_blocks:,} blocks of this decision" if close.touched_blocks > 1 else ""
    stands = f" · stands for {close.replaced_blocks:,} blocks" if close.replaced_blocks > 1 else ""
    with left:
        st.html(f'<div class="pane-head">before · {close.before_tokens:,} tokens{more}</div>')
        widgets.draw_text(close.before, "Nothing was here.")
    summary = _find_summary(replay, at, close) if close.after is None else None
    with right:
        if summary is not None:
            st.html(f'<div class="pane-head">after · the summary, block #{summary.at} · {summary.tokens:,} tokens</div>')
            widgets.draw_text(summary.after)
            return
        st.html(f'<div class="pane-head">after · {close.after_tokens:,} tokens{stands}</div>')
        widgets.draw_text(close.after, "Nothing is here.")


def _draw_body(replay: Replay, at: Place) -> None:
    trace, request = replay.trace, at.request
    text = exact_body.format_exact_body(trace, request)
    with st.container(horizontal=True, vertical_alignment="center"):
        plan = trace.plans[request]
        title = f"request {format_request(request)} after all {len(plan.decisions)} decisions"
        title += f" · {format_tokens(trace.count_tokens(request))} tokens"
        st.html(f'<div class="pane-head">{title} · {len(text):,} characters</div>', width="stretch")
        st.download_button(
            "Download it",
            text,
            f"request-{number_request(request)}.json",
            "application/json",
            icon=":material/download:",
            type="tertiary",
            on_click="ignore",
            key="debugger.sent",
        )
    widgets.draw_text(text, height=460)


def _draw_queries(replay: Replay, at: Place) -> None:
    found = closeup.list_rule_queries(replay.trace, at.request)
    if not found:
        st.html('<div class="ts-empty">No rule had a question while this request was planned.</div>')
    for each in found:
        source = "offline summary: no model was called" if each.offline else each.answer.source
        model = f" · {escape(each.answer.model)}" if each.answer.model else ""
        mark = "warn" if each.offline or each.answer.failed else ""
        st.html(
            f'<div class="pane-head">{escape(each.ask.kind)} <span class="ts-chip {mark}">{escape(source)}</span>{model}</div>'
        )
        left, right = st.columns(2)
        with left:
            st.html('<div class="pane-head">question</div>')
            widgets.draw_text(f"{each.ask.prompt}\n\n{each.ask.content}")
        with right:
            st.html('<div class="pane-head">answer</div>')
            widgets.draw_text(each.answer.failed or each.answer.text or "\n".join(each.answer.items))


def _draw_decision(replay: Replay, at: Place) -> None:
    trace, name = replay.trace, replay.policy.name
    price = policy_replay.price_decision(replay, at.request, at.step - 1) if at.step else None
    hint = "Rules, reasons, addresses and tokens of every decision; no text of a block. A reason may name a file:"
    st.html(f'<div class="pane-head">{hint} read it before you share it.</div>')
    with st.container(horizontal=True):
        for label, ending, mime, made in (
            ("JSON Lines", "jsonl", "application/x-ndjson", lambda: decision_log.to_json_lines(trace)),
            ("CSV", "csv", "text/csv", lambda: decision_log.to_csv(trace)),
        ):
            st.download_button(
                f"All decisions as {label}",
                made,
                f"decisions-{name}.{ending}",
                mime,
                icon=":material/download:",
                on_click="ignore",
                key=f"debugger.log.{ending}",
            )
        if at.step:
            st.download_button(
                "This decision as Markdown",
                lambda: decision_log.to_markdown(trace, at.request, at.step - 1, price),
                f"decision-{number_request(at.request)}-{at.step}.md",
                "text/markdown",
                icon=":material/bug_report:",
                on_click="ignore",
                key="debugger.log.md",
            )
    if not at.step:
        st.html('<div class="ts-empty">No decision yet: the next step shows the first one.</div>')
        return
    st.html(_render_decision(trace, at, price))
    with st.expander("As Markdown, to copy"):
        widgets.draw_text(decision_log.to_markdown(trace, at.request, at.step - 1, price), height=360)


def _render_decision(trace: Trace, at: Place, price: CachePrice | None) -> str:
    """The decision as a card: what was done and why, then where and by how much, then what the rule noted."""
    (_, action), (_, rule), (_, reason), *rows = decision_log.describe_decision(trace, at.request, at.step - 1, price)
    facts = summary_quality.score_facts(trace, trace.plans[at.request].decisions[at.step - 1])
    noted = [(name.replace("_", " "), f"{value:,}" if isinstance(value, int) else str(value)) for name, value in facts.items()]
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value[:400])}</dd>" for name, value in (*rows, *noted))
    return (
        f'<div class="ts-card decision"><b>{escape(action)}</b> <span>by {escape(rule.replace("_", " "))}</span>'
        f'<p>{escape(reason)}</p><dl class="ts-glossary">{listed}</dl></div>'
    )
