"""The debugger in a real Chromium: steps by key and button, links, the same screen on the way there and back, and its boxes."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlsplit

import hostile
import pytest
import turnscope
from claude_log import Log, call
from conftest import ROOT, idle, look, measure, travel, wait_for_theme
from debugger_links import find_linked
from PIL import Image, ImageChops
from playwright.sync_api import expect
from turnscope.planning.trace import Cursor, Trace
from turnscope.views import parameters
from turnscope.views.replay_range import summarize_replay_range
from turnscope.views.stepper import build_steps

from tests.views.test_stepper import RULES, describe_states, rule, trace_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

FIRST = "tool-results-eat-the-window"
MODEL = (ROOT / "pages" / "debugger" / "browser" / "stepper_model.js").read_text(encoding="utf-8")
# All that a person sees of the stepper: its text, the shape of every tile, and both drawings.
SCREEN = """e => JSON.stringify([e.innerText, [...e.querySelectorAll('.tile')].filter(t => t.style.display !== 'none')
    .map(t => [t.dataset.at, t.className, t.style.transform]), [...e.querySelectorAll('.bar i')].map(i => i.style.width),
    e.querySelector('.map').toDataURL(), e.querySelector('.strip').toDataURL(), e.querySelector('.cursor').style.left])"""


def visit(page: Page, **query: str) -> None:
    """Open the debugger and wait until the stepper stands on the whole replay and the app has settled."""
    page.goto("/debugger?" + "&".join(f"{name}={value}" for name, value in query.items()))
    page.locator(".where[data-request]").wait_for()
    page.locator(".replay-line").wait_for(state="detached")
    idle(page)


def reach(page: Page, **query: str) -> None:
    """The same in a tab that is not loaded anew if it shows the app already; the stepper is, and begins where it is put."""
    if urlsplit(page.url).path == "/debugger":
        page.wait_for_timeout(250)  # the stepper waits before it tells the app: what comes amid a change of pages breaks it
        travel(page, "/library")
    travel(page, "/debugger?" + "&".join(f"{name}={quote(value)}" for name, value in query.items()))
    page.locator(f'.where[data-request="{query["request"]}"][data-step="{query["step"]}"]').wait_for()
    page.locator(".replay-line").wait_for(state="detached")
    idle(page)


def place(page: Page) -> tuple[int, int]:
    where = page.locator(".where")
    return int(where.get_attribute("data-request") or -1), int(where.get_attribute("data-step") or -1)


def wait_for_place(page: Page, request: int, step: int) -> None:
    """Wait until stepper and address stand at a place."""
    page.locator(f'.where[data-request="{request}"][data-step="{step}"]').wait_for()
    page.wait_for_url(re.compile(rf"[?&]request={request}&.*step={step}(&|$)"))


def point(trace: Trace, request: int, step: int) -> str:
    """Where a place lies on the slider, whose unit is requests."""
    return str(request + (step + 0.5) / (len(trace.plans[request].decisions) + 1))


def screen(page: Page) -> str:
    return str(page.locator(".stepper").evaluate(SCREEN))


def compare_images(one: bytes, other: bytes) -> str:
    """Where two images look different, in pixels, and by how much; "" = nowhere: the browser blends the edge of a tile that was
    moved anew, a few pixels by a shade."""
    first, second = (Image.open(BytesIO(image)).convert("RGB") for image in (one, other))
    assert first.size == second.size
    difference = ImageChops.difference(first, second)
    shades = [0] * 256
    for channel in difference.split():
        for by, pixels in enumerate(channel.histogram()):
            shades[by] += pixels
    if not any(shades[32:]) and sum(shades[3:]) < 0.0005 * 3 * first.width * first.height:
        return ""
    return f"from {difference.getbbox()} of {first.size}: {sum(shades[3:])} values by 3 shades, {sum(shades[32:])} by 32"


@pytest.fixture(scope="module")
def trace() -> Trace:
    return turnscope.replay(turnscope.load(ROOT / "sample_sessions" / f"{FIRST}.jsonl"), "balanced")


class Film:
    """The shared tab with the first sample under `balanced`, for tests that begin with nothing but a place in it."""

    def __init__(self, tab: Page, trace: Trace) -> None:
        self.tab, self.trace = tab, trace

    def show_place(self, request: int, step: int) -> Page:
        """The tab, moved to a place by its slider, with the focus on the page and the mouse away, as after opening it."""
        shown = urlsplit(self.tab.url)
        asked = {name: value for name, value in parse_qsl(shown.query) if name not in ("request", "step")}
        if shown.path != "/debugger" or asked != {"session": FIRST, "policy": "balanced"}:
            reach(self.tab, session=FIRST, policy="balanced", request=str(request), step=str(step))
        slider = self.tab.locator(".time input")
        slider.fill(point(self.trace, request, step))
        slider.blur()
        self.tab.mouse.move(0, 0)
        self.tab.wait_for_timeout(250)  # the stepper waits before it tells the app; what the test before did may be told late
        wait_for_place(self.tab, request, step)
        idle(self.tab)
        return self.tab


@pytest.fixture
def film(kept: Page, trace: Trace) -> Film:
    return Film(kept, trace)


def test_ten_quick_presses_are_ten_steps(film: Film, trace: Trace) -> None:
    page = film.show_place(31, 0)
    for _ in range(10):
        page.keyboard.press("ArrowRight", delay=0)
    wanted = trace.move(Cursor(31, 0), 10)
    assert place(page) == wanted
    wait_for_place(page, *wanted)
    for _ in range(10):
        page.keyboard.press("ArrowLeft", delay=0)
    wait_for_place(page, 31, 0)


def test_keys_and_buttons_make_the_same_moves(film: Film, trace: Trace) -> None:
    changes = build_steps(trace).changes
    last = Cursor(len(trace.plans) - 1, len(trace.plans[-1].decisions))
    start = changes[1]
    moves = {
        "Home": ("first", Cursor(0, 0)),
        "End": ("last", last),
        "ArrowRight": ("forward", trace.move(start, 1)),
        "ArrowLeft": ("back", trace.move(start, -1)),
        "Shift+ArrowRight": ("requestForward", Cursor(start.request + 1, 0)),
        "Shift+ArrowLeft": ("requestBack", Cursor(start.request, 0)),
        "n": ("change", changes[2]),
        "p": ("changeBack", changes[0]),
    }
    page = film.show_place(*start)
    for key, (name, wanted) in moves.items():
        for way in ("key", "button"):
            page.locator(".time input").fill(point(trace, *start))
            wait_for_place(page, *start)
            if way == "key":
                page.keyboard.press(key)
            else:
                page.locator(f'[data-go="{name}"]').click()
            assert place(page) == wanted, (key, way)
            wait_for_place(page, *wanted)


def test_at_either_end_the_buttons_rest_and_the_keys_do_nothing(film: Film, trace: Trace) -> None:
    page = film.show_place(0, 0)
    assert page.locator('[data-go="back"]').is_disabled()
    page.keyboard.press("ArrowLeft")
    assert place(page) == (0, 0)
    page.keyboard.press("End")
    assert page.locator('[data-go="forward"]').is_disabled()
    before = place(page)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("n")
    assert place(page) == before


def test_playing_goes_on_by_itself_until_it_is_stopped(film: Film) -> None:
    page = film.show_place(31, 0)
    page.keyboard.press("Space")
    page.wait_for_function("() => Number(location.search.match(/step=(\\d+)/)[1]) > 0 || !/request=31&/.test(location.search)")
    page.locator('.where[data-step="9"], .where:not([data-request="31"])').first.wait_for()
    expect(page.locator(".play"), "the app's answers do not stop it").to_have_text("Pause", use_inner_text=True)
    page.keyboard.press("Space")
    expect(page.locator(".play")).to_have_text("Play", use_inner_text=True)
    idle(page)
    stopped = place(page)
    page.wait_for_timeout(700)
    assert place(page) == stopped


def test_the_axis_is_requests_and_the_slider_reaches_both_ends(film: Film, trace: Trace) -> None:
    page = film.show_place(31, 0)
    assert page.locator(".time input").get_attribute("max") == str(len(trace.plans))
    box = page.locator(".time").bounding_box()
    assert box
    page.mouse.click(box["x"] + box["width"] - 2, box["y"] + 10)
    assert place(page)[0] >= len(trace.plans) - 2
    page.mouse.click(box["x"] + box["width"] * 100.2 / len(trace.plans), box["y"] + 10)
    assert place(page)[0] == 100, "as far along as its number, whatever was decided before it"
    page.keyboard.press("Home")
    assert place(page) == (0, 0), "keys work while the slider has the focus"


def test_a_deep_link_to_request_17_step_3_stands_there(kept: Page) -> None:
    changed, decision = find_linked()
    reach(kept, session=FIRST, policy="clear-tool-results", set=parameters.encode_changes(changed), request="17", step="3")
    assert place(kept) == (17, 3)
    assert decision.edit.span
    assert kept.locator(".card .why b").inner_text().startswith(f"#{decision.edit.span.start} ·")
    expect(kept.locator(".card .why p")).to_have_text(decision.edit.because, use_inner_text=True)
    assert kept.locator(".tile.current").get_attribute("data-at") == str(decision.edit.span.start)
    wait_for_place(kept, 17, 3)


def test_forwards_and_back_gives_identical_screens(film: Film) -> None:
    page = film.show_place(31, 0)
    start, forwards = screen(page), []
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    wait_for_place(page, 31, 0)
    idle(page)
    page.mouse.move(0, 0)  # what it rests on is lit
    image = page.locator(".stepper").screenshot(animations="disabled")
    for _ in range(60):
        page.keyboard.press("ArrowRight")
        forwards.append(screen(page))
    assert len(set(forwards)) == len(forwards), "every step changes what one sees"
    for seen in [*forwards[-2::-1], start]:
        page.keyboard.press("ArrowLeft")
        assert screen(page) == seen
    wait_for_place(page, 31, 0)
    idle(page)
    assert compare_images(image, page.locator(".stepper").screenshot(animations="disabled")) == ""
    page.keyboard.press("End")
    page.keyboard.press("Home")
    for _ in range(31):
        page.keyboard.press("Shift+ArrowRight")
    assert screen(page) == start, "another way to the same place shows the same"


def test_the_browser_paints_what_the_trace_says(browser: Browser) -> None:
    """The model's own code, with data of random-looking rules, against the frames of the trace."""
    from law_sessions import make

    talk = make([[("tool", 80), ("two", 60)], [("think", 60), ("tool", 20)], [("say", 20)], [("two", 40), ("tool", 400)]] * 3)
    page = browser.new_page()
    run = (
        MODEL + "; const m = readSteps(text); return places.map(([r, s]) => { const f = frameAt(m, r, s);"
        " return [[...f.state].slice(0, f.cut), [...f.by].slice(0, f.cut), [...f.slots].sort((a, b) => a - b), f.counts] })"
    )
    for names in ([n] for n in RULES):
        for memory in ("remembers", "monotone", "fresh"):
            _compare(page, run, trace_of(talk, *(rule(name, memory) for name in names)))
    _compare(
        page, run, trace_of(talk, rule("_clear_results", "remembers"), rule("_drop_old", "fresh"), rule("_remind", "fresh"))
    )
    page.close()


