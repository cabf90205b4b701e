"""Late messages of a page that was left: a layer around Streamlit's server that drops them.

A timer or a widget may send its message after somebody went to another page, before the browser has received anything of that
page. Streamlit then goes back to the page that was left, and the click is lost. Or it runs a fragment of that page once the new
one is drawn, and its front end clears the new page for it, which leaves an empty one. So a message of a page is dropped unless
the browser requested that page last, and so is the output of a fragment unless its page is shown.
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
        """Pass everything on but the late messages of a websocket."""
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
        self._wanted = ""  # the page that the browser requested or the app switched to, whichever came last
        self._drawn = ""  # the page that the browser shows
        self._is_late = False  # whether what is sent now is output of a late fragment

    def is_late_request(self, content: bytes | None) -> bool:
        """Whether a message comes from a page that is not wanted any more."""
        message = BackMsg()
        _parse(message, content)
        request = message.rerun_script
        # A message that goes to another page carries no state of widgets: only that of widgets around all pages would be sent,
        # and the shell draws none that keeps a value.
        stays = bool(request.fragment_id or request.widget_states.widgets) and not request.is_history_navigation
        if stays and self._wanted not in ("", request.page_script_hash):
            return True
        if message.HasField("rerun_script") and not request.fragment_id:
            self._wanted = request.page_script_hash
        return False

    def is_late_answer(self, content: bytes | None) -> bool:
        """Whether a message is output of a fragment whose page is not shown any more."""
        message = ForwardMsg()
        _parse(message, content if content and len(content) <= LARGEST else None)
        kind, was_late = message.WhichOneof("type"), self._is_late
        if kind == "script_finished":
            self._is_late = False
            return was_late
        if kind == "navigation":
            self._show(message.navigation.page_script_hash)
        elif kind == "new_session":
            page, is_fragment = message.new_session.page_script_hash, bool(message.metadata.run.fragment_ids)
            self._is_late = is_fragment and self._drawn not in ("", page)
            if not is_fragment and page == message.new_session.main_script_hash:
                self._wanted = ""  # its navigation will say which page that is
            elif not is_fragment:
                self._show(page)
        return self._is_late

    def _show(self, page: str) -> None:
        if page != self._drawn:  # a run of the same page says nothing of where somebody wants to go meanwhile
            self._wanted = self._drawn = page


def _parse(message: BackMsg | ForwardMsg, content: bytes | None) -> None:
    """Fill an empty message; it stays empty where the content is none."""
    with suppress(Exception):  # Streamlit says what is wrong with it
        message.ParseFromString(content or b"")
