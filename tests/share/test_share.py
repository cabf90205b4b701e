"""What is handed on of a session: nothing private, the same numbers at every level, one file that needs no network."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import turnscope
from claude_log import Log, call
from turnscope import figures
from turnscope.cli import main
from turnscope.counting.ledger import Ledger
from turnscope.library.opening import load_policy, load_prices
from turnscope.numbering import format_request
from turnscope.planning.trace import Trace, trace
from turnscope.session.model import Session
from turnscope.share import html_charts
from turnscope.share import report as reports
from turnscope.share.private_data import mask_text
from turnscope.share.redact import LEVELS, Level, RedactedSession, RedactionError, redact
from turnscope.share.report import build_report
from turnscope.views.events import EVENTS
from turnscope.views.expensive_requests import find_expensive_requests
from turnscope.views.overview import CELLS, LABELS, Overview, build_overview
from turnscope.views.phrases import format_usd
from turnscope.views.request_summary import annotate

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = sorted((ROOT / "sample_sessions").glob("*.jsonl"))
# Fifty secrets and personal data, put together here, so that no scanner takes this file for a leak.
A, N, H = "abcdefghijklmnopqrstuvwxyz", "0123456789", "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
UP = A.upper()
SECRETS = [
    f"sk-ant-{'api03'}-{A}{N}{UP}",
    f"sk-proj-{UP}{N}{A}",
    f"sk-{A}{N}{UP[:10]}T3Blbk",
    f"{'gh'}p_{A}{N}",
    f"github_{'pat'}_{A}{N}",
    f"{'glpat'}-{A[:20]}",
    f"AKIA{UP[:16]}",
    f"AIza{A}{N[:9]}",
    f"ya29.{A}{N}",
    f"xox{'b'}-{N}-{N}-{A}",
    f"https://hooks.{'slack'}.com/services/T{N}/B{N}/{A}",
    f"hf_{A}{N}",
    f"npm_{A}{N}",
    f"pypi-AgEIcHlwaS5vcmc{A}{N}{UP}{A}",
    f"SG.{A[:22]}.{A}{UP[:17]}",
    f"{'sk'}_live_{A[:24]}",
    f"{'rk'}_test_{A[:24]}",
    f"gsk_{A}{N}",
    f"r8_{A}{N}",
    f"xai-{A}{N}",
    f"eyJ{A}.{A}.{UP}",
    f"dop_v1_{H}{H}",
    f"hvs.{A}{N}",
    f"shpat_{H}",
    f"lin_api_{A}{N}",
    f"{'dapi'}{H}",
    f"glsa_{A}{N}",
    f"whsec_{A}{N}",
    f"AC{H}",
    f"{N[:9]}:{A}{N[:9]}",
    f"-----BEGIN RSA PRIVATE {'KEY'}-----\nMIIEowIBAAKCAQEA{UP}\n-----END RSA PRIVATE {'KEY'}-----",
    f"postgres://bob:{'hunter2hunter'}@db/prod",
    f"password = '{'correct horse battery'}'",
    f"Authorization: Bearer {A}{N}",
    f"api_key: {UP}{N}",
    f'aws_secret_access_key = "wJalrXUtnFEMIK7MDENGbPxRfiCY{UP[:12]}"',
    f"https://x.blob/a?sig={A}{N}",
    "AccountKey=" + UP + A + N + UP[:24] + "==",
]
PERSONAL = [
    "jane.doe@example.com",
    "o'brien+work@mail.example.co.uk",
    "+49 170 1234567",
    "+1 (415) 555-2671",
    "415-555-2671",
    "4111 1111 1111 1111",
    "5500005555555559",
    "DE89 3704 0044 0532 0130 00",
    "123-45-6789",
    "203.0.113.77",
    "2001:db8::8a2e:370:7334",
    "00:1B:44:11:3A:B7",
]
HARMLESS = (
    "commit 41e7521aabbccddeeff00112233445566778899a at 2026-11-22 12:30:45, version 1.24.3 and 10.2.0.1-beta, id "
    "3f2504e0-4f89-11d3-9a0c-0305e82c3301, 1774944164707 ms, localhost 127.0.0.1:8501, max_tokens = 16000, a[12345]: 0.000123; "
    "token_count: 12345678901234; password: str, secret=None, def token(self, value: str) -> int, 4111 1111 1111 1112"
)


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Session]:
    """A session with all of them: in prompts, results and calls, with a user's name, and a summary that repeats some."""
    log = Log()
    log.user("Deploy for janedoe; reach her at " + PERSONAL[0])
    for n, secret in enumerate([*SECRETS, *PERSONAL]):
        log.answer(f"a{n}", call(f"c{n}", command=f"curl -H '{secret}' https://example.com"), usage=(100 + 90 * n, 0, 0, 30))
        log.result(f"c{n}", f"exit 0\n{secret}\nin /Users/{'janedoe'}/src")
    log.compact(f"So far: {SECRETS[0]} and {PERSONAL[2]} of janedoe.")
    log.answer("last", "Done for janedoe.", usage=(900, 0, 0, 12))
    path = log.save(tmp_path_factory.mktemp("seeded") / "deploy.jsonl")
    return path, turnscope.load(path)


