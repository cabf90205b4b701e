"""The app in a real Chromium: started as the README says, clicked, steered by keys, measured by its boxes.

The fixture `page` fails a test whose page throws, shows an exception or asks any other host.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import hostile
import pytest
from conftest import ROOT, idle, look, measure, travel, wait_for_theme
from playwright.sync_api import Error, expect
from turnscope.library import COMPARED_POLICIES

if TYPE_CHECKING:
    from playwright.sync_api import Dialog, Page

pytestmark = pytest.mark.browser

PAGES = ("/", "/heatmap", "/library")
GEOMETRY = Path(__file__).with_name("geometry.js")
LOOKS: list[tuple[int, Literal["dark", "light"]]] = [(1440, "dark"), (800, "light"), (1440, "light"), (800, "dark")]
SAMPLES = sorted(path.stem for path in (ROOT / "sample_sessions").glob("*.jsonl"))


def visit(page: Page, address: str) -> None:
    """Open an address and wait until the page has settled, its chart and cursor included."""
    page.goto(address)
    page.locator(".ts-title").wait_for()
    idle(page)
    if not address.startswith("/library"):
        page.locator(".ts-cursor").wait_for()


def reach(page: Page, address: str) -> None:
    """The same in a tab that may show the app already, and is not loaded anew then."""
    travel(page, address)
    if not address.startswith("/library"):
        page.locator(".ts-cursor").wait_for()


def request_shown(page: Page) -> int:
    return int(page.locator(".ts-headline").get_attribute("data-request") or -1)


def shows(page: Page, request: int) -> None:
    """Wait until the page and its address are at a request."""
    page.wait_for_function("n => document.querySelector('.ts-headline')?.dataset.request === String(n)", arg=request)
    page.wait_for_url(re.compile(rf"[?&]request={request}(&|$)"))


def cell(page: Page, request: int, row: float) -> tuple[float, float]:
    """Where a column of the heatmap stands on the screen. `row`: 0 = the lowest row."""
    place = page.evaluate(
        """([n, row]) => { const gd = document.querySelector('.js-plotly-plot'), box = gd.getBoundingClientRect(),
            x = gd._fullLayout.xaxis2 ?? gd._fullLayout.xaxis, y = gd._fullLayout.yaxis2;
            return [box.left + x._offset + x.l2p(n), box.top + y._offset + y.l2p(row)] }""",
        [request, row],
    )
    return place[0], place[1]


def click(page: Page, place: tuple[float, float], says: str = "request") -> None:
    """Move the mouse, wait until the chart says what is under it (as a person does), and click."""
    over = "says => document.querySelector('.hoverlayer')?.textContent.includes(says)"
    for _ in range(30):
        page.mouse.move(*place)
        with suppress(Error):  # in vain where the chart is drawn anew under the mouse
            page.wait_for_function(over, arg=says, timeout=2_000)
            return page.mouse.click(*place)
        page.mouse.move(0, 0)
    pytest.fail(f"the chart does not say {says!r}")


def test_a_click_on_a_cell_lands_on_that_request_again_and_again(kept: Page) -> None:
    reach(kept, "/heatmap?session=cache-goes-cold")
    for request in (24, 60, 5, 5, 60):
        click(kept, cell(kept, request, 1), f"request {request + 1} ·")
        shows(kept, request)
        idle(kept)
    kept.keyboard.press("ArrowRight")
    shows(kept, 61)
    click(kept, cell(kept, 60, 1), "request 61 ·")
    shows(kept, 60)


def test_a_quick_click_is_never_lost(kept: Page) -> None:
    """Plotly's own click is lost where the button comes up some 70 ms after the mouse stopped, as many people's does."""
    reach(kept, "/heatmap?session=cache-goes-cold&request=60")
    for number, hold in enumerate((0, 30, 60, 70, 80, 100, 150)):  # milliseconds
        request = 20 + 3 * number
        x, y = cell(kept, request, 1)
        kept.mouse.move(x - 60, y - 5)
        kept.mouse.move(x, y, steps=10)
        kept.mouse.down()
        kept.wait_for_timeout(hold)
        kept.mouse.up()
        shows(kept, request)


def test_a_quick_click_on_a_tried_setting_shows_it(kept: Page) -> None:
    """On a chart that has Plotly find its points."""
    travel(kept, "/plan?session=cache-goes-cold&what=advise&trials=6")
    kept.locator(".st-key-advise-go button, .js-plotly-plot").first.wait_for()
    search = kept.locator(".st-key-advise-go button")
    if search.count():
        search.click()
    kept.locator(".js-plotly-plot").wait_for(timeout=60_000)
    heading = kept.locator("h2.ts-section")
    for defaults in (True, False, True, False):
        idle(kept)
        kept.locator(".js-plotly-plot").scroll_into_view_if_needed()
        x, y = kept.evaluate(
            """(defaults) => { const gd = document.querySelector('.js-plotly-plot'), box = gd.getBoundingClientRect();
                const { xaxis, yaxis } = gd._fullLayout, traces = gd._fullData.filter((trace) => trace.customdata);
                const points = traces.flatMap((trace) => [...trace.customdata].map(
                    ([n], i) => [n, xaxis._offset + xaxis.l2p(trace.x[i]), yaxis._offset + yaxis.l2p(trace.y[i])]));
                const own = points.find(([n]) => n === 0), away = (point) => Math.hypot(point[1] - own[1], point[2] - own[2]);
                const [, x, y] = defaults ? own : points.reduce((best, one) => (away(one) > away(best) ? one : best));
                return [box.left + x, box.top + y] }""",
            defaults,
        )
        kept.mouse.move(x - 60, y - 30)
        kept.mouse.move(x, y, steps=10)
        kept.wait_for_function(
            """([x, y]) => { const gd = document.querySelector('.js-plotly-plot'), box = gd.getBoundingClientRect();
                return gd._hoverdata?.some((one) => Math.hypot(box.left + one.xaxis._offset + one.xaxis.l2p(one.x) - x,
                    box.top + one.yaxis._offset + one.yaxis.l2p(one.y) - y) < 3) }""",
            arg=[x, y],
        )
        kept.mouse.move(x + 1, y)  # Plotly looks again 50 ms later
        kept.mouse.down()
        kept.wait_for_timeout(70)
        kept.mouse.up()
        if defaults:
            expect(heading).to_have_text("Defaults")
        else:
            expect(heading).not_to_have_text("Defaults")


def test_a_click_works_in_turns_and_on_the_saw_tooth(kept: Page) -> None:
    reach(kept, "/heatmap?session=tool-results-eat-the-window&request=3")
    kept.locator(".st-key-heatmap-by button", has_text="Turns").click()
    kept.wait_for_function("document.querySelector('.js-plotly-plot')?.layout?.meta?.starts?.length === 25")
    idle(kept)
    starts = kept.evaluate("document.querySelector('.js-plotly-plot').layout.meta.starts")
    kept.wait_for_function("document.querySelector('.js-plotly-plot .ts-cursor')")
    click(kept, cell(kept, 7, 1), "turn 8")
    kept.wait_for_function("n => Number(document.querySelector('.ts-headline').dataset.request) >= n", arg=starts[7])
    assert starts[7] <= request_shown(kept) < starts[8]
    reach(kept, "/?session=tool-results-eat-the-window&request=3")
    kept.locator(".js-plotly-plot").scroll_into_view_if_needed()
    box = kept.locator(".js-plotly-plot").bounding_box()
    assert box
    click(kept, (box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.6))
    kept.wait_for_function("document.querySelector('.ts-headline').dataset.request !== '3'")


def test_a_deep_link_works_as_the_first_visit_after_a_start(kept: Page, first_visit: dict[str, str]) -> None:
    """Streamlit's old router would run the page without the app around it. What was met then was noted; now it is reloaded."""
    assert int(first_visit["links"]) >= 3
    assert "High water" in first_visit["text"]
    assert first_visit["request"] == "36"
    reach(kept, "/heatmap?session=cache-goes-cold&request=36")
    kept.reload()
    kept.locator(".ts-headline").wait_for()
    assert request_shown(kept) == 36


