"""Fixtures shared by all tests: the app in memory, the app in a real browser, and where outside material lies.

Browser tests are skipped on a machine without Chromium and fail there in CI, so that a missing browser never looks green.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page
    from streamlit.runtime.state.safe_session_state import SafeSessionState
    from streamlit.testing.v1 import AppTest

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
CI = bool(os.environ.get("CI"))
STARTUP_SECONDS = 180  # the first visit of a browser on a machine that does much else; all tests fail where it is too short
WAIT = 60_000  # milliseconds for what a page shows, also on a busy machine: how fast pages are is measured in `bench`
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# One machine's Chromium for a page of our own: no sandbox (tests may run as root), nothing that calls home.
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync")
FLAGS += ("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage")
# Where Chromium fetches scripts in the background it compiles them anew on each visit: Plotly takes 1.5 s of CPU each time, and
# 0.1 s from its cache. The list takes the place of Playwright's own, of which it repeats what a test could notice.
FLAGS += ("--disable-features=BackgroundResourceFetch,HttpsUpgrades,LensOverlay,MediaRouter,OptimizationHints,PaintHolding",)
FAILED = pytest.StashKey[bool]()

for folder in (ROOT, ROOT / "tests", ROOT / "tests" / "bench"):  # importlib mode puts none of them on the path
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

# What a run draws unless `--hypothesis-profile=deep` asks for more, and for new ones: the same examples each time. A run that
# leaves out cases of the longest tests is short of examples, too.
SLOW = HealthCheck.too_slow  # drawing takes longer on a busy machine
settings.register_profile("deep", deadline=None)
settings.register_profile("plain", deadline=None, max_examples=40, derandomize=True, suppress_health_check=[SLOW])
settings.register_profile("short", settings.get_profile("plain"), max_examples=20)
SHARES = {"deep": 1, "short": 4}


def examples(wanted: int) -> int:
    """How many examples a test draws that says how many: all in a deep run, a quarter in a short one, else half as many."""
    return wanted // SHARES.get(settings.get_current_profile_name(), 2)


MEMORY = Path("/dev/shm")
ROOM = 4_000_000_000  # bytes that have to be free there


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--thorough", action="store_true", help="run every case of the longest tests")


def pytest_configure(config: pytest.Config) -> None:
    """Temporary folders lie in memory where there is room: many tests write databases, and each commit waits for a disk."""
    config.pluginmanager.import_plugin("skips")
    spread_collection(config)
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("plain" if config.option.thorough else "short")
    cache = getattr(config, "cache", None)
    if sys.dont_write_bytecode and cache:
        # Workers and all the processes that tests start would compile everything anew, each of them.
        sys.pycache_prefix, sys.dont_write_bytecode = str(cache.mkdir("compiled")), False
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with suppress(ValueError):  # not in the main thread
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # Started from a shell's background, which ignores Ctrl-C, and so would all that tests start.
            signal.signal(signal.SIGINT, signal.default_int_handler)
    if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def spread_collection(config: pytest.Config) -> None:
    """Each worker begins to collect elsewhere, so that it finds compiled what the others came to first."""
    worker, folders = os.environ.get("PYTEST_XDIST_WORKER"), [Path(arg) for arg in config.args]
    if worker and len(folders) == 1 and folders[0].is_dir():
        inside = sorted(each for each in folders[0].iterdir() if each.is_dir() or each.match("test_*.py"))
        first = len(inside) * int(worker.removeprefix("gw")) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        config.args = [str(each) for each in (*inside[first:], *inside[:first])]


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Three workers run the whole suite, or a folder of it: tests wait a lot, for a browser most of all.

    Each has a server, a browser and temporary folders of its own. A file or a test that is named runs in this process, and so
    does everything with `-n 0`, `-s` (output is to be seen), `-p no:xdist`, or on a machine of one core.
    """
    option = config.option
    if config.args_source is not pytest.Config.ArgsSource.TESTPATHS or option.markexpr:
        option.thorough = True  # what is named runs whole
    elif not CI:
        option.markexpr = "not browser"  # `pytest -m browser` and CI run those, too
    if "PYTEST_XDIST_WORKER" in os.environ:
        return  # this is a worker: it has none of its own, and got nothing but the command line
    chosen = getattr(option, "numprocesses", 0) is not None or option.dist != "no" or option.usepdb or option.capture == "no"
    if not chosen and all(Path(arg).is_dir() for arg in config.args) and (os.cpu_count() or 1) > 1:
        option.numprocesses, option.dist = 3, "worksteal"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A run that names no test leaves out cases of the longest ones. In CI a browser test that failed runs once more and is
    named in the summary, because a busy machine may be late for a click; what the engine does must not depend on how fast it
    is done.
    """
    if not config.option.thorough:
        left_out = list_left_out(items)
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
    items.sort(key=lambda item: item.path)  # the same in every worker, wherever it began
    for item in items:
        if CI and item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.flaky(reruns=1))


def list_left_out(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """The cases of tests marked `thorough` that are left out: all, or all but each so manieth (`every`)."""
    left_out, seen = [], Counter[tuple[Path, str]]()
    for item in items:
        if mark := item.get_closest_marker("thorough"):
            test = item.path, item.name.partition("[")[0]
            if "every" not in mark.kwargs or seen[test] % mark.kwargs["every"]:
                left_out.append(item)
            seen[test] += 1
    return left_out


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tells a test's fixtures whether it failed; the session counts what runs again only when it is over."""
    report = yield
    item.stash[FAILED] = report.failed
    return report


