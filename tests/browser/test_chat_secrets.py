"""A key that is typed on the chat page and echoed by its server is read nowhere: not on the page, in a file, nor in `/proc`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from chat_page import go_to, send
from conftest import ROOT, STARTUP_SECONDS, WAIT, free_port, healthy, idle, let_go, make_environment
from malformed.rogue import Rogue
from malformed.test_secrets import KEY, wrongs

from tests.tap.upstream import wait_for

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


@pytest.fixture
def rogue() -> Iterator[Rogue]:
    with let_go(Rogue()) as server:
        yield server


@contextmanager
def start_app(folder: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The command `turnscope`, as a person starts it: its address, and its process."""
    port = free_port()
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC_", "STREAMLIT_"))}
    with (folder / "server.log").open("wb") as log:
        command = [sys.executable, "-m", "turnscope", "--no-browser", "--port", str(port)]
        process = subprocess.Popen(command, cwd=ROOT, env=env | make_environment(folder), stdout=log, stderr=subprocess.STDOUT)
        try:
            until = time.monotonic() + STARTUP_SECONDS
            while not healthy(f"http://127.0.0.1:{port}"):
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}", process
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)


def ours(root: int) -> list[int]:
    """A process and all that it started, as far as `/proc` tells."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended meanwhile
            continue
    found = [root]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process]
    return found


def runs(process: int) -> bool:
    """Whether a process runs. One that has ended stays in `/proc` until its parent, here the machine's first process, asks."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_typed_key_is_in_no_process_file_or_page(browser: Browser, rogue: Rogue, tmp_path: Path) -> None:
    with start_app(tmp_path) as (url, process):
        page = browser.new_context(base_url=url, viewport={"width": 1440, "height": 900}).new_page()
        page.set_default_timeout(WAIT)
        page.goto("/library")
        page.get_by_text("Open a session").first.wait_for()
        assert page.locator("[data-testid^=stTopNavLink]").count() >= 3, "the app is around its first page"
        page.get_by_role("link", name="Live chat").click()
        go_to(page, rogue.url, KEY)
        shown = []
        for number, wrong in enumerate(wrongs()[::6]):
            rogue.wrongs.append(wrong)
            send(page, f"hello {number}")
            shown += [page.content(), page.url, page.title()]
        page.get_by_role("link", name="Library").click()
        page.locator(".ts-section").first.wait_for()
        idle(page)
        shown += [page.content(), page.url]
        tree = ours(process.pid)
        files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
        texts = [Path(f"/proc/{one}/{name}").read_bytes() for one in tree for name in ("cmdline", "environ")]
        page.context.close()
    assert any(head.get("authorization") == f"Bearer {KEY}" for head in rogue.heads), "it was sent where it belongs"
    assert not rogue.wrongs
    assert any(b"hello 1" in data for data in files), "the chat is among the files"
    for look in (KEY, "canary-5up3r"):
        assert not any(look in text for text in shown)
        assert not any(look.encode() in data for data in files)
    if Path("/proc/self/environ").exists():
        assert len(tree) >= 2, "the command, and the app that it serves"
        assert any(b"streamlit" in text for text in texts)
        assert not any(b"canary-5up3r" in text for text in texts)
        wait_for(lambda: not any(map(runs, tree)), 20)  # a worker ends with its input: a moment later on a busy machine
