"""The stepper in the browser: it gets a trace once, steps by itself, and reports where it stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import streamlit as st
from turnscope.numbering import format_request, format_requests
from turnscope.views import replay_range, stepper

from pages.debugger import address
from pages.debugger.address import Place
from pages.debugger.policy_replay import Replay
from pages.parts import opening, policies, theme, url, widgets
from pages.parts.components import define_component
from pages.parts.formats import format_cost, format_percent, format_tokens

_HERE = Path(__file__).parent / "browser"
KEY = "debugger-stepper"


# The code stands with the data, outside the fragment: what is inside is sent again with every step.
_CODE = ("model", "film", "draw", "time", "stops")
_data = define_component(
    "turnscope_steps",
    html="",
    js=theme.NUMBERING + theme.read_files(_HERE, "stepper_data.js", *(f"stepper_{name}.js" for name in _CODE), "stepper.js"),
)
_stepper = define_component(
    "turnscope_stepper",
    html=theme.read_files(_HERE, "stepper.html"),
    css=theme.read_files(_HERE, "stepper.css"),
    js=theme.read_files(_HERE, "stepper_begin.js"),
)


def send_trace(replay: Replay) -> None:
    """Send the trace to the browser: once, then by its digest alone, as long as it is the same."""
    with st.container(key="quiet-steps"):
        _data(key="debugger-steps", data=replay.browser_data)


def draw(shown: opening.ShownSession, replay: Replay) -> Place:
    """Draw the stepper and give the place where it stands.

    Args:
        shown: the session that is shown.
        replay: the replay that is shown.
    """

    def report() -> None:
        sent = widgets.read_report(KEY, "at")
        if sent:
            address.follow_stepper(shown, replay, sent)

    at = address.get_place()
    data = {
        "steps": replay.key,
        "run": replay.run.key,
        "at": [at.request, at.step],
        "block": at.block,
        "seq": f"{replay.run.key}:{at.seq}",
        "linked": at.linked,
        "off": stepper.find_estimate_error(shown.trace),
        "span": url.get_span("range", len(shown.view)),
        "stops": url.get_view("stops"),
        "range": _summarize_range(shown, replay),
        "theme": theme.get_theme(),
    }
    _stepper(key=KEY, data=data, default={"at": None}, on_at_change=report)
    return at


def _summarize_range(shown: opening.ShownSession, replay: Replay) -> dict[str, Any] | None:
    """What is shown of the requests that were chosen on the strip."""
    span = url.get_span("range", len(shown.view))
    if span is None:
        return None
    found = replay_range.summarize_replay_range(replay.trace, replay.steps, *span)
    if found.start == found.stop:
        return None
    many = found.stop - found.start
    words = [
        f"request{'s' if many > 1 else ''} {format_requests(found.start, found.stop)}",
        f"{many:,} request{'' if many == 1 else 's'}",
        f"{format_tokens(found.tokens)} tokens sent",
        f"{format_percent(found.repeated_share)} repeated input",
        f"peak {format_tokens(found.peak)}",
    ]
    if found.usd is not None:
        words.append(format_cost(found.usd, found.unpriced, simulated=replay.policy.name != policies.RECORDED))
    rules = [f"{rule.replace('_', ' ')}: {action} {times:,}×" for rule, action, times in found.rules]
    more = f" and {len(rules) - 3:,} more" if len(rules) > 3 else ""
    words.append("; ".join(rules[:3]) + more if rules else "no change by a rule")
    if found.change_request is not None:
        words.append(
            f"biggest change: request {format_request(found.change_request)}, "
            f"{'+' if found.change > 0 else '−'}{format_tokens(abs(found.change))}"
        )
    return {"start": found.start, "stop": found.stop, "words": words, "grew": found.change_request}