def shared(*parts: str) -> Path:
    """A file or folder of material kept beside the project; skips the test where it is absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"{'/'.join(('shared', *parts))} is not beside the project")
    return path


@pytest.fixture(scope="session", name="shared")
def shared_fixture() -> Any:
    """The function `shared`, for tests that do not import it: `shared("data", "open", "codex")`."""
    return shared


def pytest_collection_finish() -> None:
    """Take the collected tests out of garbage collection, because they live until the end, and make it run less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


class State(Mapping[str, Any]):
    """The state of an app: what Streamlit makes a copy of for whoever looks up one key."""

    def __init__(self, state: SafeSessionState) -> None:
        self._safe = state

    def __getitem__(self, key: str) -> Any:
        with self._safe._lock:
            return self._safe._state[key]

    def __iter__(self) -> Iterator[str]:
        with self._safe._lock:
            return iter(self._safe._state.filtered_state)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@pytest.fixture(scope="session", autouse=True)
def _app_test() -> Iterator[None]:
    """What AppTest does otherwise than the app, and what it does anew for each test though it cannot change meanwhile.

    It turns Streamlit's old pages/ router back on before each run; here it is turned off again, as st.navigation does. The
    files of all installed packages are looked through once for components, scripts are compiled once, a box that looks for
    its own key does not copy the whole state first, and a run is waited for instead of looked at a thousand times a second.
    """
    from streamlit import config
    from streamlit.components.v2 import manifest_scanner
    from streamlit.runtime.pages_manager import PagesManager
    from streamlit.runtime.scriptrunner.script_cache import ScriptCache
    from streamlit.runtime.state.safe_session_state import SafeSessionState
    from streamlit.testing.v1 import app_test, local_script_runner

    config.get_config_options()  # ours: read where a run begins, before a test works in another folder
    original, compiled, poll = PagesManager.__init__, ScriptCache(), local_script_runner.require_widgets_deltas

    def wait(runner: local_script_runner.LocalScriptRunner, timeout: float = 3) -> None:
        if runner._script_thread:
            runner._script_thread.join(timeout)
        poll(runner, timeout=0.1)  # which says so where it did not end

    def start(self: PagesManager, *args: Any, **more: Any) -> None:
        original(self, *args, **more)
        PagesManager.uses_pages_directory = False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PagesManager, "__init__", start)
        patch.setattr(SafeSessionState, "filtered_state", property(State))
        patch.setattr(manifest_scanner, "scan_component_manifests", cache(manifest_scanner.scan_component_manifests))
        patch.setattr(local_script_runner, "require_widgets_deltas", wait)
        for module in (app_test, local_script_runner):
            patch.setattr(module, "ScriptCache", lambda: compiled)
        yield


