"""A made-up code base: the booking service of a ferry line, whose logins live in Postgres and are about to move to Redis.

Holds the files only. Nine kinds of credentials share a shape; each has one rule of its own and one bug waiting in its port.
"""

# ruff: noqa: E501 - what people, files and tools say is as long as it is

# ruff: noqa: S608 - made-up SQL inside made-up files

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """One kind of credential: how it is stored, the rule that makes it special, and how its port goes wrong first."""

    name: str
    prefix: str
    life: str
    fields: tuple[str, ...]
    rule: str
    method: str
    legacy: str
    port: str
    good: str
    bad: str
    test: str
    error: str
    why: str
    caller: str

    @property
    def cls(self) -> str:
        return "".join(part.title() for part in self.name.split("_"))

    @property
    def table(self) -> str:
        return self.name + ("es" if self.name.endswith("s") else "s")

    @property
    def store(self) -> str:
        return f"ferrydesk/auth/stores/{self.name}.py"

    @property
    def tests(self) -> str:
        return f"tests/auth/test_{self.name}.py"


TAKES = {
    "session": "ident: str",
    "remember_token": "series: str, secret: str",
    "api_key": "secret: str, needed: list[str]",
    "device_trust": "user_id: int, fingerprint: str, label: str, platform: str",
    "password_reset": "code: str",
    "magic_link": "nonce: str",
    "kiosk_terminal": "serial: str, firmware: str",
    "crew_badge": "ident: str, vessel: str",
    "impersonation": "user_id: int, *, approver_id: int, reason: str, ticket: str",
}