def _compare(page: Page, run: str, trace: Trace) -> None:
    every = [Cursor(plan.request.n, step) for plan in trace.plans for step in range(len(plan.decisions) + 1)]
    places = [*every, *every[::-1], *every[::3], *every[-1::-7]]
    made = page.evaluate(f"([text, places]) => {{ {run} }}", [build_steps(trace).data.decode(), [list(one) for one in places]])
    for cursor, (states, by, slots, counts) in zip(places, made, strict=True):
        envelope = trace.get_frame(cursor).envelope
        pieces = [piece for piece in envelope.pieces if piece.start < piece.stop for _ in range(piece.stop - piece.start)]
        assert describe_states(list(zip(states, by, strict=True))) == [(p.body is None, p.body == (), p.by) for p in pieces]
        assert slots == sorted(piece.by for piece in envelope.pieces if piece.start == piece.stop)
        assert tuple(counts) == envelope.counts


def test_texts_catch_up_with_the_stepper(film: Film, trace: Trace) -> None:
    page = film.show_place(31, 0)
    for _ in range(4):
        page.keyboard.press("ArrowRight", delay=0)
    wanted = trace.move(Cursor(31, 0), 4)
    decision = trace.get_frame(wanted).decision
    assert decision
    assert decision.edit.span
    wait_for_place(page, *wanted)
    page.locator(".why-line", has_text=f"#{decision.edit.span.start} ·").wait_for()
    text = trace.session.blocks[decision.edit.span.start].text
    page.locator("[data-testid=stCode]", has_text=text.strip().splitlines()[0].strip()[:40]).first.wait_for()


