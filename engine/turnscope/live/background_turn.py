"""A turn of a live chat in a thread of its own, so that no page has to stay open for it.

It holds what happened so far for any page that looks. It stores nothing: that is the task of the chat's sink.
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
    """Runs the events of a chat's turn.

    Attributes:
        text: The text of the answer that is streamed now.
        thinking: Its thinking.
        events: All other events so far.
        error: What the turn raised, if it was not expected.
    """

    def __init__(self, events: Iterator[Event], chat: Chat) -> None:
        self.text = ""
        self.thinking = ""
        self.events: list[Event] = []
        self.error: Exception | None = None
        self._stop = threading.Event()
        self._cancellation = chat.cancellation = Cancellation()
        self._thread = threading.Thread(target=self._run, args=(events, chat), name="chat turn", daemon=True)
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether the turn has ended."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Stop the turn at once, whatever it waits for. What had arrived is stored."""
        self._stop.set()
        self._cancellation.cancel()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the turn.

        Args:
            timeout: The longest time to wait in seconds; None = no limit.

        Returns:
            Whether the turn has ended.
        """
        self._thread.join(timeout)
        return self.is_done

    def _run(self, events: Iterator[Event], chat: Chat) -> None:
        is_abandoned.set(self._cancellation.is_cancelled)
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
                            self.text = self.thinking = ""  # they are in the session now
                if self._stop.is_set():
                    break
        except TurnCancelled:
            pass
        except Exception as error:  # noqa: BLE001 - nothing else could catch it in this thread; the page shows it
            self.error = error
            self.events.append(TurnFailed(error if isinstance(error, TurnscopeError) else _wrap_error(error)))
        finally:
            close = getattr(events, "close", None)
            if close:
                close()
            chat.cancellation = None


def _wrap_error(error: Exception) -> TurnscopeError:
    return TurnscopeError(f"the turn failed: {str(error) or type(error).__name__}", hint="Nothing was lost; send again.")
