"""Every policy that a chat offers, driven against the built-in model's strict server: `python -m tests.matrix [POLICY ...]`.

90 turns with tools and thinking; condensed by hand at turn 30, a paste of 200,000 characters at 45, killed amid turn 60 and
taken up again from the store. Then, for each request: the body on the wire is the body of the replay's plan, and nothing in it
would be rejected; nothing was rejected; and the server's ledger of tokens is ours. Prints a table; exit 1 on a difference.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import turnscope
from turnscope.envelope import wishes
from turnscope.errors import UnsendableError
from turnscope.live import branches
from turnscope.live.chat import Chat, Settings
from turnscope.live.events import Event, RequestDone, RequestPlanned, RequestRefused, ToolCalled, TurnFailed
from turnscope.live.offline import OfflineServer
from turnscope.live.provider import connect
from turnscope.live.tools import Toolbox
from turnscope.planning import lint
from turnscope.planning.policy import list_policies, load
from turnscope.planning.render import build_body
from turnscope.session.model import Session
from turnscope.storage.threads import Threads

PASTE = 200_000  # characters
SENTENCE = "Whoever carries the message further remembers everything important that somebody mentioned about weather."
COLUMNS = (
    "policy",
    "turns",
    "requests",
    "refused",
    "stopped",
    "rejected",
    "failed",
    "differ",
    "lint",
    "ledger",
    "condensed",
    "seconds",
)


@dataclass(frozen=True, slots=True)
class Course:
    """What is done with each policy; turns are counted from 0, -1 = never."""

    turns: int = 90
    condense: int = 30
    paste: int = 45
    kill: int = 60
    thinking: bool = True
    model: str = "offline-64k"


# "tight": cuts begin early, and a paste would never fit
COURSES = {"paste": Course(), "tight": Course(60, 20, -1, 42, model="offline-16k")}


@dataclass(slots=True)
class Row:
    """What came of one policy. `differ`: requests whose wire body is not the replay's; `why`: first mistakes of each kind."""

    policy: str
    turns: int = 0
    requests: int = 0
    refused: int = 0  # over the window
    stopped: int = 0  # the gateway saw that it would be rejected
    rejected: int = 0
    failed: int = 0
    differ: int = 0
    lint: int = 0
    ledger: bool = True
    condensed: str = ""
    seconds: float = 0.0
    why: list[str] = field(default_factory=list)

    @property
    def right(self) -> bool:
        return not (self.rejected or self.failed or self.differ or self.lint) and self.ledger


