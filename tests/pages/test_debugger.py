"""The debugger in Streamlit's own test runner: policies on samples, links, forms, saving, and whatever a URL may say."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import hostile
import pytest
import streamlit as st
from conftest import ROOT
from covering import select_covering
from debugger_links import find_linked
from turnscope.planning import policy
from turnscope.storage.threads import Threads
from turnscope.views import parameters

from pages.debugger import address

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

SAMPLES = sorted(path.stem for path in (ROOT / "sample_sessions").glob("*.jsonl"))
FIRST = "tool-results-eat-the-window"


def open_debugger(app: AppTest, **query: str) -> AppTest:
    """The app, gone to the debugger with a query."""
    app.switch_page("pages/debugger.py")
    for name, value in query.items():
        app.query_params[name] = value
    return app.run()


def bodies(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


def query(app: AppTest) -> dict[str, str]:
    return {name: value[0] if isinstance(value, list) else value for name, value in app.query_params.items()}


def codes(app: AppTest) -> list[str]:
    return [element.value for element in app.code]


@pytest.mark.thorough
@pytest.mark.parametrize("sample", SAMPLES)
def test_what_every_rule_did_is_shown_over_a_sample(app: AppTest, sample: str) -> None:
    """Every rule, in one of its policies, over one of them; that every policy replays is a law of the engine's."""
    open_debugger(app, session=sample)
    for name in select_covering(policy.list_policies())[list(SAMPLES).index(sample) :: len(SAMPLES)]:
        app.query_params["policy"] = name
        app.run()
        assert not app.exception, name
        assert query(app)["policy"] == name
        assert re.search(r"changes? in |changes nothing", bodies(app))


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_debugger_shows_the_very_body_that_the_envelope_page_shows(app: AppTest, sample: str) -> None:
    app.query_params["session"] = sample
    app.query_params["request"] = "3"
    app.run()
    app.query_params["pane"] = "exact"
    app.run()
    (whole,) = codes(app)
    open_debugger(app, session=sample, policy="as-recorded", request="3", step="0")
    app.query_params["pane"] = "sent"
    app.run()
    assert codes(app)[-1] == whole[: len(codes(app)[-1])]
    assert len(codes(app)[-1]) == min(20_000, len(whole))


def test_a_report_still_says_that_the_app_followed_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that had an older address moves the stepper back; the browser may get to see only the report's answer."""
    kept: list[address.Place] = []
    monkeypatch.setattr(st, "session_state", {"replays.place": address.Place("k", 6, 0, None, 2, linked=True)})
    monkeypatch.setattr(st, "query_params", {})
    monkeypatch.setattr(address, "keep_place", lambda _, place: kept.append(place))
    trace = SimpleNamespace(plans=[SimpleNamespace(decisions=())] * 20, session=SimpleNamespace(blocks=()))
    replay: Any = SimpleNamespace(run=SimpleNamespace(key="k"), trace=trace)
    shown: Any = None
    address.follow_stepper(shown, replay, {"request": 11, "step": 0})
    assert [(place.request, place.seq, place.linked) for place in kept] == [(11, 2, True)]


def test_it_opens_on_what_was_really_sent_where_the_reader_was(app: AppTest) -> None:
    app.run()
    open_debugger(app, session=FIRST)
    assert query(app) == {"session": FIRST, "request": "262", "step": "0", "policy": "as-recorded"}
    assert "2 changes in 2 requests" in bodies(app)


def test_a_model_writes_the_summaries_that_are_placeholders_on_request(app: AppTest, data_folder: Path) -> None:
    open_debugger(app, session="chat-forgets-first-instruction", policy="condense-oldest")
    assert "2 summaries of this replay</b> are offline summaries" in bodies(app)
    assert app.text_input(key="condense.model.offline").value == "offline-200k"
    app.button(key="condense.ask").click().run()
    assert not app.exception
    assert "of this replay</b>" not in bodies(app)
    kept = Threads(data_folder / "chats.db").list_answers()
    assert [answer.model for answer in kept.values()] == ["offline-200k"] * 2
    open_debugger(app, session="chat-forgets-first-instruction", policy="condense-oldest")
    assert [button for button in app.button if button.key == "condense.ask"] == []


