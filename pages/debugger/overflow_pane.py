"""The overflow ladder of a request as a tree: questions in a row, what becomes of a yes below each, the way in colour."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import streamlit as st
from turnscope.numbering import format_request
from turnscope.views import overflow_tree, stepper

from pages.debugger import address
from pages.debugger.address import Place
from pages.debugger.policy_replay import Replay
from pages.parts import opening
from pages.parts.formats import escape


def draw(shown: opening.ShownSession, replay: Replay, at: Place) -> None:
    """The tree of the request at hand, and ways to the ones before and after that have one.

    Args:
        shown: the session that is shown.
        replay: the replay that is shown.
        at: where the stepper stands.
    """
    found = replay.stage.over_limit
    nodes = overflow_tree.build_tree(replay.trace, at.request)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.html(
            f'<div class="pane-head">{escape(_describe_request(replay, at, bool(nodes), len(found)))}</div>',
            width="stretch",
        )
        before, after = bisect_left(found, at.request) - 1, bisect_right(found, at.request)
        for label, icon, place in (("Before", "arrow_back", before), ("Next", "arrow_forward", after)):
            there = found[place] if 0 <= place < len(found) else -1
            st.button(
                label,
                icon=f":material/{icon}:",
                key=f"debugger.ladder.{label}",
                type="tertiary",
                disabled=there < 0,
                help="The one over its limit before this" if place == before else "The next one over its limit",
                on_click=address.go,
                args=(shown,),
                kwargs={"request": there},
            )
    if nodes:
        st.html(render_tree(nodes))


def draw_line(shown: opening.ShownSession, replay: Replay, at: Place) -> None:
    """What became of a request that came over its limit, step by step, and a way to the decision; nothing for others.

    Args:
        shown: the session that is shown.
        replay: the replay that is shown.
        at: where the stepper stands.
    """
    nodes = overflow_tree.build_tree(replay.trace, at.request)
    if not nodes or nodes[0].applies:
        return
    last = next(node for node in reversed(nodes) if node.reached)
    cut = overflow_tree.find_largest_cut(replay.trace, at.request)
    decision = last.decision if last.step != "compaction" and last.decision >= 0 else cut
    rule = replay.trace.plans[at.request].decisions[cut].rule if cut >= 0 else ""
    with st.container(horizontal=True, vertical_alignment="center", key="over-limit"):
        st.html(render_line(nodes, rule), width="stretch")
        if decision >= 0:
            st.button(
                f"Decision {decision + 1}",
                key="debugger.over",
                disabled=at.step == decision + 1,
                help="Go to the decision that cut most of it, or decided it",
                on_click=address.go,
                args=(shown,),
                kwargs={"request": at.request, "step": decision + 1},
            )


def render_line(nodes: tuple[overflow_tree.Node, ...], rule: str) -> str:
    """The way that a request took as HTML, in one line; words and reasons are escaped.

    Args:
        nodes: its tree.
        rule: the rule that cut most of it, "" = none.
    """
    reached = [node for node in nodes[1:] if node.reached]
    items = "".join(
        f'<li class="{"took" if node.applies else ""} {"bad" if node.step == "refuse" else ""}" '
        f'title="{escape(node.because)}">{escape(_describe_step(node, rule))}</li>'
        for node in reached
    )
    resolved = any(node.applies for node in reached)
    end = "" if resolved else '<li class="took bad">sent over its limit</li>'
    size = f"{nodes[0].tokens:,} of {nodes[0].limit:,} tokens"
    tone = "" if resolved and reached[-1].step != "refuse" else " bad"
    return (
        f'<div class="over-line{tone}" role="status"><b>Came over its limit</b> <span>{size}</span><ol>{items}{end}</ol></div>'
    )


def _describe_step(node: overflow_tree.Node, cutter: str) -> str:
    """One step of the way in as few words as possible."""
    if node.step == "compaction":
        if node.after < node.tokens:
            most = f", most of it by {cutter.replace('_', ' ')}" if cutter else ""
            return f"{'cut to' if node.applies else 'cut, still'} {node.after:,} tokens{most}"
        return "made small enough by what was cut before" if node.applies else "nothing cut"
    if node.step == "fallback":
        return "sent to a larger model" if node.applies else "no larger model"
    return f"refused by {node.rule.replace('_', ' ')}" if node.applies else "not refused"


def _describe_request(replay: Replay, at: Place, climbed: bool, many: int) -> str:
    size = stepper.describe_size(replay.trace, at.request)
    count = len(replay.trace.plans)
    whole = (
        f"{many:,} of {count:,} requests came over their limit." if many else f"None of {count:,} requests came over its limit."
    )
    if climbed:
        return f"Request {format_request(at.request)} came over its limit ({size}). {whole}"
    return f"Request {format_request(at.request)} was within its limit ({size}): no overflow handling was needed. {whole}"


def render_tree(nodes: tuple[overflow_tree.Node, ...]) -> str:
    """The tree as HTML; words and reasons are escaped."""
    ended = any(node.applies for node in nodes)
    rungs = "".join(map(_render_rung, nodes))
    over = "" if ended else '<div class="rung came last"><div class="leaf took bad"><b>sent over its limit</b></div></div>'
    return f'<div class="ladder" role="list" aria-label="Overflow handling">{rungs}{over}</div>'


def _render_rung(node: overflow_tree.Node) -> str:
    """A question with its leaf. What was not reached is faint, what was taken is drawn in full."""
    rule = f"{node.rule.replace('_', ' ')} · decision {node.decision + 1}" if node.decision >= 0 else "no decision"
    more = f" and {node.more_decisions:,} before it" if node.more_decisions else ""
    why = f"<p>{escape(node.because)}</p><small>{escape(rule + more)}</small>" if node.step != "projected" else ""
    tokens = f"{node.tokens:,}" + (f" → {node.after:,}" if node.after != node.tokens else "")
    came = "came" if node.reached else "faint"
    way = "yes" if node.applies else "no" if node.reached else ""
    size = f"<em>{tokens} of {node.limit:,} tokens</em>{why}" if node.reached else "<em>not reached</em>"
    tone = "bad" if node.step == "refuse" else "good"
    leaf = f'<div class="leaf {"took" if node.applies else ""} {tone}"><i>yes</i><b>{escape(node.leaf)}</b></div>'
    return (
        f'<div class="rung {came} {way}" role="listitem" data-step="{node.step}">'
        f'<div class="ask"><b>{escape(node.question)}</b>{size}</div>{leaf}</div>'
    )