class Watched(OfflineServer):
    """The built-in model, with every body that asked for a stream, and what was rejected."""

    def __init__(self) -> None:
        super().__init__()
        self.streamed: list[dict[str, Any]] = []
        self.rejected: list[str] = []

    def handle_message(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        status, said = super().handle_message(body)
        if body.get("stream"):
            self.streamed.append({key: value for key, value in body.items() if key != "stream"})
        what = said["error"]["message"] if status == 400 else ""
        if what and "prompt is too long" not in what and "exceed context limit" not in what:
            self.rejected.append(what)
        return status, said


def files(folder: Path) -> Toolbox:
    """Six files of different sizes, so that results weigh."""
    folder.mkdir(parents=True)
    for n in range(6):
        lines = (f"def function_{n}_{i}(value): return value + {i}\n" for i in range(30 + 40 * n))
        (folder / f"file{n}.py").write_text("".join(lines))
    return Toolbox(folder)


def prompt(turn: int, course: Course) -> str:
    """What is said at a turn."""
    if turn == course.paste:
        return "Look at this:\n" + " ".join(SENTENCE for _ in range(PASTE // len(SENTENCE)))
    if turn % 3 == 0:
        return f"read file file{turn % 6}.py"
    return f"calculate {turn} * 17" if turn % 7 == 0 else f"And what of point {turn}? It matters because of reason {turn * 7}."


def drive(policy: str, course: Course, folder: Path) -> Row:
    """One policy through the whole course."""
    row, began = Row(policy), time.monotonic()
    with Watched() as server:
        threads, box = Threads(folder / "chats.db"), files(folder / "project")
        chosen = Settings(course.model, load(policy), thinking=course.thinking)
        provider, thread = connect(server.url, "none", retries=0, timeout=60), threads.create(title=policy)
        chat = branches.start_chat(thread, provider, threads.open_writer(thread), chosen, "You are brief.", box.definitions)
        chat.sink.write_policy(chosen.policy, 0)  # type: ignore[attr-defined]
        chat.tools = box
        wire: dict[int, dict[str, Any]] = {}
        try:
            for turn in range(course.turns):
                if turn == course.condense:
                    row.condensed = _condense(chat)
                said = chat.send(prompt(turn, course))
                if _driven(said, chat, server, wire, row, kill=turn == course.kill):
                    known = threads.list_policies(thread)
                    chat, _ = branches.resume_chat(
                        threads.load(thread), provider, threads.open_writer(thread), chosen, box, known
                    )
                    _driven(chat.continue_turn(), chat, server, wire, row)
                row.turns += 1
        except Exception as error:  # noqa: BLE001 - a raw error is what this looks for
            row.failed += 1
            row.why.append(f"{type(error).__name__}: {error}"[:300])
        stored = threads.load(thread)
        row.rejected = len(server.rejected)
        row.why += server.rejected[:1]
        _compare_bodies(stored, chosen, wire, row)
        row.ledger = _ledger(stored) == _sum_billed(server)
        row.requests = len(wire)
    row.seconds = time.monotonic() - began
    return row


def _condense(chat: Chat) -> str:
    """Condense by hand: refused with a reason, or whether the summary then stands in the next request."""
    last = list(chat.condense())[-1]
    if isinstance(last, TurnFailed):
        return "refused"
    return "stands" if wishes.find_summaries(chat.preview("And then?").after) else "undone"


def _driven(
    said: Iterator[Event], chat: Chat, server: Watched, wire: dict[int, dict[str, Any]], row: Row, kill: bool = False
) -> bool:
    """Follow a turn to its end, or to where it is killed: the model has asked for a tool that has not run."""
    number = -1
    for event in said:
        if isinstance(event, RequestPlanned):
            number = event.plan.request.n
        elif isinstance(event, RequestDone):
            wire[number] = server.streamed[-1]
        elif isinstance(event, RequestRefused):
            row.refused += 1
        elif isinstance(event, TurnFailed) and isinstance(event.error, UnsendableError):
            row.stopped += 1
            row.why.append(f"stopped: {event.error.path}: {event.error.wrong}")
        elif isinstance(event, TurnFailed):
            row.failed += 1
            row.why.append(str(event.error)[:300])
        elif kill and isinstance(event, ToolCalled):
            return True
    return kill


def _compare_bodies(stored: Session, chosen: Settings, wire: dict[int, dict[str, Any]], row: Row) -> None:
    """Bodies on the wire against the replay's, and both against what is known of rejections."""
    try:
        plans = turnscope.replay(stored, chosen.policy).plans
    except Exception as error:  # noqa: BLE001 - as above
        row.differ = len(wire)
        row.why.append(f"replay: {type(error).__name__}: {error}"[:300])
        return
    for n, sent in wire.items():
        made = build_body(plans[n], stored)
        if made != sent:
            row.differ += 1
            if row.differ == 1:
                row.why.append(f"request {n}: " + difference(made, sent))
        stale = lint.find_stale_thinking(plans[: n + 1], stored)
        if found := lint.lint(sent, "claude-opus-5-5", stale):
            row.lint += 1
            if row.lint == 1:
                row.why.append(f"request {n}: lint: {found[0].path}: {found[0].what}")


def difference(one: Any, two: Any, path: str = "") -> str:
    """Where two bodies differ first."""
    if isinstance(one, dict) and isinstance(two, dict):
        for key in [*one, *(key for key in two if key not in one)]:
            if one.get(key) != two.get(key):
                return difference(one.get(key), two.get(key), f"{path}.{key}")
    if isinstance(one, list) and isinstance(two, list):
        for i, (a, b) in enumerate(zip(one, two, strict=False)):
            if a != b:
                return difference(a, b, f"{path}.{i}")
        return f"{path}: replay has {len(one)}, wire {len(two)}"
    return f"{path}: replay {str(one)[:100]!r}, wire {str(two)[:100]!r}"


def _ledger(stored: Session) -> tuple[int, int]:
    told = [*(r.usage for r in stored.requests), *(a.usage for a in stored.recorded.answers.values())]
    usages = [each for usage in told if usage for each in usage.passes]
    return sum(u.prompt_tokens for u in usages), sum(u.output_tokens for u in usages)


def _sum_billed(server: OfflineServer) -> tuple[int, int]:
    """Prompt and output tokens of all passes: those of a request's own answers stand in its sums already."""
    read = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    billed = [*server.memory.billed]
    billed += [each for usage in billed for each in usage.get("iterations", ()) if each["type"] != "message"]
    return sum(u[key] for u in billed for key in read), sum(u["output_tokens"] for u in billed)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "equal" if value else "DIFFERS"
    return f"{value:.1f}" if isinstance(value, float) else str(value)


def list_offered() -> list[str]:
    """Every policy that a chat offers."""
    return [name for name in list_policies() if name != "as-recorded"]


def main() -> int:
    wanted = [(policy, name) for policy in sys.argv[1:] or list_offered() for name in COURSES]
    print(" ".join(f"{name:>10}" if i else f"{name:32}" for i, name in enumerate(COLUMNS)))
    wrong = 0
    for policy, name in wanted:
        with tempfile.TemporaryDirectory() as folder:
            row = drive(policy, COURSES[name], Path(folder))
        cells = [getattr(row, column) for column in COLUMNS]
        cells[0] = f"{policy} ({name})"
        said = [_cell(cell) for cell in cells]
        print(" ".join(f"{cell:>10}" if i else f"{cell:32}" for i, cell in enumerate(said)), flush=True)
        for why in list(dict.fromkeys(row.why))[:6]:
            print(f"    {why}", flush=True)
        wrong += not row.right
    print(f"{len(wanted) - wrong} of {len(wanted)} runs are right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