def test_ten_quick_presses_are_ten_steps(kept: Page) -> None:
    reach(kept, "/heatmap?session=cache-goes-cold&request=40")
    for key, at in (("ArrowRight", 50), ("ArrowLeft", 40), ("ArrowRight", 50)):
        for _ in range(10):
            kept.keyboard.press(key)
        shows(kept, at)
        idle(kept)
    kept.keyboard.press("Home")
    shows(kept, 0)
    kept.keyboard.press("End")
    shows(kept, 87)
    kept.keyboard.press("p")
    shows(kept, 85)
    kept.keyboard.press("n")
    kept.wait_for_timeout(400)
    assert request_shown(kept) == 85, "there is no later event"


def test_a_step_that_another_session_overtakes_is_none_in_that_session(kept: Page) -> None:
    reach(kept, "/heatmap?session=cache-goes-cold&request=70")
    kept.evaluate(
        """([to, key]) => {
        dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
        history.pushState({}, '', to);
        dispatchEvent(new PopStateEvent('popstate', {state: {}})); }""",
        ["/heatmap?session=chat-forgets-first-instruction&request=24", "ArrowRight"],
    )
    shows(kept, 24)
    kept.locator(".ts-cursor", has_text="request 25").wait_for()
    kept.wait_for_timeout(400)
    assert request_shown(kept) == 24


