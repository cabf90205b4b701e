"""The overflow ladder of a request as a tree: questions in a row, what becomes of a yes below each, the way in colour."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import streamlit as st
from turnscope.views import overflow_tree, stepper

from pages.debugger import address, policy_replay
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
    found = policy_replay.find_over_limit(replay)
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


def _describe_request(replay: Replay, at: Place, climbed: bool, many: int) -> str:
    size = stepper.describe_size(replay.trace, at.request)
    count = len(replay.trace.plans)
    whole = (
        f"{many:,} of {count:,} requests came over their limit." if many else f"None of {count:,} requests came over its limit."
    )
    if climbed:
        return f"Request {at.request:,} came over its limit ({size}). {whole}"
    return f"Request {at.request:,} was within its limit ({size}): there was no ladder to climb. {whole}"


def render_tree(nodes: tuple[overflow_tree.Node, ...]) -> str:
    """The tree as HTML; words and reasons are escaped."""
    ended = any(node.applies for node in nodes)
    rungs = "".join(map(_render_rung, nodes))
    over = "" if ended else '<div class="rung came last"><div class="leaf took bad"><b>sent over its limit</b></div></div>'
    return f'<div class="ladder" role="list" aria-label="Overflow ladder">{rungs}{over}</div>'


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
