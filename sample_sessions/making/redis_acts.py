"""Sample 1, turn by turn: what Mira asks for and what the agent does about it."""

# ruff: noqa: E501 - what people, files and tools say is as long as it is

from __future__ import annotations

from making import ferrydesk
from making.claude_code import Recorder
from making.ferrydesk import BROKEN, KINDS, MENDED
from making.redis_extras import documents, flaky, limits, staging
from making.redis_finish import closing, fallback, late_kinds, measuring, tearing_down
from making.redis_story import FULL, ROOT, RULE, TITLE, Story, text, think, use
from making.workshop import Result

FACADE = "ferrydesk/auth/__init__.py"
AGENT = "a5c31f0e7d2b9468a"
ERRAND_PREFIX = 9_400  # a subagent has fewer tools and a shorter system prompt


def tell() -> dict[str, str]:
    """Tell the whole story; give the session file and the subagent's file by their paths."""
    s = Story()
    opening(s)
    early_kinds(s)
    survey(s)
    wiring(s)
    complaint(s)
    late_kinds(s)
    flaky(s)
    fallback(s)
    measuring(s)
    limits(s)
    tearing_down(s)
    staging(s)
    documents(s)
    closing(s)
    name = "tool-results-eat-the-window"
    return {f"{name}.jsonl": s.log.titled(TITLE), f"{name}/subagents/agent-{AGENT}.jsonl": s.agents[AGENT]}


def opening(s: Story) -> None:
    s.ask(
        "Morning! Our logins live in Postgres and every page view writes a row, the database is crying. I want everything in "
        "ferrydesk/auth moved to Redis, kind by kind. ONE hard rule: keep the public API unchanged. login(), logout(), current_user() "
        "and refresh() keep their names, their arguments and stay synchronous - the crew app and the kiosk firmware vendor them and "
        "ship twice a year. Everything behind them is yours. Look around first, then tell me a plan.",
        0.4,
    )
    s.now = "Looking around"
    s.step(
        think(
            "A migration with a fixed facade. First the layout, then the facade, because that is the one thing I may not touch."
        ),
        text("I'll look around before I plan anything."),
        use("Glob", pattern="ferrydesk/**/*.py"),
        got=(s.shop.glob("ferrydesk/", ".py"),),
    )
    s.read(FACADE, text("The public face first."))
    s.read(
        "ferrydesk/auth/sessions.py",
        think("Four functions, all over SessionTable. Now the file behind it, all of it; the rest depends on it."),
    )
    s.grep("from ferrydesk.auth import", "", text("Who depends on the facade?"))
    s.read(
        "clients/kiosk-firmware/bridge.py",
        think("The kiosk bridge runs Python 3.9 without an event loop. So async is out even if nobody had said it."),
    )
    s.read("ferrydesk/config.py")
    s.read("tests/auth/conftest.py", text("fakeredis is already there, good."))
    s.test(
        FULL,
        noisy=True,
        blocks=(
            think(
                "A baseline before I change anything. The suite must be green on Postgres, otherwise I can't tell my failures from theirs."
            ),
        ),
    )
    s.todo(text("Baseline is green. Writing the plan down."))
    s.reply(
        "Plan:\n\n1. A small `Store` base class (keys, hashes, decoding).\n2. One store per kind in `ferrydesk/auth/stores/`, nine of them, "
        "each green before the next.\n3. Callers that reach into the tables move to the stores.\n4. Last, the facade swaps its insides. "
        "`login`, `logout`, `current_user`, `refresh` keep name, arguments and stay synchronous.\n\nThe old file stays until the end.",
        "The plan is simple because the facade is fixed. I should say the rule back so that we both know it is understood.",
    )
    s.ask(
        "Good plan. Start with the base class and plain sessions, and run the tests with logs on please, CI is picky about warnings."
    )
    s.write(
        "ferrydesk/auth/stores/base.py",
        ferrydesk.BASE,
        think("Keys, decoding, clock. Nothing clever in the base; the rules belong to the kinds."),
    )
    s.port(KINDS[0], deep=True)
    s.reply("Sessions are in Redis, all nine tests green. The first version forgot the twelve-hour ceiling; a test caught it.")