TWO_NAVIGATORS = """async ([script, bar]) => { // at one chart: one takes the place of another, which is drawn once more
    const { default: draw } = await import(URL.createObjectURL(new Blob([script], { type: 'text/javascript' })));
    document.body.innerHTML = '<div class="st-key-drawn"><div class="js-plotly-plot"></div></div>';
    const [xaxis, yaxis] = [[0, 9], [0, 1]].map(range => ({ range, _offset: 0, _length: 100, l2p: at => 10 * at }));
    Object.assign(document.querySelector('.js-plotly-plot'), { _fullLayout: { xaxis, yaxis }, on() {}, removeListener() {} });
    const put = () => Object.assign(document.body.appendChild(document.createElement('div')), { innerHTML: bar });
    const data = { chart: 'drawn', count: 10, marks: [], sizes: Array(10).fill(1), session: 'A' };
    const show = (parentElement, at) => draw({ parentElement, setStateValue() {}, data: [{ ...data, at }] });
    const [first, second] = [put(), put()];
    show(first, 2);
    show(second, 6);
    const leave = show(first, 2);
    first.remove();
    leave(); }"""


def test_a_navigator_that_is_drawn_late_and_gone_leaves_the_chart_to_the_other(page: Page) -> None:
    folder = ROOT / "pages" / "parts" / "browser"
    script = "\n".join((folder / name).read_text("utf-8") for name in ("numbering.js", "navigator.js"))
    page.evaluate(TWO_NAVIGATORS, [script, (folder / "navigator.html").read_text("utf-8")])
    cursor = page.locator(".ts-cursor")
    expect(cursor).to_contain_text("request 7")
    page.keyboard.press("ArrowRight")
    expect(cursor).to_contain_text("request 8")


def test_previous_next_and_go_to_are_buttons_and_a_field(kept: Page) -> None:
    reach(kept, "/?session=cache-goes-cold&request=10")
    kept.get_by_role("button", name="Next", exact=False).first.click()
    shows(kept, 11)
    idle(kept)
    kept.get_by_role("button", name="Previous", exact=False).first.click()
    shows(kept, 10)
    field = kept.get_by_label("Go to request")
    field.fill("64")
    field.press("Enter")
    shows(kept, 63)
    field.press("ArrowRight")
    assert request_shown(kept) == 63, "arrows inside a field belong to the field"


def test_a_finding_leads_to_its_request(kept: Page) -> None:
    reach(kept, "/?session=cache-goes-cold")
    kept.locator(".st-key-findings button").nth(1).click()
    shows(kept, 60)


def test_slash_searches_and_a_hit_leads_to_when_it_left_and_to_the_decision(kept: Page) -> None:
    reach(kept, "/?session=tool-results-eat-the-window&request=112")
    kept.keyboard.press("/")
    kept.keyboard.type("public API")
    kept.keyboard.press("Enter")
    kept.wait_for_url(re.compile(r"/search\?session=tool-results-eat-the-window&request=112&q=public"))
    hit = kept.locator(".st-key-found-rows button").first
    hit.wait_for()
    expect(hit).to_contain_text("left at request 113", use_inner_text=True)
    hit.click()
    rows = kept.locator("#left-window tbody tr")
    expect(rows).to_have_count(len(COMPARED_POLICIES))
    expect(rows.nth(0)).to_contain_text("1–112", use_inner_text=True)
    expect(rows.nth(1)).to_contain_text("still in the window", use_inner_text=True)
    idle(kept)
    with kept.expect_navigation():
        rows.nth(2).locator("a").click()
    kept.wait_for_url(re.compile(r"/debugger\?.*policy=last-20-messages"))
    kept.locator(".card .verb", has_text="dropped").wait_for()
    expect(kept.locator(".stepper .where")).to_contain_text("request 11", use_inner_text=True)
    kept.go_back()
    kept.locator("#left-window").wait_for()
    idle(kept)
    kept.go_back()
    kept.locator("#left-window").wait_for(state="detached")
    kept.locator(".st-key-found-rows button").first.wait_for()
    idle(kept)
    kept.locator(".st-key-search-scope button", has_text="All indexed sessions").click()
    kept.wait_for_url(re.compile("scope=all"))