KINDS: tuple[Kind, ...] = (
    Kind(
        "session",
        "sess",
        "hours=12",
        ("ip", "user_agent", "remember", "locale"),
        "slides forward by thirty minutes of activity but never past twelve hours after login",
        "slide",
        '        row = self.db.one("SELECT created_at, expires_at FROM sessions WHERE id = %s FOR UPDATE", ident)\n        if row is None:\n            return None\n        ceiling = row["created_at"] + self.LIFE\n        until = min(self.clock() + timedelta(minutes=30), ceiling)\n        if until > row["expires_at"]:\n            self.db.run("UPDATE sessions SET expires_at = %s WHERE id = %s", until, ident)\n        return until',
        '        created = self._time(self.redis.hget(self._key(ident), "created_at"))\n        if created is None:\n            return None\n        until = min(self.clock() + timedelta(minutes=30), created + self.LIFE)\n        self.redis.expireat(self._key(ident), int(until.timestamp()))\n        return until',
        "until = min(self.clock() + timedelta(minutes=30), created + self.LIFE)",
        "until = self.clock() + timedelta(minutes=30)",
        "test_slide_never_passes_the_ceiling",
        "AssertionError: assert datetime.timedelta(seconds=45000) <= datetime.timedelta(seconds=43200)",
        "the port extends the deadline on every request and nothing remembers when the login happened, so an active tab lives for ever",
        "bookings/checkout.py",
    ),
    Kind(
        "remember_token",
        "rmbr",
        "days=30",
        ("series", "secret_hash", "device", "issued_ip"),
        "changes its secret on every use; an old secret coming back means theft and kills the whole series",
        "rotate",
        '        row = self.db.one("SELECT * FROM remember_tokens WHERE series = %s", series)\n        if row is None:\n            return None\n        if not hmac.compare_digest(row["secret_hash"], digest(secret)):\n            self.db.run("DELETE FROM remember_tokens WHERE user_id = %s", row["user_id"])\n            self.audit.warn("remember.theft", user_id=row["user_id"], series=series)\n            raise TokenTheft(series)\n        fresh = secrets.token_urlsafe(32)\n        self.db.run("UPDATE remember_tokens SET secret_hash = %s WHERE series = %s", digest(fresh), series)\n        return fresh',
        '        stored = self.redis.hget(self._key(series), "secret_hash")\n        if stored is None:\n            return None\n        if not hmac.compare_digest(self._text(stored), digest(secret)):\n            self.revoke_all_for_user(self._owner(series))\n            raise TokenTheft(series)\n        fresh = secrets.token_urlsafe(32)\n        self.redis.hset(self._key(series), "secret_hash", digest(fresh))\n        return fresh',
        "if not hmac.compare_digest(self._text(stored), digest(secret)):",
        "if not hmac.compare_digest(stored, digest(secret)):",
        "test_rotate_returns_a_new_secret",
        "TypeError: a bytes-like object is required, not 'str'",
        "redis-py hands back bytes because the pool was built without decode_responses, and compare_digest refuses to mix bytes with str",
        "web/cookies.py",
    ),
    Kind(
        "device_trust",
        "dev",
        "days=90",
        ("fingerprint", "label", "platform", "confirmed_at"),
        "holds at most five devices for a user; the one not seen for longest falls out",
        "trust",
        '        rows = self.db.all("SELECT id FROM device_trusts WHERE user_id = %s ORDER BY seen_at DESC", user_id)\n        for row in rows[self.LIMIT - 1 :]:\n            self.db.run("DELETE FROM device_trusts WHERE id = %s", row["id"])\n        return self.create(user_id, fingerprint=fingerprint, label=label, platform=platform, confirmed_at=self.clock())',
        "        while True:\n            with self.redis.pipeline() as pipe:\n                pipe.watch(self._index(user_id))\n                oldest = self._by_age(user_id)[: -(self.LIMIT - 1)]\n                pipe.multi()\n                for ident in oldest:\n                    self._drop(pipe, ident, user_id)\n                try:\n                    pipe.execute()\n                    break\n                except WatchError:\n                    continue\n        return self.create(user_id, fingerprint=fingerprint, label=label, platform=platform, confirmed_at=self.clock())",
        "oldest = self._by_age(user_id)[: -(self.LIMIT - 1)]",
        "oldest = self._by_age(user_id)[: -self.LIMIT]",
        "test_trust_drops_the_sixth_device",
        "AssertionError: assert 6 == 5",
        "the slice leaves five devices standing before the new one is added, so the limit is six in practice",
        "web/device_check.py",
    ),
    Kind(
        "api_key",
        "key",
        "days=3650",
        ("label", "scopes", "secret_hash", "last_four"),
        "carries scopes and is looked up by the hash of its secret, never by the secret",
        "authenticate",
        '        row = self.db.one("SELECT * FROM api_keys WHERE secret_hash = %s AND revoked_at IS NULL", digest(secret))\n        if row is None or not set(needed) <= set(row["scopes"].split()):\n            return None\n        self.db.run("UPDATE api_keys SET seen_at = %s WHERE id = %s", self.clock(), row["id"])\n        return ApiKey(**row)',
        "        ident = self._text(self.redis.get(self._lookup(digest(secret))))\n        if ident is None:\n            return None\n        key = self.find(ident)\n        if key is None or not set(needed) <= set(key.scopes.split()):\n            return None\n        self.touch(ident)\n        return key",
        "if key is None or not set(needed) <= set(key.scopes.split()):",
        "if key is None or not set(needed) <= set(key.scopes):",
        "test_authenticate_checks_every_scope",
        "AssertionError: assert None is not None",
        "a scope string compared as a set of letters can never contain 'bookings:read', so every partner key is refused",
        "partners/gateway.py",
    ),
    Kind(
        "password_reset",
        "pwr",
        "minutes=20",
        ("email", "code_hash", "requested_ip", "attempts"),
        "works once, and asking again makes the older letter worthless",
        "redeem",
        '        row = self.db.one("DELETE FROM password_resets WHERE code_hash = %s AND expires_at > %s RETURNING *", digest(code), self.clock())\n        if row is None:\n            self.audit.warn("reset.miss", code=code[:4])\n            raise ResetRefused("unknown or used code")\n        self.db.run("DELETE FROM password_resets WHERE user_id = %s", row["user_id"])\n        return int(row["user_id"])',
        '        ident = self._text(self.redis.getdel(self._lookup(digest(code))))\n        if ident is None:\n            raise ResetRefused("unknown or used code")\n        user_id = int(self._owner(ident))\n        self.revoke_all_for_user(user_id)\n        return user_id',
        "ident = self._text(self.redis.getdel(self._lookup(digest(code))))",
        "ident = self._text(self.redis.get(self._lookup(digest(code))))",
        "test_redeem_twice_is_refused",
        "Failed: DID NOT RAISE <class 'ferrydesk.auth.errors.ResetRefused'>",
        "GET leaves the lookup key behind; two clicks on the same letter both succeed until the TTL ends. GETDEL makes it one step",
        "web/reset_flow.py",
    ),
    Kind(
        "magic_link",
        "lnk",
        "minutes=10",
        ("email", "nonce", "booking_ref", "language"),
        "is bound to an e-mail address and a booking, and dies when the booking is cancelled",
        "follow",
        '        row = self.db.one("SELECT l.*, b.state FROM magic_links l JOIN bookings b USING (booking_ref) WHERE l.nonce = %s", nonce)\n        if row is None or row["state"] == "cancelled":\n            return None\n        if row["expires_at"] <= self.clock():\n            return None\n        self.db.run("DELETE FROM magic_links WHERE id = %s", row["id"])\n        return row["booking_ref"]',
        '        link = self.find(nonce)\n        if link is None or self.bookings.state(link.booking_ref) == "cancelled":\n            return None\n        if link.expires_at <= self.clock():\n            return None\n        self.revoke(nonce)\n        return link.booking_ref',
        "if link.expires_at <= self.clock():",
        "if link.expires_at <= datetime.utcnow():",
        "test_follow_refuses_a_stale_link",
        "TypeError: can't compare offset-naive and offset-aware datetimes",
        "utcnow() is naive while everything that comes out of the store carries UTC; Postgres hid this because the comparison ran in SQL",
        "bookings/letters.py",
    ),
    Kind(
        "kiosk_terminal",
        "ksk",
        "days=365",
        ("harbour", "serial", "firmware", "dark_since"),
        "must send a heartbeat every minute and goes dark after three missed ones",
        "heartbeat",
        '        changed = self.db.run("UPDATE kiosk_terminals SET seen_at = %s, firmware = %s, dark_since = NULL WHERE serial = %s", self.clock(), firmware, serial)\n        if not changed:\n            raise UnknownTerminal(serial)\n        self.audit.info("kiosk.heartbeat", serial=serial, firmware=firmware)\n        return self.clock() + timedelta(minutes=1)',
        '        key = self._key(serial)\n        if not self.redis.exists(key):\n            raise UnknownTerminal(serial)\n        self.redis.hset(key, mapping={"seen_at": self.clock().isoformat(), "firmware": firmware, "dark_since": ""})\n        self.redis.zadd(self._beats(), {serial: self.clock().timestamp()})\n        return self.clock() + timedelta(minutes=1)',
        '"firmware": firmware, "dark_since": ""})',
        '"firmware": firmware, "dark_since": None})',
        "test_heartbeat_brings_a_dark_kiosk_back",
        "redis.exceptions.DataError: Invalid input of type: 'NoneType'. Convert to a bytes, string, int or float first.",
        "Redis hashes have no null. An empty string has to stand for 'not dark', and _time() must read it back as None",
        "kiosk/boot.py",
    ),
    Kind(
        "crew_badge",
        "crew",
        "hours=16",
        ("vessel", "shift_id", "rank", "starts_at"),
        "opens doors only while the shift runs, on the vessel it was issued for",
        "opens",
        '        row = self.db.one("SELECT b.*, s.ends_at FROM crew_badges b JOIN shifts s ON s.id = b.shift_id WHERE b.id = %s", ident)\n        if row is None or row["vessel"] != vessel:\n            return False\n        early = row["starts_at"] - timedelta(minutes=15)\n        return early <= self.clock() <= row["ends_at"]',
        "        badge = self.find(ident)\n        if badge is None or badge.vessel != vessel:\n            return False\n        early = badge.starts_at - timedelta(minutes=15)\n        return early <= self.clock() <= self.shifts.ends_at(badge.shift_id)",
        "early = badge.starts_at - timedelta(minutes=15)",
        "early = badge.created_at - timedelta(minutes=15)",
        "test_opens_fifteen_minutes_before_the_shift",
        "assert False is True",
        "the badge is printed the evening before, so created_at is hours off; the shift's own start is what the door should ask",
        "crew/roster.py",
    ),
    Kind(
        "impersonation",
        "imp",
        "minutes=15",
        ("approver_id", "reason", "ticket", "banner"),
        "needs a reason and a second person, and every step of it is audited",
        "begin",
        '        if approver_id == user_id:\n            raise NotAllowed("nobody approves themselves")\n        if len(reason.split()) < 3:\n            raise NotAllowed("say why, in at least three words")\n        made = self.create(user_id, approver_id=approver_id, reason=reason, ticket=ticket, banner=True)\n        self.audit.warn("impersonation.begin", ident=made.id, approver=approver_id, ticket=ticket)\n        return made',
        '        if approver_id == user_id:\n            raise NotAllowed("nobody approves themselves")\n        if len(reason.split()) < 3:\n            raise NotAllowed("say why, in at least three words")\n        made = self.create(user_id, approver_id=approver_id, reason=reason, ticket=ticket, banner=True)\n        self.redis.xadd(self._trail(), {"event": "begin", "ident": made.id, "approver": approver_id, "ticket": ticket})\n        return made',
        'self.redis.xadd(self._trail(), {"event": "begin", "ident": made.id, "approver": approver_id, "ticket": ticket})',
        'self.redis.publish(self._trail(), f"begin {made.id} {approver_id} {ticket}")',
        "test_begin_leaves_a_trail",
        "AssertionError: assert [] == [{'event': 'begin', 'ticket': 'FD-2291'}]",
        "PUBLISH keeps nothing: with no subscriber connected the audit line is simply gone. A stream survives a restart of the auditor",
        "support/console.py",
    ),
)


