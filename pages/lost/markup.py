"""HTML of the page What was lost. Text of sessions passes `escape`, always."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from turnscope.numbering import format_request
from turnscope.views import overview as views
from turnscope.views.overview import Overview
from turnscope.views.phrases import spell_times
from turnscope.views.request_summary import SEGMENT_ORDER
from turnscope.views.window_cuts import Choice, CutGroup, CutItem, WindowCut

from pages.parts import cards
from pages.parts.formats import escape, format_tokens, format_usd, shorten

Link = Callable[[int], str]
SHOWN, SHOWN_OF_CHOICE = 8, 40  # items of a group that are listed, of all and of a choice; the rest is one line
WORDS: dict[Choice, str] = {
    "all": "all",
    "used": "used again",
    "back": "attached again",
    "uncovered": "not in the summary",
}
OPEN = ("user", "files", "commands")  # groups that are open from the start
PANELS = ".st-key-lost-panels"
POINTS = 200  # of the curve
TICKS = 5  # parts of its axis
ROOM = 16  # percent of its height between two labels
NOT_FOUND = '<span class="warn">not found</span>'
MATCH = "A match of file names and identifiers: a lower bound, and no fact of the log."


def render_bars(view: Overview, cut: WindowCut) -> str:
    """The window before and after, on one scale.

    Args:
        view: the session.
        cut: the cut.
    """
    whole = max(int(view.windows[cut.request]), cut.before, cut.after, 1)
    rows = "".join(
        _render_bar(view, n, name, size, whole)
        for n, name, size in ((cut.request - 1, "before the cut", cut.before), (cut.request, "after", cut.after))
    )
    more = cut.before - int(view.cells[cut.request - 1].sum())
    came = f"Grey: {more:,} tokens that came after request {format_request(cut.request - 1)} was sent." if more > 0 else ""
    return f'<div class="lost-bars">{rows}</div><p class="lost-came">{came}</p>'


def _render_bar(view: Overview, n: int, name: str, size: int, whole: int) -> str:
    """The cells of a request; what came before the cut and in no request yet stands at the end of the upper one."""
    cells = [(cell, tokens) for cell in SEGMENT_ORDER if (tokens := int(view.cells[n, views.CELLS.index(cell)])) > 0]
    more = size - sum(tokens for _, tokens in cells)
    parts = "".join(
        f'<i title="{escape(views.LABELS[cell])}: {tokens:,} tokens" '
        f'style="width:{100 * tokens / whole:.2f}%;{cards.fill_style(cell)}"></i>'
        for cell, tokens in cells
    )
    if more > 0:
        hint = f"came after the request was sent: {more:,} tokens"
        parts += f'<i class="more" title="{hint}" style="width:{100 * more / whole:.2f}%"></i>'
    return (
        f'<span>{name}</span><div class="ts-ghost" role="img" aria-label="{name}: {size:,} tokens">{parts}</div><b>{size:,}</b>'
    )


def render_facts(cut: WindowCut) -> str:
    """The numbers that matter, in a row.

    Args:
        cut: the cut.
    """
    needed = [item for item in cut.items if item.needed]
    again = [item for item in cut.items if item.read_again]
    blocks = sum(group.blocks for group in cut.groups)
    more = f"; {cut.spanned - blocks:,} more had left before" if cut.spanned > blocks else ""
    facts = [
        ("Left the window", f"{cut.before - cut.after:,}", f"tokens net, {blocks:,} blocks{more}"),
        (
            "Summary",
            f"{cut.summary_tokens:,}" if cut.summary else "none",
            "tokens" if cut.summary else "no text took its place",
        ),
        (
            "Needed again later",
            f"{sum(len(item.needed) for item in needed):,}",
            f"references to {len(needed):,} item{'' if len(needed) == 1 else 's'}",
        ),
        ("Fetched again", f"{sum(len(item.read_again) for item in again):,}", f"tool results of {len(again):,} items"),
    ]
    cost = cut.cost
    if cost.before is not None and cost.after is not None:
        facts.append(
            ("Prompt of a request", f"{format_usd(cost.before)} → {format_usd(cost.after)}", "median of 10 before and after")
        )
        paid = f"summary {format_usd(cost.summary)}" if cost.summary is not None else "summary: not known"
        facts.append(
            (
                "Cost of the cut",
                format_usd((cost.summary or 0.0) + (cost.first or 0.0)),
                f"{paid} · first prompt {format_usd(cost.first)}",
            )
        )
        even = cost.break_even
        when = "never" if even is None else "at once" if not even else f"request {format_request(cut.request + even)}"
        facts.append(("Break-even", when, _describe_saved(cut) if cost.saved else ""))
    body = "".join(f"<div><span>{escape(a)}</span><b>{escape(b)}</b><small>{escape(c)}</small></div>" for a, b, c in facts)
    return f'<section class="ts-card lost-facts">{body}</section>'


def _describe_saved(cut: WindowCut) -> str:
    """What the cut has saved by the next one, or by the end of the session; or how much more it cost."""
    usd = cut.cost.saved[-1]
    until = "until the next cut" if cut.number < cut.count else "until the end"
    return f"saved {format_usd(usd)} {until}" if usd >= 0 else f"cost {format_usd(-usd)} more than it saved {until}"


def render_summary(cut: WindowCut) -> str:
    """The summary by its sentences, each with what it covers, and what was attached again.

    Args:
        cut: the cut.
    """
    if not cut.summary:
        return cards.render_panel("The summary", '<div class="ts-empty">No summary took the place of what left.</div>')
    covered = {n: [item for item in cut.items if n in item.sentences] for n in range(1, len(cut.sentences) + 1)}
    rows = "".join(_render_sentence(n, text, covered[n]) for n, text in enumerate(cut.sentences, 1))
    note = f"{cut.summary_tokens:,} tokens, {len(cut.sentences):,} sentences"
    if cut.returned:
        listed = "".join(
            f'<div class="ts-row"><div class="line"><span class="name" title="{escape(label)}">{escape(label)}</span>'
            f'<span class="size">{tokens:,}</span></div></div>'
            for label, tokens in cut.returned
        )
        total = sum(tokens for _, tokens in cut.returned)
        many = f"{len(cut.returned):,} part{'' if len(cut.returned) == 1 else 's'}, {total:,} tokens"
        fold = "open" if len(cut.returned) <= SHOWN else ""
        rows += f"<details {fold}><summary>Attached again by the agent <em>{many}</em></summary>{listed}</details>"
    return cards.render_panel("The summary", f'<div class="lost-summary">{rows}</div>', note)


def render_pairing(sentences: int) -> str:
    """A style sheet: a sentence under the mouse, or with the focus, lights up what it covers, and the other way round.

    Args:
        sentences: of the summary.
    """
    rules = (
        f"{PANELS}:has(p.s{n}:hover,p.s{n}:focus) .lost-row.s{n},{PANELS}:has(.lost-row.s{n}:hover) p.s{n}"
        "{background:color-mix(in srgb,var(--ts-accent) 16%,transparent)}"
        for n in range(1, sentences + 1)
    )
    return f"<style>{''.join(rules)}</style>"


def _render_sentence(n: int, text: str, items: list[CutItem]) -> str:
    tokens = sum(item.tokens for item in items)
    blocks = sum(len(item.blocks) for item in items)
    covers = f"covers {blocks:,} block{'' if blocks == 1 else 's'} · {format_tokens(tokens)}" if items else ""
    sentence = f'{escape(shorten(text, 600))}<small title="{MATCH}">{covers}</small>'
    return f'<p class="s{n}" tabindex="0"><b>{n}</b><span>{sentence}</span></p>'


def render_items(cut: WindowCut, link: Link, choice: Choice = "all") -> str:
    """What left, by kind and subject: tokens, the sentence that covers it, and which later answers used it.

    Args:
        cut: the cut.
        link: the address of a request.
        choice: which of its items are listed.
    """
    groups = cut.select_groups(choice)
    most = max((group.tokens for group in groups), default=1)
    shown = SHOWN if choice == "all" else SHOWN_OF_CHOICE
    unfold = OPEN if choice == "all" else tuple(group.name for group in groups)
    body = "".join(_render_group(group, most, link, bool(cut.summary), shown, group.name in unfold) for group in groups)
    head = (
        f'<div class="lost-row head"><span>Left</span><span>Tokens</span><span title="{MATCH}">Sentence</span>'
        f'<span title="{MATCH}">Used by later answers</span></div>'
    )
    note = f"{WORDS[choice]}, by kind and subject, largest first"
    return cards.render_panel("What it replaced", f'<div class="lost-items">{head}{body}</div>', note)


def _render_group(group: CutGroup, most: int, link: Link, summed_up: bool, shown: int, unfold: bool) -> str:
    """A kind of content; what a person wrote and no sentence of the summary covers stands out."""
    strict = summed_up and group.name == "user"
    rows = "".join(_render_item(item, link, NOT_FOUND if strict else "–") for item in group.items[:shown])
    rest = group.items[shown:]
    if rest:
        used = sum(bool(item.needed or item.read_again) for item in rest)
        tokens = sum(item.tokens for item in rest)
        use = f"{used:,} of them needed or fetched again" if used else "not used again"
        rows += (
            f'<div class="lost-row"><span class="ts-faint">{len(rest):,} more</span><span>{tokens:,}</span><span></span>'
            f'<span class="ts-faint">{use}</span></div>'
        )
    meter = f'<i style="width:{100 * group.tokens / max(1, most):.1f}%;{cards.fill_style(group.items[0].bucket)}"></i>'
    needed = sum(len(item.needed) for item in group.items)
    losses = f"{needed:,} reference{'' if needed == 1 else 's'} needed again" if needed else ""
    many = f"{group.blocks:,} block{'' if group.blocks == 1 else 's'}"
    missing = sum(not item.sentences for item in group.items) if strict else 0
    uncovered = (
        f'<span class="warn" title="{MATCH}">{missing:,} of {len(group.items):,} not found in the summary</span>'
        if missing
        else ""
    )
    head = (
        f"<span>{cards.render_swatch(group.items[0].bucket)} <b>{escape(group.title)}</b> <small>{many}</small></span>"
        f'<span><b>{group.tokens:,}</b>{meter}</span><span></span><span class="ts-faint">{uncovered}{losses}</span>'
    )
    head = f'<summary class="lost-row group">{head}</summary>'
    return f"<details {'open' if unfold else ''}>{head}{rows}</details>"


def _render_item(item: CutItem, link: Link, uncovered: str) -> str:
    marks = "".join(f"<b>{n}</b>" for n in item.sentences[:4]) + ("…" if len(item.sentences) > 4 else "")
    many = f"<small>{len(item.blocks):,} ×</small> " if len(item.blocks) > 1 else ""
    hint = escape(shorten(f"{item.label}: {item.text}", 400))
    covered = " ".join(f"s{n}" for n in item.sentences)
    return (
        f'<div class="lost-row {covered}"><span title="{hint}">{many}{escape(_shorten_label(item.label))}</span>'
        f'<span>{item.tokens:,}</span><span class="marks">{marks or uncovered}</span>'
        f"<span>{_render_use(item, link)}</span></div>"
    )


def _shorten_label(label: str) -> str:
    """A path by its last three parts, anything else by its beginning."""
    parts = label.split("/")
    return "…/" + "/".join(parts[-3:]) if len(parts) > 4 and " " not in label else shorten(label, 90)


def _render_use(item: CutItem, link: Link) -> str:
    """Which later answers used an item, which fetched it again, and whether the agent attached it again."""
    parts = []
    if item.needed:
        words = escape(shorten(", ".join(dict.fromkeys(item.needed)), 300))
        first = _render_request(item.needed_at[0], link)
        parts.append(f'<span class="warn" title="{words}">needed {spell_times(len(item.needed))}, first at {first}</span>')
    if item.read_again:
        first = _render_request(item.read_again[0], link)
        parts.append(f"<span>fetched again {spell_times(len(item.read_again))}, first for {first}</span>")
    if item.returned:
        parts.append('<span class="back">attached again</span>')
    return "".join(parts) or '<span class="ts-faint">not used again</span>'


def _render_request(n: int, link: Link) -> str:
    return f'<a href="{escape(link(n))}" target="_self">request {format_request(n)}</a>'


def render_savings(cut: WindowCut) -> str:
    """What was saved since the cut, request by request, with its break-even and what was fetched again; "" without prices.

    Args:
        cut: the cut.
    """
    saved = cut.cost.saved
    if len(saved) < 2:
        return ""
    again = sorted({n - cut.request for item in cut.items for n in item.read_again if cut.request <= n < cut.stop})
    even = cut.cost.break_even
    words = "saved" if saved[-1] >= 0 else "more than it saved"
    key = f"<b>{format_usd(abs(saved[-1]))} {words} until request {format_request(cut.stop - 1)}</b>"
    if even:
        key += f'<span><em class="even"></em>break-even at request {format_request(cut.request + even)}</span>'
    if again:
        many = f"{len(again):,} request{' carries' if len(again) == 1 else 's carry'}"
        key += f'<span><b class="dot"></b>{many} what was fetched again</span>'
    note = "compared with keeping it and reading it from the cache each time; minus the summary and the new cache"
    body = f'<div class="lost-curve"><p>{key}</p>{_render_curve(cut, again)}</div>'
    return cards.render_panel("Dollars saved since the cut", body, note)


def _render_curve(cut: WindowCut, again: Sequence[int]) -> str:
    """Dollars over the requests since the cut, with both axes; a dot at each request that carries what was fetched again."""
    saved = cut.cost.saved
    low, high, last = min(0.0, *saved), max(0.0, *saved), len(saved) - 1
    spread = (high - low) or 1.0

    def place(n: int) -> tuple[float, float]:
        return 100 * n / last, 100 * (high - saved[n]) / spread

    zero = 100 * high / spread
    edge = [place(n) for n in sorted({round(n * last / POINTS) for n in range(POINTS + 1)})]
    shape = ", ".join(f"{x:.2f}% {y:.2f}%" for x, y in [(0, zero), *edge, (100, zero)])
    even = cut.cost.break_even
    mark = f'<em class="even" style="left:{place(even)[0]:.2f}%"></em>' if even else ""
    dots = "".join(_render_dot(cut.request + n, *place(n)) for n in again)
    ends = [(y, usd) for y, usd in ((0.0, high), (100.0, low)) if abs(y - zero) > ROOM]
    scale = "".join(f'<span style="top:{y:.1f}%">{format_usd(usd) if usd else "$0"}</span>' for y, usd in [*ends, (zero, 0.0)])
    ticks = "".join(
        f'<span style="left:{place(n)[0]:.2f}%">{format_request(cut.request + n)}</span>'
        for n in sorted({round(n * last / TICKS) for n in range(TICKS + 1)})
    )
    return (
        f'<div class="scale">{scale}</div><div class="curve{" bad" if saved[-1] < 0 else ""}" role="img" '
        f'aria-label="Dollars saved since the cut"><i style="clip-path:polygon({shape})"></i>'
        f'<u style="top:{zero:.1f}%"></u>{mark}{dots}</div><div class="ticks">{ticks}</div>'
    )


def _render_dot(request: int, x: float, y: float) -> str:
    hint = f"request {format_request(request)} carries what was fetched again"
    return f'<b class="dot" title="{hint}" style="left:{x:.2f}%;top:{y:.2f}%"></b>'