def test_a_click_on_a_tile_asks_why_it_is_here_or_not(kept: Page) -> None:
    reach(kept, session=FIRST, policy="cline-classic", request="113", step="1")
    kept.locator('.tile[data-at="20"]').click()
    kept.locator(".why-line", has_text="#20 ·").wait_for()
    expect(kept.locator(".why-line b")).to_have_text("Not here", use_inner_text=True)
    assert kept.locator(".tile.picked").get_attribute("data-at") == "20"
    idle(kept)
    kept.keyboard.press("End")
    idle(kept)
    kept.locator(".map").click(position={"x": 3, "y": 10})
    kept.locator('.tile[data-at="20"]').click()
    kept.locator(".why-line", has_text="#20 ·").wait_for()
    idle(kept)
    kept.get_by_role("button", name="Go to decision", exact=True).click()
    kept.locator('.where[data-request="113"]').wait_for()


def test_a_block_chosen_by_number_is_marked_in_the_film(kept: Page) -> None:
    reach(kept, session=FIRST, policy="cline-classic", request="113", step="1")
    field = kept.get_by_label("Block", exact=True)
    field.fill("33")
    field.press("Enter")
    kept.locator('.tile.picked[data-at="33"]').wait_for()
    kept.locator(".why-line", has_text="#33 ·").wait_for()


