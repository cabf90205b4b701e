"""Random courses of chats against the strict provider: everything that a person can do to a chat, at random moments.

A course is a seed: what is said, tools, condensing by hand, edits and undoing of summaries, messages left out, branches, stops,
faults of the provider, and changes of model, window, thinking and policy. `drive` says what was wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import matrix
from strict_server import StrictProvider
from turnscope.envelope.plan import Plan
from turnscope.errors import TurnscopeError, UnsendableError
from turnscope.live import branches
from turnscope.live.chat import Chat, Settings
from turnscope.live.events import (
    Event,
    FellBack,
    RequestDone,
    RequestPlanned,
    RequestRefused,
    TextDelta,
    ToolCalled,
    TurnFailed,
)
from turnscope.live.sinks import NullSink
from turnscope.live.trial import get_trial
from turnscope.planning.policy import Policy, list_policies, load
from turnscope.session.model import JSON
from turnscope.storage.threads import Threads

WORDS = (
    "river bridge heron ledger stone winter harbour lantern copper meadow signal orchard thunder velvet compass garden".split()
)
MODELS = ("offline-16k", "offline-64k")
WINDOWS = (0, 6_000, 12_000, 16_000, 32_000)  # tokens; 0 = the model's own
MAX_REFUSED = 2  # turns in a row that a policy that makes room may refuse
TOOL: Mapping[str, JSON] = {
    "name": "read_file",
    "description": "Read a file.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}


@dataclass(frozen=True, slots=True)
class Course:
    """What a course is made of.

    Args:
        policy: The policy that it begins with.
        seed: Makes the rest.
        turns: How many messages are sent.
        model: The first model.
        window: The window that the user gave; 0 = the model's own.
        thinking: Whether the model thinks at first.
        changes: How likely something else is done before a message.
        words: Words of a long message, or of a file.
        stored: The chat is stored; else it is in memory, which is faster, and has no branches.
        may: What may be done.
    """

    policy: str
    seed: int
    turns: int = 12
    model: str = "offline-16k"
    window: int = 0
    thinking: bool = True
    changes: float = 0.5
    words: int = 1_500
    stored: bool = True
    may: tuple[str, ...] = (
        *("condense", "condense", "edit", "undo", "leave_out", "branch", "stop", "fault"),
        *("model", "window", "thinking", "resume"),
    )


@dataclass(slots=True)
class Outcome:
    """What came of a course. `wrong` names what must never be."""

    course: Course
    requests: int = 0
    refused: int = 0
    fell_back: int = 0
    done: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


class Files:
    """A tool that gives a text of so many words."""

    def __init__(self, random: Random, words: int) -> None:
        self.random, self.words = random, words
        self.definitions = [TOOL]

    def run(self, _name: str, _arguments: Mapping[str, JSON]) -> tuple[str, bool]:
        return say(self.random, self.words), self.random.random() < 0.1


def say(random: Random, words: int) -> str:
    """A text of about so many words, in a few lines."""
    line = " ".join(random.choice(WORDS) for _ in range(12))
    return "\n".join(f"{random.randrange(9_999)} {line}" for _ in range(random.randrange(1, 2 + words // 13)))


class Driver:
    """One course."""

    def __init__(self, course: Course, threads: Threads) -> None:
        self.course, self.random, self.outcome = course, Random(course.seed), Outcome(course)
        self.provider, self.threads = StrictProvider(), threads
        self.tools = Files(self.random, course.words)
        policy = load(course.policy)
        self.settings = Settings(course.model, policy, max_tokens=400, window=course.window, thinking=course.thinking)
        self.thread = threads.create(title=course.policy) if course.stored else "course"
        self.known: list[tuple[int, Policy]] = []  # policies in force, of a chat in memory
        self.chat = branches.start_chat(self.thread, self.provider, self.open_sink(), self.settings, "You are brief.", [TOOL])
        self.use_policy(policy)
        self.chat.tools = self.tools
        self.in_a_row, self.stops = 0, False
        self.plans: dict[int, Any] = {}

    def run(self) -> Outcome:
        """The whole course."""
        for turn in range(self.course.turns):
            if self.random.random() < self.course.changes and turn:
                self.change(self.random.choice(self.course.may))
            self.turn(self.say(turn))
        self.check_alive()
        self.check_stored()
        return self.outcome

    def say(self, turn: int) -> str:
        kind = self.random.random()
        if kind < 0.35:
            return f"read file part{turn}.txt"
        return f"Point {turn}: {say(self.random, self.course.words if kind < 0.6 else 60)}"

    def wrong(self, what: str) -> None:
        self.outcome.wrong.append(f"turn {self.outcome.done.count('turn')}: {what}"[:400])

    def turn(self, text: str) -> bool:
        """Send a message; whether it was answered."""
        self.outcome.done.append("turn")
        stops, self.stops = self.stops, False
        try:
            return self.follow(self.chat.send(text), stops)
        except Exception as error:  # noqa: BLE001 - a raw error is what this looks for
            self.wrong(f"raised {type(error).__name__}: {error}")
            return False

    def follow(self, said: Iterator[Event], stops: bool) -> bool:
        answered = False
        for event in said:
            match event:
                case RequestPlanned(plan=plan):
                    self.plans[plan.request.n] = plan
                case RequestDone():
                    answered, self.in_a_row = True, 0
                    self.outcome.requests += 1
                case FellBack():
                    self.outcome.fell_back += 1
                case RequestRefused(error=error):
                    self.outcome.refused += 1
                    self.in_a_row += 1
                    if self.in_a_row > MAX_REFUSED and makes_room(self.settings.policy) and error.message < 0:
                        self.wrong(f"refused {self.in_a_row} times in a row: {error}")
                case TurnFailed(error=error) if isinstance(error, UnsendableError) or not is_fault(error):
                    self.wrong(f"failed: {type(error).__name__}: {error}")
                case ToolCalled() | TextDelta() if stops:
                    said.close()  # type: ignore[attr-defined]
                    return True
        for what in self.provider.rejected:
            self.wrong(f"rejected: {what}")
        self.provider.rejected.clear()
        return answered

    def change(self, what: str) -> None:
        """Do something else than to send a message."""
        self.outcome.done.append(what)
        try:
            getattr(self, f"do_{what}")()
        except TurnscopeError:
            return  # a sentence
        except Exception as error:  # noqa: BLE001 - as above
            self.wrong(f"{what} raised {type(error).__name__}: {error}")

    def do_condense(self) -> None:
        for event in self.chat.condense(self.random.randrange(1, 4)):
            if isinstance(event, TurnFailed) and "bug" in str(event.error):
                self.wrong(f"condensing: {event.error}")

    def do_edit(self) -> None:
        if pieces := self.chat.list_summaries():
            self.chat.edit_summary(self.random.choice(pieces).by, say(self.random, 100))

    def do_undo(self) -> None:
        if pieces := self.chat.list_summaries():
            known = [d for n in sorted(self.plans) for d in self.plans[n].decisions] if self.random.random() < 0.5 else ()
            self.chat.undo_summary(self.random.choice(pieces).by, known)

    def do_leave_out(self) -> None:
        messages = self.chat.live_session.session.messages
        talk = [n for n, message in enumerate(messages) if message.role in ("user", "assistant")]
        self.chat.exclude_message(self.random.choice(talk))

    def open_sink(self) -> Any:
        return self.threads.open_writer(self.thread) if self.course.stored else NullSink()

    def do_branch(self) -> None:
        if not self.course.stored:
            return
        starts = [m.stop for m in self.chat.live_session.session.messages if m.role in ("user", "assistant")]
        at = self.random.choice(starts[len(starts) // 2 :])
        self.thread = self.threads.create(parent=self.thread, at=at)
        self.do_resume()

    def do_resume(self) -> None:
        self.chat, plans = self.resume()
        self.plans = {plan.request.n: plan for plan in plans}

    def resume(self) -> tuple[Chat, Sequence[Plan]]:
        """The chat as it is stored, and the plans of its replay."""
        session = self.threads.load(self.thread) if self.course.stored else self.chat.live_session.session
        known = self.threads.list_policies(self.thread) if self.course.stored else self.known
        return branches.resume_chat(session, self.provider, self.open_sink(), self.settings, self.tools, known)

    def do_fault(self) -> None:
        self.provider.faults.append(self.random.choice(("overloaded", "server_error", "cut", "too_long", "too_large")))

    def do_stop(self) -> None:
        self.stops = True

    def do_model(self) -> None:
        self.set(model=self.random.choice(MODELS), window=0)

    def do_window(self) -> None:
        self.set(window=min(self.random.choice(WINDOWS), 16_000 if "16k" in self.settings.model else 64_000))

    def do_thinking(self) -> None:
        self.set(thinking=not self.settings.thinking)

    def do_policy(self) -> None:
        self.use_policy(load(self.random.choice([name for name in list_policies() if name != "as-recorded"])))

    def use_policy(self, policy: Policy) -> None:
        """Go on under another policy."""
        self.set(policy=policy)
        number = len(self.chat.live_session.session.requests)
        if self.course.stored:
            self.chat.sink.write_policy(policy, number)  # type: ignore[attr-defined]
        self.known = [*(each for each in self.known if each[0] < number), (number, policy)]

    def set(self, **settings: Any) -> None:
        self.settings = replace(self.settings, **settings)
        self.chat.settings = self.settings

    def check_alive(self) -> None:
        """Whatever happened, a message under a policy that makes room is answered."""
        self.provider.faults.clear()
        self.set(model="offline-64k", window=0)
        if not makes_room(self.settings.policy):
            self.use_policy(load("balanced"))
        for _ in range(MAX_REFUSED):  # what was too large for a smaller window may need two
            if self.turn("And so?"):
                return
        self.wrong("the chat is dead")

    def check_stored(self) -> None:
        """The stored chat replays to the plans that were sent, and its ledger is the provider's."""
        chat, plans = self.resume()
        stored = chat.live_session.session
        for plan in plans:
            sent = self.plans.get(plan.request.n)
            if sent and [*plan.after.pieces] != [*sent.after.pieces]:
                self.wrong(f"request {plan.request.n}: the replay is not what was sent")
                return
        if not {"branch", "stop", "fault"} & set(self.outcome.done) and matrix._ledger(stored) != self.provider.billed:
            self.wrong(f"ledger {matrix._ledger(stored)}, billed {self.provider.billed}")


def is_fault(error: TurnscopeError) -> bool:
    """Whether a turn failed because the provider was told to fail."""
    return type(error).__name__ == "ProviderError" and not str(error).startswith("messages")


def makes_room(policy: Policy) -> bool:
    """Whether a policy's own trial goes on when the window is full."""
    return get_trial(policy).is_usable


def drive(course: Course, threads: Threads) -> Outcome:
    """Run a course.

    Args:
        course: The course.
        threads: Where its chat is stored.
    """
    return Driver(course, threads).run()


def list_offered() -> list[str]:
    """Every policy that a chat offers."""
    return [name for name in list_policies() if name != "as-recorded"]