def test_the_question_mark_lists_keys_and_words(kept: Page) -> None:
    reach(kept, "/library")
    kept.locator("body").press("?")
    kept.get_by_text("previous, next request").wait_for()
    kept.get_by_text("One call of the model").wait_for()
    kept.keyboard.press("Escape")
    kept.get_by_text("One call of the model").wait_for(state="detached")


def test_every_control_is_reached_with_the_tab_key(page: Page) -> None:
    visit(page, "/heatmap?session=cache-goes-cold")
    wanted = {
        "Session",
        "Search this session",
        "Live",
        "Requests",
        "Next request",
        "Go to request",
        "Next event",
        "Numbers as CSV",
    }
    seen: set[str] = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        name = page.evaluate(
            """() => { let e = document.activeElement; while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;
                return [e?.ariaLabel, e?.title, e?.innerText, e?.labels?.[0]?.innerText].filter(Boolean).join(' | ') }"""
        )
        seen |= {want for want in wanted if want.casefold() in name.casefold()}
    assert seen == wanted


@pytest.fixture
def tab(kept: Page) -> Iterator[Page]:
    """The shared tab, as high as the page, for sessions that the machine's tools keep: no dialog opens."""
    kept.set_viewport_size({"width": 1440, "height": 1400})
    dialogs: list[str] = []

    def dismiss_dialog(dialog: Dialog) -> None:
        dialogs.append(dialog.message)
        dialog.dismiss()

    kept.on("dialog", dismiss_dialog)
    yield kept
    kept.remove_listener("dialog", dismiss_dialog)
    assert dialogs == []


def entry_id(path: Path) -> str:
    return hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]


def test_hostile_text_shows_as_text_and_nothing_leaves_the_machine(tab: Page, projects: Path) -> None:
    session = entry_id(projects / hostile.NAME)
    for address in PAGES:
        reach(tab, f"{address}?session={session}&request=8")
        tab.evaluate("document.querySelectorAll('details').forEach((element) => (element.open = true))")
        if address == "/heatmap":
            tab.mouse.move(*cell(tab, 4, 2))
            tab.locator(".hoverlayer text").first.wait_for()
        if address != "/library":
            expect(tab.get_by_text("<script>window.pwned=1</script>").first).to_be_visible()
            tab.locator(".st-key-header-search input").fill("<script>")
            tab.locator(".st-key-header-search input").press("Enter")
            tab.locator(".st-key-found-rows button").first.click()
            tab.locator(".ts-sought").wait_for()
            idle(tab)
        tab.locator(".st-key-header-session button").first.click()
        tab.locator("[data-testid=stPopoverBody] [data-testid=stSelectbox]").click()
        tab.get_by_role("option").first.wait_for()
        tab.keyboard.press("Escape")
        tab.keyboard.press("Escape")
        assert tab.evaluate("window.pwned") is None
        expect(tab.locator("img[src*=evil], form[action*=evil], a[href*=evil], .katex")).to_have_count(0)
        expect(tab.locator("[data-testid=stException]")).to_have_count(0)


NOTIFICATIONS = """(() => { window.shown = []; window.asked = 0;
    window.Notification = class { constructor(text, more) { shown.push([text, more.body]); } close() {} };
    Notification.permission = 'default';
    Notification.requestPermission = async () => { asked += 1; Notification.permission = 'granted'; }; })()"""


