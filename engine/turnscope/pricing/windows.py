"""Windows that a session proves: a prompt that was answered was no longer than the window.

The module reads the evidence. `prices` holds what the tables say and decides which of both holds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from turnscope.session.model import Bucket, Request, Session

LARGER_WINDOWS = (1_000_000, 2_000_000)  # tokens of the larger windows that providers sell
LEAST_WINDOW = 100_000  # tokens of the smallest window that is sold in a larger size, too


@dataclass(frozen=True, slots=True)
class WindowProof:
    """A request that was answered although its prompt, of `tokens`, was longer than the window of the `table`.

    `window`: the proved one.
    """

    model: str
    window: int
    table: int
    request: int
    tokens: int

    @property
    def sentence(self) -> str:
        """One sentence that says how the window is known."""
        return (
            f"a window of {self.window:,} tokens, not {self.table:,}: "
            f"request {self.request} was answered with a prompt of {self.tokens:,}"
        )


def find_proofs(session: Session, table: Callable[[str], int | None]) -> tuple[WindowProof, ...]:
    """Find the windows that a session proves, one for each model: the next larger window that is sold.

    Where the provider's tools ran inside the answer, its prompt tokens are a sum over several prompts and prove nothing. A
    window that the log itself states is kept.

    Args:
        session: The session.
        table: Gives the window of a model, in tokens, as the tables know it.
    """
    found: dict[str, WindowProof] = {}
    for request in () if session.window else session.requests:
        size = request.usage.prompt_tokens if request.usage else 0
        known = table(request.model) if size > LEAST_WINDOW else None
        tier = next((tier for tier in LARGER_WINDOWS if tier >= size), None)
        before = found.get(request.model)
        larger = known and LEAST_WINDOW <= known < size and (before is None or before.tokens < size)
        if known and tier and larger and request.stop > request.cut and is_one_prompt(session, request):
            found[request.model] = WindowProof(request.model, tier, known, request.n, size)
    return tuple(found.values())


def is_one_prompt(session: Session, request: Request) -> bool:
    """Whether a request's prompt tokens are those of one prompt: none of the provider's tools ran inside the answer.

    Args:
        session: The session.
        request: One of its requests.
    """
    return all(block.bucket is not Bucket.TOOL_RESULTS for block in session.blocks[request.cut : request.stop])