def legacy() -> str:
    """Write `ferrydesk/auth/sessions.py`: nine classes over Postgres in one file that everybody is afraid of."""
    head = (
        '"""Everything that proves who somebody is. One class per kind, all of them over Postgres.\n\nHISTORY: started as forty lines in 2019. Please do not add a tenth kind before this is split (FD-1180).\n"""\n\nfrom __future__ import annotations\n\nimport hmac\nimport secrets\nfrom datetime import datetime, timedelta\n\nfrom ferrydesk.auth.audit import Audit\nfrom ferrydesk.auth.errors import NotAllowed, ResetRefused, TokenTheft, UnknownTerminal\nfrom ferrydesk.auth.hashing import digest\nfrom ferrydesk.auth.models import '
        + ", ".join(k.cls for k in KINDS)
        + "\nfrom ferrydesk.db.pool import Database\n\n"
    )
    return head + "".join(_legacy_class(kind) for kind in KINDS)


def _legacy_class(k: Kind) -> str:
    columns, marks = ", ".join(k.fields), ", ".join(["%s"] * (len(k.fields) + 5))
    wants = ", ".join(f"{f}: object = None" for f in k.fields)
    return f'''
class {k.cls}Table:
    """{k.cls.replace("_", " ")}s in table `{k.table}`. A {k.name.replace("_", " ")} {k.rule}."""

    LIFE = timedelta({k.life})
    LIMIT = 5

    def __init__(self, db: Database, audit: Audit, clock=datetime.now) -> None:
        self.db = db
        self.audit = audit
        self.clock = clock

    def create(self, user_id: int, *, {wants}) -> {k.cls}:
        now = self.clock()
        ident = secrets.token_hex(16)
        row = self.db.one(
            "INSERT INTO {k.table} (id, user_id, created_at, seen_at, expires_at, {columns})"
            " VALUES ({marks}) RETURNING *",
            ident, user_id, now, now, now + self.LIFE, {columns},
        )
        self.audit.info("{k.name}.create", user_id=user_id, ident=ident)
        return {k.cls}(**row)

    def find(self, ident: str) -> {k.cls} | None:
        row = self.db.one("SELECT * FROM {k.table} WHERE id = %s AND revoked_at IS NULL", ident)
        if row is None:
            return None
        if row["expires_at"] <= self.clock():
            self.db.run("DELETE FROM {k.table} WHERE id = %s", ident)
            return None
        return {k.cls}(**row)

    def {k.method}(self, {TAKES[k.name]}):
        """A {k.name.replace("_", " ")} {k.rule}."""
{k.legacy}

    def touch(self, ident: str) -> None:
        self.db.run("UPDATE {k.table} SET seen_at = %s WHERE id = %s AND revoked_at IS NULL", self.clock(), ident)

    def revoke(self, ident: str, *, by: int | None = None) -> bool:
        changed = self.db.run("UPDATE {k.table} SET revoked_at = %s WHERE id = %s AND revoked_at IS NULL", self.clock(), ident)
        if changed:
            self.audit.info("{k.name}.revoke", ident=ident, by=by)
        return bool(changed)

    def revoke_all_for_user(self, user_id: int, *, spare: str | None = None) -> int:
        rows = self.db.all("SELECT id FROM {k.table} WHERE user_id = %s AND revoked_at IS NULL", user_id)
        doomed = [row["id"] for row in rows if row["id"] != spare]
        for ident in doomed:
            self.revoke(ident, by=user_id)
        return len(doomed)

    def list_active(self, user_id: int) -> list[{k.cls}]:
        rows = self.db.all(
            "SELECT * FROM {k.table} WHERE user_id = %s AND revoked_at IS NULL AND expires_at > %s ORDER BY seen_at DESC",
            user_id, self.clock(),
        )
        return [{k.cls}(**row) for row in rows]

    def purge_expired(self, *, batch: int = 500) -> int:
        gone = 0
        while changed := self.db.run(
            "DELETE FROM {k.table} WHERE id IN (SELECT id FROM {k.table} WHERE expires_at <= %s LIMIT %s)", self.clock(), batch
        ):
            gone += changed
        self.audit.info("{k.name}.purge", gone=gone)
        return gone

    def count(self) -> int:
        return int(self.db.one("SELECT count(*) AS n FROM {k.table} WHERE revoked_at IS NULL")["n"])

'''


