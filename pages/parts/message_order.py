"""The messages between a browser and Streamlit's server, in an order that both can follow: a layer around the server.

Messages of the two cross each other, and so do those of a page's timers and widgets. Streamlit then loses clicks or clears a
page. Three rules prevent that:

- What a page says late is dropped. A timer or a widget may send its message after somebody went to another page, before the
  browser has received anything of that page. Streamlit then goes back to the page that was left. Or it runs a fragment of it
  once the new one is drawn, and its front end clears the new page for it. So a message of a page is dropped unless the browser
  requested that page last, and so is the output of a fragment unless its page is shown.
- The message of a timer is dropped while anything is drawn or about to be; the timer goes off again. Streamlit may start its
  fragment before everything of the page is sent, and then drops the rest. The page stays as it was, or its front end ends with
  an error.
- A timer does not report widgets. Its message may report what somebody does a moment before the widget's own message does.
  Streamlit then calls the widget's callback for the timer, breaks it off for the second message, and does not call it again.
"""

from __future__ import annotations

import time
from contextlib import suppress

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from pages.parts.local_web import ASGIApp, Message, Receive, Send

PATIENCE = 30.0  # seconds; a run whose end was not sent by then counts as ended
LARGEST = 100_000  # bytes of a message that says where a run is; larger ones hold what is drawn
PAGE, FRAGMENT = "page", "fragment"


class MessageOrder:
    """The layer, an ASGI application around another.

    Args:
        app: The application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass everything on; the messages of a websocket by the rules above."""
        if scope["type"] != "websocket":
            await self.app(scope, receive, send)
            return
        connection = _Connection()

        async def receive_in_order() -> Message:
            while (message := connection.accept_request(await receive())) is None:
                pass
            return message

        async def send_in_order(message: Message) -> None:
            if not connection.is_late_answer(message.get("bytes")):
                await send(message)

        await self.app(scope, receive_in_order, send_in_order)


class _Connection:
    """Where one browser is. Pages go by the hash that Streamlit has for them; "" = not known yet."""

    def __init__(self) -> None:
        self._wanted = ""  # the page that the browser requested or the app switched to, whichever came last
        self._drawn = ""  # the page that the browser shows
        self._is_late = False  # whether what is sent now is output of a late fragment
        self._requested = ""  # what was requested and has not begun: PAGE, FRAGMENT, or "" = nothing
        self._run = ""  # id of the run that began last; "" = all of it was sent
        self._since = 0.0  # when something was requested or began last, in seconds of the monotonic clock

    def accept_request(self, message: Message) -> Message | None:
        """What the server gets for a message of the browser; None = it is dropped."""
        sent = BackMsg()
        _parse(sent, message.get("bytes"))
        request = sent.rerun_script
        # A message that goes to another page carries no state of widgets: only that of widgets around all pages would be sent,
        # and the shell draws none that keeps a value.
        stays = bool(request.fragment_id or request.widget_states.widgets) and not request.is_history_navigation
        if stays and self._wanted not in ("", request.page_script_hash):
            return None
        if not sent.HasField("rerun_script"):
            return message
        if not request.fragment_id:
            self._wanted = request.page_script_hash
        if request.is_auto_rerun:
            if (self._requested or self._run) and time.monotonic() - self._since < PATIENCE:
                return None
            request.ClearField("widget_states")
            return {**message, "bytes": sent.SerializeToString()}
        if self._requested != PAGE:
            self._requested = FRAGMENT if request.fragment_id else PAGE
        self._since = time.monotonic()
        return message

    def is_late_answer(self, content: bytes | None) -> bool:
        """Whether a message is output of a fragment whose page is not shown any more."""
        answer = ForwardMsg()
        _parse(answer, content if content and len(content) <= LARGEST else None)
        run, was_late = answer.metadata.run, self._is_late
        if answer.HasField("script_finished"):
            if run.script_run_id == self._run:
                self._run = ""
            self._is_late = False
            return was_late
        if answer.HasField("navigation"):
            self._show(answer.navigation.page_script_hash)
        elif answer.HasField("new_session"):
            page = answer.new_session.page_script_hash
            self._is_late = bool(run.fragment_ids) and self._drawn not in ("", page)
            self._run, self._since = run.script_run_id, time.monotonic()
            if self._requested == FRAGMENT or not run.fragment_ids:
                self._requested = ""
            if not run.fragment_ids:
                if page == answer.new_session.main_script_hash:
                    self._wanted = ""  # its navigation will say which page that is
                else:
                    self._show(page)
        return self._is_late

    def _show(self, page: str) -> None:
        if page != self._drawn:  # a run of the same page says nothing of where somebody wants to go meanwhile
            self._wanted = self._drawn = page


def _parse(message: BackMsg | ForwardMsg, content: bytes | None) -> None:
    """Fill an empty message; it stays empty where the content is none."""
    with suppress(Exception):  # Streamlit says what is wrong with it
        message.ParseFromString(content or b"")
