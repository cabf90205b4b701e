"""The seven stops of the demo: the page of each, and its one sentence, whose numbers come from the functions of that page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import streamlit as st
from turnscope import Trace, library
from turnscope.numbering import format_request
from turnscope.views import audit, comparison, expensive_requests, recommendation, request_summary, window_cuts
from turnscope.views.overview import LABELS
from turnscope.views.phrases import format_usd

from pages.parts import opening, policies, replays

OTHER = "cline-classic"  # the policy of another tool
COMPARED = (policies.RECORDED, "clear-tool-results", OTHER)
CHAT_SENTENCE = (
    "demo.sentence"  # in the session state: the sentence of the chat, which its page writes, and whether that is the last
)


@dataclass(frozen=True, slots=True)
class Stop:
    """One stop.

    Attributes:
        title: the question that it answers.
        page: name of its page; "" = the page has no session.
        query: what its address says besides the session.
        say: its sentence.
        focus: CSS selector of what it is about.
        seconds: for which it is shown when the demo plays by itself.
    """

    title: str
    page: str
    query: Callable[[opening.ShownSession], Mapping[str, object]]
    say: Callable[[opening.ShownSession], str]
    focus: str
    seconds: int = 16


def say(sentence: str, *, done: bool) -> None:
    """Write the sentence of the chat, and draw the page again where it was another one.

    Args:
        sentence: the sentence; "" = that of its beginning.
        done: whether nothing more is going to happen by itself.
    """
    if st.session_state.get(CHAT_SENTENCE) != (sentence, done):
        st.session_state[CHAT_SENTENCE] = (sentence, done)
        st.rerun()


def is_done() -> bool:
    """Whether nothing more is going to happen in the chat by itself."""
    return bool(st.session_state.get(CHAT_SENTENCE, ("", False))[1])


def _find_largest_request(shown: opening.ShownSession) -> int:
    return int(shown.view.prompts.argmax())


def _say_fill(shown: opening.ShownSession) -> str:
    now = request_summary.summarize_request(shown.view, shown.trace, _find_largest_request(shown))
    largest = max(now.segments, key=lambda segment: segment.tokens)
    return f"{now.sentence} {largest.share:.0%} of them are {LABELS[largest.name].lower()}: that is what filled the window."


def _say_cost(shown: opening.ShownSession) -> str:
    dearest = _find_dearest(shown)
    if dearest is None:
        return "No price is known for the models of this session."
    return (
        f"The session cost {format_usd(shown.view.total)}. Its most expensive request is {format_request(dearest.request)}: "
        f"{format_usd(dearest.usd)}, because of a {dearest.cause} ({dearest.detail})."
    )


def _find_dearest(shown: opening.ShownSession) -> expensive_requests.ExpensiveRequest | None:
    return next(iter(expensive_requests.find_expensive_requests(shown.trace, shown.view, most=1)), None)


def _find_cut(shown: opening.ShownSession) -> int:
    cut = request_summary.find_largest_cut(shown.view)
    return cut.request if cut else 0


def _say_lost(shown: opening.ShownSession) -> str:
    cut = window_cuts.build_window_cut(shown.trace, shown.view, _find_cut(shown))
    if cut is None:
        return "Nothing was cut from the window in this session."
    needed = sum(len(item.needed) for item in cut.items)
    return (
        f"At request {format_request(cut.request)} a compaction took {cut.before - cut.after:,} tokens out of the window and "
        f"put a summary of {cut.summary_tokens:,} in their place. Later answers needed {needed:,} references again."
    )


def _find_first_cut(shown: opening.ShownSession) -> int:
    return next((cut.request for cut in window_cuts.list_cuts(shown.view)), 0)


def _say_other(shown: opening.ShownSession) -> str:
    at, other = _find_first_cut(shown), _replay(shown, OTHER)
    return (
        f"{other.policy.title} would have sent {other.count_tokens(at):,} tokens at request {format_request(at)}, where this "
        f"session sent {shown.view.get_prompt(at):,} after its compaction. Step through its decisions, forwards and back."
    )


def _address_other(shown: opening.ShownSession) -> dict[str, object]:
    """The request of the first cut under the other tool's policy, after its last decision: as it would have been sent."""
    at = _find_first_cut(shown)
    return {"policy": OTHER, "request": at, "step": len(_replay(shown, OTHER).plans[at].decisions)}


def _say_saved(shown: opening.ShownSession) -> str:
    shared = replays.get_shared_facts(shown)
    rows = [comparison.build_row(_replay(shown, name), shared) for name in COMPARED]
    found = recommendation.recommend(rows)
    return f"{found.text} {found.more}".rstrip() if found else ""


def _replay(shown: opening.ShownSession, name: str) -> Trace:
    return shown.trace if name == policies.RECORDED else _replay_policy(shown, shown.key, name)


@st.cache_resource(max_entries=4, show_spinner=False)
def _replay_policy(_shown: opening.ShownSession, key: str, name: str) -> Trace:  # noqa: ARG001  what the cache goes by
    return library.replay_record(_shown.trace, policies.load_policies().policies[name])


def _say_chat(_shown: opening.ShownSession) -> str:
    return (
        st.session_state.get(CHAT_SENTENCE, ("", False))[0]
        or "A chat with the built-in model: no key, no network. Watch its window fill."
    )


def _say_report(shown: opening.ShownSession) -> str:
    points = audit.audit(shown.trace, shown.view)
    wrong = sum(point.verdict in ("fail", "warning") for point in points)
    return (
        f"The audit judges {len(points)} points; {wrong} of them need a look. \u201cPrepare the report\u201d makes one file "
        "to hand on, without what is private. It opens anywhere, and nothing leaves this machine."
    )


STOPS: tuple[Stop, ...] = (
    Stop(
        "What filled the window", "envelope", lambda shown: {"request": _find_largest_request(shown)}, _say_fill, ".ts-barbox"
    ),
    Stop(
        "What it cost",
        "heatmap",
        lambda shown: {"request": dear.request if (dear := _find_dearest(shown)) else 0},
        _say_cost,
        "[data-testid=stPlotlyChart]",
    ),
    Stop("What the compaction threw away", "lost", lambda shown: {"request": _find_cut(shown)}, _say_lost, ".lost-facts"),
    Stop(
        "What another tool would have sent",
        "debugger",
        _address_other,
        _say_other,
        ".st-key-debugger-stepper",
    ),
    Stop("What it would have saved", "compare", lambda _: {"policies": ",".join(COMPARED)}, _say_saved, ".cmp-verdict"),
    Stop("A live chat that hits its limit", "chat", lambda _: {}, _say_chat, ".ts-barbox", seconds=24),
    Stop("The report to hand on", "audit", lambda _: {}, _say_report, ".st-key-share-prepare"),
)


@st.cache_data(max_entries=64, show_spinner=False)
def _build_sentence(_shown: opening.ShownSession, key: str, number: int) -> str:  # noqa: ARG001  what the cache goes by
    return STOPS[number - 1].say(_shown)


def get_sentence(shown: opening.ShownSession, number: int) -> str:
    """The sentence of a stop.

    Args:
        shown: the session of the demo.
        number: of the stop, from 1.
    """
    if STOPS[number - 1].page == "chat":
        return _say_chat(shown)
    return _build_sentence(shown, shown.key, number)
