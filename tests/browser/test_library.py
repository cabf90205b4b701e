"""A folder in the library, in a real Chromium: imported, watched, stopped, searched; hits lead to blocks; branches of trees."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from claude_log import Log
from conftest import idle, travel, wait_for_theme
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

SESSIONS = "tbody tr:has(td.cost)"  # the lines of sessions; a folder that is typed has a table, too
BIRD = "quetzalcoatlus"


def talk(words: str) -> str:
    log = Log()
    log.user(words)
    log.answer("m1", "So they do.", usage=(20, 0, 0, 9))
    return log.text()


def librechat() -> dict[str, Any]:
    """A chat whose first answer was made twice, and gone on with both times."""
    rows = [
        ("u1", "00000000-0000-0000-0000-000000000000", True, "Where do herons sleep?"),
        ("a1", "u1", False, "In trees."),
        ("u2", "a1", True, "In which trees?"),
        ("a2", "u2", False, "In tall ones."),
        ("b1", "u1", False, "On one leg."),
        ("u3", "b1", True, "On which leg?"),
        ("b2", "u3", False, "Now on the left, now on the right: a " + BIRD + " would know."),
    ]
    names = ("messageId", "parentMessageId", "isCreatedByUser", "text")
    messages = [dict(zip(names, row, strict=True)) | {"sender": "User" if row[2] else "Bot", "model": "gpt-4o"} for row in rows]
    about = {"conversationId": "c", "title": "Herons", "endpoint": "openAI", "branches": True, "recursive": False}
    return {**about, "options": {"model": "gpt-4o"}, "messages": messages}


def chatgpt() -> list[dict[str, Any]]:
    """A conversation whose prompt was edited; the export shows the edited one."""
    rows = [
        ("r", None, "", ""),
        ("u", "r", "user", "Cranes?"),
        ("a", "u", "assistant", "They dance."),
        ("v", "r", "user", "Cranes, in short?"),
        ("b", "v", "assistant", "Dancers."),
        ("w", "b", "user", "Who taught them?"),
        ("c", "w", "assistant", "Nobody."),
    ]
    mapping = {}
    for id, parent, role, said in rows:
        content = {"content_type": "text", "parts": [said]}
        message = {"author": {"role": role}, "content": content, "metadata": {}} if role else None
        children = [row[0] for row in rows if row[1] == id]
        mapping[id] = {"id": id, "parent": parent, "children": children, "message": message}
    return [{"title": "Cranes", "create_time": 1.75e9, "mapping": mapping, "current_node": "c", "conversation_id": "c2"}]


def name_anew(bird: str, folder: Path) -> str:
    """Another name where a test runs again, over the same index: it gets another folder then."""
    return bird + "abcdefghij"[int(folder.name[-1])]


def index(page: Page, folder: Path) -> None:
    travel(page, "/library")
    field = page.get_by_label("Or type the path of a file or a folder")
    field.fill(str(folder))
    field.press("Enter")
    page.get_by_text(f"{len([*folder.iterdir()])} sessions found.").wait_for()  # the button is this folder's, not one's before
    idle(page)  # the table of the folder moves the button
    page.get_by_role("button", name="Index this folder", exact=True).click()


def test_a_folder_is_imported_stopped_searched_and_the_branches_of_its_trees_are_picked(kept: Page, tmp_path: Path) -> None:
    bird = name_anew(BIRD, tmp_path)
    many, few = tmp_path / "many", tmp_path / "few"
    for folder in (many, few):
        folder.mkdir()
    for n in range(400):
        (many / f"{n}.jsonl").write_text(talk(f"heron number {n} stands in the reeds"))
    index(kept, many)
    bar = kept.locator(".ts-progress")
    bar.get_by_text(re.compile(r"Indexing \d+ of 400 files")).wait_for()
    place, button = bar.bounding_box(), kept.get_by_role("button", name="Index this folder", exact=True).bounding_box()
    assert place
    assert button
    assert 0 < place["y"] - button["y"] < 300, "the bar stands where one has just clicked"
    kept.get_by_role("button", name="Cancel", exact=True).click()
    bar.get_by_text(re.compile(r"Stopped after \d+ of 400 files")).wait_for()
    idle(kept)

    (few / "librechat.json").write_text(json.dumps(librechat()).replace(BIRD, bird))
    (few / "conversations.json").write_text(json.dumps(chatgpt()))
    (few / "broken.json").write_text('{"no": "session"}')
    index(kept, few)
    bar.get_by_text("Indexed 3 files").wait_for()
    kept.get_by_text("is in no format that Turnscope knows").first.wait_for()
    idle(kept)
    search = kept.get_by_label("Search all sessions")
    search.fill(bird)
    search.press("Enter")
    kept.locator(".ts-hit mark").first.wait_for()
    assert kept.locator(".ts-hit mark").all_inner_texts() == [bird]
    label = kept.locator(".st-key-library-hits button").first.inner_text()
    number, block = (int(found) for found in re.findall(r"(?:request|block) (\d+)", label))
    kept.locator(".st-key-library-hits button").first.click()
    kept.wait_for_url(re.compile(rf"request={number - 1}(&|$)"))
    kept.locator(f".ts-closeup[data-block='{block}'], [data-at='{block}']").first.wait_for()
    kept.get_by_text(f"a {bird} would know").first.wait_for()
    kept.wait_for_function("document.querySelector('.ts-closeup').getBoundingClientRect().top < innerHeight")

    pick(kept, "Herons", "Branch 1 at request 1: In trees.", requests=2)
    travel(kept, "/library")
    search = kept.get_by_label("Search all sessions")
    search.fill("dancers")
    search.press("Enter")
    kept.locator(".st-key-library-hits button", has_text="Cranes").first.click()
    pick(kept, "Cranes", "Branch 1 at request 1: Cranes?", requests=1)


def pick(page: Page, title: str, name: str, requests: int) -> None:
    """Choose the other branch of a tree of two: the link names it, and requests are those along it."""
    page.locator(".ts-title", has_text=title).scroll_into_view_if_needed()
    idle(page)
    from playwright.sync_api import TimeoutError as Late

    option = page.get_by_role("option", name=name)
    for _ in range(5):  # a list that opens while the page moves closes again
        page.wait_for_timeout(300)
        page.get_by_role("combobox", name="2 branches").click()
        with suppress(Late):
            option.click(timeout=3_000)
            break
    page.wait_for_url(re.compile(r"part=1(&|$)"))
    idle(page)
    assert page.get_by_label("Go to request").get_attribute("max") == str(requests)


def test_the_dialog_of_tags_stays_open_with_what_was_typed_while_the_page_runs_again(kept: Page, tmp_path: Path) -> None:
    bird, other = name_anew("plover", tmp_path), name_anew("sanderling", tmp_path)
    for name in (bird, other):
        (tmp_path / f"{name}.jsonl").write_text(talk(f"where does the {name} winter?"))
    index(kept, tmp_path)
    sign = kept.get_by_role("button", name=f"Tags of where does the {bird} winter?", exact=True).first
    sign.wait_for()
    idle(kept)
    sign.press("Enter")
    field = kept.get_by_role("dialog").get_by_role("textbox")
    field.fill("half a ")
    for scheme in ("light", "dark"):
        kept.emulate_media(color_scheme=scheme)  # the page is drawn anew
        wait_for_theme(kept, scheme)
        idle(kept)
        expect(field).to_have_value("half a ")
    for _ in range(20):  # until the field stays: in one that is drawn anew the caret stands in front
        field.evaluate("field => { field.isTheSame = true }")
        kept.wait_for_timeout(500)
        if field.evaluate("field => field.isTheSame"):
            break
    expect(field).to_have_value("half a ")
    field.press("End")
    field.press_sequentially("word")
    expect(field).to_have_value("half a word")
    kept.keyboard.press("Escape")
    field.wait_for(state="detached")
    kept.emulate_media(color_scheme="light")
    wait_for_theme(kept, "light")
    kept.emulate_media(color_scheme="dark")
    wait_for_theme(kept, "dark")
    idle(kept)
    assert not kept.get_by_role("dialog").count(), "what was closed stays closed"
    assert not kept.locator(SESSIONS, has_text=bird).locator(".tag").count(), "and nothing was written"


def test_a_list_that_is_drawn_anew_leaves_the_focus_where_it_was(kept: Page, tmp_path: Path) -> None:
    smew, garganey = (name_anew(bird, tmp_path) for bird in ("smew", "garganey"))
    for name in (smew, garganey):
        (tmp_path / f"{name}.jsonl").write_text(talk(f"where does the {name} winter?"))
    index(kept, tmp_path)
    kept.locator("td", has_text=f"where does the {smew} winter?").first.wait_for()
    idle(kept)
    for name in ("project", "title"):
        heading = kept.locator(f"th.{name}")
        heading.get_by_role("button").press("Enter")
        expect(heading).to_have_attribute("aria-sort", "ascending")
        expect(heading.get_by_role("button")).to_be_focused()


def test_a_line_opens_its_session_and_back_leads_to_what_was_looked_for(kept: Page, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    curlew, dunlin, godwit, waders = (name_anew(bird, tmp_path) for bird in ("curlew", "dunlin", "godwit", "waders"))
    for n, name in enumerate((curlew, dunlin, godwit)):
        (folder / f"{name}.jsonl").write_text(talk(f"where does the {name} winter?").replace("/work", f"/work/{'ab'[n % 2]}"))
    index(kept, folder)
    kept.locator("td", has_text=f"where does the {godwit} winter?").first.wait_for()
    search = kept.get_by_label("Search all sessions")
    search.fill(dunlin)
    search.press("Enter")
    kept.wait_for_url(re.compile(rf"[?&]q={dunlin}"))
    row = kept.locator(SESSIONS, has_text=dunlin)
    row.locator("td.cost").click()  # anywhere in the line
    kept.wait_for_url(lambda url: "/library" not in url and "session=" in url)
    kept.locator(".ts-title h1", has_text=f"where does the {dunlin} winter?").wait_for()
    kept.wait_for_url(re.compile(r"request=0"))  # the address is whole
    idle(kept)
    kept.go_back()
    kept.wait_for_url(re.compile(rf"/library\?.*q={dunlin}"))
    kept.locator(SESSIONS, has_text=dunlin).wait_for()
    expect(kept.get_by_label("Search all sessions")).to_have_value(dunlin)
    expect(kept.locator(SESSIONS)).to_have_count(1)
    idle(kept)  # what is drawn anew between pressing and letting go of a button is not clicked
    kept.get_by_role("button", name="Clear", exact=True).click()
    kept.locator(SESSIONS, has_text=godwit).first.wait_for()
    kept.get_by_role("button", name="Title", exact=True).press("Enter")  # by the keyboard
    kept.wait_for_url(re.compile(r"sort=title"))
    kept.locator("th[aria-sort=ascending]", has_text="Title").wait_for()
    add = kept.get_by_role("button", name=f"Tags of where does the {godwit} winter?", exact=True)
    add.focus()
    add.press("Enter")
    field = kept.get_by_role("dialog").get_by_role("textbox")
    field.fill(f"{waders}, to read")
    kept.keyboard.press("Enter")  # once, also where the dialog is drawn anew meanwhile
    kept.locator(SESSIONS, has_text=godwit).locator(".tag", has_text=waders).wait_for()
    kept.locator(".st-key-library-by button, .st-key-library-costs button", has_text="Tag").first.click()
    kept.get_by_role("button", name=re.compile(rf"^{waders}\b")).click()
    kept.wait_for_url(re.compile(rf"tag={waders}"))
    kept.locator(SESSIONS, has_text=curlew).wait_for(state="detached")
    assert kept.locator(SESSIONS).count() == 1
    kept.get_by_role("button", name="Clear", exact=True).click()
    kept.wait_for_url(lambda url: "tag=" not in url)
