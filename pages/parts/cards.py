"""HTML of what a page shows of a request: bar, cards, lists. Text of sessions passes `esc`, always."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from turnscope import figures
from turnscope.numbering import format_request
from turnscope.views import events, ranges, request_summary
from turnscope.views import overview as views
from turnscope.views.cache_layout import Breakpoint
from turnscope.views.detail import Detail, Item
from turnscope.views.exactness import Exactness
from turnscope.views.side_requests import describe_kinds
from turnscope.views.total_cost import TotalCost

from pages.parts.formats import escape, format_percent, format_tokens, format_usd, shorten

HINTS = {
    "system": "The system prompt, and system messages in between.",
    "tools": "Definitions of the tools that the model may call.",
    "messages": "What you and the model wrote, calls of tools included.",
    "tool_results": "What tools gave back: files, output of commands, pages.",
    "thinking": "The model's own reasoning, where it is sent again.",
    "unattributed": "Recorded tokens that the other parts do not explain.",
}
COUNTED = "How the text of this session was counted before it was scaled to what the provider recorded."
INJECTED = "What the agent itself added to the prompt, as text of messages: a part of Messages."
INSERTED = "What the policy inserted besides the conversation: hatched in the bar, a row each in the heatmap."
WORDS = {
    "measured": "Recorded in the log by the provider.",
    "estimated": "Counted here, then scaled to what was recorded.",
    "inferred": "Not in the log: what the recorded prompt holds beyond all that the log shows.",
}
WINDOW_SOURCES = {
    "chosen": "as you chose",
    "beta": "by its beta",
    "suffix": "by [1m]",
    "recorded": "by its log",
    "refused": "by a refusal",
    "compacted": "by its compactions",
    "prompt": "by its prompts",
}
HATCHED = {
    "prefix": "135deg,* 0 3px",
    "earlier": "45deg,* 0 3px",
    "reinjected": "0deg,* 0 3px",
    "unattributed": "90deg,* 0 3px",
}
CENT = Decimal("0.01")  # a smaller part is shown on hovering alone
BREAKPOINT = "Where the request asks the provider to cache the prompt up to: a later request with the same start reads it."
TTLS = {"5m": "5 minutes", "1h": "1 hour"}
FLAG_ROOM = 4.5  # percent of the bar between two flags at one height
MAX_EVENT = 44  # characters of what happened at a request
TEXT = 800  # characters of a block shown in a list


def render_title(view: views.Overview, exactness: Exactness | None = None) -> str:
    """Title line with chips: source, model and window, requests, cost, peak, repeated input and what was taken out.

    Args:
        view: the session.
        exactness: how exactly its requests are known; None = not shown.
    """
    models = list(dict.fromkeys(model for model in view.models if model))
    window = int(view.windows.max(initial=0))
    model = (_strip_date(models[0]) if models else "model unknown") + (f" +{len(models) - 1}" if len(models) > 1 else "")
    chips = [
        _render_chip(view.source),
        _render_chip(
            f"{model} · {format_tokens(window)}{_describe_source(view, window)}" if window else model,
            "",
            "; ".join((", ".join(models), *(f"{each.model}: {each.sentence}" for each in view.evidence))),
        ),
        _render_chip(_many(len(view), "request")),
        *_render_costs(view),
    ]
    if window and len(view):
        peak = float((view.prompts / view.windows.clip(min=1)).max())
        chips.append(_render_chip(f"peak {peak:.0%}", "bad" if peak > 1 else "warn" if peak > 0.75 else ""))
    if len(view) > 1:
        resent = ranges.summarize_range(view, 0, len(view)).repeated_share
        chips.append(
            _render_chip(
                f"{format_percent(resent)} repeated input",
                "",
                "Share of all input that the previous request had carried already",
            )
        )
    shrunk = events.count_cuts(cut.kind for cut in request_summary.find_cuts(view))
    chips += [_render_chip(text, "warn", events.EVENTS[kind].meaning) for kind, text in shrunk] or [_render_chip("nothing cut")]
    if exactness and len(view):
        chips.insert(3, _render_chip(exactness.label, "good" if exactness.as_sent else "", render_exactness(exactness)))
    full = view.title or view.session_id
    return (
        f'<div class="ts-title"><h1 title="{escape(shorten(full, 400))}">{escape(shorten(full, 80))}</h1>'
        f'<div class="ts-facts">{"".join(chips)}</div></div>'
    )


def render_exactness(exactness: Exactness) -> str:
    """What is known of the requests as they were sent, and how to know more, as plain sentences.

    Args:
        exactness: how exactly the requests of the session are known.
    """
    sentences = (exactness.sentence, exactness.way)
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in sentences if text)


def render_middle(text: str, link: str) -> str:
    """That the task, or the last instruction, is in the middle of a long prompt; a link leads to where it does.

    Args:
        text: the sentence that says it.
        link: address of the page that shows it.
    """
    look = f'<a href="{escape(link)}" target="_self">Show it</a>'
    return f'<div class="ts-mid"><b>Lost in the middle</b> {escape(text)} {look}</div>'


def _render_costs(view: views.Overview) -> list[str]:
    """What the whole session cost, what of it was counted, the path's own share, and what the log says."""
    whole, path, run = view.bill.whole, view.bill.path, view.bill.run_usd
    reported = [] if run is None else [_render_run_cost(view.bill, run)]
    if whole.usd is None:
        if not (view.recorded >= 0).any():
            hint = "The log holds no usage, so nothing of it can be priced; tokens are counted here"
            return [_render_chip("no usage logged", "", hint), *reported]
        return [_render_chip(format_usd(None), "warn", "No model of this session has a known price"), *reported]
    cost, hint = format_usd(whole.usd), "Every request priced on its own, each once"
    if whole.counted:
        counted = f"of it {format_usd(whole.counted_usd)} counted for {_many(whole.counted, 'answer')}"
        counted += f" · {format_usd(whole.recorded_usd)} as recorded"
        cost += f", {format_usd(whole.counted_usd)} of it estimated" if whole.counted_usd >= CENT else ""
        hint += f"; where the recorded output cannot be true, the answer's own text was counted: {counted}"
    if whole.unpriced:
        cost += f" · {whole.unpriced} without a price"
    if len(view.bill.parts) > 1:
        of = "; ".join(
            f"{name}: {format_usd(share.usd)} for {_many(share.requests, 'request')}" for name, share in view.bill.parts
        )
        hint += f". Its parts: {of}"
    if kinds := describe_kinds(view.bill):
        hint += f". Beside the conversation: {kinds}"
    if view.bill.subagents.requests and not view.bill.branches.requests:
        cost += f" · {format_usd(path.usd)} without subagents"
    elif view.bill.side_total.requests and not view.bill.branches.requests:
        cost += f" · {format_usd(view.bill.side_total.usd)} beside the conversation"
    chips = [_render_chip(cost, "", hint)]
    if view.bill.branches.requests:
        chips.append(_render_chip(f"this branch {format_usd(path.usd)}", "", hint))
    if whole.logged_usd is not None:
        hint = f"What the tool noted for {_many(whole.logged, 'request')}"
        chips.append(_render_chip(f"log says {format_usd(whole.logged_usd)}", "", hint))
    return chips + reported