@pytest.fixture(scope="module", autouse=True)
def _known_keys() -> Iterator[None]:
    """Keys that the tests of a file register are not looked for in the texts of all files after it."""
    yield
    if secrets := sys.modules.get("turnscope.live.secrets"):
        vars(secrets)["_known"] = ()


@pytest.fixture(scope="session", autouse=True)
def _certificates() -> Iterator[None]:
    """The system's certificates are read once, not for every client of a server on this machine."""
    import httpcore2 as http  # what the provider's SDK sends with

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(http, "default_ssl_context", cache(http.default_ssl_context))
        yield


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home and an empty data folder, so that no test reads or writes what the person at this machine keeps."""
    for name, value in make_environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    return tmp_path / "data"


@pytest.fixture
def indexing_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources are indexed by this process, by the function that a worker calls: to start one takes longer than all the rest."""
    from turnscope.library.index_job import IndexJob
    from turnscope.library.indexing import index_source

    def feed(job: IndexJob) -> None:
        while (task := job._take_task()) is not None:
            job._record(index_source(Path(task[0]), Path(task[1]), task[2]))

    monkeypatch.setattr(IndexJob, "_feed", feed)


def make_environment(folder: Path) -> dict[str, str]:
    """Environment variables that keep the app inside `folder`, which gets a `home` and a `data` folder."""
    for name in ("home", "data"):
        (folder / name).mkdir(exist_ok=True)
    home, data = str(folder / "home"), str(folder / "data")
    return {"HOME": home, "USERPROFILE": home, "XDG_DATA_HOME": data, "XDG_CONFIG_HOME": data, "TURNSCOPE_DATA": data}


