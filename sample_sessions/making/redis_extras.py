"""Sample 1, the side work of the afternoon: a flaky test, login limits, a staging alarm, the manual."""

# ruff: noqa: E501 - what people, files and tools say is as long as it is

from __future__ import annotations

from making.ferrydesk import KINDS
from making.redis_story import FULL, Story, text, think
from making.workshop import Failure, Result


def flaky(s: Story) -> None:
    s.ask("CI was red on your crew badge commit, then green on retry. I hate retries. Find out why, here is the job: 48213")
    s.now = "Hunting a flaky test (CI job 48213)"
    k = KINDS[7]
    bad = Failure(
        "test_touch_moves_seen_at",
        k.store,
        "badge = self.find(ident)",
        "AssertionError: assert datetime(2026, 2, 17, 13, 59, 59, 999871) == datetime(2026, 2, 17, 14, 0, 0)",
    )
    shown = s.shop.pytest([k.tests, KINDS[8].tests], [bad], noisy=True, seconds=31)
    job = Result(shown.content, seconds=2.5)
    s.bash(
        "gh run view 48213 --log-failed",
        "Show the failed CI job",
        job,
        think(
            "Not the door rule; a plain touch. A difference of 129 microseconds smells of a real clock where a frozen one should be."
        ),
    )
    s.grep("clock", "tests/auth/", text("Where does a clock come from?"))
    s.grep(
        "datetime.now|time\\.time\\(",
        "ferrydesk/",
        think("If anything reads the wall clock directly the frozen one in the fixtures cannot reach it."),
    )
    s.read("ferrydesk/auth/stores/base.py", text("The base takes a clock with a default."))
    s.read(
        "tests/auth/conftest.py",
        think(
            "The fixture freezes a Clock object, but nothing hands it to stores built at import time by the callers. roster.py builds one. Whoever imports it first wins."
        ),
    )
    s.read(f"ferrydesk/{k.caller}")
    s.edit(
        f"ferrydesk/{k.caller}",
        "table = CrewBadgeStore(connection())",
        "def table() -> CrewBadgeStore:\n    return CrewBadgeStore(connection())",
        text("Built on use, not on import."),
    )
    for n in (1, 2, 3):
        run = s.shop.pytest([k.tests], seconds=9 + n)
        s.bash(f"uv run pytest {k.tests} -v -p randomly --randomly-seed={n * 7919}", f"Run in random order ({n} of 3)", run)
    s.reply(
        "Not a flaky test but a real fault: `roster.py` built its store at import time with the wall clock. Whether the test saw the frozen clock depended on the order of imports. Three random orders are green."
    )