def test_a_model_that_cannot_be_asked_is_told_and_changes_nothing(app: AppTest, data_folder: Path) -> None:
    app.session_state["chat.provider"] = "server"
    app.session_state["chat.url"] = ""
    open_debugger(app, session="chat-forgets-first-instruction", policy="condense-oldest")
    app.button(key="condense.ask").click().run()
    assert not app.exception
    assert "server&#x27;s address is missing" in bodies(app)
    assert "2 summaries of this replay</b> are offline summaries" in bodies(app)
    assert Threads(data_folder / "chats.db").list_answers() == {}


def test_a_deep_link_to_request_17_step_3_shows_that_decision(app: AppTest) -> None:
    changed, decision = find_linked()
    link = {
        "session": FIRST,
        "policy": "clear-tool-results",
        "set": parameters.encode_changes(changed),
        "request": "17",
        "step": "3",
    }
    open_debugger(app, **link)
    assert query(app) == link
    assert decision.edit.span is not None
    assert f"#{decision.edit.span.start} · " in bodies(app)
    assert decision.edit.because in bodies(app)


@pytest.mark.parametrize(
    ("request_", "step", "shown"),
    [("-4", "0", ("0", "0")), ("9999", "9999", ("324", None)), ("x", "y", ("112", "1")), ("40", "-1", ("40", "0"))],
)
def test_a_place_outside_the_session_is_brought_inside(app: AppTest, request_: str, step: str, shown: tuple[str, str]) -> None:
    open_debugger(app, session=FIRST, policy="as-recorded", request=request_, step=step)
    assert not app.exception
    assert query(app)["request"] == shown[0]
    assert shown[1] in (None, query(app)["step"])


@pytest.mark.parametrize("name", ["nowhere", "../../etc/passwd", "/etc/passwd", "<script>", ""])
def test_a_policy_that_is_not_known_gives_what_was_really_sent_and_says_so(app: AppTest, name: str) -> None:
    open_debugger(app, session=FIRST, policy=name)
    assert not app.exception
    assert query(app)["policy"] == "as-recorded"
    assert ("There is no policy" in bodies(app)) == bool(name)
    assert "<script>" not in bodies(app)


def test_a_name_that_is_nearly_right_is_told_the_right_one(app: AppTest) -> None:
    open_debugger(app, session=FIRST, policy="cline-clasic")
    assert "Perhaps Cline classic (VS Code, 3.10 to 3.89) (cline-classic) is meant." in bodies(app)


def test_a_policy_that_changes_nothing_says_so(app: AppTest) -> None:
    open_debugger(app, session=FIRST, policy="keep-everything")
    assert "This policy changes nothing in this session." in bodies(app)
    assert "177 sent over the limit" in bodies(app)
    open_debugger(app, session=FIRST, policy="balanced")
    assert "changes nothing" not in bodies(app)


def test_a_replay_says_how_sure_its_dollars_are(app: AppTest) -> None:
    open_debugger(app, session=FIRST, policy="balanced")
    assert re.search(r"simulated \$[\d.,]+, ×\d\.\d\d of what it cost \(\$[\d.,]+\)", bodies(app))
    open_debugger(app, session=FIRST, policy="as-recorded")
    assert "simulated" not in bodies(app)


def test_a_recorded_compaction_shows_its_summary(app: AppTest, shared, monkeypatch: pytest.MonkeyPatch) -> None:
    path = shared("data", "open", "claude-code", "entire-cd95-3compactions.jsonl")
    monkeypatch.setenv("TURNSCOPE_OPEN", str(path))
    open_debugger(app, policy="as-recorded", request="50", step="1")
    assert ">In a summary</b>" in bodies(app)
    assert "after · the summary, block #188" in bodies(app)
    assert any("This session is being continued" in text for text in codes(app))
    app.query_params["pane"] = "log"
    app.run()
    assert "Condense" in bodies(app) or "condense" in bodies(app)
    assert "-&gt; 66,549" in bodies(app), "the tokens are those of the log"


def field(app: AppTest, kind: str, end: str):
    return next(widget for widget in app.get(kind) if widget.key and widget.key.endswith(end))


def button(app: AppTest, label: str):
    return next(one for one in app.button if one.label == label)