def early_kinds(s: Story) -> None:
    words = (
        ("Nice catch on the ceiling. Next: remember-me tokens. Careful, that one was a security incident in 2022.", True),
        ("ok now trusted devices. The limit of five is in our terms of service, so it really has to be five", False),
        ("API keys please. The port authority's integration is on these, I'd rather not call them", True),
    )
    for (ask, deep), k in zip(words, KINDS[1:4], strict=True):
        s.ask(ask)
        s.port(k, deep=deep)
        s.reply(f"{k.cls} is done and committed. What went wrong on the way: {k.why}.")
        if k is KINDS[1]:
            s.ask("Before you go on: does revoke_all_for_user do N round trips? Some families have 30 tokens.")
            s.read(
                k.store,
                think("It loops over revoke, so two commands per token, each its own round trip. Thirty tokens, thirty trips."),
            )
            s.grep("revoke_all_for_user", "ferrydesk/")
            add = '\n\n    def revoke_all_for_user(self, user_id: int, *, spare: str | None = None) -> int:\n        doomed = [i for i in self._members(user_id) if i != spare]\n        with self.redis.pipeline() as pipe:\n            for ident in doomed:\n                pipe.delete(self._key(ident))\n            pipe.srem(self._index(user_id), *doomed or [""])\n            pipe.execute()\n        return len(doomed)\n'
            s.edit(
                "ferrydesk/auth/stores/base.py",
                "        return datetime.fromisoformat(text) if text else None\n",
                "        return datetime.fromisoformat(text) if text else None\n" + add,
            )
            s.test([x.tests for x in KINDS[:2]], noisy=True)
            s.reply("It did. Now it is one pipeline for all of them, in the base class, so every kind gets it.")


def survey(s: Story) -> None:
    s.ask(
        "Can you find every place that touches the auth tables with raw SQL, outside of sessions.py? Use a subagent, I don't want that noise in here."
    )
    prompt = (
        f"Search {ROOT} for raw SQL that reads or writes the auth tables (sessions, remember_tokens, device_trusts, api_keys, password_resets, "
        "magic_links, kiosk_terminals, crew_badges, impersonations) outside ferrydesk/auth/sessions.py. Report file, line, and what it does. Change nothing."
    )
    call = use("Task", description="Find raw SQL on auth tables", prompt=prompt, subagent_type="Explore")
    began = s.log.now + 6
    report, seconds = subagent(s, prompt, began)
    sub = f"agentId: {AGENT}\n<usage>total_tokens: {report[1]}\ntool_uses: {report[2]}\nduration_ms: {round(seconds * 1000)}</usage>"
    meta = {
        "status": "completed",
        "agentId": AGENT,
        "totalDurationMs": round(seconds * 1000),
        "totalTokens": report[1],
        "totalToolUseCount": report[2],
    }
    result = Result([{"type": "text", "text": report[0]}, {"type": "text", "text": sub}], False, seconds + 6, meta)
    s.step(text("I'll send someone."), call, got=(result,))
    s.reply(
        "Nobody else uses SQL on these tables. What does exist is nine modules that build a table object at import time; I move each of them together with its kind."
    )


def subagent(s: Story, prompt: str, began: float) -> tuple[tuple[str, int, int], float]:
    """Run the errand in a file of its own; give its report, tokens and calls, and how long it took in seconds."""
    log = Recorder(
        "redis agent",
        ROOT,
        s.log.branch,
        s.log.model,
        "2026-02-17T09:00:00Z",
        ERRAND_PREFIX,
        session=s.log.session,
        agent=AGENT,
    )
    log.now = began
    log.prompt(prompt, 0)
    calls = 0

    def look(words: str, pattern: str, where: str) -> None:
        ids = log.answer([text(words), use("Grep", pattern=pattern, path=s.shop.path(where), output_mode="content")])
        log.results([(ids[0], s.shop.grep(pattern, where))])

    for k in KINDS:
        look(f"Table `{k.table}`.", rf"(SELECT|INSERT|UPDATE|DELETE).*{k.table}", "")
        calls += 1
    for k in KINDS[4:]:
        file = f"ferrydesk/{k.caller}"
        ids = log.answer(
            [
                text(f"No SQL here, but `{file}` imports the class. What does it do with it?"),
                use("Read", file_path=s.shop.path(file)),
            ]
        )
        log.results([(ids[0], s.shop.read(file))])
        calls += 1
    rows = "\n".join(
        f"- ferrydesk/{k.caller}: builds {k.cls}Table at import, calls list_active, create, touch, revoke" for k in KINDS[4:]
    )
    said = f"All SQL on the nine tables is inside ferrydesk/auth/sessions.py. No other file contains any. Indirect users that are not ported yet:\n{rows}"
    log.answer([text(said)])
    s.agents[AGENT] = log.titled("")
    return (said, log.last, calls), log.now - began