def test_up_and_down_choose_blocks_of_the_film(kept: Page) -> None:
    reach(kept, session=FIRST, policy="cline-classic", request="113", step="2")
    kept.locator(".film").focus()
    kept.keyboard.press("ArrowDown")
    first = int(kept.locator(".tile.picked").get_attribute("data-at") or -1)
    kept.keyboard.press("ArrowDown")
    kept.locator(f'.tile.picked[data-at="{first + 1}"]').wait_for()
    kept.keyboard.press("ArrowUp")
    kept.locator(f'.tile.picked[data-at="{first}"]').wait_for()
    kept.locator(".why-line", has_text=f"#{first} ·").wait_for()


def test_condensed_blocks_fold_into_one_tile_until_it_is_opened(kept: Page) -> None:
    reach(kept, session=FIRST, policy="as-recorded", request="150", step="0")
    fold = kept.locator(".tile.fold:visible")
    expect(fold).to_have_count(1)
    expect(fold).to_contain_text("blocks condensed", use_inner_text=True)
    folded = kept.locator(".tile:visible").count()
    condensed = kept.locator('.tile[data-state="condensed"]:visible')
    expect(condensed).to_have_count(0)
    fold.click()
    condensed.first.wait_for()
    assert kept.locator(".tile:visible").count() > folded
    fold.click()
    expect(condensed).to_have_count(0)
    kept.locator(".unfold", has_text="Show condensed blocks").click()
    condensed.first.wait_for()
    kept.locator(".unfold", has_text="Fold condensed blocks").click()
    expect(condensed).to_have_count(0)
    kept.get_by_label("Block", exact=True).fill("7")
    kept.get_by_label("Block", exact=True).press("Enter")
    kept.locator('.tile.picked[data-at="7"]').wait_for()
    assert "▾" in fold.first.inner_text(), "a block that is chosen opens its fold"


def test_limit_and_window_stand_on_the_scale_of_the_bars(kept: Page) -> None:
    reach(kept, session=FIRST, policy="cline-classic", request="113", step="1")
    expect(kept.locator(".scale")).to_contain_text("policy's limit 160k", use_inner_text=True)
    expect(kept.locator(".scale")).to_contain_text("window 200k", use_inner_text=True)

    def point(name: str) -> float:
        return float(
            kept.locator(f".bar.now u.{name}").evaluate(
                """e => { const bar = e.parentElement.getBoundingClientRect();
                    return (e.getBoundingClientRect().left - bar.left) / bar.width }"""
            )
        )

    assert point("limit") == pytest.approx(0.8, abs=0.01)
    assert point("window") == pytest.approx(1, abs=0.01)


def test_the_way_back_in_the_browser_is_the_way_back_in_the_session(film: Film) -> None:
    page = film.show_place(31, 0)
    page.keyboard.press("n")
    idle(page)
    first = place(page)
    wait_for_place(page, *first)
    page.keyboard.press("End")
    idle(page)
    page.wait_for_url(re.compile("request=324"))
    page.go_back()
    page.locator(f'.where[data-request="{first[0]}"]').wait_for()


