"""Sample 1: an agent moves logins to Redis, tool results fill the window, a compaction loses the one hard rule.

The conversation only; the code base is in `ferrydesk`, the tools in `workshop`, the file format in `claude_code`.
"""

# ruff: noqa: E501 - what people, files and tools say is as long as it is
# ruff: noqa: S311 - the dice are seeded on purpose

from __future__ import annotations

import random
from typing import Any

from making import ferrydesk
from making.claude_code import Recorder
from making.ferrydesk import KINDS, Kind
from making.mind import Mind
from making.workshop import Failure, Result, Workshop

ROOT = "/home/mira/code/ferrydesk"
TITLE = "Auth sessions from Postgres to Redis"
PREFIX = 18_200  # system prompt, tools and project notes: sent with every request, never written to the log
HOOK = "scripts/notify.sh 'claude is waiting'"
FULL = [k.tests for k in KINDS]
RULE = (
    "The public API of ferrydesk.auth must stay unchanged: login, logout, current_user, refresh, synchronous, same arguments."
)


def think(text: str) -> dict[str, Any]:
    """Make a thinking block."""
    return {"type": "thinking", "thinking": text}


def text(words: str) -> dict[str, Any]:
    """Make a text block."""
    return {"type": "text", "text": words}


def use(tool: str, **given: Any) -> dict[str, Any]:
    """Make a tool call; the recorder gives it an id."""
    return {"type": "tool_use", "name": tool, "input": given}