def test_a_session_that_is_being_written_is_followed_and_tells_of_limits(tab: Page, projects: Path) -> None:
    path = projects / "growing.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(lines[:90]), encoding="utf-8")
    tab.add_init_script(NOTIFICATIONS)
    reach(tab, f"/?session={entry_id(path)}")
    if not tab.evaluate("window.shown"):
        tab.evaluate(NOTIFICATIONS)  # the page was there already
    before = int(tab.get_by_label("Go to request").get_attribute("max") or 0) - 1
    tab.locator(".st-key-header-live label").click()
    tab.locator(".ts-live", has_text=f"{before + 1} requests").wait_for()
    tab.get_by_role("button", name="Alert me", exact=True).click()
    limit = tab.get_by_label("Fill of the window, in percent")
    limit.fill("60")
    limit.press("Enter")
    idle(tab)
    assert tab.evaluate("asked") == 0, "nobody is asked without a click"
    tab.get_by_role("button", name="Allow desktop notifications", exact=True).click()
    tab.keyboard.press("Escape")
    idle(tab)
    assert tab.evaluate("[asked, shown.length]") == [1, 0]
    with path.open("a", encoding="utf-8") as file:
        file.writelines([*lines[90:], lines[-1][:40]])
    shows(tab, 87)
    assert before < 87
    tab.locator(".ts-live", has_text=f"+{87 - before} requests, +$").wait_for()
    tab.wait_for_function("shown.length")
    [[text, title]] = tab.evaluate("shown")
    assert re.fullmatch(r"The window is \d+% full\.", text)
    assert tab.locator(".ts-title h1").inner_text().startswith(title[:20])
    tab.get_by_text(text).first.wait_for()
    with path.open("a", encoding="utf-8") as file:
        file.write("\n")  # the file changes, and the limit is still exceeded
    tab.wait_for_timeout(3_000)  # longer than between two looks at the file
    idle(tab)
    assert tab.evaluate("shown.length") == 1, "once for each time that a limit is reached"
    tab.emulate_media(reduced_motion="reduce")
    expect(tab.locator(".ts-live i")).to_have_css("animation-iteration-count", "1")


# The page is shown in a theme that the app does not hear of, as while it is busy; counts its runs.
UNHEARD_THEME = """() => {
    const app = document.querySelector('[data-testid=stApp]');
    window.runs = 0;
    new MutationObserver(seen => window.runs += seen.filter(one => one.oldValue === 'notRunning').length).observe(
        app, {attributes: true, attributeFilter: ['data-test-script-state'], attributeOldValue: true});
    app.style.colorScheme = 'light'; }"""


def test_the_colours_of_another_theme_are_asked_for_again(page: Page) -> None:
    visit(page, "/heatmap?session=cache-goes-cold")
    idle(page)
    page.evaluate(UNHEARD_THEME)
    page.wait_for_function("runs >= 2")


@pytest.mark.parametrize("address", PAGES)
def test_nothing_is_blank_cut_off_or_out_of_bounds(kept: Page, address: str) -> None:
    """Measured on boxes, for every sample: charts have layers, text has room, the kept has no sideways scroll.

    The first sample is seen in four looks, of width and theme; each other one begins with the next of them, and is pulled to
    the other width.
    """
    kept.set_viewport_size({"width": 1440, "height": 1000})
    for first, sample in enumerate(SAMPLES[: 1 if address == "/library" else None]):
        turned = LOOKS[first % len(LOOKS) :] + LOOKS[: first % len(LOOKS)]
        look(kept, *turned[0])
        reach(kept, f"{address}?session={sample}")
        for width, scheme in turned if first == 0 else turned[:2]:
            look(kept, width, scheme)
            wait_for_theme(kept, scheme)
            _measure(kept, address, width)


def _measure(page: Page, address: str, width: int) -> None:
    where = (page.url, width, page.evaluate("getComputedStyle(document.body).colorScheme"))
    assert measure(page, partial(page.evaluate, GEOMETRY.read_text(encoding="utf-8"))) == [], where
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), f"{where} scrolls sideways"
    if address != "/library":
        assert page.locator(".js-plotly-plot .scatterlayer .trace").count() >= 3, where
        chart = page.locator(".js-plotly-plot").bounding_box()
        assert chart, where
        assert chart["height"] >= 200, where
        assert chart["width"] >= width * 0.8, where
    if address == "/heatmap":
        assert page.locator(".heatmaplayer image").count() >= 4, where
        assert page.evaluate(
            "[...document.querySelectorAll('.heatmaplayer image')]"
            ".every((image) => image.getBBox().width > 300 && image.getBBox().height > 20)"
        ), where


