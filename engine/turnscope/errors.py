"""Every error that the engine raises on purpose.

    TurnscopeError
    |- UnreadableFile            the file cannot be opened, is empty, or is a folder without a session
    |  `- ArchiveTooLarge        an archive would unpack to far more than it should hold
    |- UnknownFormat             no importer recognises the content, or more than one does
    |- UnknownEntry              the source does not hold the requested conversation
    |- BrokenFile                the format is known, but no message could be read
    |  `- ImporterError          an importer failed
    |- QueryError                a search pattern is invalid or takes too long
    |- PolicyError               a policy file is wrong
    |- ExtensionError            an importer, rule or policies of a package cannot be loaded
    |- RuleError                 a rule requested something that the runner cannot do
    |- ProviderError             a provider refused a request, or its answer is incomplete
    |- WrongDestination          a request would go to another provider than its conversation: it was not sent
    |- UnsendableError           the provider would reject the request and no rule could repair it: it was not sent
    `- ContextWindowExceededError   the request does not fit the window, or the policy refuses it: it was not sent

Each error has its fields and a `hint`: what the person can do now. The app shows both as plain text.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from turnscope.numbering import format_request, format_turn

SHOWN_CHARS = 200  # of a path in an error


class TurnscopeError(Exception):
    """Base of all errors. `what` is the error in one sentence, `hint` says what to do next.

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

    @property
    def short_hint(self) -> str:
        """The hint on one line."""
        return " ".join(self.hint.split())


class UnreadableFile(TurnscopeError):
    """The file cannot be opened or holds no text."""


class ArchiveTooLarge(UnreadableFile):
    """An archive would unpack to more than `limit` bytes. Such an archive may be made to fill the memory."""

    def __init__(self, what: str, *, hint: str = "", limit: int = 0) -> None:
        super().__init__(what, hint=hint)
        self.limit = limit


class UnknownFormat(TurnscopeError):
    """No importer recognises the content, or more than one does. `tried`: each format that declined, with its reason."""

    def __init__(self, what: str, *, hint: str = "", tried: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(what, hint=hint)
        self.tried = tried

    @property
    def short_hint(self) -> str:
        """The hint without the formats that were tried, which it lists a line each."""
        sentence = self.hint.partition("\n")[0].rpartition(". ")[0]
        return f"{sentence}. {len(self.tried)} formats were tried; the app says why each one does not fit." if sentence else ""


class UnknownEntry(TurnscopeError):
    """The source does not hold the requested conversation."""


class BrokenFile(TurnscopeError):
    """The format was recognised, but no request and no message could be read."""


class ImporterError(BrokenFile):
    """An importer failed on a file. `importer`: its name; `source`: its package or file, or Turnscope."""

    def __init__(self, what: str, *, hint: str = "", importer: str = "", source: str = "") -> None:
        super().__init__(what, hint=hint)
        self.importer = importer
        self.source = source


class QueryError(TurnscopeError):
    """A regular expression is invalid or takes too long."""


class PolicyError(TurnscopeError):
    """A policy file is malformed, or names a rule that does not exist."""


class ExtensionError(TurnscopeError):
    """An importer, a rule or policies that do not come with Turnscope cannot be loaded. `source`: the package or file."""

    def __init__(self, what: str, *, hint: str = "", source: str = "") -> None:
        super().__init__(what, hint=hint)
        self.source = source


class RuleError(TurnscopeError):
    """A rule yielded an edit that does not fit the envelope."""


class ProviderError(TurnscopeError):
    """A provider refused a request, could not be reached, or broke off its answer.

    `too_long`: the prompt does not fit, by the provider's report. `tokens` is the prompt's size and `window` the window's,
    as the provider reported them; 0 = not reported.
    """

    def __init__(self, what: str, *, hint: str = "", too_long: bool = False, tokens: int = 0, window: int = 0) -> None:
        super().__init__(what, hint=hint)
        self.too_long = too_long
        self.tokens = tokens
        self.window = window


class WrongDestination(TurnscopeError):
    """A request would go elsewhere than its conversation: to `at_hand` instead of `destination`. Nothing was sent."""

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
    """The provider would reject this request. `path` leads from its body to the place, `wrong` says what is wrong there."""

    def __init__(self, path: str, wrong: str) -> None:
        hint = "The message is kept. Choose another policy, or shorten the message and send it again."
        super().__init__(f"the provider would reject this request, so it was not sent: {path}: {wrong}", hint=hint)
        self.path = path
        self.wrong = wrong


class ContextWindowExceededError(TurnscopeError):
    """The projected request is larger than the window, or than what the policy leaves of it. It is not sent.

    Args:
        conversation_id: Id of the conversation.
        turn: Number of the turn.
        request: Number of the request.
        projected: Tokens of the prompt plus the reserve for the answer.
        window: Tokens of the window.
        limit: Tokens of the window that the policy leaves for the prompt.
        why: The policy's reason, where the policy refuses.
        alone: Name of a part that is too large by itself; "" = none.
        message: Number of that part's message; -1 = none.
        counters: Tokens billed so far; for the keys see `USAGE_COUNTERS`.
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
            cause = f"is refused by the policy: {why or f'it allows {limit:,} of the {window:,} tokens of the window'}"
        hint = "Start a new session with a summary, choose a model with a larger window, or let the policy condense."
        if alone:
            hint = f"{alone} does not fit by itself: shorten and resend it, leave it out, or choose a larger window."
        super().__init__(f"request {format_request(request)} (turn {format_turn(turn)}) {cause}", hint=hint)
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
        about = f"conversation {self.conversation_id}, turn {format_turn(self.turn)}, projected {self.projected:,}"
        about += f", window {self.window:,}"
        return f"{self.what} ({about}; so far {used})"

    @property
    def usage_so_far(self) -> int:
        """Tokens billed so far, prompts and answers."""
        return self.counters["gen_ai.usage.input_tokens"] + self.counters["gen_ai.usage.output_tokens"]


def dump_error(error: TurnscopeError) -> dict[str, object]:
    """Convert an error into a record for storage: its kind, its text, its hint, and its fields."""
    return {"kind": type(error).__name__, "what": error.what, "hint": error.hint} | {
        name: value for name, value in vars(error).items() if name not in ("what", "hint")
    }


def describe_path(text: str) -> str:
    """Return a path as an error shows it: on one line, and not too long."""
    return replace_unprintable(text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…")


def replace_unprintable(name: str) -> str:
    """Return a name on one line, without control characters and half characters."""
    return "".join(char if char.isprintable() else "\ufffd" for char in name)


def suggest_names(name: str, known: Iterable[str]) -> str:
    """Return a hint for a name that is not known: the one that is most like it, else all.

    Args:
        name: what was typed.
        known: the names that there are.

    >>> suggest_names("extract", ["extracts", "balanced"])
    "Did you mean 'extracts'?"
    """
    names = [*known]
    like = difflib.get_close_matches(name, names, n=1, cutoff=0.75)
    return f"Did you mean {like[0]!r}?" if like else f"Known: {', '.join(names)}."