@pytest.mark.parametrize("secret", [*SECRETS, *PERSONAL])
def test_it_is_found_alone_and_amid_a_text(secret: str) -> None:
    for text in (secret, f"It is {secret} and no other.", f'{{"value": "{secret}"}}'):
        told, kinds = mask_text(text)
        assert kinds, text
        assert secret not in told


def test_what_is_no_secret_stays() -> None:
    assert mask_text(HARMLESS) == (HARMLESS, [])


@pytest.mark.parametrize("level", ["structure", "no content", "masked"])
def test_nothing_private_is_in_the_file(seeded: tuple[Path, Session], level: Level) -> None:
    made = build_report(seeded[1], level)
    for out in (made.html, made.markdown):
        told = unescape(out)
        for secret in (*SECRETS, *PERSONAL, "janedoe"):
            assert secret not in told
            assert secret not in out
    if level == "masked":
        assert "exit 0" in made.html
        assert sum(count for _, count in made.removed) >= 45
        return
    for block in seeded[1].blocks:
        assert not [line for line in block.text.splitlines() if len(line) >= 8 and line in unescape(made.html)]


@pytest.mark.thorough(every=6)
@pytest.mark.parametrize("path", SAMPLES[:3], ids=lambda path: path.stem)
@pytest.mark.parametrize("level", [*LEVELS])
def test_every_level_has_the_same_numbers(path: Path, level: Level) -> None:
    session = turnscope.load(path)
    known = turnscope.replay(session)
    given = redact(session, known.ledger, level)
    again = trace(given.session, load_policy("as-recorded"), given.ledger, load_prices().add_evidence(given.session))
    before, after = build_overview(known), build_overview(again)
    assert np.array_equal(before.cells, after.cells)
    assert np.array_equal(before.usd, after.usd)
    assert (before.total, before.models) == (after.total, after.models)
    assert [plan.verdict for plan in known.plans] == [plan.verdict for plan in again.plans]