def test_the_first_page_has_an_address_of_its_own_too(kept: Page) -> None:
    reach(kept, "/envelope?session=cache-goes-cold&request=24")
    kept.get_by_text("At request 25 the model saw").first.wait_for()
    expect(kept.get_by_text("Page not found")).to_have_count(0)
    kept.get_by_role("link", name="Cost heatmap").first.click()
    kept.wait_for_url("**/heatmap*")
    idle(kept)
    kept.locator(".js-plotly-plot").first.wait_for()


def test_one_click_leads_to_the_cut_and_back_undoes_one_step_per_press(page: Page) -> None:
    page.goto("/")
    shows(page, 262)
    idle(page)
    begun = page.evaluate("history.length")
    page.locator(".ts-go", has_text="What was compacted at request 264").click()
    shows(page, 263)
    idle(page)
    page.keyboard.press("ArrowRight")
    shows(page, 264)
    idle(page)
    page.get_by_role("link", name="Cost heatmap").first.click()
    page.wait_for_url("**/heatmap?*request=264*")
    page.locator(".ts-cursor").wait_for()
    idle(page)
    page.locator(".st-key-heatmap-rows button", has_text="Per-row scale").click()  # a rerun, and no step
    page.locator(".ts-shades.one").first.wait_for()
    assert page.evaluate("history.length") - begun == 3
    page.go_back()
    page.wait_for_url(re.compile(r"/(start)?\?.*request=264"))
    shows(page, 264)
    for request in (263, 262):
        idle(page)
        page.go_back()
        shows(page, request)
    idle(page)
    page.go_forward()
    shows(page, 263)


def test_the_transcript_chooses_filters_and_turns_pages_and_shows_text_as_text(tab: Page, projects: Path) -> None:
    reach(tab, "/?session=tool-results-eat-the-window&request=112")
    pane(tab, "Transcript")
    lines = tab.locator(".st-key-transcript-lines button")
    lines.nth(99).wait_for(state="attached")
    expect(lines).to_have_count(100)
    assert {"here", "absent", "later"} >= set(lines.evaluate_all("rows => rows.map((row) => row.dataset.state)"))
    tab.locator(".st-key-transcript-which button", has_text="Not in it").click()
    out = tab.locator(".st-key-transcript-lines button[data-state=absent]").first
    out.wait_for()
    assert "compacted into a summary" in (out.get_attribute("title") or "")
    at = out.get_attribute("data-at")
    out.click()
    tab.locator(f".ts-closeup[data-block='{at}']").wait_for()
    expect(tab.locator(".ts-closeup")).to_contain_text("–112. Compacted into a summary", use_inner_text=True)
    expect(tab.locator(".ts-closeup a")).to_have_attribute("href", re.compile(f"/compare\\?.*text=%23{at}#left"))
    tab.locator(".ts-closeup b").click(click_count=3)
    expect(tab.locator(".ts-ask-left")).to_have_attribute("href", re.compile(f"/compare\\?.*text=%23{at}"))
    reach(tab, f"/?session={entry_id(projects / hostile.NAME)}&request=8")
    pane(tab, "Transcript")
    tab.get_by_label("Filter the transcript").fill("<script>")
    tab.keyboard.press("Enter")
    tab.locator(".st-key-transcript-lines button", has_text="<script>").first.click()
    tab.locator(".stCode", has_text="<script>").first.wait_for()
    assert tab.evaluate("window.pwned") is None
    expect(tab.locator("img[src*=evil], form[action*=evil], a[href*=evil], .katex")).to_have_count(0)


def pane(page: Page, name: str) -> None:
    page.locator(".st-key-detail-pane button", has_text=name).click()
    idle(page)


def test_any_two_requests_are_compared(kept: Page) -> None:
    reach(kept, "/?session=tool-results-eat-the-window&request=112")
    pane(kept, "Difference")
    table = kept.locator(".ts-table")
    table.wait_for()
    expect(table).to_contain_text("157,485", use_inner_text=True)
    field = kept.get_by_label("From request")
    field.fill("4")
    field.press("Enter")
    kept.locator(".ts-table th", has_text="request 4").wait_for()
    expect(table).to_contain_text("18,938", use_inner_text=True)
    pane(kept, "Contents")
    expect(field).to_have_count(0)
    pane(kept, "Difference")
    expect(field).to_have_value("4")  # shown 1 while the table compared 4
    kept.keyboard.press("Escape")
    kept.get_by_role("button", name="Next", exact=False).first.click()
    shows(kept, 113)
    expect(field).to_have_value("113")
    kept.locator(".ts-table th", has_text="request 113").wait_for()