@pytest.fixture
def app(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> AppTest:
    """The app, run in this process without a browser. It starts on its first page; call `.run()`.

    Nothing runs a page again there while a replay is under way, so pages wait for its end.
    """
    from streamlit.testing.v1 import AppTest

    from pages.library import indexing
    from pages.parts import opening, replays

    monkeypatch.setattr(replays, "PATIENCE", 80.0)
    monkeypatch.setattr(indexing, "AUTOMATIC", False)  # a test says when something is indexed
    monkeypatch.setattr(opening, "freeze_objects", lambda: None)  # it looks through all that this process holds: the tests, too
    return AppTest.from_file(str(ROOT / "app.py"), default_timeout=90)


def read_component(app: AppTest, name: str) -> Any:
    """What a component of a page was given; None where it is not there."""
    found = [each.proto for each in app.get("bidi_component") if each.proto.component_name == name]
    return json.loads(found[0].json)[0] if found else None


def list_sessions(app: AppTest) -> dict[str, dict[str, Any]]:
    """The rows of the library's list, by their file."""
    data = read_component(app, "turnscope_sessions")
    return {row["file"]: row for row in data["rows"]} if data else {}


class Closes(Protocol):
    def close(self) -> None: ...


Closing = TypeVar("Closing", bound=Closes)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/_stcore/health", timeout=1) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@pytest.fixture(scope="session")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a tool keeps its sessions in the home of `server`: a hostile one, and `growing.jsonl`, which tests may write to."""
    import hostile

    folder = tmp_path_factory.mktemp("server") / "home" / ".claude" / "projects" / "p"
    folder.mkdir(parents=True)
    hostile.write(folder)
    shutil.copy(ROOT / "sample_sessions" / "cache-goes-cold.jsonl", folder / "growing.jsonl")
    return folder


@pytest.fixture(scope="session")
def server(projects: Path) -> Iterator[str]:
    """Address of the app, served by a process of its own with a home that holds `projects`, and no API key."""
    with serve(projects.parents[3]) as url:
        yield url


@contextmanager
def serve(folder: Path) -> Iterator[str]:
    """Serve the app from a process that keeps its data inside `folder`; gives its address. RuntimeError: it did not start."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC_", "CLAUDE_", "STREAMLIT_"))}
    command = [
        sys.executable,
        "-m",
        "streamlit",
        "run",
        "app.py",
        "--server.port",
        str(port),
        "--server.headless",
        "true",
    ]
    with (folder / "server.log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=env | make_environment(folder),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            until = time.monotonic() + STARTUP_SECONDS
            while not healthy(url):
                if process.poll() is not None or time.monotonic() > until:
                    log.seek(0)
                    raise RuntimeError(f"the app did not start:\n{log.read()}")
                time.sleep(0.1)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def let_go(server: Closing) -> Iterator[Closing]:
    """A server that looks only twice a second whether it is to stop: told to when the test is over, and not waited for."""
    try:
        yield server
    finally:
        threading.Thread(target=server.close).start()


def chromium() -> str | None:
    """Path of the system's Chromium: $CHROMIUM_PATH, else the first known name on the path."""
    candidates = (os.environ.get("CHROMIUM_PATH"), *map(shutil.which, CHROMIUM))
    return next((path for path in candidates if path and Path(path).exists()), None)


@pytest.fixture(scope="session")
def first_visit() -> dict[str, str]:
    """What the very first visit to the server met, a deep link: how many links the navigation had, which request is shown."""
    return {}


@pytest.fixture(scope="session")
def profile(server: str, tmp_path_factory: pytest.TempPathFactory, first_visit: dict[str, str]) -> Iterator[BrowserContext]:
    """One headless Chromium for all tests, with one profile on disk: there it keeps the app's scripts in compiled form, which
    are most of what a page costs. Tabs share nothing else: the app keeps no cookie that it reads and stores nothing there."""
    path = chromium()
    if path is None:
        (pytest.fail if CI else pytest.skip)("no Chromium on this machine: install it, or set CHROMIUM_PATH")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=WAIT)
    folder = tmp_path_factory.mktemp("profile")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch_persistent_context(
            folder,
            executable_path=path,
            headless=True,
            args=list(FLAGS),
            viewport={"width": 1440, "height": 900},
            color_scheme="dark",
            reduced_motion="reduce",  # what moves is drawn again and again
            base_url=server,
        )
        first = running.new_page()  # what server and browser meet for the first time takes long: no test waits for it
        first.goto("/heatmap?session=cache-goes-cold&request=36", timeout=STARTUP_SECONDS * 1_000)
        first.locator(".ts-cursor").wait_for(timeout=STARTUP_SECONDS * 1_000)
        idle(first, STARTUP_SECONDS * 1_000)
        first_visit["links"] = str(first.locator("[data-testid^=stTopNavLink]").count())
        first_visit["text"] = first.locator("[data-testid=stApp]").inner_text()
        first_visit["request"] = str(first.locator(".ts-headline").first.get_attribute("data-request"))
        first.close()
        yield running
        running.close()


@pytest.fixture(scope="session")
def browser(profile: BrowserContext) -> Browser:
    """The Chromium of `profile`, for contexts of their own: pages of another server, which would share its cookies."""
    assert profile.browser
    return profile.browser


COMPONENTS = """() => [...document.querySelectorAll('*')].filter(e => e.shadowRoot).map(e =>
    [...e.shadowRoot.children].map(part => part.innerText ?? '').join(' ').replace(/\\s+/g, ' ').slice(0, 600)
    + [...e.shadowRoot.querySelectorAll('input')].map(field => ` [${field.value}]`).join(''))"""


def print_tab(tab: Page) -> None:
    """Say what a tab showed when its test failed: its address, what is open, and its text."""
    if tab.is_closed():
        return
    print("the tab was at", tab.url, "with open:", tab.locator("[role=dialog], [role=alertdialog]").all_inner_texts())
    print("its script:", *(app.get_attribute("data-test-script-state") for app in tab.locator("[data-testid=stApp]").all()))
    print(*(main.inner_text()[:3_000] for main in tab.locator("[data-testid=stMain]").all()))
    print("its components:", *tab.evaluate(COMPONENTS), sep="\n")


