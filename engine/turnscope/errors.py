"""Every error the engine raises on purpose.

    TurnscopeError
    |- UnreadableFile            the file cannot be opened, is empty, or is a folder without a session
    |  `- ArchiveTooLarge        an archive would unpack to far more than it should hold
    |- UnknownFormat             no importer, or more than one, recognises the content
    |- UnknownEntry              the source does not hold the conversation that was asked for
    |- BrokenFile                the format is known, but nothing usable could be read
    |- QueryError                what to search for is no pattern, or one that takes too long
    |- PolicyError               a policy file is wrong
    |- RuleError                 a rule asked for something the runner cannot do
    |- ProviderError             a provider refused a request, or gave no whole answer
    |- WrongDestination          the provider at hand is not where the conversation goes: nothing was sent
    |- UnsendableError           a request that the provider would reject, and that no rule could mend; it was not sent
    `- ContextWindowExceededError   the request does not fit and may not be sent

Each carries its fields and a `hint`: what the person can do now. The app shows both as plain text.
"""

from __future__ import annotations

from collections.abc import Mapping


class TurnscopeError(Exception):
    """Base of all. `hint` says what to do next.

    >>> try:
    ...     turnscope.load("sample_sessions/nowhere.jsonl")
    ... except turnscope.TurnscopeError as error:
    ...     print(error.what, error.hint, sep="; ")
    nowhere.jsonl cannot be read: No such file or directory; Check the path and its permissions.
    """

    def __init__(self, what: str, *, hint: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.hint = hint


class UnreadableFile(TurnscopeError):
    """The file cannot be opened or holds no text."""


class ArchiveTooLarge(UnreadableFile):
    """An archive would unpack to more than `limit` bytes, as one does that was made to fill the memory."""

    def __init__(self, what: str, *, hint: str = "", limit: int = 0) -> None:
        super().__init__(what, hint=hint)
        self.limit = limit


class UnknownFormat(TurnscopeError):
    """No importer recognises the content, or more than one does. `tried`: formats that declined, each with why."""

    def __init__(self, what: str, *, hint: str = "", tried: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(what, hint=hint)
        self.tried = tried


class UnknownEntry(TurnscopeError):
    """The source does not hold the conversation that was asked for."""


class BrokenFile(TurnscopeError):
    """The format was recognised, but no request and no message could be read."""


class QueryError(TurnscopeError):
    """A regular expression is wrong, or takes too long."""


class PolicyError(TurnscopeError):
    """A policy file is malformed, or names a rule that does not exist."""


class RuleError(TurnscopeError):
    """A rule yielded an edit that does not fit the envelope."""


class ProviderError(TurnscopeError):
    """A provider refused a request, could not be reached, or broke off its answer.

    `too_long`: it said that the prompt does not fit; `tokens` is the size that it named and `window` what it says it holds,
    0 where it named none.
    """

    def __init__(self, what: str, *, hint: str = "", too_long: bool = False, tokens: int = 0, window: int = 0) -> None:
        super().__init__(what, hint=hint)
        self.too_long = too_long
        self.tokens = tokens
        self.window = window


class WrongDestination(TurnscopeError):
    """A request would go elsewhere than its conversation says: to `at_hand` instead of `place`. Nothing was sent."""

    def __init__(self, what: str, *, hint: str = "", destination: str = "", at_hand: str = "") -> None:
        super().__init__(what, hint=hint)
        self.place = destination
        self.at_hand = at_hand


USAGE_COUNTERS = {
    "gen_ai.usage.input_tokens": "the whole prompts, whatever of them was cached",
    "gen_ai.usage.output_tokens": "the answers",
    "gen_ai.usage.cache_read.input_tokens": "of the prompts, what was read from the cache",
    "gen_ai.usage.cache_creation.input_tokens": "of the prompts, what was written to it",
}
"""What `ContextWindowExceededError.counters` holds, by the names of OpenTelemetry's semantic conventions."""


class UnsendableError(TurnscopeError):
    """A request that the provider would reject. `path` leads from its body to the place, `wrong` says what is wrong there."""

    def __init__(self, path: str, wrong: str) -> None:
        hint = "The message is kept. Choose another policy, or shorten the message and send it again."
        super().__init__(f"the provider would reject this request, so it was not sent: {path}: {wrong}", hint=hint)
        self.path = path
        self.wrong = wrong


class ContextWindowExceededError(TurnscopeError):
    """The projected request is larger than the window, or than what the policy leaves of it, and is not sent.

    Fields: conversation id, turn, request, projected tokens (prompt and room for the answer), window (tokens), `limit` (what
    the policy leaves of it for the prompt), `counters` (what was billed so far, in tokens; see `COUNTERS`). `why`: the
    policy's own words, where it is the policy that refuses. `alone`: names a part that is too large by itself, `message` is the
    number of its message, -1 where there is none.
    """

    def __init__(  # noqa: PLR0913 - its fields
        self,
        *,
        conversation_id: str,
        turn: int,
        request: int,
        projected: int,
        window: int,
        limit: int = 0,
        why: str = "",
        alone: str = "",
        message: int = -1,
        counters: Mapping[str, int] | None = None,
    ) -> None:
        if projected > window:
            cause = f"needs {projected:,} tokens, the window holds {window:,}"
        else:
            cause = f"is refused by the policy: {why or f'it may have {limit:,} of the {window:,} tokens of the window'}"
        hint = "Start a new session with a summary, choose a model with a larger window, or allow the policy to condense."
        if alone:
            hint = f"{alone} does not fit by itself: edit and resend it shorter, leave it out, or choose a larger window."
        super().__init__(f"request {request} (turn {turn}) {cause}", hint=hint)
        self.conversation_id = conversation_id
        self.turn = turn
        self.request = request
        self.projected = projected
        self.window = window
        self.limit = limit
        self.message = message
        self.counters = dict.fromkeys(USAGE_COUNTERS, 0) | dict(counters or {})

    def __str__(self) -> str:
        used = ", ".join(f"{name} {tokens:,}" for name, tokens in self.counters.items())
        about = f"conversation {self.conversation_id}, turn {self.turn}, projected {self.projected:,}, window {self.window:,}"
        return f"{self.what} ({about}; so far {used})"

    @property
    def usage_so_far(self) -> int:
        """Tokens billed so far, prompts and answers."""
        return self.counters["gen_ai.usage.input_tokens"] + self.counters["gen_ai.usage.output_tokens"]


def dump_error(error: TurnscopeError) -> dict[str, object]:
    """An error as a record: its words, its hint, and its fields."""
    return {"kind": type(error).__name__, "what": error.what, "hint": error.hint} | {
        name: value for name, value in vars(error).items() if name not in ("what", "hint")
    }