def limits(s: Story) -> None:
    s.ask(
        "Somebody is trying passwords against the kiosks, ~3 a second. While we're in Redis anyway: a limit on login attempts, 10 per account per 15 min, and 100 per address. Not through the facade!"
    )
    s.now = "Limiting login attempts"
    s.grep(
        "verify\\(",
        "ferrydesk/",
        think("Where are passwords checked? The limit belongs behind login(), in verify, so that the facade keeps its shape."),
    )
    s.read(
        "ferrydesk/auth/__init__.py",
        think(
            "login calls verify and nothing else does. A limiter inside verify raises BadCredentials like any wrong password, so callers need no change and an attacker learns nothing."
        ),
    )
    code = '"""Counts failed logins in sliding windows."""\n\nfrom datetime import timedelta\n\n\nclass Limiter:\n    """`allow` is called before a password is checked, `miss` after a wrong one."""\n\n    WINDOW = timedelta(minutes=15)\n    PER_ACCOUNT = 10\n    PER_ADDRESS = 100\n\n    def __init__(self, redis, clock) -> None:\n        self.redis = redis\n        self.clock = clock\n\n    def allow(self, account: str, address: str) -> bool:\n        since = self.clock().timestamp() - self.WINDOW.total_seconds()\n        return (\n            self.redis.zcount(f"ferrydesk:miss:{account}", since, "+inf") < self.PER_ACCOUNT\n            and self.redis.zcount(f"ferrydesk:miss:{address}", since, "+inf") < self.PER_ADDRESS\n        )\n\n    def miss(self, account: str, address: str) -> None:\n        now = self.clock().timestamp()\n        for key in (account, address):\n            self.redis.zadd(f"ferrydesk:miss:{key}", {f"{now}": now})\n            self.redis.expire(f"ferrydesk:miss:{key}", self.WINDOW)\n'
    s.write("ferrydesk/auth/limiter.py", code, text("A sorted set per account and per address."))
    check = '"""How many wrong passwords somebody gets."""\n\n\ndef test_ten_misses_are_enough(limiter):\n    for _ in range(10):\n        limiter.miss("anna", "10.0.0.9")\n    assert not limiter.allow("anna", "10.0.0.9")\n\n\ndef test_another_account_is_free(limiter):\n    for _ in range(10):\n        limiter.miss("anna", "10.0.0.9")\n    assert limiter.allow("bo", "10.0.0.9")\n\n\ndef test_window_slides(limiter, clock):\n    for _ in range(10):\n        limiter.miss("anna", "10.0.0.9")\n    clock.move(minutes=16)\n    assert limiter.allow("anna", "10.0.0.9")\n'
    s.write("tests/auth/test_limiter.py", check)
    miss = Failure(
        "test_ten_misses_are_enough", "ferrydesk/auth/limiter.py", 'self.redis.zadd(f"ferrydesk:miss:{key}"', "assert not True"
    )
    s.test(["tests/auth/test_limiter.py"], miss, noisy=True, blocks=(text("Tests first run:"),))
    s.edit(
        "ferrydesk/auth/limiter.py",
        '{f"{now}": now})',
        '{f"{now}:{token_hex(4)}": now})',
        think(
            "The clock stands still in the test, so all ten misses share one member and the set has size one. Two misses in the same microsecond are possible in production as well. The member needs something unique."
        ),
    )
    s.test(["tests/auth/test_limiter.py", *FULL[:2]], noisy=True)
    s.reply(
        "Limits are in: 10 per account, 100 per address, fifteen minutes sliding. A refused attempt looks exactly like a wrong password, and the facade did not change."
    )
    s.ask("Does a refused attempt count as a miss too? Otherwise they just keep hammering and get in at minute 16.")
    s.read(
        "ferrydesk/auth/limiter.py",
        think(
            "allow() refuses before miss() is called, so a refused attempt does not extend the window. That is a choice; she should make it knowingly."
        ),
    )
    s.reply(
        "Today it does not: refused attempts leave the window alone, so a family that mistypes ten times is free again after fifteen minutes. Counting them would lock out a kiosk for as long as somebody hammers it. I would leave it, the address limit stops the hammering."
    )


