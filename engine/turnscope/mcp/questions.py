"""What an agent may ask about a session, each answer as plain values of a bounded size.

The numbers are those of the app: the same functions of `views` make them.
"""

from __future__ import annotations

from typing import Any

from turnscope.errors import TurnscopeError
from turnscope.library.path_breaks import find_path_breaks, sum_missed
from turnscope.library.store import OpenedSession
from turnscope.numbering import format_request, number_request
from turnscope.views import text_search, window_cut_text, window_cuts
from turnscope.views.cache_breaks import find_cold_time
from turnscope.views.detail import build_detail
from turnscope.views.overview import LABELS
from turnscope.views.removable_results import find_removable_results
from turnscope.views.request_contents import build_contents, list_contents
from turnscope.views.request_summary import summarize_request

PARTS = 8  # of each group
HITS = 20
RESULTS = 40
CHARACTERS = 20_000  # of a text that is given back at once
LABEL = 160


def describe_fill(opened: OpenedSession) -> dict[str, Any]:
    """Say what fills the window of the last request: how much of it, the parts, and the largest things in each."""
    trace, view, n = opened.trace, opened.overview, _find_last(opened)
    now = summarize_request(view, trace, n)
    groups = list_contents(build_contents(trace, view), n, build_detail(trace, view, n).items, most=PARTS)
    known = [each for each in view.evidence if each.model == now.model and each.start <= n]
    return {
        **_name(opened),
        "request": number_request(n),
        "model": now.model,
        "prompt_tokens": now.prompt,
        "measured": now.recorded,
        "window": now.window or None,
        "window_is_known_because": known[-1].because if known else None,
        "fill": round(now.fill, 4) if now.window else None,
        "parts": {LABELS[segment.name]: segment.tokens for segment in now.segments if segment.tokens},
        "largest": [
            {"group": group.title, "what": _cut(part.label), "tokens": part.tokens, "requests": part.requests}
            for group in groups
            for part in group.parts
            if part.tokens
        ],
        "notes": [*now.notes],
    }


def describe_cuts(opened: OpenedSession, number: int = 0) -> dict[str, Any]:
    """Say what compactions and other cuts removed: all of them in short, one as Markdown.

    Args:
        opened: the session.
        number: which one, from 1; 0 = the last one.
    """
    found = window_cuts.list_cuts(opened.overview)
    made: dict[str, Any] = {
        **_name(opened),
        "cuts": [
            {"number": at, "request": number_request(cut.request), "kind": cut.kind, "before": cut.before, "after": cut.after}
            for at, cut in enumerate(found, 1)
        ][-HITS:],
    }
    if not found:
        return made
    if not 0 <= number <= len(found):
        raise TurnscopeError(f"there is no cut {number}", hint=f"The session has {len(found)}.")
    cut = window_cuts.build_window_cut(opened.trace, opened.overview, found[number - 1].request)
    if cut is not None:
        made["what_was_lost"] = _bound(window_cut_text.to_markdown(cut))
        made["addresses"] = [
            {"what": _cut(item.label), "tokens": item.tokens, "addresses": [*item.blocks[:PARTS]]}
            for item in sorted(cut.items, key=lambda item: -item.tokens)[:RESULTS]
        ]
    return made


def find_removed(opened: OpenedSession, text: str, *, regex: bool = False) -> dict[str, Any]:
    """Find a text among what the last request does not carry any more.

    Args:
        opened: the session.
        text: the text, in any case; or a regular expression.
        regex: whether it is one.

    Raises:
        QueryError: the expression is wrong or takes too long.
    """
    last = _find_last(opened)
    query = text_search.Query(text, regex=regex, request=last, which="out")
    found = text_search.search(opened.trace, query, most=HITS)
    stop = opened.session.requests[last].cut  # what comes behind it was never in a request: the question itself, for one
    return {
        **_name(opened),
        "matches": sum(at < stop for at in found.matches),
        "hits": [
            {"address": hit.at, "what": _cut(hit.label), "text": f"{hit.before}{hit.match}{hit.after}", "why": hit.reason}
            for hit in found.hits
            if hit.at < stop
        ],
    }


def read_block(opened: OpenedSession, address: int, offset: int = 0) -> dict[str, Any]:
    """Give back the text of a block.

    Args:
        opened: the session.
        address: its address, as the other answers name it.
        offset: the first character.
    """
    blocks = opened.session.blocks
    if not 0 <= address < len(blocks) or offset < 0:
        raise TurnscopeError(f"there is no block {address}", hint=f"Addresses go from 0 to {len(blocks) - 1:,}.")
    text = blocks[address].text
    end = min(len(text), offset + CHARACTERS)
    return {
        "address": address,
        "kind": blocks[address].kind,
        "text": text[offset:end],
        "characters": len(text),
        "next_offset": end if end < len(text) else None,
    }


def describe_cost(opened: OpenedSession) -> dict[str, Any]:
    """Say what the session cost so far, with its subagents and branches, and what cache misses cost of it."""
    trace, view = opened.trace, opened.overview
    missed = find_path_breaks(trace)
    usages = [request.usage for request in opened.session.requests if request.usage]
    return {
        **_name(opened),
        "usd": _round(view.total),
        "usd_of_main_path": _round(view.path_total),
        "usd_of_last_request": _round(view.totals[-1]) if len(view) else None,
        "requests": len(view),
        "tokens_of_main_path": {
            "input": sum(usage.input_tokens for usage in usages),
            "cache_write": sum(usage.cache_creation_input_tokens for usage in usages),
            "cache_read": sum(usage.cache_read_input_tokens for usage in usages),
            "output": int(view.answers.sum()),
        },
        "cache_misses": len(missed),
        "usd_of_cache_misses": _round(sum_missed(missed) or 0),
        "cache_warm_until": find_cold_time(trace),
    }


def list_removable(opened: OpenedSession) -> dict[str, Any]:
    """Say which tool results of the last request could go."""
    found = find_removable_results(opened.trace, opened.overview, _find_last(opened))
    return {
        **_name(opened),
        "tokens": sum(each.tokens for each in found),
        "usd_of_each_further_request": _round(sum(each.usd for each in found if each.usd is not None)),
        "results": [
            {
                "address": each.at,
                "what": _cut(each.label),
                "tokens": each.tokens,
                "since_request": number_request(each.came),
                "why": _explain(each.newer, each.used),
            }
            for each in found[:RESULTS]
        ],
        "more": max(0, len(found) - RESULTS),
    }


def _explain(newer: int, used: int) -> str:
    if newer >= 0:
        return f"it was read again: address {newer} holds it as well"
    return "no answer refers to it" if used < 0 else f"no answer refers to it after request {format_request(used)}"


def _find_last(opened: OpenedSession) -> int:
    if not len(opened.overview):
        raise TurnscopeError("the session has no request yet", hint="Its first answer makes the first one.")
    return len(opened.overview) - 1


def _name(opened: OpenedSession) -> dict[str, Any]:
    return {"session": opened.session.id, "title": _cut(opened.overview.title)}


def _round(usd: Any) -> float | None:
    return None if usd is None else round(float(usd), 6)


def _cut(text: str, most: int = LABEL) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _bound(text: str) -> str:
    return text if len(text) <= CHARACTERS else f"{text[:CHARACTERS]}\n… {len(text) - CHARACTERS:,} characters more"