def test_quick_presses_count_while_the_server_is_slow(film: Film, server: str) -> None:
    """Answers that come late speak of places that one has left: none of them takes one back."""
    page = film.show_place(31, 0)
    with hold_again(process_of(server)):
        for key, times in (("End", 1), ("Home", 1), ("Shift+ArrowRight", 31)):
            for n in range(times):
                page.keyboard.press(key)
                page.wait_for_timeout((0, 30, 190, 260)[n % 4])
    assert place(page) == (31, 0)
    page.wait_for_url(re.compile("request=31&.*step=0"))
    idle(page)
    page.wait_for_timeout(400)
    assert place(page) == (31, 0), "and it stays there once all is told"


KEEP_ANSWERS = """() => { // what the stepper is given last
    const name = Symbol.for('turnscope.stepper'), draw = globalThis[name];
    globalThis[name] = component => draw(window.answered = component); }"""
ANSWER_LATE = """([request, step]) => {
    const url = new URL(location), { data, parentElement } = window.answered;
    url.searchParams.set('request', request);
    url.searchParams.set('step', step);
    history.replaceState(history.state, '', url);
    const late = { ...data, at: [request, step], linked: true, seq: `${data.seq}, late` };
    const setStateValue = (_, place) => window.reported = place.request;
    window.reported = null;
    globalThis[Symbol.for('turnscope.stepper')]({ data: late, parentElement, setStateValue }); }"""


def test_a_run_that_writes_an_older_address_takes_nobody_back(page: Page) -> None:
    reach(page, session=FIRST, policy="balanced", request="31", step="0")
    idle(page)
    page.evaluate(KEEP_ANSWERS)
    for request in (32, 33):
        page.keyboard.press("Shift+ArrowRight")
        page.wait_for_url(re.compile(f"request={request}"))
        idle(page)
    for older in (32, 31):
        page.evaluate(ANSWER_LATE, [older, 0])
        assert place(page) == (33, 0)
        page.wait_for_function("window.reported === 33")
    page.evaluate(ANSWER_LATE, [40, 0])
    assert place(page) == (40, 0), "to where it never was it goes"


TAKE_OFF = "() => { const { parentElement: root } = window.first ??= window.answered; (root.host ?? root).remove(); }"
PUT_ANOTHER = """late => { // as Streamlit does: the stepper is taken off the page, and another is put there
    const { data, parentElement } = window.first ??= window.answered, another = document.createElement('div');
    another.innerHTML = parentElement.innerHTML;
    document.body.append(another);
    const setStateValue = (_, place) => window.reported = place.request;
    const told = late ? { ...data, at: [31, 0], linked: true, seq: `${data.seq}, late` } : data;
    globalThis[Symbol.for('turnscope.stepper')]({ data: told, parentElement: another, setStateValue }); }"""


@pytest.mark.parametrize("late", [False, True], ids=["", "by a run that had an older address"])
@pytest.mark.parametrize("first", [True, False], ids=["taken off first", "taken off later"])
def test_a_stepper_that_is_put_anew_goes_on_where_one_had_gone(page: Page, late: bool, first: bool) -> None:
    reach(page, session=FIRST, policy="balanced", request="31", step="0")
    page.evaluate(KEEP_ANSWERS)
    page.keyboard.press("Shift+ArrowRight")
    page.wait_for_url(re.compile("request=32"))
    idle(page)
    if first:
        page.evaluate(TAKE_OFF)
    page.keyboard.press("Shift+ArrowRight")  # between the two
    page.evaluate(PUT_ANOTHER, late)
    if not first:
        page.evaluate(TAKE_OFF)
    assert place(page) == (33, 0)
    page.wait_for_function("window.reported === 33")
    page.keyboard.press("Shift+ArrowRight")
    assert place(page) == (34, 0), "once: the first hears no more"


def process_of(url: str) -> int:
    """The process that serves an address."""
    port = url.rsplit(":", 1)[1]
    return int(subprocess.run(["pgrep", "-f", f"server.port {port} "], capture_output=True, check=True).stdout.split()[0])