def test_a_turned_parameter_is_in_the_link_and_changes_the_replay(app: AppTest) -> None:
    open_debugger(app, session=FIRST, policy="clear-tool-results", request="57")
    before = re.search(r"([\d,]+) changes in", bodies(app))
    field(app, "number_input", ".1.keep").set_value(40)
    button(app, "Apply").click().run()
    assert not app.exception
    assert json.loads(query(app)["set"]) == {"1.keep": 40}
    assert "clear old results: Keep the newest (tool uses) = 40" in bodies(app)
    after = re.search(r"([\d,]+) changes in", bodies(app))
    assert before
    assert after
    assert before[1] != after[1]
    link = query(app)
    button(app, "Reset").click().run()
    assert "set" not in query(app)
    open_debugger(app, **link)
    assert "clear old results: Keep the newest (tool uses) = 40" in bodies(app)


def test_applying_without_a_change_leaves_the_link_alone(app: AppTest) -> None:
    open_debugger(app, session=FIRST, policy="balanced")
    button(app, "Apply").click().run()
    assert "set" not in query(app)
    assert not app.exception


@pytest.mark.parametrize("link", ["{", "[]", '{"1.keep": "x"}', '{"99.keep": 1}', '{"budget.formula": "nothing"}'])
def test_a_broken_link_is_told_with_a_hint_and_shows_something(app: AppTest, link: str) -> None:
    open_debugger(app, session=FIRST, policy="clear-tool-results", set=link)
    assert not app.exception
    assert 'role="alert"' in bodies(app)


def test_a_budget_that_nothing_fits_is_a_verdict_not_an_error(app: AppTest) -> None:
    open_debugger(app, session=FIRST, policy="balanced", set='{"budget.formula":"fixed","budget.tokens":100}')
    assert not app.exception
    assert re.search(r"\d+ (refused|sent over the limit)", bodies(app))


def test_a_saved_policy_lands_in_the_users_folder_and_is_shown(app: AppTest, data_folder: Path) -> None:
    open_debugger(app, session=FIRST, policy="clear-tool-results")
    area = field(app, "text_area", "policy.toml.clear-tool-results.")
    area.set_value(area.value.replace("keep = 3", "keep = 11"))
    field(app, "text_input", "policy.name.clear-tool-results").set_value("keeps-eleven")
    button(app, "Save to my policies").click().run()
    assert not app.exception
    assert (data_folder / "policies" / "keeps-eleven.toml").read_text(encoding="utf-8").count("keep = 11") == 1
    assert query(app)["policy"] == "keeps-eleven"
    assert "yours" in bodies(app)
    open_debugger(app, session=FIRST, policy="keeps-eleven")
    assert query(app)["policy"] == "keeps-eleven"


@pytest.mark.parametrize(("name", "text"), [("../evil", None), ("balanced", None), ("fine", "rules = [")])
def test_what_cannot_be_saved_is_told_and_nothing_is_written(
    app: AppTest, data_folder: Path, name: str, text: str | None
) -> None:
    open_debugger(app, session=FIRST, policy="clear-tool-results")
    field(app, "text_input", "policy.name.clear-tool-results").set_value(name)
    if text is not None:
        field(app, "text_area", "policy.toml.clear-tool-results.").set_value(text)
    button(app, "Save to my policies").click().run()
    assert not app.exception
    assert 'role="alert"' in bodies(app)
    assert not list(data_folder.rglob("*.toml"))


def test_a_broken_file_among_the_users_policies_is_reported_beside_the_others(app: AppTest, data_folder: Path) -> None:
    (data_folder / "policies").mkdir()
    (data_folder / "policies" / "broken.toml").write_text("title = ", encoding="utf-8")
    open_debugger(app, session=FIRST)
    assert not app.exception
    assert "Your policy &#x27;broken&#x27; is left out" in bodies(app)


@pytest.mark.parametrize("pane", ["text", "list", "sent", "difference", "asks", "log"])
def test_every_pane_shows_its_text(app: AppTest, pane: str) -> None:
    open_debugger(app, session=FIRST, policy="condense-oldest", request="20", step="1")
    app.query_params["pane"] = pane
    app.run()
    assert not app.exception
    if pane == "list":
        return
    wanted = {"text": "Summary", "sent": '"messages": [', "difference": "@@", "asks": "Summary", "log": "- **Rule**: condense"}
    assert any(wanted[pane].lower() in text.lower() for text in codes(app)), codes(app)
    if pane == "asks":
        assert "no model was called" in bodies(app)