@pytest.fixture
def page(profile: BrowserContext, server: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A fresh dark 1440 x 900 tab. After the test: no script error, no request to another host, no exception on the page."""
    with open_tab(profile, server) as tab:
        yield tab
        if request.node.stash.get(FAILED, False):
            print_tab(tab)


@contextmanager
def open_tab(profile: BrowserContext, server: str) -> Iterator[Page]:
    """A tab that is watched as `page` says, and closed with the tabs that were opened after it."""
    before = profile.pages
    tab = profile.new_page()
    with watch_tab(tab, server):
        try:
            yield tab
        finally:
            exceptions = [] if tab.is_closed() else tab.locator("[data-testid=stException]").all_inner_texts()
            for opened in profile.pages:
                if opened not in before:
                    opened.close()
    assert exceptions == [], "the page shows an exception"


@contextmanager
def watch_tab(tab: Page, server: str) -> Iterator[None]:
    """Afterwards: no script of the page failed, and it asked no other host."""
    tab.set_default_timeout(WAIT)
    errors: list[str] = []
    strangers: list[str] = []
    own = (server, server.replace("http", "ws"), "data:", "blob:")

    def note_request(what: Any) -> None:
        if not what.url.startswith(own):
            strangers.append(what.url)

    def note_error(error: Any) -> None:
        errors.append(str(error))

    heard = (("pageerror", note_error), ("request", note_request), ("websocket", note_request))
    for event, hear in heard:
        tab.on(event, hear)  # type: ignore[call-overload]
    yield
    for event, hear in heard:
        tab.remove_listener(event, hear)
    assert errors == [], "scripts of the page failed"
    assert strangers == [], "the page asked another host"


class Kept:
    """A tab that stays open from test to test: what a page costs is mostly its loading."""

    def __init__(self, profile: BrowserContext, server: str) -> None:
        self.profile, self.server = profile, server
        self.tab: Page | None = None

    @contextmanager
    def lent(self, request: pytest.FixtureRequest) -> Iterator[Page]:
        """The tab for one test, watched as `page` says; after a failure it is closed, for who knows what it shows."""
        tab = self.tab = self.tab or self.profile.new_page()
        look(tab, 1440, "dark")
        tab.set_viewport_size({"width": 1440, "height": 900})
        before, well = self.profile.pages, False
        try:
            with watch_tab(tab, self.server):
                yield tab
                for other in self.profile.pages:
                    if other not in before:
                        other.close()
                assert tab.locator("[data-testid=stException]").all_inner_texts() == [], "the page shows an exception"
            well = not request.node.stash.get(FAILED, False)
        finally:
            if not well:
                print_tab(tab)
                self.tab = None
                tab.close()


@pytest.fixture(scope="session")
def _kept(profile: BrowserContext, server: str) -> Kept:
    return Kept(profile, server)


@pytest.fixture
def kept(_kept: Kept, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A tab of the app that other tests use too: `travel` in it, and leave nothing chosen, typed or open in it.

    A test of how a page opens, or one that leaves something behind, takes `page`.
    """
    with _kept.lent(request) as tab:
        yield tab


# As the browser's own buttons do: the app hears of the address, and nothing is loaded anew. Arrived: a run began and ended.
TRAVEL = """to => {
    const app = document.querySelector('[data-testid=stApp]'), since = performance.now(), ran = [];
    const watch = new MutationObserver(seen => ran.push(...seen.filter(one => one.oldValue === 'running')));
    watch.observe(app, {attributes: true, attributeFilter: ['data-test-script-state'], attributeOldValue: true});
    window.arrived = () => (ran.length || performance.now() - since > 5000) && app.dataset.testScriptState === 'notRunning';
    document.activeElement?.blur();
    document.querySelector('[data-testid=stMain]')?.scrollTo(0, 0);
    history.pushState({}, '', to);
    dispatchEvent(new PopStateEvent('popstate', {state: {}})); }"""


def travel(page: Page, address: str, *, settles: bool = True) -> None:
    """Bring a tab to an address of the app, without loading it anew if it shows the app already, and wait for the answer.

    `settles`: and until the page has nothing more to say, which one with a replay under way has.
    """
    page.mouse.move(0, 0)
    if page.url == "about:blank":
        page.goto(address)
    else:
        idle(page)
        page.evaluate(TRAVEL, address)
        if settles:
            page.wait_for_function("arrived()")
    page.locator(".ts-title, .st-key-header").first.wait_for(state="attached")  # a library without an open session has no title
    if settles:
        idle(page)


def idle(page: Page, timeout: float = WAIT) -> None:
    """Wait until the app has run to its end and nothing is being redrawn (milliseconds)."""
    page.locator("[data-testid=stApp][data-test-script-state=notRunning]").wait_for(timeout=timeout)
    page.wait_for_function("!document.querySelector('[data-stale=true], [data-testid=stSkeleton]')", timeout=timeout)


def look(page: Page, width: int, scheme: Literal["dark", "light"]) -> None:
    """Pull the window to a width and switch the system's theme, before a page is opened or while it is shown."""
    page.set_viewport_size({"width": width, "height": page.viewport_size["height"] if page.viewport_size else 900})
    page.emulate_media(color_scheme=scheme)


# For each thing that a theme changes: true, or what the page shows instead.
LOOKS = """dark => {
    const open = '[data-stale=true], [data-testid=stSkeleton]';
    const app = document.querySelector('[data-testid=stApp]'), chart = document.querySelector('.js-plotly-plot');
    const background = getComputedStyle(app).backgroundColor;
    const light = background.match(/\\d+/g).slice(0, 3).every(c => Number(c) > 200);
    const own = getComputedStyle(document.documentElement).getPropertyValue('--ts-ground').trim();
    const widths = chart ? [chart._fullLayout.width, chart.parentElement.clientWidth] : [0, 0];
    const fading = document.getAnimations().filter(each => each instanceof CSSTransition && each.playState === 'running');
    return {
        state: (app.dataset.testScriptState === 'notRunning' && !document.querySelector(open)) || app.dataset.testScriptState,
        background: light !== dark || background,
        own: own.startsWith('#F') !== dark || own,
        chart: Math.abs(widths[0] - widths[1]) < 2 || widths,
        fading: !fading.length || fading.map(each => [each.transitionProperty, each.effect.target.className]) } }"""


def wait_for_theme(page: Page, scheme: Literal["dark", "light"]) -> None:
    """Wait until the page, with the colours of its own, has taken on the theme and, if it has a chart, the width.

    All at once: what is drawn again is faded, and comes back slowly after its run has ended.
    """
    from playwright.sync_api import Error

    try:
        page.wait_for_function(f"dark => Object.values(({LOOKS})(dark)).every(each => each === true)", arg=scheme == "dark")
    except Error as error:
        error.add_note(f"what the page says: {page.evaluate(LOOKS, scheme == 'dark')}")
        raise


def measure(page: Page, look: Callable[[], list[Any]], seconds: float = 10) -> list[Any]:
    """What is wrong with a page, looked at again until nothing is: after a change of its width it is drawn a moment later."""
    until = time.monotonic() + seconds
    while (found := look()) and time.monotonic() < until:
        page.wait_for_timeout(100)
    return found


class Wire:
    """When a page last told the server something, and when it last heard of it."""

    def __init__(self, page: Page) -> None:
        self.sent = self.heard = 0.0
        page.on("websocket", lambda opened: opened.on("framesent", lambda _: self._note("sent")))
        page.on("websocket", lambda opened: opened.on("framereceived", lambda _: self._note("heard")))

    def _note(self, what: str) -> None:
        setattr(self, what, time.perf_counter())
