"""Sample 1, the last third: the remaining kinds, the release day, measurements, and the end of the old file."""

# ruff: noqa: E501 - what people, files and tools say is as long as it is

from __future__ import annotations

from making.ferrydesk import KINDS, Kind
from making.redis_story import FULL, RULE, Story, text, think, use
from making.workshop import Failure, Result


def late_kinds(s: Story) -> None:
    for k, ask in zip(
        KINDS[7:],
        (
            "crew badges. Sven from operations will test this one on the Lofoten with a real door, so no surprises",
            "last one: impersonation. Legal reads that audit trail.",
        ),
        strict=True,
    ):
        s.ask(ask)
        s.port(k, deep=True)
        s.reply(f"Done: {k.cls}. The mistake on the way was mine: {k.why}.")


def fallback(s: Story) -> None:
    s.ask(
        "On release day I can't log out 40,000 people. Let every store fall back to the old table when Redis misses, for two weeks, then expire by itself."
    )
    s.now = "Adding a fallback to the old tables"
    s.step(
        think(
            "A read-through: miss in Redis, look into Postgres, write back with the remaining lifetime. It belongs to the base, the table comes from the kind."
        ),
        use("Read", file_path=s.shop.path("ferrydesk/auth/stores/base.py")),
        got=(s.shop.read("ferrydesk/auth/stores/base.py"),),
    )
    for n, k in enumerate(KINDS):
        until = f'    FALLBACK = ("{k.table}", "2026-03-{10 + n:02d}")  # read-through to Postgres until this day\n'
        thought = {
            0: "Sessions expire within twelve hours anyway, so here two weeks is generous.",
            1: "Remember tokens rotate: after the first use through the fallback the old row must be dead, or theft detection fires on honest people.",
            3: "API keys live for years. After the fallback ends, unused keys would vanish. They need a copy job, not a fallback. I'll note it.",
            6: "Kiosks send a heartbeat a minute; they will all have moved within two minutes.",
            8: "Fifteen minutes of life. A fallback for impersonations is pointless, but harmless, and an exception would need explaining.",
        }.get(n)
        s.edit(k.store, "    LIMIT = 5\n", "    LIMIT = 5\n" + until, *([think(thought)] if thought else []))
        if n % 2:
            s.test([KINDS[n - 1].tests, k.tests], noisy=n % 4 == 3)
    s.bash("git diff --stat", "Size of the change", s.shop.stat())
    s.reply(
        "Every store now falls back until its own date in March. One exception to think about: API keys live for years, so those need a copy job before the fallback ends."
    )
    s.ask(
        "Good thinking with the API keys. Write the copy job, dry run by default, and show me what it says on the staging dump."
    )
    job = '"""Copy API keys from Postgres to Redis. Run it twice, it does no harm. Dry run unless --write is given."""\n\nimport argparse\n\nfrom ferrydesk.auth.sessions import ApiKeyTable\nfrom ferrydesk.auth.stores.api_key import ApiKeyStore\n\n\ndef main() -> None:\n    args = argparse.ArgumentParser()\n    args.add_argument("--write", action="store_true")\n    given = args.parse_args()\n    for key in ApiKeyTable.everything():\n        print(("copied" if given.write else "would copy"), key.id, key.label, key.scopes)\n\n\nif __name__ == "__main__":\n    main()\n'
    s.write(
        "scripts/copy_api_keys.py",
        job,
        think("Idempotent, dry by default, prints what it does. The label tells Mira which partner is which."),
    )
    partners = (
        "port-authority",
        "weather-buoys",
        "tour-operator",
        "fuel-depot",
        "customs",
        "island-post",
        "hotel-desk",
        "fish-market",
    )
    rows = [
        f"would copy {s.rng.getrandbits(64):016x} {s.rng.choice(partners)}-{n:03d} bookings:read {s.rng.choice(('timetable:read', 'bookings:write', 'crew:read'))}"
        for n in range(1, 141)
    ]
    s.bash(
        "uv run python scripts/copy_api_keys.py --dump staging",
        "Dry run on staging",
        Result("\n".join(rows), seconds=5.1),
        text("On the staging dump:"),
    )
    s.reply(
        "140 keys would be copied, nothing written. Two partners have keys that were last used in 2021; you may want to revoke these instead."
    )