def test_a_request_over_its_limit_is_drawn_as_a_ladder_with_the_way_it_took(app: AppTest) -> None:
    app.query_params["pane"] = "ladder"
    open_debugger(app, session=FIRST, policy="ladder", request="136", step="1")
    assert not app.exception
    assert "2 of 325 requests came over their limit" in bodies(app)
    assert 'class="rung came no" role="listitem" data-step="projected"' in bodies(app)
    assert 'class="rung came yes" role="listitem" data-step="compaction"' in bodies(app)
    assert "a placeholder summary now replaces 186 messages" in bodies(app)
    next(each for each in app.button if each.key == "debugger.ladder.Next").click().run()
    assert query(app)["request"] == "252"


def test_what_the_api_would_refuse_is_said_of_the_policy_and_of_the_request(app: AppTest) -> None:
    open_debugger(app, session=FIRST, policy="chatbot-ui", request="184")
    assert "140 of 325 requests would be rejected by the API: the first message must be a user&#x27;s (126)" in bodies(app)
    assert '<b class="tone-bad">The API would reject this request</b> <span>messages.0: the first message' in bodies(app)
    open_debugger(app, session="chat-forgets-first-instruction", policy="last-20-messages", request="10")
    assert "would be rejected" not in bodies(app)


def test_every_policy_is_listed_by_system_and_has_a_page(app: AppTest) -> None:
    app.run()
    app.switch_page("pages/policies.py").run()
    assert not app.exception
    assert 'href="policies?policy=multi-turn-hybrid"' in bodies(app), "the strategies link to the policies that show them"
    assert "Cline SDK" not in bodies(app), "the list is a component of its own"
    app.query_params["policy"] = "cline-sdk"
    app.query_params["picked"] = "codex,no-such,roo"
    app.run()
    assert not app.exception
    assert "<h2>Cline SDK (agentic)</h2>" in bodies(app)
    assert "<h3>Rules, in order</h3>" in bodies(app)
    assert "session: " not in bodies(app), "no notation of tests"
    assert "policies=as-recorded%2Ccodex%2Croo" in bodies(app)
    app.button(key="policies.close").click().run()
    assert "policy" not in app.query_params
    app.selectbox(key="policies.tool").set_value("Cline").run()
    app.toggle(key="policies.lossless").set_value(True).run()
    assert not app.exception
    assert (app.query_params["tool"], app.query_params["lossless"]) == ("Cline", "1")
    app.query_params["policy"] = "<b>none"
    app.run()
    assert "There is no policy &lt;b&gt;none here." in bodies(app)


def test_any_block_can_be_asked_why_it_is_here_or_not(app: AppTest) -> None:
    open_debugger(app, session=FIRST, policy="cline-classic", request="113", step="2")
    for block, word in (("0", "Here"), ("100", "Not here"), ("800", "Not yet")):
        next(each for each in app.number_input if each.key.startswith("debugger.block.")).set_value(int(block)).run()
        assert not app.exception
        assert f">{word}</b>" in bodies(app), block


def test_a_switch_to_another_page_and_back_keeps_policy_and_parameters(app: AppTest) -> None:
    open_debugger(app, session=FIRST, policy="clear-tool-results", set='{"1.keep":9}', request="60")
    app.switch_page("pages/heatmap.py")
    app.query_params.clear()
    app.run()
    app.switch_page("pages/debugger.py")
    app.query_params.clear()
    app.run()
    assert (query(app)["policy"], query(app)["request"]) == ("clear-tool-results", "60")
    assert json.loads(query(app)["set"]) == {"1.keep": 9}