def staging(s: Story) -> None:
    s.ask(
        "Staging is on the branch now and pager says: 'auth.find p99 900 ms', every five minutes, for ten seconds. Logs are on the box, /var/log/ferrydesk/app.log. Have a look?"
    )
    s.now = "Looking into slowness on staging, every five minutes"
    for minute in (45, 50, 55):
        rows = []
        for n in range(70):
            at = f"2026-02-17T09:{minute}:{n // 7:02d}.{s.rng.randint(0, 999):03d}Z"
            k = s.rng.choice(KINDS)
            what = s.rng.choice(("find", "touch", "list_active", "count", k.method))
            rows.append(
                f"{at} {s.rng.choice(('INFO', 'INFO', 'WARN'))} worker-{s.rng.randint(1, 12)} auth.{k.name}.{what} took {s.rng.uniform(3, 940):.0f} ms user={s.rng.randint(10, 9999)} trace={s.rng.getrandbits(64):016x}"
            )
            if n % 9 == 4:
                rows.append(
                    f"{at} INFO cron-1 purge.{k.name} scanned {s.rng.randint(20, 90) * 1000} keys matching ferrydesk:main:{k.prefix}:*"
                )
        words = (
            text("The last alarm but two:"),
            text("The next one, to see the pattern."),
            think(
                "Twice the same: slow from second 0 to second 10, and every slow stretch has purge lines in it. One more to be sure."
            ),
        )[minute // 5 - 9]
        s.bash(
            f"ssh staging \"grep 'T09:{minute}:0' /var/log/ferrydesk/app.log\"",
            f"Log at 09:{minute}",
            Result("\n".join(rows), seconds=3.3),
            words,
        )
    s.grep(
        "purge_expired|scan_iter|KEYS",
        "ferrydesk/",
        think(
            "The purge scans every key of a kind, every five minutes, for nine kinds at once. The keys have TTLs; there is nothing to purge. It is a leftover of Postgres."
        ),
    )
    top = "\n".join(
        f"{n:>3}) {s.rng.randint(2000, 88000):>7} us  SCAN {s.rng.randint(0, 99999)} MATCH ferrydesk:main:{s.rng.choice(KINDS).prefix}:* COUNT 500"
        for n in range(1, 41)
    )
    s.bash(
        "ssh staging redis-cli SLOWLOG GET 40",
        "Slow commands in Redis",
        Result(top, seconds=1.2),
        text("What Redis itself remembers:"),
    )
    s.read("ferrydesk/auth/stores/base.py")
    s.edit(
        "ferrydesk/auth/stores/base.py",
        'T = TypeVar("T")\n',
        'T = TypeVar("T")\n\n# Nothing purges here: every key has a TTL, and an index cleans itself when it is read.\n',
        text("Purging goes; a sentence says why."),
    )
    s.test(FULL, noisy=True)
    s.reply(
        "Found it. The purge from the Postgres days runs every five minutes and scans all keys of nine kinds at second zero. With TTLs there is nothing to purge, so I removed it. The alarm should be silent from the next deploy on."
    )


def documents(s: Story) -> None:
    s.ask(
        "Deployed, and 10:05 was quiet, lovely. Now the manual: a page per kind in docs/auth, for the on-call person who knows neither of us. Key layout, lifetime, the rule, how to revoke by hand.",
        262.0,
    )
    s.now = "Writing docs/auth"
    for n, k in enumerate(KINDS):
        page = (
            f"# {k.cls}\n\nA {k.name.replace('_', ' ')} {k.rule}.\n\n| | |\n| --- | --- |\n| Key | `ferrydesk:main:{k.prefix}:<id>` |\n| Index | `ferrydesk:main:{k.prefix}:user:<user id>` |\n"
            f"| Lives for | {' '.join(reversed(k.life.split('=')))} |\n| Fields | {', '.join(f'`{f}`' for f in k.fields)} |\n| Code | `{k.store}` |\n\n## Revoke by hand\n\n"
            f"```\nredis-cli DEL ferrydesk:main:{k.prefix}:<id>\n```\n\nThe index cleans itself the next time it is read.\n\n## Known trap\n\n{k.why[0].upper()}{k.why[1:]}. `{k.test}` watches it.\n"
        )
        if n in (3, 6):
            s.read(k.store, text(f"I want the exact keys of {k.cls}, not what I remember."))
        s.write(
            f"docs/auth/{k.name}.md",
            page,
            *(
                [
                    think(
                        f"For the person on call the question at night is: can I delete this key? For {k.cls} yes, the user signs in again."
                    )
                ]
                if n % 4 == 0
                else []
            ),
        )
    s.reply(
        "Nine pages. Each ends with the trap we fell into ourselves, because that is what somebody at night will fall into again."
    )
    s.ask("Typo patrol: 'impersonations' page says 'A impersonation'. English is hard.")
    s.grep("A (api|imp)", "docs/auth/", text("There may be a second one."))
    s.edit("docs/auth/impersonation.md", "A impersonation", "An impersonation")
    s.edit("docs/auth/api_key.md", "A api key", "An API key", text("There was."))
    s.reply("Two articles corrected: impersonation and API key.")