class _Asks(HTMLParser):
    """What a page would load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        names = {name for name, _ in attributes}
        if tag in ("script", "link", "img", "iframe", "object", "embed", "form", "a", "base") or names & {
            "src",
            "href",
            "srcset",
        }:
            self.found.append(tag)
        self.found += [name for name in names if name.startswith("on")]


@pytest.mark.thorough
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_the_file_asks_nothing_of_anybody(path: Path) -> None:
    session = turnscope.load(path)
    made = build_report(session, "full")
    asks = _Asks()
    asks.feed(made.html)
    assert not asks.found
    assert not re.search(r"url\(|@import", made.html)
    assert len(made.html.encode()) < 5e6
    parts = build_overview(turnscope.replay(session)).cells.any(axis=0).sum()
    assert made.html.count("<polygon") == parts >= 2


@pytest.mark.thorough
def test_the_stack_and_the_words_are_those_of_the_app() -> None:
    session = turnscope.load(ROOT / "sample_sessions" / "tool-results-eat-the-window.jsonl")
    made, view = build_report(session, "masked"), annotate(*load_overview(session))[0]
    names = [name for name in figures.STACK if view.cells[:, CELLS.index(name)].any()]
    assert re.findall(r'<polygon fill="var\(--([a-z-]+)\)"', made.html) == [name.replace("_", "-") for name in names]
    legend = html_charts.strip_tags(re.findall(r"<p class=legend>.*?</p>", made.html)[0]).split("\n")
    assert [part for part in legend if part in LABELS.values()] == [LABELS[name] for name in names]
    for kind, _, _ in figures.list_legend(view):
        assert EVENTS[kind].format_count(sum(mark.kind == kind for mark in view.markers)) in legend
    dearest = find_expensive_requests(turnscope.replay(session), view)
    shown = re.findall(r"<tr><td class=n>([\d,]+)</td><td class=n>\$", made.html)
    assert shown == [format_request(one.request) for one in dearest]


def load_overview(session: Session) -> tuple[Trace, Overview]:
    trace = turnscope.replay(session)
    return trace, build_overview(trace)


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    log = Log()
    log.user("</pre><script>window.pwned=1</script><img src=//evil.test/x> `code` [link](http://evil.test) ![i](//evil.test)")
    log.answer("a", call("c", "<b onclick=1>"), usage=(90_000, 0, 0, 5))
    log.result("c", "<style>@import url(//evil.test)</style>")
    log.answer("b", "done", usage=(170_000, 0, 0, 5))
    made = build_report(turnscope.load(log.save(tmp_path / "hostile.jsonl")), "full")
    asks = _Asks()
    asks.feed(made.html)
    assert not asks.found
    assert "<script" not in made.markdown
    assert "](http" not in made.markdown


@pytest.mark.parametrize("level", ["structure", "no content", "masked"])
def test_it_fails_closed(seeded: tuple[Path, Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, level: Level) -> None:
    def careless(session: Session, ledger: Ledger, _: Level, _words: object) -> RedactedSession:
        return replace(redact(session, ledger, "full"), level=level, values=frozenset((SECRETS[0],)))

    monkeypatch.setattr(reports, "_render_footer", lambda given: " ".join(block.text for block in given.session.blocks))
    monkeypatch.setattr(reports, "redact", careless)
    with pytest.raises(RedactionError, match="to be removed"):
        build_report(seeded[1], level)
    assert main(["share", str(seeded[0]), str(tmp_path / "out.html"), "--level", level]) == 1
    assert not (tmp_path / "out.html").exists()


def test_the_command_writes_a_report_and_a_summary(
    seeded: tuple[Path, Session], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("out.html", "out.md"):
        assert main(["share", str(seeded[0]), str(tmp_path / name), "--level", "masked"]) == 0
        assert "API key" in capsys.readouterr().out
    assert (tmp_path / "out.html").read_text().startswith("<!doctype html>")
    assert "| pass |" in (tmp_path / "out.md").read_text()
    assert main(["share", str(tmp_path / "none"), str(tmp_path / "x.html")]) == 2


@pytest.mark.thorough
@pytest.mark.parametrize("level", LEVELS)
def test_other_policies_have_the_numbers_of_the_comparison_at_every_level(level: Level) -> None:
    session = turnscope.load(ROOT / "sample_sessions" / "cache-goes-cold.jsonl")
    names = ("as-recorded", "last-20-messages", "condense-oldest")
    made = turnscope.compare(session, names)
    html = unescape(build_report(session, level, names[1:]).html)
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", html[html.index("The same session under other policies") :])
    for row in made.rows:
        begin = cells.index(row.title)
        assert cells[begin + 1].startswith(f"{format_usd(row.usd)} (×{row.factor:.2f})")
        assert cells[begin + 5] == f"{len(row.losses.hits):,}"