def port(k: Kind) -> str:
    """Write the Redis store of one kind as it should be; `Kind.good` is the line that will first be wrong."""
    wants = ", ".join(f"{f}: object = None" for f in k.fields)
    pairs = ", ".join(f'"{f}": {f}' for f in k.fields)
    return f'''"""{k.cls} in Redis. A {k.name.replace("_", " ")} {k.rule}.

Keys, all below `ferrydesk:<tenant>:`
    {k.prefix}:<id>             hash, dies with the {k.name.replace("_", " ")}
    {k.prefix}:user:<user_id>   set of ids, cleaned when read
"""

from __future__ import annotations

import hmac
import secrets
from datetime import datetime, timedelta

from redis import Redis
from redis.exceptions import WatchError

from ferrydesk.auth.errors import NotAllowed, ResetRefused, TokenTheft, UnknownTerminal
from ferrydesk.auth.hashing import digest
from ferrydesk.auth.models import {k.cls}
from ferrydesk.auth.stores.base import Store


class {k.cls}Store(Store[{k.cls}]):
    PREFIX = "{k.prefix}"
    LIFE = timedelta({k.life})
    LIMIT = 5

    def create(self, user_id: int, *, {wants}) -> {k.cls}:
        now, ident = self.clock(), secrets.token_hex(16)
        fields = {{{pairs}}}
        with self.redis.pipeline() as pipe:
            pipe.hset(self._key(ident), mapping=self._flat(user_id, now, fields))
            pipe.expire(self._key(ident), self.LIFE)
            pipe.sadd(self._index(user_id), ident)
            pipe.execute()
        return self._load(ident)

    def {k.method}(self, {TAKES[k.name]}):
        """A {k.name.replace("_", " ")} {k.rule}."""
{k.port}

    def revoke(self, ident: str, *, by: int | None = None) -> bool:
        owner = self._owner(ident)
        with self.redis.pipeline() as pipe:
            pipe.delete(self._key(ident))
            pipe.srem(self._index(owner), ident)
            gone, _ = pipe.execute()
        return bool(gone)

    def list_active(self, user_id: int) -> list[{k.cls}]:
        found = [(ident, self._load(ident)) for ident in self._members(user_id)]
        dead = [ident for ident, item in found if item is None]
        if dead:
            self.redis.srem(self._index(user_id), *dead)
        return sorted((item for _, item in found if item), key=lambda item: item.seen_at, reverse=True)
'''


