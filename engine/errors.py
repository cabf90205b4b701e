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
    |- UnsendableError           a request that the provider would reject, and that no rule could mend; it was not sent
    `- ContextWindowExceededError   the request does not fit and may not be sent

Each carries its fields and a `hint`: what the person can do now. The app shows both as plain text.
"""

from __future__ import annotations


class TurnscopeError(Exception):
    """Base of all. `hint` says what to do next.

    >>> try:
    ...     engine.load("sample_sessions/nowhere.jsonl")
    ... except engine.TurnscopeError as error:
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
    """No importer recognises the content, or more than one does."""


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

    `too_long`: it said that the prompt does not fit; `tokens` is the size that it named, 0 where it named none.
    """

    def __init__(self, what: str, *, hint: str = "", too_long: bool = False, tokens: int = 0) -> None:
        super().__init__(what, hint=hint)
        self.too_long = too_long
        self.tokens = tokens


class UnsendableError(TurnscopeError):
    """A request that the provider would reject. `path` leads from its body to the place, `wrong` says what is wrong there."""

    def __init__(self, path: str, wrong: str) -> None:
        hint = "The message is kept. Choose another policy, or shorten the message and send it again."
        super().__init__(f"the provider would reject this request, so it was not sent: {path}: {wrong}", hint=hint)
        self.path = path
        self.wrong = wrong


class ContextWindowExceededError(TurnscopeError):
    """The projected request is larger than the window and the policy refuses to send it.

    Fields: conversation id, turn, request, projected tokens, window (tokens), and the usage billed so far (tokens).
    """

    def __init__(
        self, *, conversation_id: str, turn: int, request: int, projected: int, window: int, usage_so_far: int
    ) -> None:
        super().__init__(
            f"request {request} (turn {turn}) needs {projected:,} tokens, the window holds {window:,}",
            hint="Start a new session with a summary, choose a model with a larger window, or allow the policy to condense.",
        )
        self.conversation_id = conversation_id
        self.turn = turn
        self.request = request
        self.projected = projected
        self.window = window
        self.usage_so_far = usage_so_far
