"""What the page before says late: a layer around Streamlit's server that leaves it out.

A timer, a key or a widget of a page may speak after somebody went to another page, before the browser has anything of that one.
Streamlit then goes back to the page before, and the click is lost. Or it draws part of the page before once the other one is
drawn, and its browser part clears that page for it, so that nobody sees anything. So what a page says ends here unless the
browser asked for that page last, and a part of a page is not drawn unless its page is.
"""

from __future__ import annotations

from contextlib import suppress

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from pages.parts import local_web

LARGEST = 100_000  # bytes of a message that says where a run is; larger ones hold what is drawn


class LateMessages:
    """The layer, an ASGI application around another.

    Args:
        app: The application.
    """

    def __init__(self, app: local_web.ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: local_web.Message, receive: local_web.Receive, send: local_web.Send) -> None:
        """Answer as the application does, without a websocket's late messages."""
        if scope["type"] != "websocket":
            await self.app(scope, receive, send)
            return
        connection = _Connection()

        async def receive_in_time() -> local_web.Message:
            while connection.is_late_request((message := await receive()).get("bytes")):
                pass
            return message

        async def send_in_time(message: local_web.Message) -> None:
            if not connection.is_late_answer(message.get("bytes")):
                await send(message)

        await self.app(scope, receive_in_time, send_in_time)


class _Connection:
    """Where one browser is. Pages go by the hash that Streamlit has for them; "" = not known yet."""

    def __init__(self) -> None:
        self._wanted = ""  # the page that the browser asked for or the app went to, whichever came last
        self._drawn = ""  # the page that the browser shows
        self._is_late = False  # whether what is sent now belongs to a late run

    def is_late_request(self, content: bytes | None) -> bool:
        """Whether a message comes from a page that is not wanted any more."""
        message = BackMsg()
        _parse(message, content)
        request = message.rerun_script
        page = request.page_script_hash
        if request.fragment_id:
            return self._wanted not in ("", page)
        goes = request.is_history_navigation or not request.widget_states.widgets  # a page that is left takes no widgets along
        if page == self._drawn and self._wanted not in ("", page) and not goes:
            return True
        if message.HasField("rerun_script"):
            self._wanted = page
        return False

    def is_late_answer(self, content: bytes | None) -> bool:
        """Whether a message belongs to a run of a part of a page that is not drawn any more."""
        message = ForwardMsg()
        _parse(message, content if content and len(content) <= LARGEST else None)
        kind, was_late = message.WhichOneof("type"), self._is_late
        if kind == "script_finished":
            self._is_late = False
            return was_late
        if kind == "navigation":
            self._show(message.navigation.page_script_hash)
        elif kind == "new_session":
            page, is_part = message.new_session.page_script_hash, bool(message.metadata.run.fragment_ids)
            self._is_late = is_part and self._drawn not in ("", page)
            if not is_part and page == message.new_session.main_script_hash:
                self._wanted = ""  # its navigation will say which page that is
            elif not is_part:
                self._show(page)
        return self._is_late

    def _show(self, page: str) -> None:
        if page != self._drawn:  # a run of the same page says nothing of where somebody wants to go meanwhile
            self._wanted = self._drawn = page


def _parse(message: BackMsg | ForwardMsg, content: bytes | None) -> None:
    """Fill an empty message; it stays empty where the content is none."""
    with suppress(Exception):  # Streamlit says what is wrong with it
        message.ParseFromString(content or b"")