def tests(k: Kind) -> str:
    """Write the tests of one kind."""
    n, store = k.name, f"{k.name}_store"
    first = k.fields[0]
    special = k.test.removeprefix("test_")
    return f'''"""What a {n.replace("_", " ")} promises, whichever database it lives in."""

from datetime import timedelta

import pytest

from ferrydesk.auth.errors import ResetRefused, TokenTheft


def test_create_then_find({store}, user):
    made = {store}.create(user.id, {first}="first")
    assert {store}.find(made.id) == made


def test_find_unknown_gives_none({store}):
    assert {store}.find("0" * 32) is None


def test_touch_moves_seen_at({store}, user, clock):
    made = {store}.create(user.id, {first}="touched")
    clock.move(minutes=3)
    {store}.touch(made.id)
    assert {store}.find(made.id).seen_at == clock()


def test_revoke_is_final({store}, user):
    made = {store}.create(user.id)
    assert {store}.revoke(made.id) is True
    assert {store}.revoke(made.id) is False
    assert {store}.find(made.id) is None


def test_revoke_all_spares_the_current_one({store}, user, other_user):
    mine = [{store}.create(user.id, {first}=str(i)) for i in range(3)]
    theirs = {store}.create(other_user.id)
    assert {store}.revoke_all_for_user(user.id, spare=mine[1].id) == 2
    assert [s.id for s in {store}.list_active(user.id)] == [mine[1].id]
    assert {store}.find(theirs.id) is not None


def test_expired_ones_are_not_listed({store}, user, clock):
    {store}.create(user.id, {first}="old")
    clock.move_by({store}.LIFE + timedelta(seconds=1))
    fresh = {store}.create(user.id, {first}="new")
    assert [s.id for s in {store}.list_active(user.id)] == [fresh.id]


def test_purge_reports_how_many({store}, user, clock):
    for i in range(7):
        {store}.create(user.id, {first}=str(i))
    clock.move_by({store}.LIFE * 2)
    assert {store}.purge_expired() == 7


def test_{special}({store}, user, clock, given_{n}):
    """A {n.replace("_", " ")} {k.rule}."""
    case = given_{n}(user, clock)
    outcome = case.run({store}.{k.method})
    assert outcome == case.expected, case.story


def test_count_agrees_with_list({store}, user):
    for i in range(4):
        {store}.create(user.id, {first}=str(i))
    assert {store}.count() == len({store}.list_active(user.id)) == 4
'''


