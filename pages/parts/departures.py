"""When a text left the window under each policy: a table with a strip over all requests and a way to the decision."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from turnscope import Trace
from turnscope.numbering import format_requests
from turnscope.views import Cursor, closeup, losses

from pages.parts import opening, replays, url
from pages.parts.formats import escape
from pages.parts.policies import load_policies
from pages.parts.replays import PolicyChoice

SPANS = 12  # stretches of requests that are named
DRAWN = 200  # stretches of requests that are drawn
Found = tuple[losses.Departure, Cursor | None]  # with the place in the debugger after the decision that removed it


def draw(shown: opening.ShownSession, chosen: PolicyChoice, text: str, place: str) -> None:
    """Draw the table; a policy's row appears when its replay is there.

    Args:
        shown: the session that is shown.
        chosen: the policies, model and budget that are chosen.
        text: the text; "#214" is block 214.
        place: what it is for, where a page replays for several things.
    """
    departures = _get_departures(shown.key, shown.part, text)
    policies = {replays.make_key(shown, policy, chosen): policy for policy in chosen.policies.values()}
    replays.replay_each(
        shown, chosen.model, policies, departures, lambda name, trace: departures.update({name: _find(trace, text)}), place
    )
    known = load_policies().policies
    rows = ""
    for name, policy in policies.items():
        if name not in departures:
            continue
        found, there = departures[name]
        as_kept = not chosen.model and known.get(policy.name) == policy  # a link names a policy, not a budget of this page
        rows += (
            f"<tr><td>{escape(policy.title or policy.name)}</td>"
            f"<td>{_render_strip(found.spans, len(shown.view))}{_format_requests(found.spans)}</td>"
            f"<td>{escape(_describe_departure(found))}</td>"
            f"<td>{_render_link(shown, policy.name, there) if there and as_kept else ''}</td></tr>"
        )
    head = "<tr><th>policy</th><th>present in requests</th><th>and then</th><th>decision</th></tr>"
    st.html(f'<table class="ts-table words stacks" id="left-window"><thead>{head}</thead><tbody>{rows}</tbody></table>')


def _find(trace: Trace, text: str) -> Found:
    found = losses.find_departures([trace], text)[0]
    made = found.out.decision if found.out and found.out.by == "policy" else None
    return found, closeup.get_cursor_after(trace, made) if made else None


def _render_link(shown: opening.ShownSession, policy: str, there: Cursor) -> str:
    link = url.make_link(shown, "debugger", policy=policy, request=there.request, step=there.step)
    return f'<a class="ts-to-decision" target="_self" href="{escape(link)}">in the debugger →</a>'


def _render_strip(spans: Sequence[tuple[int, int]], count: int) -> str:
    """Over which of all requests it was there."""
    parts = "".join(
        f'<i style="left:{start / count:.3%};width:{(stop - start) / count:.3%}"></i>' for start, stop in spans[:DRAWN]
    )
    return f'<span class="ts-lasts" aria-hidden="true">{parts}</span>'


def _format_requests(spans: Sequence[tuple[int, int]]) -> str:
    listed = ", ".join(format_requests(start, stop) for start, stop in spans[:SPANS]) or "none"
    return f"{listed}, and {len(spans) - SPANS:,} more stretches" if len(spans) > SPANS else listed


def _describe_departure(each: losses.Departure) -> str:
    """How the last block that says it left."""
    if each.out is None:
        return "still in the window" if each.spans else "in no request"
    return each.out.sentence[:1].upper() + each.out.sentence[1:]


@st.cache_resource(max_entries=16, show_spinner=False)
def _get_departures(key: str, part: int, text: str) -> dict[replays.Key, Found]:  # noqa: ARG001  what the cache goes by
    """When a text left under each policy, as far as that was looked for."""
    return {}