def test_a_drag_over_a_chart_sums_up_a_range_and_a_click_still_goes_there(kept: Page) -> None:
    reach(kept, "/heatmap?session=cache-goes-cold&request=40")
    (left, y), (right, _) = cell(kept, 10, 1), cell(kept, 29, 1)
    drag(kept, (left, y), (right, y), """document.querySelector('.ts-range[data-range="10-30"]')""")
    expect(kept.locator(".ts-range")).to_contain_text("Requests 11–30 (20)", use_inner_text=True)
    shows(kept, 40)
    idle(kept)
    assert kept.locator(".ts-drawn").bounding_box()
    click(kept, cell(kept, 60, 1), "request 61 ·")
    shows(kept, 60)
    idle(kept)
    kept.locator(".ts-range .ts-go").click()
    kept.wait_for_function("Number(document.querySelector('.ts-headline').dataset.request) < 30")
    idle(kept)
    kept.get_by_role("link", name="Envelope").first.click()
    kept.wait_for_url(lambda url: "/heatmap" not in url)  # both pages have the range and the cursor
    idle(kept)
    kept.locator('.ts-range[data-range="10-30"]').wait_for()
    kept.locator(".ts-cursor").wait_for()
    idle(kept)
    kept.locator(".js-plotly-plot").scroll_into_view_if_needed()
    box = kept.locator(".js-plotly-plot").bounding_box()
    assert box
    middle = box["y"] + box["height"] * 0.6
    begin, end = (box["x"] + box["width"] * 0.7, middle), (box["x"] + box["width"] * 0.5, middle)
    drag(kept, begin, end, """!document.querySelector('.ts-range[data-range="10-30"]')""")
    kept.locator(".ts-range").wait_for()
    idle(kept)
    kept.locator(".st-key-range-clear button").click()
    kept.locator(".ts-range").wait_for(state="detached")
    kept.wait_for_function("!document.querySelector('.ts-drawn')")


def drag(page: Page, start: tuple[float, float], stop: tuple[float, float], done: str) -> None:
    """Drag over a chart until `done` holds: a drag is lost while the chart is drawn anew, as a person sees, and drags again."""
    for _ in range(5):
        page.mouse.move(*start)
        page.wait_for_function("document.querySelector('.hoverlayer')?.textContent.includes('request')")
        page.mouse.down()
        page.mouse.move((start[0] + stop[0]) / 2, stop[1], steps=4)
        page.mouse.move(*stop, steps=4)
        page.mouse.up()
        with suppress(Error):
            page.wait_for_function(done, timeout=8_000)
            return
        page.mouse.move(0, 0)
    page.wait_for_function(done)


def test_a_wrong_pattern_is_said_to_be_wrong_and_a_long_list_is_turned(kept: Page) -> None:
    travel(kept, "/search?session=tool-results-eat-the-window&q=session")
    field = kept.locator(".st-key-header-search input")
    kept.locator(".ts-pages", has_text="1–50 of").wait_for()
    kept.locator("button", has_text="Later").click()
    kept.locator(".ts-pages", has_text="51–100 of").wait_for()
    kept.locator(".st-key-found-regex label").click()
    kept.wait_for_url(re.compile("regex=1"))
    field.fill("(sess")
    field.press("Enter")
    kept.locator("[role=alert]", has_text="not a valid regular expression").wait_for()
    field.fill("sess(ion|ions)\\b")
    field.press("Enter")
    kept.locator(".st-key-found-rows button mark").first.wait_for()


def test_a_path_typed_into_the_library_opens_what_lies_there(tab: Page, projects: Path) -> None:
    reach(tab, "/library")
    field = tab.get_by_label("Or type the path of a file or a folder")
    empty = projects.parents[3] / "nothing-in-here"
    empty.mkdir(exist_ok=True)
    for path, told in (
        (empty, "holds nothing to open"),
        (empty / "no.jsonl", "cannot be read"),
        (projects, "2 sessions found"),
    ):
        field.fill(str(path))
        field.press("Enter")
        tab.get_by_text(told).first.wait_for()
    field.fill(str(projects / hostile.NAME))
    field.press("Enter")
    tab.locator(".ts-headline").wait_for()
    assert request_shown(tab) >= 0