def caller(k: Kind) -> str:
    """Write a module elsewhere in the service that uses one kind."""
    topic = k.caller.split("/")[1].removesuffix(".py")
    n = k.name
    return f'''"""{topic.replace("_", " ").title()} of the ferry line. Uses the {n.replace("_", " ")} table directly (should not)."""

import logging

from ferrydesk.auth.sessions import {k.cls}Table
from ferrydesk.db.pool import database
from ferrydesk.web.context import Request

log = logging.getLogger(__name__)
table = {k.cls}Table(database(), audit=None)


def open_{topic}(request: Request) -> dict:
    """Start {topic.replace("_", " ")} for whoever is signed in."""
    user = request.user
    found = [item for item in table.list_active(user.id) if item.{k.fields[0]}]
    log.info("{topic}.open user=%s {n}s=%d", user.id, len(found))
    if not found:
        made = table.create(user.id, {k.fields[0]}=request.header("x-{k.fields[0].replace("_", "-")}"))
        return {{"{n}": made.id, "fresh": True}}
    table.touch(found[0].id)
    return {{"{n}": found[0].id, "fresh": False}}


def close_{topic}(request: Request, *, everywhere: bool = False) -> int:
    """End {topic.replace("_", " ")}; `everywhere` also ends it on other devices."""
    if everywhere:
        return table.revoke_all_for_user(request.user.id)
    return int(table.revoke(request.cookie("{k.prefix}")))
'''


PUBLIC = '''"""Who is signed in. The public face of authentication: import from here and from nowhere deeper.

The crew app and the harbour kiosks vendor this signature list and are released twice a year.
"""

from ferrydesk.auth.models import Session, User
from ferrydesk.auth.sessions import SessionTable
from ferrydesk.auth.hashing import verify
from ferrydesk.db.pool import database

__all__ = ["current_user", "login", "logout", "refresh"]

_table = SessionTable(database(), audit=None)


def login(username: str, password: str, *, remember: bool = False) -> Session:
    """Sign somebody in, or raise BadCredentials."""
    user = verify(username, password)
    return _table.create(user.id, remember=remember)


def logout(token: str) -> None:
    """End the session behind a token. Unknown tokens are no error."""
    _table.revoke(token)


def current_user(request) -> User | None:
    """Give the signed-in user of a request, or None."""
    found = _table.find(request.cookie("sess"))
    return User.by_id(found.user_id) if found else None


def refresh(token: str) -> Session | None:
    """Slide a session forward; None when it is gone."""
    _table.slide(token)
    return _table.find(token)
'''