@contextmanager
def hold_again(process: int, held: float = 0.3, free: float = 0.08) -> Iterator[None]:
    """Hold a process again and again, as a busy machine does; times in seconds."""
    over = threading.Event()

    def hold() -> None:
        while not over.is_set():
            os.kill(process, signal.SIGSTOP)
            time.sleep(held)
            os.kill(process, signal.SIGCONT)
            time.sleep(free)

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def drag(page: Page, start: float, stop: float) -> None:
    """Drag over the strip, from one share of its width to another."""
    box = page.locator(".time").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * start, box["y"] + 15)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * stop, box["y"] + 18, steps=4)
    page.mouse.up()


def test_a_range_is_dragged_summed_up_and_zoomed_into(film: Film, trace: Trace) -> None:
    page = film.show_place(31, 0)
    drag(page, 0.5, 0.75)
    about = page.locator(".about")
    about.get_by_text("repeated input").wait_for()
    first, last = (int(n) for n in re.findall(r"\d+", about.locator("b").inner_text()))
    assert abs(first - len(trace.plans) * 0.5) <= 1
    assert abs(last - len(trace.plans) * 0.75) <= 1
    found = summarize_replay_range(trace, build_steps(trace), first, last + 1)
    told = about.inner_text()
    assert f"{last + 1 - first} requests" in told
    assert f"{found.rules[0][0].replace('_', ' ')}: {found.rules[0][1]} {found.rules[0][2]:,}×" in told
    assert place(page) == (31, 0), "choosing a range moves nothing"
    labels = page.locator(".axis").inner_text()
    about.get_by_role("button", name="Zoom in", exact=True).click()
    expect(page.locator(".axis")).not_to_have_text(labels, use_inner_text=True)
    page.keyboard.press("End")
    assert place(page)[0] == len(trace.plans) - 1
    box = page.locator(".cursor").bounding_box()
    strip = page.locator(".time").bounding_box()
    assert box
    assert strip
    assert strip["x"] <= box["x"] <= strip["x"] + strip["width"] + 1, "the view follows the cursor"
    about.get_by_role("button", name="Whole session", exact=True).click()
    about.get_by_role("button", name="Clear", exact=True).click()
    about.wait_for(state="hidden")
    expect(page.locator(".axis")).to_have_text(labels, use_inner_text=True)


def test_the_wheel_zooms_and_a_double_click_shows_all_again(film: Film) -> None:
    page = film.show_place(31, 0)
    labels = page.locator(".axis").inner_text()
    page.locator(".time").hover(position={"x": 600, "y": 20})
    page.mouse.wheel(0, -400)
    page.locator(".about", has_text="in view").wait_for()
    expect(page.locator(".axis")).not_to_have_text(labels, use_inner_text=True)
    page.locator(".time").dblclick(position={"x": 900, "y": 20})
    page.locator(".about").wait_for(state="hidden")
    expect(page.locator(".axis")).to_have_text(labels, use_inner_text=True)


def test_the_cursor_can_be_dragged(film: Film, trace: Trace) -> None:
    page = film.show_place(31, 0)
    drag(page, 31.1 / len(trace.plans), 0.5)
    assert abs(place(page)[0] - len(trace.plans) * 0.5) <= 2
    assert page.locator(".about").is_hidden()


def test_all_decisions_are_listed_filtered_and_gone_to(kept: Page, trace: Trace) -> None:
    reach(kept, session=FIRST, policy="balanced", request="31", step="0")
    kept.get_by_role("radio", name="All decisions").click()
    kept.locator(".view .row").first.wait_for()
    decisions = [d for plan in trace.plans for d in plan.decisions]
    assert kept.locator(".many").inner_text().startswith(f"{len(decisions):,} of {len(decisions):,}")
    assert kept.locator(".view .row").count() < 60, "only what is in view is drawn"
    rule = decisions[0].rule
    kept.get_by_label("Rule", exact=True).select_option(rule)
    meant = [d for d in decisions if d.rule == rule]
    assert kept.locator(".many").inner_text().startswith(f"{len(meant):,} of")
    kept.get_by_label("From request").fill("61")
    kept.get_by_label("To request").fill("201")
    meant = [d for d in meant if 60 <= d.request <= 200]
    assert kept.locator(".many").inner_text().startswith(f"{len(meant):,} of")
    kept.get_by_label("Text to find").fill("no such words anywhere")
    kept.get_by_text("No decision meets this.").wait_for()
    kept.get_by_role("button", name="Reset", exact=True).click()
    kept.get_by_label("Action").select_option("clear")
    row = kept.locator(".view .row").nth(3)
    where = [d for d in decisions if d.action == "clear"][3]
    row.click()
    wait_for_place(kept, where.request, where.seq - trace.plans[where.request].first + 1)
    kept.locator(".view .row.here").wait_for()
    kept.get_by_role("radio", name="Before and after").click()
    idle(kept)