class Story:
    """The session as it is told: a recorder, a repository and what has been achieved so far."""

    def __init__(self) -> None:
        self.rng = random.Random("redis story")
        self.log = Recorder(
            "redis log", ROOT, "feat/redis-sessions", "claude-sonnet-4-5-20250929", "2026-02-17T08:41:12.318Z", PREFIX
        )
        self.shop = Workshop(ROOT, ferrydesk.files(), self.rng)
        self.mind = Mind(self.rng)
        self.done: list[Kind] = []
        self.now = ""  # what the agent would say it is doing, for the summary
        self.remembers = True  # whether the hard rule is still anywhere in the window
        self.agents: dict[str, str] = {}

    def step(self, *blocks: dict[str, Any], got: tuple[Result, ...] = ()) -> None:
        """Send one request, condensing first where the window is full; then hand over what the tools gave back."""
        if self.log.full():
            self.log.compact(self.summary())
        calls = self.log.answer(blocks)
        if calls:
            self.log.results(zip(calls, got, strict=True))

    def ask(self, words: str, after: float | None = None) -> None:
        """Let the user type something."""
        self.log.prompt(words, self.rng.uniform(25, 190) if after is None else after)

    def reply(self, words: str, thought: str = "") -> None:
        """Answer the user and end the turn."""
        self.step(*([think(thought)] if thought else []), text(words))
        self.log.end_turn(HOOK)

    def read(self, file: str, *blocks: dict[str, Any], offset: int = 1, limit: int = 0) -> None:
        given: dict[str, Any] = {"file_path": self.shop.path(file)} | ({"offset": offset, "limit": limit} if limit else {})
        self.step(*blocks, use("Read", **given), got=(self.shop.read(file, offset, limit or 2000),))

    def grep(self, pattern: str, where: str, *blocks: dict[str, Any], mode: str = "content") -> None:
        given = {"pattern": pattern, "path": self.shop.path(where), "output_mode": mode} | (
            {"-n": True} if mode == "content" else {}
        )
        self.step(*blocks, use("Grep", **given), got=(self.shop.grep(pattern, where, mode),))

    def edit(self, file: str, old: str, new: str, *blocks: dict[str, Any]) -> None:
        call = use("Edit", file_path=self.shop.path(file), old_string=old, new_string=new)
        self.step(*blocks, call, got=(self.shop.edit(file, old, new),))

    def write(self, file: str, content: str, *blocks: dict[str, Any]) -> None:
        call = use("Write", file_path=self.shop.path(file), content=content)
        self.step(*blocks, call, got=(self.shop.write(file, content),))

    def bash(self, command: str, about: str, result: Result, *blocks: dict[str, Any]) -> None:
        self.step(*blocks, use("Bash", command=command, description=about), got=(result,))

    def test(self, files: list[str], *failures: Failure, noisy: bool = False, blocks: tuple[dict[str, Any], ...] = ()) -> None:
        what = " ".join(files) if len(files) < 3 else "tests/auth"
        flags = "-v -o log_cli=true --log-cli-level=DEBUG" if noisy else "-v"
        seconds = self.rng.uniform(3, 7) + 2.4 * len(files) * (1 + noisy)
        self.bash(
            f"uv run pytest {what} {flags}",
            f"Run {what}",
            self.shop.pytest(files, failures, noisy=noisy, seconds=seconds),
            *blocks,
        )

    def todo(self, *blocks: dict[str, Any]) -> None:
        """Write the task list down again: it is long, and it is sent again with every request."""
        rows = []
        for k in KINDS:
            state = "completed" if k in self.done else "in_progress" if k.name in self.now else "pending"
            rows.append({"content": f"Port {k.name} to Redis", "status": state, "activeForm": f"Porting {k.name}"})
        rows.append({"content": "Wire the facade to the stores", "status": "pending", "activeForm": "Wiring the facade"})
        self.step(*blocks, use("TodoWrite", todos=rows), got=(Result("Todos saved. Go on with the current one."),))

    def summary(self) -> str:
        """Write what a compaction leaves. The first one forgets the rule; later ones have learned."""
        first = self.log.compactions == 0
        self.remembers = not first
        names = ", ".join(k.name for k in self.done) or "none yet"
        rows = "\n".join(f"   - `{k.store}`: {k.cls}Store, {k.rule}. First attempt failed because {k.why}." for k in self.done)
        asked = (
            "   - Move login sessions from Postgres to Redis\n   - Port one kind after the other, run the tests with logs on, because CI is picky\n"
            "   - Find raw SQL that touches the auth tables\n   - Make revoke_all_for_user one round trip"
        )
        if not first:
            asked += f"\n   - {RULE} (The user was angry when this was broken once; the facade has been restored.)"
        return (
            "This session continues an earlier conversation that no longer fits the context window. What happened so far:\n\n"
            f"1. Primary request and intent:\n   Mira is moving authentication in `{ROOT}` from Postgres tables to Redis, kind by kind.\n\n"
            "2. Key technical concepts:\n   - redis-py 5, fakeredis in tests, one hash per credential with a TTL, one index set per user\n"
            "   - `Store[T]` base class in `ferrydesk/auth/stores/base.py`; bytes come back from Redis, `_text` and `_time` decode them\n"
            "   - The old code is `ferrydesk/auth/sessions.py`, one table class per kind\n\n"
            f"3. Files and code:\n{rows}\n   - `tests/auth/test_<kind>.py`: nine tests each\n\n"
            f"4. Finished kinds: {names}\n\n5. What the user asked for:\n{asked}\n\n"
            f"6. Current work:\n   {self.now}\n\n"
            f"7. Next step:\n   Continue where the work stopped, without asking again.{' Afterwards wire the facade to the stores.' if first else ''}"
        )

    def port(self, k: Kind, *, deep: bool) -> None:
        """Move one kind: study, write, fail, find out why, mend, check the callers."""
        self.now = f"Porting {k.name} (`{k.store}`)"
        facts = {"thing": k.name.replace("_", " "), "rule": k.rule, "method": k.method, "prefix": k.prefix}
        facts |= {"test": k.test, "error": k.error, "why": k.why, "caller": f"ferrydesk/{k.caller}"}
        mind, old = self.mind, "ferrydesk/auth/sessions.py"
        if deep:
            self.read(old, think(mind.think("study", **facts)), text(f"I'll read the original before I port {facts['thing']}."))
        else:
            at = self.shop.line_of(old, f"class {k.cls}Table")
            self.grep(f"class \\w+Table|def {k.method}", "ferrydesk/auth/", think(mind.think("study", **facts)))
            self.read(old, offset=at, limit=88)
        calls = (use("Read", file_path=self.shop.path(k.tests)), use("Read", file_path=self.shop.path(f"ferrydesk/{k.caller}")))
        self.step(
            text("And what the tests and the caller expect."),
            *calls,
            got=(self.shop.read(k.tests), self.shop.read(f"ferrydesk/{k.caller}")),
        )
        wrong = ferrydesk.port(k).replace(k.good, k.bad)
        self.write(k.store, wrong, think(mind.think("design", **facts)))
        line = k.bad.split("\n")[0].strip()
        failure = Failure(k.test, k.store, line, k.error)
        self.test([k.tests], failure, noisy=True, blocks=(text(f"Store is written. Tests of {facts['thing']}:"),))
        self.read(k.store, think(mind.think("fail", **facts)))
        if deep:
            self.grep(k.method, "", text(f"Let me see who relies on `{k.method}`."))
        self.edit(k.store, line, k.good.strip(), think(mind.think("fix", **facts)))
        self.test([k.tests], noisy=True, blocks=(think(mind.think("verify", **facts)),))
        self.grep(f"{k.cls}Table", "", think(mind.think("callers", **facts)))
        caller = f"ferrydesk/{k.caller}"
        self.edit(
            caller,
            f"from ferrydesk.auth.sessions import {k.cls}Table",
            f"from ferrydesk.auth.stores.{k.name} import {k.cls}Store",
        )
        self.edit(
            caller,
            f"table = {k.cls}Table(database(), audit=None)",
            f"table = {k.cls}Store(connection())",
            text("And its constructor."),
        )
        self.edit(caller, "from ferrydesk.db.pool import database", "from ferrydesk.redis.pool import connection")
        self.read(caller, text("Check the result."))
        mypy = Result("Success: no issues found in 41 source files", seconds=self.rng.uniform(3, 9))
        self.bash(
            "uv run mypy ferrydesk && uv run ruff check ferrydesk",
            "Type check and lint",
            mypy,
            think(mind.think("check", **facts)),
        )
        self.bash(f"git diff -- {k.store} {caller}", "Show the change", self.shop.diff([k.store, caller]))
        if deep:
            self.test(FULL[: 3 + len(self.done)], blocks=(text("Everything ported so far, together:"),))
        self.done.append(k)
        self.shop.commit()
        note = f"{k.cls} lives in Redis"
        commit = Result(
            f"[feat/redis-sessions {self.rng.getrandbits(28):07x}] {note}\n 2 files changed, 71 insertions(+), 3 deletions(-)",
            seconds=0.4,
        )
        self.bash(f"git add -A && git commit -m '{note}'", "Commit this kind", commit)
        self.todo()