def _describe_source(view: views.Overview, window: int) -> str:
    """How the window is known, in a word; "" where it is the model's usual one."""
    found = next((each for each in view.evidence if each.window == window), None)
    return f" {WINDOW_SOURCES[found.kind]}" if found and found.kind in WINDOW_SOURCES else ""


def _render_run_cost(bill: TotalCost, run: Decimal) -> str:
    """What the tool noted for the whole run; where that is another sum than ours, by how much and why that may be."""
    more, hint = bill.run_difference, "What the tool noted for the whole run"
    if more is None or bill.whole.usd is None:
        return _render_chip(f"log says {format_usd(run)}", "", hint)
    ours, off = format_usd(bill.whole.usd), f"{format_usd(abs(more))} {'more' if more > 0 else 'less'}"
    why = "A tool counts requests that its log does not hold (summaries, titles, those of the session that this one came from)"
    why += " and may leave out answers that broke off"
    if bill.summary_usd:
        why += f". {_many(bill.summaries, 'summary')} probably cost {format_usd(bill.summary_usd)}, inferred"
    return _render_chip(f"log says {format_usd(run)}, {off}", "warn", f"{hint}: {format_usd(run)}, counted here {ours}. {why}")


def _strip_date(model: str) -> str:
    """A model's name without the date that ends it."""
    name, _, date = model.rpartition("-")
    return name if name and len(date) == 8 and date.isdigit() else model