def test_breakpoints_stop_playing_and_can_be_jumped_to(page: Page, trace: Trace) -> None:
    sizes = build_steps(trace).sizes
    limit = sorted(sizes)[-5]
    wanted = next(n for n, tokens in enumerate(sizes) if tokens > limit and n > 31)
    visit(page, session=FIRST, policy="balanced", request="31", step="0")
    assert page.locator('[data-go="stop"]').is_disabled()
    page.locator(".stops summary").click()
    page.locator(".stops [name=tokens]").fill(str(limit))
    expect(page.locator(".stops summary")).to_contain_text("4", use_inner_text=True)
    page.locator(".stops summary").click()
    page.keyboard.press("b")
    assert place(page) == (wanted, len(trace.plans[wanted].decisions))
    expect(page.locator(".where")).to_contain_text("over", use_inner_text=True)
    page.locator(".time input").fill(point(trace, wanted, 0))
    page.locator(".speed").select_option("90")
    page.locator(".play").click()
    page.locator(".play", has_text="Play").wait_for()
    page.locator(f'.where[data-request="{wanted}"][data-step="{len(trace.plans[wanted].decisions)}"]').wait_for()
    page.wait_for_url(re.compile(r"[?&]stops="))
    page.reload()
    page.locator(".where[data-request]").wait_for()
    expect(page.locator('[data-go="stop"]')).to_be_enabled()


def test_policies_are_found_by_typing_and_shown_whole(kept: Page) -> None:
    reach(kept, session=FIRST, policy="balanced", request="113", step="0")
    kept.get_by_role("button", name="Balanced", exact=True).click()
    kept.locator(".picker h4", has_text="Roo Code").wait_for()
    kept.locator(".picker input").fill("cline cla")
    found = kept.locator(".picker b").all_inner_texts()
    assert found[0] == "Cline classic (VS Code, 3.10 to 3.89)"
    assert len(found) < 4
    kept.keyboard.press("Enter")
    kept.wait_for_url(re.compile("request=113&.*policy=cline-classic"))
    kept.get_by_role("button", name="Cline classic (VS Code, 3.10 to 3.89)", exact=True).wait_for()


def test_a_recorded_compaction_says_what_it_left(kept: Page, compacted: str) -> None:
    reach(kept, session=compacted, policy="as-recorded", request="3", step="0")
    expect(kept.locator(".where")).to_contain_text("between two recorded requests", use_inner_text=True)
    expect(kept.locator(".tile.sigma:visible"), "there is no summary yet").to_have_count(0)
    before = kept.locator(".number.now").inner_text()
    assert before.startswith("9.3k")
    kept.keyboard.press("ArrowRight")
    wait_for_place(kept, 3, 1)
    expect(kept.locator(".number.before")).to_have_text(before, use_inner_text=True)
    assert kept.locator(".number.now").inner_text().startswith("910")
    assert kept.locator(".verb").inner_text().lower() == "condensed"
    expect(kept.locator(".tally")).to_have_text("2 kept · 6 condensed", use_inner_text=True)
    expect(kept.locator('.tile[data-state="condensed"]:visible')).to_have_count(6)
    idle(kept)
    kept.locator(".tile.sigma").click()
    kept.locator("[data-testid=stCode]", has_text="What happened so far.").first.wait_for()
    reach(kept, session=compacted, policy="as-recorded", request="4", step="1")
    expect(kept.locator(".change b.worse")).to_have_count(1)
    expect(kept.locator(".change")).to_contain_text("costs more than it saves", use_inner_text=True)