BROKEN = '''"""Who is signed in. Asynchronous since sessions moved to Redis."""

from ferrydesk.auth.hashing import verify
from ferrydesk.auth.models import Session, User
from ferrydesk.auth.stores.session import SessionStore
from ferrydesk.redis.pool import connection

__all__ = ["close_session", "get_current_user", "open_session", "refresh_session"]


async def open_session(username: str, password: str, store: SessionStore, *, remember: bool = False) -> Session:
    """Sign somebody in, or raise BadCredentials."""
    user = await verify(username, password)
    return await store.create(user.id, remember=remember)


async def close_session(token: str, store: SessionStore) -> None:
    """End the session behind a token."""
    await store.revoke(token)


async def get_current_user(request, store: SessionStore) -> User | None:
    """Give the signed-in user of a request, or None."""
    found = await store.find(request.cookie("sess"))
    return await User.by_id(found.user_id) if found else None


async def refresh_session(token: str, store: SessionStore) -> Session | None:
    """Slide a session forward; None when it is gone."""
    await store.slide(token)
    return await store.find(token)
'''

MENDED = (
    PUBLIC.replace(
        "from ferrydesk.auth.sessions import SessionTable\n", "from ferrydesk.auth.stores.session import SessionStore\n"
    )
    .replace("from ferrydesk.db.pool import database", "from ferrydesk.redis.pool import connection")
    .replace("_table = SessionTable(database(), audit=None)", "_store = SessionStore(connection())")
    .replace("_table.", "_store.")
)

BASE = '''"""What every Redis store shares: keys, flat hashes, and reading them back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Generic, TypeVar

from redis import Redis

T = TypeVar("T")


class Store(Generic[T]):
    PREFIX = ""

    def __init__(self, redis: Redis, *, tenant: str = "main", clock=lambda: datetime.now(UTC)) -> None:
        self.redis = redis
        self.tenant = tenant
        self.clock = clock

    def _key(self, ident: str) -> str:
        return f"ferrydesk:{self.tenant}:{self.PREFIX}:{ident}"

    def _index(self, user_id: int) -> str:
        return self._key(f"user:{user_id}")

    def _lookup(self, hashed: str) -> str:
        return self._key(f"by:{hashed}")

    @staticmethod
    def _text(value: bytes | str | None) -> str | None:
        return value.decode() if isinstance(value, bytes) else value

    def _time(self, value: bytes | str | None) -> datetime | None:
        text = self._text(value)
        return datetime.fromisoformat(text) if text else None
'''

CONFTEST = '''"""Fixtures of the auth tests: a frozen clock, two users, a store per kind."""

import fakeredis
import pytest

from ferrydesk.auth import stores


class Clock:
    def __init__(self, now):
        self.now = now

    def __call__(self):
        return self.now

    def move(self, **by):
        self.now += timedelta(**by)

    def move_by(self, delta):
        self.now += delta


@pytest.fixture
def redis():
    return fakeredis.FakeRedis(version=7)
'''


def files() -> dict[str, str]:
    """Give every file of the repository as it is before the work begins."""
    made = {"ferrydesk/auth/__init__.py": PUBLIC, "ferrydesk/auth/sessions.py": legacy(), "tests/auth/conftest.py": CONFTEST}
    for k in KINDS:
        made[k.tests] = tests(k)
        made[f"ferrydesk/{k.caller}"] = caller(k)
    made["ferrydesk/config.py"] = (
        '"""Settings, read once at start."""\n\nimport os\n\nDATABASE_URL = os.environ["DATABASE_URL"]\n'
        'SESSION_COOKIE = os.environ.get("SESSION_COOKIE", "sess")\nTENANT = os.environ.get("TENANT", "main")\n'
        'LOG_LEVEL = os.environ.get("LOG_LEVEL", "INFO")\n'
    )
    made["clients/crew-app/src/api/auth.ts"] = (
        "// Generated from ferrydesk.auth 4.2: login, logout, current_user, refresh. Do not edit.\n"
        'export const endpoints = ["login", "logout", "current_user", "refresh"] as const;\n'
    )
    made["clients/kiosk-firmware/bridge.py"] = (
        '"""Runs on the terminals. Python 3.9, no event loop."""\n\nfrom ferrydesk.auth import current_user, login, logout, refresh\n\n\n'
        "def sign_in(card):\n    session = login(card.number, card.pin)\n    return session.id\n\n\n"
        "def who(request):\n    user = current_user(request)\n    return user.name if user else None\n"
    )
    return made