def _many(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def _render_chip(text: str, tone: str = "", hint: str = "") -> str:
    return f'<span class="ts-chip {tone}" title="{escape(hint or text)}">{escape(text)}</span>'


def render_headline(now: request_summary.RequestSummary, ahead: request_summary.Cut | None, links: Mapping[str, str]) -> str:
    """One sentence with the number that matters, what happened at this request, and ways to the next cut and to other pages.

    Args:
        now: numbers of the request.
        ahead: the next cut; None = there is none.
        links: addresses of pages, by what stands on the link; "" = there is no such page.
    """
    chips = "".join(_render_chip(f"{events.SIGNS[kind][0]} {_shorten_event(what)}", "warn", what) for kind, what in now.events)
    if ahead:
        what = f"What was {events.EVENTS[ahead.kind].word} at request {format_request(ahead.request)} →"
        chips += f'<button type="button" class="ts-go" data-request="{ahead.request}">{what}</button>'
    chips += "".join(render_link(address, words) for words, address in links.items() if address)
    return f'<h2 class="ts-headline" data-request="{now.n}"><span>{escape(now.sentence)}</span>{chips}</h2>'


def _shorten_event(what: str) -> str:
    """What happened, without what follows a colon; a long remark in brackets is left to the hint."""
    short = what.partition(": ")[0]
    return shorten(short if len(short) <= MAX_EVENT else short.partition(" (")[0], 60)


def fill_style(name: str) -> str:
    """The colour of a part as CSS; hatched where no block stands for it."""
    css = name.replace("_", "-")
    if name in HATCHED:
        return f"background:repeating-linear-gradient({HATCHED[name]},var(--ts-panel) 3px 8px)".replace("*", f"var(--ts-{css})")
    return f"background:var(--ts-{css});color:var(--ts-ink-{css})"


def render_bar(now: request_summary.RequestSummary, breakpoints: Sequence[Breakpoint] = ()) -> str:
    """The wide bar: prefix, buckets, remainder, free space, reserve, ticks; above it the request before a cut.

    Args:
        now: numbers of the request.
        breakpoints: its cache breakpoints, in the order sent.
    """
    whole = max(now.window, now.prompt, 1)
    parts = "".join(
        _render_segment(segment, whole, _describe_injected(now), now.inserts) for segment in now.segments if segment.tokens
    )
    free = f'<div class="ts-seg free">{format_tokens(now.free)} free</div>' if now.free > whole * 0.03 else ""
    reserve = ticks = scale = ""
    if now.window:
        left = 100 * now.warn_at / whole
        ticks = f'<div class="ts-tick" style="left:{left:.2f}%"></div>'
        scale = f'<span style="right:{100 - left:.2f}%;color:var(--ts-warn);padding-right:6px">90% of the window</span>'
        scale += f'<span style="right:0;color:var(--ts-bad)">limit {format_tokens(now.window)}</span>'
        if now.reserve:
            width = 100 * min(now.reserve, now.window) / whole
            reserve = (
                f'<div class="ts-reserve" style="width:{width:.2f}%" title="reserved for the answer: {now.reserve:,}"></div>'
            )
    before = _render_previous(now, whole) if now.previous_segments else ""
    label = f"{now.prompt:,} of {now.window:,} tokens" if now.window else f"{now.prompt:,} tokens"
    return (
        f'<div class="ts-barbox">{before}<div class="ts-scale">{scale}</div>'
        f'<div class="ts-bar" role="img" aria-label="{label}">{parts}{free}{reserve}{ticks}</div>'
        f"{_render_cache_strip(now, whole, breakpoints)}</div>"
    )


def _render_cache_strip(now: request_summary.RequestSummary, whole: int, breakpoints: Sequence[Breakpoint]) -> str:
    """How the prompt was billed, in the order that it was sent, to the bar's scale; "" where no usage is recorded."""
    if not now.recorded or not (now.read or now.written):
        return ""
    billed = [("read", "read from the cache", now.read), ("written", "written to the cache", now.written)]
    billed.append(("uncached", "not cached", now.uncached))
    parts = "".join(
        f'<i class="{name}" title="{tokens:,} tokens {words}" style="width:{100 * tokens / whole:.3f}%"></i>'
        for name, words, tokens in billed
        if tokens
    )
    key = "".join(
        f'<span><i class="{name}"></i>{words} {tokens:,}</span>' for name, words, tokens in billed if tokens or name == "read"
    )
    label = ", ".join(f"{tokens:,} tokens {words}" for _, words, tokens in billed)
    strip = f'<div class="ts-cached" role="img" aria-label="{label}">{parts}</div>{_render_flags(breakpoints, whole)}'
    if breakpoints:
        places = " · ".join(f"<b>{n}</b> at {each.tokens:,}" for n, each in enumerate(breakpoints, 1))
        key += f'<span class="flags" title="{BREAKPOINT}">cache breakpoints {places}</span>'
    return f'{strip}<div class="ts-cached-key"><span>In the order sent:</span>{key}</div>'


def _render_flags(breakpoints: Sequence[Breakpoint], whole: int) -> str:
    """A numbered flag under the strip for each breakpoint; one next to another hangs lower."""
    flags, before, level = "", -100.0, 0
    for n, each in enumerate(breakpoints, 1):
        place = 100 * each.tokens / whole
        level = level + 1 if place - before < FLAG_ROOM else 0
        before = place
        hint = f"cache breakpoint {n}: {each.tokens:,} tokens up to “{each.label}”, for {TTLS.get(each.ttl, each.ttl)}"
        hint += ", by the tool’s rule: its log holds no request" if each.inferred else ""
        flags += f'<b style="left:{place:.2f}%;--level:{level}" title="{escape(hint)}">{n}</b>'
    return f'<div class="ts-flags">{flags}</div>' if flags else ""


def _describe_injected(now: request_summary.RequestSummary) -> str:
    """What the tool injected, all of which is in messages."""
    return " · ".join(f"{word} {format_tokens(tokens)}" for word, tokens in now.injected if tokens)


def render_inserts(inserts: Sequence[tuple[str, str, int]], bucket: str, whole: int) -> str:
    """The slots of a bucket as hatched parts at the end of its segment.

    Args:
        inserts: slot, bucket and tokens of each insert.
        bucket: the bucket.
        whole: tokens of the segment.
    """
    parts = "".join(
        f'<i title="{escape(slot)}: {tokens:,} tokens, inserted" style="width:{100 * tokens / max(1, whole):.2f}%"></i>'
        for slot, of, tokens in inserts
        if of == bucket
    )
    return f'<span class="ts-slots">{parts}</span>' if parts else ""


def _render_segment(
    segment: request_summary.Segment, whole: int, put_in: str = "", inserts: Sequence[tuple[str, str, int]] = ()
) -> str:
    width = 100 * segment.tokens / whole
    name = views.LABELS[segment.name]
    text = f"{name} {format_tokens(segment.tokens)}"
    room = width * 12.4  # pixels at 1240, less on narrow pages, where the text is cut off by the ellipsis of the title
    shown = text if room > 8.2 * len(text) + 18 else format_tokens(segment.tokens) if room > 58 else ""
    thin = " hatched" if shown and segment.name in HATCHED else "" if shown else " thin"
    hint = f"{name}: {segment.tokens:,} tokens, {segment.mark}"
    hint += f"; injected by the agent: {put_in}" if put_in and segment.name == "messages" else ""
    style = f"width:{width:.3f}%;{fill_style(segment.name)}"
    slots = render_inserts(inserts, segment.name, segment.tokens)
    return f'<div class="ts-seg{thin}" title="{escape(hint)}" style="{style}"><span>{escape(shown)}</span>{slots}</div>'


def _render_previous(now: request_summary.RequestSummary, whole: int) -> str:
    total = sum(segment.tokens for segment in now.previous_segments)
    parts = "".join(
        f'<i title="{escape(views.LABELS[s.name])}: {s.tokens:,}" '
        f'style="width:{100 * s.tokens / whole:.3f}%;{fill_style(s.name)}"></i>'
        for s in now.previous_segments
        if s.tokens
    )
    more = f", {total - now.prompt:,} more than this one" if total > now.prompt else ""
    words = f"The previous request carried {total:,} tokens{more}."
    return f'<div class="ts-before"><small>{words}</small><div class="ts-ghost">{parts}</div></div>'


def render_buckets(now: request_summary.RequestSummary, counter: str) -> str:
    """A card for each part of the prompt that has tokens, and a chip for what is no part of it.

    Args:
        now: numbers of the request.
        counter: who counted, in words.
    """
    named = {segment.name: segment for segment in now.segments}
    hidden = any(named[name].tokens for name in HATCHED if name != "unattributed")
    order = ("system", "tools", "messages", "tool_results", "thinking")
    there = [name for name in (*HATCHED, *order) if named[name].tokens]
    cards = "".join(_render_bucket(named[name]) for name in there)
    absent = _render_absent([name for name in order if name not in there], hidden)
    chips = "".join(_render_chip(shorten(note, 120), "warn", note) for note in now.notes)
    chips += _render_output(now)
    if put_in := _describe_injected(now):
        chips += f'<span class="ts-chip seg" title="{INJECTED}">injected by the agent<em>{escape(put_in)}</em></span>'
    chips += render_slots(now.inserts)
    chips += render_price(now)
    chips += f'<span class="ts-chip seg" title="{COUNTED}">Tokenizer<em>{escape(counter)}</em></span>'
    return f'<div class="ts-cards" style="--many:{len(there)}">{cards}</div>{absent}<div class="ts-chips">{chips}</div>'


def render_price(now: request_summary.RequestSummary) -> str:
    """What the request cost and how much of its prompt was read from the cache, as a chip."""
    unpriced = "no known price for this model" if now.recorded else "nothing to price"
    money = f"this request {format_usd(now.total)}" if now.total is not None else unpriced
    money += f" · log says {format_usd(now.logged_usd)}" if now.logged_usd is not None else ""
    read = f"{format_percent(now.read / max(1, now.prompt))} read from cache" if now.recorded else "usage not recorded"
    return f'<span class="ts-chip seg">{money}<em>{read}</em></span>'


def _render_absent(names: Sequence[str], hidden: bool) -> str:
    """One line for the buckets that have no tokens; "" where all have some."""
    unknown = [name for name in names if hidden and name in ("system", "tools")]
    parts = [
        f"{prefix}: {', '.join(views.LABELS[name] for name in group)}"
        for prefix, group in (("not in the log", unknown), ("empty", [name for name in names if name not in unknown]))
        if group
    ]
    return f'<p class="ts-absent">{escape("; ".join(parts).capitalize())}</p>' if parts else ""


def render_slots(inserts: Sequence[tuple[str, str, int]]) -> str:
    """What a policy put in, by slot, as a chip; "" where it put in nothing."""
    text = " · ".join(f"{slot.lower()} {format_tokens(tokens)}" for slot, _, tokens in inserts)
    return f'<span class="ts-chip seg" title="{INSERTED}">inserts<em>{escape(text)}</em></span>' if text else ""


def _render_output(now: request_summary.RequestSummary) -> str:
    """The answer has a price of its own: no part of the prompt bears it."""
    price = f" · {format_usd(now.answer_usd)}" if now.total is not None else ""
    price += f" · {now.speed:,.{int(now.speed < 9.95)}f} tokens/s" if now.speed else ""
    mark, hint = ("estimated", COUNTED) if now.counted else ("measured", WORDS["measured"])
    return f'<span class="ts-chip seg" title="{hint}">Answer {now.answer:,} tokens{price}<em>{mark}</em></span>'


def _render_bucket(segment: request_summary.Segment) -> str:
    swatch = f'<i class="ts-swatch" style="{fill_style(segment.name)}"></i>'
    hint = HINTS.get(segment.name, WORDS["inferred"])
    mark = f'<em class="ts-term" title="{WORDS[segment.mark]}">{segment.mark}</em>'
    name = f'<span title="{hint}">{views.LABELS[segment.name].partition(",")[0]}</span>'
    line = f"{format_usd(segment.usd)} · {_render_change(segment.change)}"
    share = f"<small>{format_percent(segment.share)}</small>"
    value = f'<div class="value">{format_tokens(segment.tokens)}{share}</div>'
    return f'<div class="ts-card"><h3>{swatch}{name}{mark}</h3>{value}<p>{line}</p></div>'


def _render_change(change: int) -> str:
    if not change:
        return "no change"
    up = change > 0
    return f'<span class="{"ts-up" if up else "ts-down"}">{"▲" if up else "▼"} {format_tokens(abs(change))}</span>'


def render_panel(name: str, body: str, note: str = "") -> str:
    """A titled box.

    Args:
        name: title of the box.
        body: its content, as HTML that is safe already.
        note: faint text next to the title.
    """
    return f'<section class="ts-card"><h3>{escape(name)}<em>{escape(note)}</em></h3>{body}</section>'


def render_largest(groups: Sequence[request_summary.Group], shown: int = 12) -> str:
    """The first groups of blocks with a meter each; a line opens to show the largest text of its group.

    Args:
        groups: the groups, the largest first.
        shown: how many.
    """
    most = max((group.tokens for group in groups), default=1)
    body = "".join(_render_group(group, most) for group in groups[:shown])
    return body + render_more(groups[shown:]) or '<div class="ts-empty">Nothing that the log holds.</div>'


def render_more(groups: Sequence[request_summary.Group]) -> str:
    """What a list leaves out, so that no list looks complete that is not; "" where it leaves out nothing."""
    rest = f"and {len(groups):,} more, {format_tokens(sum(group.tokens for group in groups))} tokens"
    return f'<div class="ts-empty">{rest}</div>' if groups else ""


def _render_group(group: request_summary.Group, most: int) -> str:
    count = f'<span class="ts-faint">{group.count} ×</span> ' if group.count > 1 else ""
    state = f' <span class="ts-faint">· {escape(group.state)}</span>' if group.state != "verbatim" else ""
    meter = f'<span class="meter" style="width:{100 * group.tokens / max(1, most):.1f}%;{fill_style(group.bucket)}"></span>'
    head = f'<span class="name">{count}{escape(group.label)}{state}</span><span class="size">{group.tokens:,}</span>{meter}'
    summary = f'<summary title="{escape(group.label)}">{head}</summary>'
    return f'<details class="ts-row">{summary}<pre>{render_clipped(group.text)}</pre></details>'


def render_clipped(text: str, most: int = TEXT) -> str:
    """The beginning of a text, escaped; says how much is left out.

    Args:
        text: the text.
        most: characters that are shown.
    """
    rest = len(text) - most
    return (
        escape(text[:most]) + (f'<span class="ts-faint">\n… {rest:,} more characters</span>' if rest > 0 else "") or "(no text)"
    )


def render_deltas(items: Iterable[Item], sign: str, tone: str, shown: int = 6) -> str:
    """Blocks that came or went, in groups.

    Args:
        items: the blocks.
        sign: "+" or "−".
        tone: CSS class of the sizes.
        shown: how many groups.
    """
    groups = request_summary.group_items(items, 1, 10**9)
    return "".join(_render_delta(group, sign, tone) for group in groups[:shown]) + render_more(groups[shown:])


def render_changes(detail: Detail) -> str:
    """What was added and removed since the previous request."""
    text = (
        render_deltas(detail.added, "+", "ts-up")
        + render_deltas(detail.removed, "−", "ts-down")
        + render_resized(detail.changed, 6)
    )
    return text or '<div class="ts-empty">The same blocks as the previous request.</div>'


def render_resized(pairs: Sequence[tuple[Item, Item]], shown: int = 12) -> str:
    """Blocks that stand otherwise than before, those that moved most first.

    Args:
        pairs: each block as it stood and as it stands.
        shown: how many.
    """
    ranked = sorted(pairs, key=lambda pair: -abs(pair[1].tokens - pair[0].tokens))
    rows = "".join(
        f'<div class="ts-row"><div class="line"><span class="name" title="{escape(after.label)}">{render_swatch(after.bucket)} '
        f'{escape(after.label)}</span><span class="size">{before.tokens:,} → {after.tokens:,}</span></div></div>'
        for before, after in ranked[:shown]
    )
    return rows + (f'<div class="ts-empty">and {len(ranked) - shown:,} more</div>' if len(ranked) > shown else "")


def render_swatch(name: str) -> str:
    """The small square in the colour of a bucket."""
    return f'<i class="ts-swatch" style="{fill_style(name)}"></i>'


def _render_delta(group: request_summary.Group, sign: str, tone: str) -> str:
    count = f'<span class="ts-faint">{group.count} ×</span> ' if group.count > 1 else ""
    size = f'<span class="size {tone}">{sign}{group.tokens:,}</span>'
    name = f'<span class="name" title="{escape(group.label)}">{render_swatch(group.bucket)} {count}{escape(group.label)}</span>'
    return f'<div class="ts-row"><div class="line">{name}{size}</div></div>'


def render_answer(detail: Detail) -> str:
    """What the model answered, block by block."""
    body = "".join(
        f'<details class="ts-row" {"open" if item.kind == "text" else ""}><summary><span class="name">'
        f'<i class="ts-swatch" style="{fill_style(item.bucket)}"></i> {escape(item.label)}</span>'
        f'<span class="size">{item.tokens:,}</span></summary><pre>{render_clipped(item.text)}</pre></details>'
        for item in detail.answer
    )
    return body or '<div class="ts-empty">The log holds no answer to this request.</div>'


def render_legend(view: views.Overview, heat: bool = False) -> str:
    """Colours of the stack and signs of the markers that this session has.

    Args:
        view: the session.
        heat: whether the legend is that of the heatmap, which shades what is read from cache.
    """
    names = [name for name in figures.STACK if view.cells[:, views.CELLS.index(name)].any()]
    swatches = "".join(
        f'<span><i class="ts-swatch" style="{fill_style(name)}"></i>{views.LABELS[name]}</span>' for name in names
    )
    signs = "".join(
        f'<span title="{events.EVENTS[kind].meaning}">'
        f'<b style="color:var(--ts-{colour})">{events.SIGNS[kind][0]}</b>{word}</span>'
        for kind, colour, word in figures.list_legend(view)
    )
    cold = (
        '<span title="Mostly read from cache, at about a tenth of the price">'
        '<i class="ts-swatch" style="background:var(--ts-cold)"></i>mostly read from cache</span>'
        if heat
        else ""
    )
    return f'<div class="ts-legend">{swatches}{cold}{signs}</div>'


def render_link(address: str, text: str) -> str:
    """A link to another page that looks like a button.

    Args:
        address: the address.
        text: what stands on it.
    """
    return f'<a class="ts-go" href="{escape(address)}" target="_self">{escape(text)}</a>'


def render_departure_link(address: str) -> str:
    """A link to the compare page, at the question when a block leaves the window."""
    return f'<a href="{escape(address)}#left" target="_self">When does each policy evict this?</a>'
