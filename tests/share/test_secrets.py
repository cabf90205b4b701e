"""Secrets of sixty kinds, in eight contexts and many encodings: a report has nothing of them but at the level `full`."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from urllib.parse import quote

import pytest
import turnscope
from claude_log import Log, call
from turnscope.share.private_data import mask_text
from turnscope.share.report import build_report

HEX, LOW, UP, DIGITS = "0123456789abcdef", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789"
WORD = LOW + UP + DIGITS
Draw = Callable[..., str]


def kinds(draw: Draw) -> list[tuple[str, str]]:
    """A text in which a secret is recognised, and the secret. Put together here, so that no scanner takes them for leaks."""
    own = [  # recognised by their form
        *("gh" + one + "_" + draw(WORD, 36) for one in "pousr"),
        *(f"github_{'pat'}_{draw(WORD, 40)}", f"{'glpat'}-{draw(WORD, 20)}", f"sk-ant-{'api03'}-{draw(WORD, 60)}"),
        *(f"sk-{'proj'}-{draw(WORD, 48)}", f"AKIA{draw(UP + '234567', 16)}", f"AIza{draw(WORD, 35)}", f"ya29.{draw(WORD, 50)}"),
        *(f"xox{'b'}-{draw(DIGITS, 12)}-{draw(WORD, 24)}", f"xapp-1-{draw(WORD, 40)}", f"hf_{draw(WORD, 34)}"),
        *(f"npm_{draw(WORD, 36)}", f"pypi-AgEI{draw(WORD, 60)}", f"SG.{draw(WORD, 22)}.{draw(WORD, 43)}"),
        *(f"{'sk'}_live_{draw(WORD, 24)}", f"{'rk'}_test_{draw(WORD, 24)}", f"gsk_{draw(WORD, 52)}", f"r8_{draw(WORD, 37)}"),
        *(f"xai-{draw(WORD, 80)}", f"dop_v1_{draw(HEX, 64)}", f"hvs.{draw(WORD, 90)}", f"shpat_{draw(HEX, 32)}"),
        *(f"lin_api_{draw(WORD, 40)}", f"{'dapi'}{draw(HEX, 32)}", f"glsa_{draw(WORD, 32)}", f"whsec_{draw(WORD, 32)}"),
        *(f"AC{draw(HEX, 32)}", f"{draw('123456789', 9)}:AA{draw(WORD, 33)}", f"dckr_pat_{draw(WORD, 27)}"),
        *(f"GOCSPX-{draw(WORD, 28)}", f"key-{draw(HEX, 32)}", f"{draw(HEX, 32)}-us12", f"sq0csp-{draw(WORD, 43)}"),
        *(f"pul-{draw(HEX, 40)}", f"rubygems_{draw(HEX, 48)}", f"eyJ{draw(WORD, 20)}.eyJ{draw(WORD, 40)}.{draw(WORD, 43)}"),
        f"https://hooks.{'slack'}.com/services/T{draw(UP, 8)}/B{draw(UP, 8)}/{draw(WORD, 24)}",
        f"M{draw(WORD, 23)}.{draw(WORD, 6)}.{draw(WORD, 27)}",
    ]
    password = [draw(WORD, 9) + "@!xyz" for _ in range(20)]
    body = "\n".join(draw(WORD + "+/", 64) for _ in range(4))
    told = [  # recognised by what stands around them
        *((f'DB_PASSWORD="{p}"', p) for p in password[:1]),
        *((f"POSTGRES_PASSWORD: {p}", p) for p in password[1:2]),
        *((f"export MYSQL_PWD='{p}'", p) for p in password[2:3]),
        *((f'{{"userPassword": "{p}"}}', p) for p in password[3:4]),
        *((f"mysql --password={p} prod", p) for p in password[4:5]),
        *((f"curl -u admin:{p} https://a.test", p) for p in password[5:6]),
        *((f"Server=db;User Id=sa;Password={p};", p) for p in password[6:7]),
        *((f"machine a.test login bob password {p}", p) for p in password[7:8]),
        *((f"<password>{p}</password>", p) for p in password[8:9]),
        *((f"postgres://bob:{p}@db/prod", p) for p in [draw(WORD, 16)]),
        *((f"Cookie: sessionid={p}; theme=dark", p) for p in [draw(WORD, 32)]),
        *((f"Set-Cookie: sid={p}; HttpOnly", p) for p in [draw(WORD, 32)]),
        *((f"Authorization: Token {p}", p) for p in [draw(WORD, 40)]),
        *((f"X-Api-Key: {p}", p) for p in [draw(HEX, 40)]),
        *((f"aws_secret_access_key = {p}", p) for p in [draw(WORD, 40)]),
        *((f"AccountKey={p}==;", p) for p in [draw(WORD, 86)]),
        *((f"https://a.test/x?api_key={p}", p) for p in [draw(WORD, 24)]),
        *((f"JWT_SECRET={p}", p) for p in [draw(WORD, 18)]),
        *(
            (f"-----BEGIN RSA PRIVATE {'KEY'}-----\n{body}\n-----END RSA PRIVATE {'KEY'}-----", line)
            for line in body.split()[1:2]
        ),
    ]
    return [*((text, text) for text in own), *told]


CONTEXTS: tuple[Callable[[str], str], ...] = (
    lambda s: s,
    lambda s: f"It is {s} and no other.",
    lambda s: f'{{"value": "{s}", "n": 3}}',
    lambda s: f"2026-11-24 03:12:09 WARN auth failed for {s}",
    lambda s: f"- name: X\n  value: {s}\n",
    lambda s: f"curl 'https://a.test/login?next={s}&n=1'",
    lambda s: f"| a | {s} |\n| b | c |",
    lambda s: f"print('{s}')  # as before",
)
ENCODINGS: dict[str, Callable[[str], str]] = {
    "as it is": lambda s: s,
    "base64": lambda s: base64.b64encode(s.encode()).decode(),
    "base64 of a header": lambda s: base64.b64encode(f"x:{s}".encode()).decode(),
    "base64 in another alignment": lambda s: base64.urlsafe_b64encode(f"Bearer {s}, so".encode()).decode(),
    "hex": lambda s: s.encode().hex(),
    "quoted for an address": lambda s: "".join(f"%{byte:02X}" for byte in s.encode()),
    "quoted where needed": lambda s: quote(s, safe=""),
    "escaped": lambda s: "".join(f"\\u{ord(char):04x}" for char in s),
    "JSON": lambda s: json.dumps(s)[1:-1].replace("/", "\\/"),
    "HTML": html.escape,
    "other case": lambda s: s.upper(),
    "backwards": lambda s: s[::-1],
}


def make(seed: int) -> list[tuple[str, str]]:
    random = Random(seed)
    return kinds(lambda letters, size: "".join(random.choice(letters) for _ in range(size)))


def test_there_are_sixty_kinds() -> None:
    assert len(make(1)) >= 60


@pytest.mark.parametrize("text", [text for text, _ in make(1)])
def test_each_is_recognised_in_each_context(text: str) -> None:
    secret = dict(make(1))[text]
    for context in CONTEXTS:
        if text == secret or context is CONTEXTS[0] or context is CONTEXTS[1]:
            assert secret not in mask_text(context(text))[0], context(text)


@pytest.mark.thorough(every=7)
@pytest.mark.parametrize("level", ["structure", "no content", "masked"])
@pytest.mark.parametrize("seed", range(5))
def test_no_report_has_one_of_three_hundred(seed: int, level: str, tmp_path: Path) -> None:
    """Each is recognised at one place, and stands in a context and an encoding of its own at others."""
    log, random, seeded = Log(), Random(seed), make(seed)
    log.user("Look.")
    for n, (text, secret) in enumerate(seeded):
        context, (name, encode) = CONTEXTS[n % 8], random.choice([*ENCODINGS.items()])
        log.answer(f"a{n}", call(f"c{n}", command=context(encode(secret))), usage=(100 + 90 * n, 0, 0, 30))
        log.result(f"c{n}", f"{text}\n{random.choice(CONTEXTS)(secret)}")
        log.answer(f"b{n}", f"It was {encode(secret)}, {name}.", usage=(150 + 90 * n, 0, 0, 30))
        log.user(random.choice(CONTEXTS)(encode(secret)))
    session = turnscope.load(log.save(tmp_path / "seeded.jsonl"))
    made = build_report(session, level, ())  # type: ignore[arg-type]
    out = html.unescape(made.html) + made.html + made.markdown
    found = [(text, name) for text, secret in seeded for name, encode in ENCODINGS.items() if encode(secret) in out]
    assert not found


def test_words_of_ones_own_are_taken_out(tmp_path: Path) -> None:
    log = Log()
    log.user("Ask Ottilie Brandt of Heron & Sons.")
    log.answer("a", "Ottilie Brandt says no.", usage=(100, 0, 0, 5))
    session = turnscope.load(log.save(tmp_path / "words.jsonl"))
    made = build_report(session, "masked", (), ["Ottilie Brandt", "Heron & Sons"])
    assert "Ottilie" not in made.html
    assert "Heron" not in made.html
    assert dict(made.removed)["word"] == 2