def test_hostile_text_reaches_no_markdown_and_no_label(
    app: AppTest, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = hostile.write(data_folder)
    monkeypatch.setenv("TURNSCOPE_OPEN", str(path))
    for pane in ("text", "sent", "difference", "log"):
        app.run()
        app.switch_page("pages/debugger.py")
        app.query_params["policy"] = "one-line-calls"
        app.query_params["pane"] = pane
        app.run()
        assert not app.exception
        rendered = [element.value for kind in ("markdown", "caption", "error", "warning", "info") for element in app.get(kind)]
        widgets = (*app.button, *app.selectbox, *app.number_input, *app.text_input, *app.toggle)
        assert not [text for text in (*rendered, *(widget.label for widget in widgets)) if hostile.MARK in str(text)]
        assert "<script>window" not in bodies(app)
        assert "<img" not in bodies(app)


@pytest.mark.thorough
def test_open_claude_code_sessions_are_shown_under_several_policies(
    app: AppTest, shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in sorted(shared("data", "open", "claude-code").glob("*.jsonl")):
        monkeypatch.setenv("TURNSCOPE_OPEN", str(path))
        for name in ("as-recorded", "balanced"):
            app.query_params.clear()
            for key in ("state.session", "state.query"):
                if key in app.session_state:
                    del app.session_state[key]
            open_debugger(app, policy=name)
            assert not app.exception, (path.name, name)
            assert "changes" in bodies(app)


@pytest.mark.thorough
def test_a_changed_parameter_that_can_do_nothing_says_why(app: AppTest) -> None:
    unread = {"budget.output": 999, "budget.fallback_window": 8_000}
    open_debugger(app, session=FIRST, policy="cline-classic")
    assert "Without effect" not in bodies(app)
    open_debugger(app, session=FIRST, policy="cline-classic", set=parameters.encode_changes(unread))
    assert not app.exception
    shown = bodies(app)
    assert "Window of an unknown model (tokens)</b>: the window of every model here is known: 200,000 tokens." in shown
    assert "Reserve for the answer (tokens)</b>: the limit is found by the formula “cline”, which does not read it." in shown
    open_debugger(app, session=FIRST, policy="clear-tool-results")
    never = {"1.trigger": 100_000_000}
    open_debugger(app, session=FIRST, policy="clear-tool-results", set=parameters.encode_changes(never))
    assert "Without effect" not in bodies(app), "nothing is cleared any more: that is an effect"
    two = parameters.encode_changes({"1.keep": 1, "budget.margin": 0.01})
    until, shown = time.monotonic() + 60, ""
    while not shown and time.monotonic() < until:  # each change is taken back alone, in replays of their own
        open_debugger(app, session=FIRST, policy="clear-tool-results", set=two)
        shown = next((html.proto.body for html in app.get("html") if 'class="no-effect"' in html.proto.body), "")
    assert shown.count("<li>") == 1
    assert "the limit becomes 198,000 tokens instead of 200,000" in shown


def test_a_request_over_its_limit_says_how_it_was_handled_above_the_block(app: AppTest) -> None:
    open_debugger(app, session=FIRST, policy="cline-classic", request="113", step="0")
    shown = bodies(app)
    assert "<b>Came over its limit</b>" in shown
    assert "most of it by hide oldest pairs" in shown
    app.button(key="debugger.over").click().run()
    assert query(app)["step"] == "1"
    open_debugger(app, session=FIRST, policy="keep-everything", request="300", step="0")
    assert "nothing cut" in bodies(app)
    assert "sent over its limit" in bodies(app)
    open_debugger(app, session=FIRST, policy="keep-everything", request="3", step="0")
    assert "Came over its limit" not in bodies(app)


@pytest.mark.thorough
def test_values_for_some_models_are_set_and_removed_in_the_form_and_saved_as_the_user_s_own(
    app: AppTest, data_folder: Path
) -> None:
    open_debugger(app, session=FIRST, policy="context-aware-chat")

    def apply(pattern: str, key: str, text: str) -> None:
        next(i for i in app.text_input if i.label == "Models like").set_value(pattern)
        next(i for i in app.selectbox if i.label == "Parameter").set_value(key or None)
        next(i for i in app.text_input if i.label == "Value").set_value(text)
        next(b for b in app.button if b.label == "Apply").click().run()
        assert not app.exception

    for pattern, key, text, said in (
        ("gpt-[4", "budget.window", "9000", "opens a bracket that is not closed"),
        ("claude-*", "keep_last_pairs.pairs", "many", "&#x27;many&#x27; is not a whole number"),
    ):
        apply(pattern, key, text)
        assert said in bodies(app)
        assert "set" not in query(app)
    next(b for b in app.checkbox if b.key and b.key.endswith("models.0.remove")).check()
    apply("claude-*", "keep_last_pairs.pairs", "1")
    assert "For some models: 3 values" in bodies(app), "two of the policy's own, and the new one"
    models = parameters.decode_changes(query(app)["set"])["models"]
    assert models.pop("claude-*") == {"keep_last_pairs": {"pairs": 1}}
    assert [*models] == ["*deepseek-r1*", "*gpt-4o*"]
    next(b for b in app.button if b.label == "Save to my policies").click().run()
    assert query(app)["policy"] == "my-context-aware-chat"
    own = policy.load("my-context-aware-chat", data_folder / "policies")
    assert own.models["claude-*"] == {"keep_last_pairs": {"pairs": 1}}
