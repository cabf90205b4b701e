"""Condense for real: a model writes the summaries of a replay that are placeholders. On request, never by itself."""

from __future__ import annotations

import streamlit as st
from turnscope import TurnscopeError
from turnscope.live.threads import Destination

from pages.debugger.policy_replay import Replay
from pages.parts import cache, chat_form, opening, widgets
from pages.parts.chat_form import get_value
from pages.parts.formats import escape, format_tokens

CHEAP = {"offline": "offline-200k", "anthropic": "claude-haiku-5-5"}
CHARACTERS = 4  # per token, roughly: shown before anything is counted


def draw(shown: opening.ShownSession, replay: Replay) -> None:
    """A popover next to the policy where summaries are placeholders; nothing elsewhere.

    Args:
        shown: the session that is shown.
        replay: the replay that is shown.
    """
    asks = replay.stage.offline_asks
    if not asks:
        return
    provider, to = get_value("provider"), chat_form.get_destination()
    with st.popover("Condense for real", icon=":material/compress:", key="policy-condense"):
        many = f"{len(asks):,} {'summary' if len(asks) == 1 else 'summaries'}"
        size = sum(len(ask.content) + len(ask.prompt) for ask in asks) // CHARACTERS
        are = "is an offline summary" if len(asks) == 1 else "are offline summaries"
        st.html(
            f'<div class="policy-about"><p><b>{many} of this replay</b> {are}, '
            f"sentences picked without a model. A model can write them: one billed call each, about "
            f"{escape(format_tokens(size))} tokens to "
            f"read in all. They are kept, and every replay uses them.</p><p>Goes to "
            f"{escape(str(Destination(to.kind, to.url)))}; choose another "
            "one, or type a key, in the settings of the live chat.</p></div>"
        )
        default = CHEAP.get(provider) or get_value("model")
        model = st.text_input("Model", default, key=f"condense.model.{provider}")
        if st.button(f"Ask for {many}", type="primary", key="condense.ask", disabled=not model.strip()):
            _request_summaries(shown, replay, model.strip(), len(asks))


def _request_summaries(shown: opening.ShownSession, replay: Replay, model: str, many: int) -> None:
    from turnscope.live import replay_summaries  # loads the provider's SDK, which nobody needs who does not press the button

    bar = st.progress(0.0, f"Asking {model}")
    store, done = cache.open_chat_store(), 0
    try:
        trace = replay.trace
        session = shown.trace.session
        for ask, answer in replay_summaries.request_summaries(
            session, replay.policy, trace.ledger, chat_form.connect_provider(), model, store.list_answers()
        ):
            store.keep_answer(ask.key, answer)
            done += 1
            bar.progress(min(1.0, done / max(many, done)), f"{done:,} of about {many:,} summaries")
    except TurnscopeError as error:
        widgets.draw_notice(error.what, error.hint)
        return
    st.rerun()
