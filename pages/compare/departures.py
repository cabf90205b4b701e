"""When a text left the window under each policy."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from turnscope.views import losses
from turnscope.views.labels import label_block

from pages.parts import opening, replays
from pages.parts.formats import escape
from pages.parts.replays import PolicyChoice

SPANS = 12  # stretches of requests that are named


def draw(shown: opening.ShownSession, chosen: PolicyChoice) -> None:
    """When a text left the window under each policy.

    Args:
        shown: the session that is shown.
        chosen: the policies, model and budget that are chosen.
    """
    st.subheader("When did this text leave the window?", anchor="left")
    wanted = st.query_params.get("text", "")
    text = st.text_input(
        "When did this text leave the window?",
        wanted,
        key="compare.text",
        label_visibility="collapsed",
        placeholder="a path, a name, a sentence; or a block by its number: #214",
        help="Any text of the session. Text that is selected on the other pages leads here.",
    )
    text = wanted if text == " ".join(wanted.splitlines()) else text  # a field of one line makes one of several
    if not text:
        st.query_params.pop("text", None)
        return
    st.query_params["text"] = text[:200]
    blocks = losses.find_blocks(shown.trace.session, text)
    st.text(_describe_blocks(shown, blocks))
    departures = _get_departures(shown.key, shown.part, text)
    policies = {replays.make_key(shown, policy, chosen): policy for policy in chosen.policies.values()}
    replays.replay_each(
        shown,
        chosen.model,
        policies,
        departures,
        lambda name, trace: departures.update({name: losses.find_departures([trace], text)[0]}),
        "left",
    )
    found = [(policy, departures[name]) for name, policy in policies.items() if name in departures]
    rows = "".join(
        f"<tr><td>{escape(policy.title or policy.name)}</td><td>{_format_requests(each.spans)}</td>"
        f"<td>{escape(_describe_departure(each))}</td></tr>"
        for policy, each in found
    )
    head = "<tr><th>policy</th><th>stands in requests</th><th>and then</th></tr>"
    st.html(f'<table class="ts-table words" id="left-window"><thead>{head}</thead><tbody>{rows}</tbody></table>')


def _format_requests(spans: Sequence[tuple[int, int]]) -> str:
    listed = ", ".join(f"{start:,} to {stop - 1:,}" for start, stop in spans[:SPANS]) or "none"
    return f"{listed}, and {len(spans) - SPANS:,} more stretches" if len(spans) > SPANS else listed


def _describe_departure(each: losses.Departure) -> str:
    """How the last block that says it left."""
    if each.out is None:
        return "it still stands" if each.spans else "it is nowhere"
    return each.out.sentence[:1].upper() + each.out.sentence[1:]


def _describe_blocks(shown: opening.ShownSession, blocks: Sequence[int]) -> str:
    """Which blocks are meant, the first by its name."""
    if not blocks:
        return "No block of the session says it."
    session = shown.trace.session
    first = f"block {blocks[0]:,}, {label_block(session, session.blocks[blocks[0]])}"
    return f"Said in {first}." if len(blocks) == 1 else f"Said in {len(blocks):,} blocks, first in {first}."


@st.cache_resource(max_entries=16, show_spinner=False)
def _get_departures(key: str, part: int, text: str) -> dict[replays.Key, losses.Departure]:  # noqa: ARG001  what the cache goes by
    """When a text left under each policy, as far as that was looked for."""
    return {}
