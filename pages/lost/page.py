"""What was lost at a cut of the window: the summary next to what it replaced, what was needed again, and what the cut saved."""

from __future__ import annotations

from pathlib import Path

import streamlit as st
from turnscope.numbering import format_request, number_request
from turnscope.views import window_cut_text, window_cuts
from turnscope.views.window_cuts import WindowCut

from pages.lost import markup
from pages.parts import cards, header, opening, shell, theme, url
from pages.parts.formats import escape

SHEET = Path(__file__).parent / "browser" / "lost.css"


def draw() -> None:
    """Draw the page: the cut that the address names, else the one that is nearest after it, else the last."""
    shown = header.draw_header(middle=False)
    wanted = url.read_request(shown)
    here = [cut.request for cut in window_cuts.list_cuts(shown.view)]
    request = next((n for n in here if n >= wanted), here[-1] if here else -1)
    url.remember_request(shown, request if request >= 0 else wanted)
    found = _build(shown, shown.key, request) if request >= 0 else None
    if found is None:
        gone = "The log does not hold what was cut here." if here else "Nothing was cut from the window in this session."
        st.html(f'<div class="ts-empty">{gone}</div>')
        st.page_link(shell.find_page("envelope"), label="Back to the envelope", icon=":material/arrow_back:")
        return
    _draw_head(shown, found, here)
    theme.add_sheet(SHEET)
    st.html(markup.render_pairing(len(found.sentences)))
    st.html(markup.render_bars(shown.view, found) + markup.render_facts(found))
    _draw_panels(shown, found)
    st.html(markup.render_savings(found))
    st.download_button(
        "What was lost as Markdown",
        window_cut_text.to_markdown(found),
        f"lost-{number_request(found.request)}.md",
        "text/markdown",
        icon=":material/download:",
        type="tertiary",
        on_click="ignore",
        key="lost.download",
    )


@st.fragment
def _draw_panels(shown: opening.ShownSession, cut: WindowCut) -> None:
    """The summary, and next to it what it replaced: all of that, or what was used again, came back or is not covered."""

    def link(n: int) -> str:
        return url.make_link(shown, "envelope", request=n)

    with st.container(key="lost-panels"):
        left, right = st.columns([1, 2], gap="small")
        left.html(markup.render_summary(cut))
        with right:
            sizes = cut.choices
            words = {choice: f"{markup.WORDS[choice].capitalize()} {size:,}" for choice, size in sizes.items()}
            choice = url.draw_choice("Which of it", words, "which", "lost.which")
            st.html(markup.render_items(cut, link, choice))


@st.cache_resource(max_entries=16, show_spinner="Looking for what was needed again")
def _build(_shown: opening.ShownSession, key: str, request: int) -> WindowCut | None:  # noqa: ARG001  what the cache goes by
    return window_cuts.build_window_cut(_shown.trace, _shown.view, request)


def _draw_head(shown: opening.ShownSession, cut: WindowCut, here: list[int]) -> None:
    place = here.index(cut.request)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="lost-head"):
        for name, label, to in (("earlier", "‹", place - 1), ("later", "›", place + 1)):
            st.button(
                label,
                key=f"lost.{name}",
                help=f"{'Previous' if name == 'earlier' else 'Next'} cut",
                disabled=not 0 <= to < len(here),
                on_click=url.go_to_request,
                args=(here[max(0, min(to, len(here) - 1))],),
            )
        about = f"{cut.number} of {cut.count} · {cut.because}"
        st.html(
            f'<h2 class="ts-headline"><span>What was lost at request {format_request(cut.request)}</span>'
            f'<small class="ts-faint ts-small">{escape(about)}</small></h2>',
            width="stretch",
        )
        debugger = url.make_link(shown, "debugger", request=cut.request, policy="as-recorded", step=cut.step)
        envelope = url.make_link(shown, "envelope", request=cut.request)
        compare = url.make_link(shown, "compare")
        st.html(
            f'<div class="lost-links">{cards.render_link(debugger, "Open this moment in the debugger")}'
            f"{cards.render_link(compare, 'Compare with other policies')}{cards.render_link(envelope, 'Envelope')}</div>",
            width="content",
        )