def wiring(s: Story) -> None:
    """Go on until the window has been condensed, then wire the facade without the rule."""
    s.ask(
        "Great, next two: password resets and magic links. Then wire the facade, I want to see something running on Redis today."
    )
    for k in KINDS[4:6]:
        s.port(k, deep=True)
    if s.log.compactions != 1:
        raise RuntimeError("the story needs the first compaction here")
    s.now = "Wiring the facade"
    s.read(
        FACADE,
        think("Two more kinds are done. Next is the facade, `ferrydesk/auth/__init__.py`. It still builds a SessionTable."),
    )
    s.write(
        FACADE,
        BROKEN,
        think(
            "The stores are the new shape of things, so the facade may follow: Redis calls are I/O, async fits better, and the store should come in as an "
            "argument instead of a module global. Better names while I'm here: open_session, close_session, get_current_user, refresh_session. "
            "Nothing in my notes speaks against changing the signatures."
        ),
        text("Modernising the facade: asynchronous, with the store passed in, and clearer names."),
    )
    s.grep("login\\(|current_user\\(", "", think("Now the users of the old names."))
    bridge = "clients/kiosk-firmware/bridge.py"
    s.edit(
        bridge,
        "from ferrydesk.auth import current_user, login, logout, refresh",
        "from ferrydesk.auth import get_current_user, open_session",
        text("The kiosk bridge needs the new names."),
    )
    s.edit(
        bridge,
        "    session = login(card.number, card.pin)",
        "    session = asyncio.run(open_session(card.number, card.pin, store))",
    )
    s.edit(bridge, "    user = current_user(request)", "    user = asyncio.run(get_current_user(request, store))")
    s.test(FULL[:6], noisy=True, blocks=(text("Everything together."),))
    s.reply(
        "The facade runs on Redis now. I also modernised it: the functions are `async`, take the store as an argument and have clearer names "
        "(`open_session`, `close_session`, `get_current_user`, `refresh_session`). I adapted the kiosk bridge to match.",
        "All green. The tests don't import the facade by its old names, so nothing complains.",
    )


def complaint(s: Story) -> None:
    s.ask(
        "WHAT. Kiosk build is red: ImportError: cannot import name 'current_user' from 'ferrydesk.auth'. You made login() async AND renamed it AND edited "
        "the firmware?! The very first thing I told you today was to keep the public API unchanged. I even gave you the reason. Did you forget?",
        171.0,
    )
    s.read(
        FACADE,
        think(
            "She is right to be angry. I can't find that sentence anywhere in what I have: my notes start with a summary of the morning, and the summary lists "
            "the stores, the bugs and the tests but not that rule. So I really did not have it when I rewrote the facade. No excuse; restore it exactly."
        ),
        text(
            "You're right, and I'm sorry. That instruction did not survive the summary of our earlier conversation. I'll put the API back exactly as it was."
        ),
    )
    log = Result(s.shop.first[FACADE], seconds=0.1)
    s.bash(f"git show main:{FACADE}", "Show the original facade", log, text("The original, from main."))
    s.write(
        FACADE,
        MENDED,
        think(
            "Same names, same arguments, synchronous. Only the object behind them changes from SessionTable to SessionStore."
        ),
    )
    bridge = "clients/kiosk-firmware/bridge.py"
    undo = Result(f"Updated 1 path from the index\n{bridge}", seconds=0.1)
    s.shop.files[bridge] = s.shop.first[bridge]
    s.bash(f"git checkout main -- {bridge}", "Undo the firmware edit", undo)
    s.read(bridge, text("Firmware is untouched again?"))
    pin = '"""The promise to the crew app and the kiosks. If this fails, the change is wrong, not the test."""\n\nimport inspect\n\nimport ferrydesk.auth as auth\n\n\ndef test_public_names():\n    assert auth.__all__ == ["current_user", "login", "logout", "refresh"]\n\n\ndef test_nothing_is_async():\n    assert not any(inspect.iscoroutinefunction(getattr(auth, n)) for n in auth.__all__)\n\n\ndef test_arguments_of_login():\n    assert list(inspect.signature(auth.login).parameters) == ["username", "password", "remember"]\n'
    s.write(
        "tests/auth/test_public_api.py",
        pin,
        think("A rule that lives only in a conversation can be lost. A test can't be summarised away."),
        text("And a test, so that it can't happen again."),
    )
    s.test(["tests/auth/test_public_api.py", *FULL[:6]], noisy=True)
    s.reply(
        f"Restored. {RULE} It is now pinned by `tests/auth/test_public_api.py`, so it no longer depends on anybody's memory, mine included."
    )
    s.ask("Thank you. Put that in CLAUDE.md as well please. Then carry on, kiosks next.")
    s.write(
        "CLAUDE.md",
        f"# ferrydesk\n\n- {RULE}\n- Tests: `uv run pytest tests/auth -v`\n- Never edit `clients/` from this repository.\n",
        text("Written down."),
    )
    s.port(KINDS[6], deep=False)
    s.reply(
        "Kiosk terminals are ported, and the rule is in CLAUDE.md. Redis has no null, so 'not dark' is an empty string now."
    )
