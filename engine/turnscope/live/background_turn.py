"""A turn of a live chat that goes on by itself: in a thread of its own, so that no page has to stay open for it.

Holds what has happened so far for whoever looks. It keeps nothing: the chat's sink does.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

from turnscope.errors import TurnscopeError
from turnscope.live.cancellation import Cancellation, TurnCancelled
from turnscope.live.chat import Chat
from turnscope.live.events import Event, RequestDone, TextDelta, ThinkingDelta, ToolResult, TurnFailed
from turnscope.storage.database import is_abandoned


class BackgroundTurn:
    """Consumes a chat's events. Read `text`, `thinking` and `events` at any time; `stop` ends the answer."""

    def __init__(self, events: Iterator[Event], chat: Chat) -> None:
        self.text = ""
        self.thinking = ""
        self.events: list[Event] = []  # all but the pieces of text and thinking
        self.failed: Exception | None = None
        self._stop = threading.Event()
        self._leaving = chat.cancellation = Cancellation()
        self._thread = threading.Thread(target=self._run, args=(events, chat), name="chat turn", daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """The turn has ended, one way or another."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """End the answer at once, whatever is waited for; what was delivered is kept."""
        self._stop.set()
        self._leaving.cancel()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; False after `timeout` seconds."""
        self._thread.join(timeout)
        return self.is_done

    def _run(self, events: Iterator[Event], chat: Chat) -> None:
        is_abandoned.set(self._leaving.is_cancelled)
        try:
            for event in events:
                match event:
                    case TextDelta(text):
                        self.text += text
                    case ThinkingDelta(text):
                        self.thinking += text
                    case _:
                        self.events.append(event)
                        if isinstance(event, RequestDone | ToolResult):
                            self.text = self.thinking = ""  # now in the session
                if self._stop.is_set():
                    break
        except TurnCancelled:
            pass
        except Exception as error:  # noqa: BLE001 - nobody above this thread could catch it; the page shows it
            self.failed = error
            self.events.append(TurnFailed(error if isinstance(error, TurnscopeError) else _wrap_error(error)))
        finally:
            close = getattr(events, "close", None)
            if close:
                close()
            chat.cancellation = None


def _wrap_error(error: Exception) -> TurnscopeError:
    return TurnscopeError(f"the turn failed: {str(error) or type(error).__name__}", hint="Nothing was lost; send again.")