@pytest.fixture
def compacted(kept: Page) -> str:
    """A session with a compaction, and one that made the request longer."""
    log = Log()
    log.user("first question")
    log.answer("m1", "first answer", usage=(10, 9000, 0, 20))
    log.user("second question")
    log.answer("m2", call("t1"), usage=(10, 100, 9000, 20))
    log.result("t1", "a result " * 60)
    log.answer("m3", "second answer", usage=(10, 200, 9100, 20))
    log.compact()
    log.user("third question")
    log.answer("m4", "third answer", usage=(10, 900, 0, 20))
    log.compact("All of it, at some length. " * 30)
    log.user("fourth question")
    log.answer("m5", "fourth answer", usage=(10, 1100, 0, 20))
    travel(kept, "/library")
    kept.locator("input[type=file]").first.set_input_files(
        {"name": "compacted.jsonl", "mimeType": "application/jsonl", "buffer": log.text().encode()}
    )
    kept.wait_for_url(lambda url: "/library" not in url and "session=" in url)
    idle(kept)
    return re.search(r"session=([^&]+)", kept.url)[1]  # type: ignore[index]


def test_the_trace_crosses_the_wire_once(page: Page) -> None:
    sizes: list[int] = []
    page.on("websocket", lambda opened: opened.on("framereceived", lambda frame: sizes.append(len(frame))))
    visit(page, session=FIRST, policy="balanced", request="31", step="0")
    first = sum(sizes)
    sizes.clear()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
        idle(page)
        page.wait_for_timeout(350)
    idle(page)
    assert first > 150_000, "the trace came with the page"
    assert sum(sizes) / 5 < 60_000, sizes


def test_typing_in_a_field_does_not_step(kept: Page) -> None:
    reach(kept, session=FIRST, policy="balanced", request="31", step="0")
    kept.locator(".st-key-header-search input").fill("no pnp")
    kept.locator(".st-key-header-search input").press("ArrowLeft")
    assert place(kept) == (31, 0)
    kept.locator(".st-key-header-search input").fill("")


CUT_OFF = """e => [...e.querySelectorAll('.transport, .card, .bars, .film, .legend, .map, .strip')].filter(p =>
    p.getBoundingClientRect().right > innerWidth + 1 || p.scrollWidth > p.clientWidth + 1).map(p => p.className)"""


@pytest.mark.parametrize(("widths", "first"), [((1440, 800, 420), "dark"), ((420, 800, 1440), "light")], ids=str)
def test_nothing_is_cut_off_at_any_width_and_theme(kept: Page, widths: tuple[int, ...], first: Any) -> None:
    """Opened at either end, and pulled from there: each width is measured in each theme."""
    look(kept, widths[0], first)
    reach(kept, session=FIRST, policy="balanced", request="31", step="0")
    for width in widths:
        for scheme in ("dark", "light") if first == "dark" else ("light", "dark"):
            look(kept, width, scheme)
            wait_for_theme(kept, scheme)
            assert measure(kept, partial(kept.locator(".stepper").evaluate, CUT_OFF)) == [], (width, scheme)
            assert kept.evaluate("document.documentElement.scrollWidth") <= width
            colour = kept.locator(".verb").evaluate("e => getComputedStyle(e).color")
            assert colour not in ("rgb(0, 0, 0)", "rgb(255, 255, 255)"), "the theme's colours reach the stepper"


def test_hostile_text_is_text_in_the_stepper(kept: Page, projects: Path) -> None:
    session = hashlib.sha256(str(projects / hostile.NAME).encode()).hexdigest()[:12]
    reach(kept, session=session, policy="one-line-calls", set='{"1.keep":0}', request="0", step="0")
    for _ in range(12):
        kept.keyboard.press("ArrowRight")
    kept.locator(".card", has_text="<script>").or_(kept.locator('.tile[title*="<script>"]').last).first.wait_for()
    idle(kept)
    expect(kept.locator(".stepper script, .stepper img, .stepper style, .stepper form")).to_have_count(0)
    assert kept.evaluate("window.pwned") is None


def test_a_changed_parameter_replays_and_stays_in_the_link(kept: Page) -> None:
    reach(kept, session=FIRST, policy="clear-tool-results", request="57", step="1")
    kept.locator(".st-key-policy-turn button").first.click()
    keep = kept.get_by_label("Keep the newest (tool uses)", exact=True)
    keep.fill("30")
    keep.press("Tab")
    kept.get_by_role("button", name="Apply", exact=True).click()
    kept.wait_for_url(re.compile(r"set=.*keep"))
    kept.locator(".policy-line", has_text="clear old results: Keep the newest (tool uses) = 30").wait_for()
    idle(kept)
    link: Any = kept.url
    kept.goto(link)
    kept.locator(".where[data-request]").wait_for()
    kept.locator(".policy-line", has_text="clear old results: Keep the newest (tool uses) = 30").wait_for()