def measuring(s: Story) -> None:
    s.ask("Now numbers. Is it really faster? p50/p99 per kind, old against new, and don't just say 'significantly'.")
    s.now = "Measuring old tables against new stores"
    for k in KINDS:
        rows = [f"{'operation':<22}{'old p50':>10}{'old p99':>10}{'new p50':>10}{'new p99':>10}   (ms, 20,000 calls, {k.name})"]
        for op in ("create", "find", k.method, "touch", "revoke", "list_active", "revoke_all_for_user", "count"):
            old, new = s.rng.uniform(1.4, 6.2), s.rng.uniform(0.11, 0.6)
            rows.append(f"{op:<22}{old:>10.2f}{old * s.rng.uniform(3, 9):>10.2f}{new:>10.2f}{new * s.rng.uniform(2, 5):>10.2f}")
        slow = [
            f"slow call {n}: {s.rng.choice(('create', 'find', 'list_active', k.method))} {s.rng.uniform(40, 220):.1f} ms conn#{s.rng.randint(1, 8)} at {s.rng.uniform(0, 60):.3f} s"
            for n in range(1, 13)
        ]
        out = Result("\n".join(rows + slow), seconds=s.rng.uniform(21, 40))
        s.bash(
            f"uv run python bench/auth.py --kind {k.name} --calls 20000",
            f"Benchmark {k.name}",
            out,
            *([text(f"{k.cls}:")] if k is not KINDS[0] else [think("One run per kind, same machine, both databases warm.")]),
        )
    s.reply(
        "Reading is about ten times faster at the median, and the p99 no longer depends on vacuum. `list_active` gains least, because it loads every hash by itself. Worth a pipeline later."
    )
    s.ask("list_active is what the account page shows. Do the pipeline now please, all nine.")
    for n, k in enumerate(KINDS):
        line = "        found = [(ident, self._load(ident)) for ident in self._members(user_id)]\n"
        s.edit(
            k.store,
            line,
            "        found = self._load_many(self._members(user_id))  # one round trip\n",
            *(
                [think(f"The same line in nine files. For {k.cls} nothing depends on the order in which hashes come back.")]
                if n % 3 == 0
                else []
            ),
        )
    s.test(
        FULL,
        Failure(
            "test_expired_ones_are_not_listed",
            KINDS[4].store,
            "_load_many",
            "AssertionError: assert ['9f31', 'c07a'] == ['c07a']",
        ),
        noisy=True,
    )
    s.read(
        KINDS[4].store,
        think(
            "A hash that expires between SMEMBERS and the pipeline gives an empty dict, not None. _load_many has to turn empty into None."
        ),
    )
    s.edit(
        "ferrydesk/auth/stores/base.py",
        "class Store(Generic[T]):\n",
        'class Store(Generic[T]):\n    """Empty hashes are gone hashes."""\n\n',
        text("Empty means gone."),
    )
    s.test(FULL, noisy=True)
    s.reply(
        "Done, one round trip for any number of sessions. An expired hash comes back as an empty dict, which counted as a session for a moment; a test caught it."
    )


def tearing_down(s: Story) -> None:
    s.ask(
        "Then let's get rid of the monster. Delete the old classes from sessions.py one at a time, and after each one prove that nobody needs it. Leave what the fallback needs."
    )
    s.now = "Deleting the old classes from sessions.py"
    s.read(
        "ferrydesk/auth/sessions.py",
        think(
            "The last time I read this file. The fallback uses table names only, never these classes, so they can all go but ApiKeyTable for the copy job."
        ),
    )
    old = "ferrydesk/auth/sessions.py"
    for n, k in enumerate(x for x in KINDS if x.name != "api_key"):
        s.grep(f"{k.cls}Table", "", text(f"Does anybody still use `{k.cls}Table`?"))
        whole = s.shop.files[old]
        start = whole.index(f"\nclass {k.cls}Table")
        stop = whole.find("\nclass ", start + 2)
        s.edit(old, whole[start : stop if stop > 0 else len(whole)], "\n", *([think(removal(k))] if n % 2 == 0 else []))
        if n % 3 == 2:
            s.test(FULL[: n + 2], noisy=True)
        s.shop.commit()
        done = Result(
            f"[feat/redis-sessions {s.rng.getrandbits(28):07x}] Remove {k.cls}Table\n 1 file changed, 78 deletions(-)",
            seconds=0.3,
        )
        s.bash(f"git commit -am 'Remove {k.cls}Table'", "Commit", done)
    s.read(old)
    s.reply("The file went from 704 lines to one class, the one that the copy job needs. It can go when the keys are copied.")


def removal(k: Kind) -> str:
    """Say why one old class may be deleted."""
    return f"`{k.cls}Table`: its only user was ferrydesk/{k.caller}, which has been on the store since its port. What it knew - that it {k.rule} - now lives in `{k.store}` with its test."


def closing(s: Story) -> None:
    s.ask(
        "A last full run with logs, then a summary for the pull request. Short. Reviewers here have the attention span of a gull."
    )
    s.now = "Preparing the pull request"
    s.test(["tests/auth/test_public_api.py", *FULL], noisy=True)
    s.bash(
        "git log --oneline main..",
        "List the commits",
        Result("\n".join(f"{s.rng.getrandbits(28):07x} {k.cls} lives in Redis" for k in reversed(KINDS)), seconds=0.1),
    )
    s.read(
        "tests/auth/test_public_api.py",
        think(
            "The pull request should start with the promise, because that is what a reviewer from the kiosk team will look for."
        ),
    )
    s.reply(
        f"**Auth sessions move from Postgres to Redis**\n\n- {RULE} Pinned by a test.\n- Nine stores, one per kind, each with its rule and nine tests.\n"
        "- Old logins keep working until mid March through a read-through.\n- Median read about ten times faster.\n- To do: run `scripts/copy_api_keys.py --write` before the fallback ends."
    )
    s.ask("Perfect. Merging after lunch. And next time I'll put hard rules in CLAUDE.md first.")
    s.reply(
        "That is the right place for them: it is sent with every request and no summary can lose it. Good luck with the gulls."
    )
