"""The lower half of the compare page: two policies at one request, what was lost, when a text left, windows of many sizes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import streamlit as st
from turnscope import Trace, figures, library
from turnscope.views import comparison, divergence, losses
from turnscope.views.labels import label_block

from pages.parts import opening, policies, replays, theme, url
from pages.parts.formats import esc
from pages.parts.replays import Chosen

ROWS = 500  # of a table
SPANS = 12  # stretches of requests that are named
WHICH = {"differ": "That differ", "kept": "All that are kept"}


def two(shown: opening.Shown, rows: Sequence[comparison.Row], chosen: Chosen) -> None:
    """Where two policies first part, and how each block stands in a request of either."""
    if len(rows) < 2:
        return
    st.subheader("Two policies at one request", anchor=False)
    titles = {row.policy: row.title for row in rows}
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="compare-two"):
        one = st.selectbox("A", [*titles], key="compare.a", format_func=titles.__getitem__)
        other = st.selectbox("B", [*titles], 1, key="compare.b", format_func=titles.__getitem__)
        found = replays.traces(shown, chosen, (one, other), "two")
        a, b = found.get(one), found.get(other)
        first = divergence.find_divergence(a, b) if a and b else None
        at = int(
            st.number_input("Request", 0, len(shown.view) - 1, first or 0, key=f"compare.at.{one}.{other}.{first}", width=160)
        )
        which = st.segmented_control(
            "Blocks", ["differ", "kept"], default="differ", required=True, format_func=WHICH.__getitem__, key="compare.which"
        )
    if a is None or b is None:
        return
    if first is None:
        st.text("Both send the same at every request.")
    else:
        many = len(divergence.list_differences(a, b, at))
        blocks = "1 block or insert" if many == 1 else f"{many:,} blocks and inserts"
        st.text(f"They first part at request {first:,}. At request {at:,} they differ in {blocks}.")
    if which == "kept":
        _placed(divergence.list_placements(a, b, at), titles[one], titles[other])
    elif first is not None:
        _differing(divergence.list_differences(a, b, at), titles[one], titles[other])


def _differing(found: Sequence[divergence.BlockDifference], one: str, other: str) -> None:
    shapes = {"only in A": f"only in {one}", "only in B": f"only in {other}", "other form": "in another form"}
    st.dataframe(
        {
            "block": [each.at for each in found[:ROWS]],
            "what": [each.label for each in found[:ROWS]],
            "tokens": [each.tokens for each in found[:ROWS]],
            "stands": [shapes[each.how] for each in found[:ROWS]],
            "where": [each.where for each in found[:ROWS]],
        },
        hide_index=True,
        key="compare.difference",
    )
    _rest(len(found))


def _placed(found: Sequence[divergence.Placement], one: str, other: str) -> None:
    """Every block that is kept, and where in the prompt: its first quarter, the middle half, its last quarter."""
    same = one == other
    for name, of in ((one, "a"), (other, "b"))[: 1 if same else 2]:
        sums = Counter[str]()
        for each in found:
            sums[getattr(each, of)] += each.tokens
        told = ", ".join(f"{sums[where]:,} tokens at the {where}" for where in ("head", "middle", "tail"))
        st.text(f"{name}: of the blocks that it keeps, {told}.")
    st.dataframe(
        {
            "block": [each.at for each in found[:ROWS]],
            "what": [each.label for each in found[:ROWS]],
            "tokens": [each.tokens for each in found[:ROWS]],
            f"in A, {one}": [each.a or "not kept" for each in found[:ROWS]],
            f"in B, {other}": [each.b or "not kept" for each in found[:ROWS]],
        },
        hide_index=True,
        height=320,
        key="compare.placed",
    )
    _rest(len(found))


def _rest(many: int) -> None:
    if many > ROWS:
        st.text(f"These are the first {ROWS:,} of {many:,}.")


def lost(shown: opening.Shown, rows: Sequence[comparison.Row]) -> None:
    """What answers take up again and a policy no longer says, each with the place in the debugger where that can be seen."""
    held = {row.policy: row for row in rows if row.losses.hits}
    if not held:
        return
    st.subheader("Lost references", anchor=False)
    name = st.selectbox("Policy", [*held], key="compare.lost", format_func=lambda each: held[each].title, width=360)
    hits = held[name].losses.hits
    st.text(f"{len(hits):,} of {sum(held[name].losses.uses):,} that answers take up again, {held[name].losses.rate:.1%}.")
    st.plotly_chart(
        figures.draw_losses(held[name], theme.name()), key="compare-missing", theme=None, config={"displayModeBar": False},
        alt="how many of them each request lacked",
    )  # fmt: skip
    made, seen = held[name].losses.decisions, shown.trace.find_first_request
    asked = {"policy": name}
    st.dataframe(
        {
            "request": [hit.request for hit in hits[:ROWS]],
            "said before": [hit.text for hit in hits[:ROWS]],
            "in block": [url.link(shown, "envelope", request=seen(hit.block), block=hit.block) for hit in hits[:ROWS]],
            "used in block": [url.link(shown, "envelope", request=hit.request, block=hit.answer) for hit in hits[:ROWS]],
            "put out by decision": [
                url.link(shown, "debugger", **asked, request=made[hit.by][0], step=made[hit.by][1], decision=hit.by)
                if hit.by in made
                else None
                for hit in hits[:ROWS]
            ],
            "the request": [url.link(shown, "debugger", **asked, request=hit.request) for hit in hits[:ROWS]],
        },
        hide_index=True,
        height=280,
        key="compare.hits",
        column_config={
            "said before": st.column_config.TextColumn(width="medium"),
            "in block": st.column_config.LinkColumn(
                display_text=r"block=(\d+)", help="the last one that says it; where it came in"
            ),
            "used in block": st.column_config.LinkColumn(display_text=r"block=(\d+)", help="the answer that takes it up again"),
            "put out by decision": st.column_config.LinkColumn(
                display_text=r"decision=(\d+)", help="of this policy; none where the provider itself leaves it out"
            ),
            "the request": st.column_config.LinkColumn(display_text="in the debugger"),
        },
    )
    _rest(len(hits))


def left(shown: opening.Shown, chosen: Chosen) -> None:
    """When a text left the window under each policy."""
    st.subheader("When did this text leave the window?", anchor="left")
    asked = st.query_params.get("text", "")
    text = st.text_input(
        "When did this text leave the window?", asked, key="compare.text", label_visibility="collapsed",
        placeholder="a path, a name, a sentence; or a block by its number: #214",
        help="Any text of the session. Text that is selected on the other pages leads here.",
    )  # fmt: skip
    text = asked if text == " ".join(asked.splitlines()) else text  # a field of one line makes one of several
    if not text:
        st.query_params.pop("text", None)
        return
    st.query_params["text"] = text[:200]
    blocks = losses.find_blocks(shown.trace.session, text)
    st.text(_where(shown, blocks))
    told = _told(shown.key, shown.part, text)
    policies = {replays.key(shown, policy, chosen): policy for policy in chosen.policies.values()}
    replays.one_by_one(
        shown,
        chosen.model,
        policies,
        told,
        lambda name, trace: told.update({name: losses.find_departures([trace], text)[0]}),
        "left",
    )
    found = [(policy, told[name]) for name, policy in policies.items() if name in told]
    rows = "".join(
        f"<tr><td>{esc(policy.title or policy.name)}</td><td>{_requests(each.spans)}</td><td>{esc(_how(each))}</td></tr>"
        for policy, each in found
    )
    head = "<tr><th>policy</th><th>stands in requests</th><th>and then</th></tr>"
    st.html(f'<table class="ts-table words" id="left-window"><thead>{head}</thead><tbody>{rows}</tbody></table>')


def _requests(spans: Sequence[tuple[int, int]]) -> str:
    told = ", ".join(f"{start:,} to {stop - 1:,}" for start, stop in spans[:SPANS]) or "none"
    return f"{told}, and {len(spans) - SPANS:,} more stretches" if len(spans) > SPANS else told


def _how(each: losses.Departure) -> str:
    """How the last block that says it left."""
    if each.out is None:
        return "it still stands" if each.spans else "it is nowhere"
    return each.out.sentence[:1].upper() + each.out.sentence[1:]


def _where(shown: opening.Shown, blocks: Sequence[int]) -> str:
    """Which blocks are meant, the first by its name."""
    if not blocks:
        return "No block of the session says it."
    session = shown.trace.session
    first = f"block {blocks[0]:,}, {label_block(session, session.blocks[blocks[0]])}"
    return f"Said in {first}." if len(blocks) == 1 else f"Said in {len(blocks):,} blocks, first in {first}."


@st.cache_resource(max_entries=16, show_spinner=False)
def _told(key: str, part: int, text: str) -> dict[replays.Key, losses.Departure]:  # noqa: ARG001  what the cache goes by
    """When a text left under each policy, as far as that was looked for."""
    return {}


class Swept(NamedTuple):
    """What a policy comes to on a window."""

    usd: float | None
    lost: int
    overflows: int
    over_window: int
    refusals: int


@st.cache_resource(max_entries=8, show_spinner=False)
def _swept(key: str, part: int, many: int) -> dict[replays.Key, Swept]:  # noqa: ARG001  what the cache goes by
    return {}


def sweep(shown: opening.Shown, chosen: Chosen) -> None:
    """Each policy on windows of several sizes, when somebody asks: that is a replay for each."""
    if not st.toggle("Sweep over windows, 8K to 1M", key="compare.sweep"):
        return
    asked = [(policy, window) for policy in chosen.policies.values() for window in library.WINDOWS]
    sized = {
        replays.key(shown, made, chosen): (made, window)
        for policy, window in asked
        if policy.name != policies.RECORDED
        for made in (library.resize_budget(policy, window),)
    }
    made = _swept(shown.key, shown.part, len(shown.view))

    def take(name: replays.Key, trace: Trace) -> None:
        row = comparison.build_row(trace, replays.shared(shown), sent=not chosen.model)
        usd = None if row.usd is None else float(row.usd)
        made[name] = Swept(usd, len(row.losses.hits), row.overflows, row.over_window, row.refusals)

    replays.one_by_one(shown, chosen.model, {name: policy for name, (policy, _) in sized.items()}, made, take, "sweep")
    lines = [(policy.title or policy.name, window, made[name]) for name, (policy, window) in sized.items() if name in made]
    if not lines:
        return
    st.dataframe(
        {
            "policy": [title for title, _, _ in lines],
            "window": [window for _, window, _ in lines],
            "USD": [each.usd for _, _, each in lines],
            "lost references": [each.lost for _, _, each in lines],
            "over its limit": [each.overflows for _, _, each in lines],
            "over the window": [each.over_window for _, _, each in lines],
            "refused": [each.refusals for _, _, each in lines],
        },
        hide_index=True,
        key="compare.windows",
        column_config={
            "USD": st.column_config.NumberColumn(format="%.2f"),
            "window": st.column_config.NumberColumn(format="localized"),
        },
    )
