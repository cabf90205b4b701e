"""Windows that a session itself proves: a prompt that was answered was no longer than the window.

Holds the reading of the evidence. What the tables say, and which of both holds, is in `prices`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from turnscope.session.model import Bucket, Request, Session

LARGER_WINDOWS = (1_000_000, 2_000_000)  # the larger windows that providers sell
LEAST_WINDOW = 100_000  # tokens of a window that is sold in a larger size, too; smaller ones are those of small models


@dataclass(frozen=True, slots=True)
class WindowProof:
    """A request that was answered although its prompt, of `tokens`, was longer than the window of the `table`."""

    model: str
    window: int
    table: int
    request: int
    tokens: int

    @property
    def sentence(self) -> str:
        """How the window is known."""
        return (
            f"a window of {self.window:,} tokens, not {self.table:,}: "
            f"request {self.request} was answered with a prompt of {self.tokens:,}"
        )


def find_proofs(session: Session, table: Callable[[str], int | None]) -> tuple[WindowProof, ...]:
    """The windows that a session proves, by model: the next tier that exists. `table`: the window of a model as it is known.

    Where tools of the provider's ran inside the answer, its prompt tokens are a sum over several prompts and prove nothing. A
    window that the log itself states stands.
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
    """Whether a request's prompt tokens are those of one prompt: no tool of the provider's ran inside the answer."""
    return all(block.bucket is not Bucket.TOOL_RESULTS for block in session.blocks[request.cut : request.stop])
