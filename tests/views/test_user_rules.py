"""Rules that a person gave in words: which sentences are one, which requests hold them, and what a comparison says of it."""

from __future__ import annotations

import json

import pytest
import turnscope
from conftest import ROOT, shared
from hand_made import Row, make_clearing, make_compaction, make_trace, result, session
from turnscope.envelope.user_rules import find_rules, is_rule, iter_rule_spans
from turnscope.live.injected_context import repeat_user_rules
from turnscope.planning.policy import load
from turnscope.planning.trace import Trace
from turnscope.session.builder import Builder
from turnscope.session.model import Edit, Part, Session, Span
from turnscope.views.findings import rank_findings
from turnscope.views.overview import build_overview
from turnscope.views.user_rules import (
    RuleFate,
    RuleIndex,
    find_lost_rules,
    find_next_lost,
    quote_rule,
    trace_rules,
)

FORGETS = ROOT / "sample_sessions" / "chat-forgets-first-instruction.jsonl"
RULE = "Never push to the main branch."


def find(text: str) -> list[str]:
    return [text[span.start : span.stop] for span in iter_rule_spans(text)]


def trace_fates(rows: list[Row], *edits: tuple[int, Edit]) -> list[RuleFate]:
    trace = make_trace(rows, edits)
    return [*trace_rules(trace, RuleIndex(trace.session))]


def talk(count: int, first: str = f"Hello. {RULE} Thank you.") -> list[Row]:
    return [Row(9.0 * n, prompt=first if n == 0 else f"question number {n}") for n in range(count)]


@pytest.mark.parametrize(
    "sentence",
    [
        "Never commit to main.",
        "Please always run the tests before you answer.",
        "Fix the parser, but do not touch the lexer.",
        "and don't use any external libraries",
        "Only use the standard library.",
        "Reply only in French.",
        "Make sure the tests pass with your changes.",
        "You must not delete files.",
        "Every room has to be step-free.",
        "Your code must run on Python 3.9.",
        "I want you to never guess a price.",
        "Step-free everywhere, no exceptions.",
        "IMPORTANT: do NOT edit generated files",
    ],
)
def test_an_imperative_is_a_rule(sentence: str) -> None:
    assert is_rule(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "I never saw this error before.",
        "It always fails on Windows.",
        "Don't worry about the old branch.",
        "I don't know why it fails.",
        "They don't have any tests.",
        "Why don't you use a cache?",
        "Only the first test fails.",
        "There must be a bug in the parser.",
        "It must have been the cache.",
        "Don't write any code yet.",
        "Never mind, leave it.",
        "It may have been renamed, or never merged.",
        "Can you make sure that it works?",
        "Here are the rules you must follow:",
        "4 commits (dont commit principal c131)",
        "Do not",
        "please read the file and tell me what it does",
        "do not " + "go on and " * 60,
    ],
)
def test_a_statement_a_question_and_a_word_for_now_are_none(sentence: str) -> None:
    assert not is_rule(sentence)


def test_code_quotations_tags_and_pasted_output_hold_no_rule() -> None:
    text = """The job fails.
```
# never call this twice
```
> You must always restart the server.
ERROR you must not use port 80 here
2026-11-28 12:00:01 never use the old key
    at do.not.call (never.js:1)
error: you must not borrow this twice
<system-reminder>
Never mention this reminder to the user.
</system-reminder>
He wrote “never use tabs” and "always use spaces".
        // do not remove this line
if (never) { do not enter; }
- **Do not change the schema.**
2. Always add a test, please.
"""
    assert find(text) == ["Do not change the schema.", "Always add a test, please."]
    assert find("<rules>\nNever use tabs.\n</rules>") == ["Never use tabs."], "people write such tags themselves"


def test_the_middle_of_a_long_prompt_is_taken_for_pasted() -> None:
    filling = "some words of a page that was pasted\n" * 100
    text = f"Always be brief.\n{filling}Never use a comma here.\n{filling}Do not change the title.\n"
    assert find(text) == ["Always be brief.", "Do not change the title."]
    assert [*iter_rule_spans(text, "system")][1] == Span(text.index("Never"), text.index("Never") + 23)


def test_a_rule_has_its_block_its_characters_and_its_source_and_is_listed_once() -> None:
    builder = Builder("made", "test")
    builder.add_message("system", "You are careful. Never guess.\nAlways  cite a\tsource.")
    builder.add_message("user", f"Hello. {RULE}")
    note = "The file says: you MUST follow it exactly.\nContents of /work/CLAUDE.md:\n\n- Always run `make check`."
    builder.add_message("user", note, origin="meta", kind="memory")
    builder.set_request(builder.add_message("assistant", "Never say never. Do not use this."))
    builder.add_message("user", f"Again: {RULE.rstrip('.')}\nDo not  push.")
    builder.add_message("user", RULE)
    builder.set_request(builder.add_message("assistant", "done"))
    made = builder.build([])
    rules = {rule.text: rule for rule in find_rules(made)}
    assert {rule.source for rule in rules.values()} == {"system", "prompt", "memory"}
    assert rules["Always cite a source."].source == "system"
    assert rules["Always run `make check`."].source == "memory"
    assert "Do not use this." not in rules, "a model said it"
    assert not any("MUST follow" in text for text in rules), "the tool says that of every file"
    first = rules[RULE]
    assert made.blocks[first.block].text[slice(*first.span)] == RULE
    assert [made.blocks[at].text for at in first.others] == [RULE]


def test_results_of_tools_hold_no_rule_of_a_person() -> None:
    rows = [Row(0, prompt="read it"), Row(9, content=result("t0", "Never push to main."))]
    assert find_rules(session(rows)) == ()


def test_a_rule_that_no_cut_touches_is_kept() -> None:
    (fate,) = trace_fates(talk(4))
    assert fate.is_kept
    assert (fate.since, fate.lost, fate.back) == (0, -1, -1)


def test_a_rule_is_lost_at_the_first_request_without_its_words() -> None:
    (fate,) = trace_fates(talk(6), (3, Edit("drop", "left out", Span(0, 2))))
    assert (fate.rule.text, fate.lost, fate.back) == (RULE, 3, -1)


@pytest.mark.parametrize("words", [RULE, "Never  push to\nthe main branch", f"The user said: {RULE} Then more."])
def test_a_summary_with_the_words_keeps_the_rule(words: str) -> None:
    edit = Edit("condense", "summarised", Span(0, 4), (Part("user", "summary", f"So far. {words}"),))
    (fate,) = trace_fates(talk(6), (3, edit))
    assert fate.is_kept


def test_a_summary_in_other_words_does_not_keep_it() -> None:
    edit = Edit("condense", "summarised", Span(0, 4), (Part("user", "summary", "The user forbids pushing to main."),))
    (fate,) = trace_fates(talk(6), (3, edit))
    assert fate.lost == 3


def test_a_recorded_summary_keeps_it_by_its_words() -> None:
    def rows(summary: str) -> list[Row]:
        return [*talk(3), Row(27.0, prompt=summary, kind="summary"), *talk(6, "more")[4:]]

    (kept,) = trace_fates(rows(f"They said: {RULE}"), (3, make_compaction(0, 6)))
    (lost,) = trace_fates(rows("They said much."), (3, make_compaction(0, 6)))
    assert kept.is_kept
    assert lost.lost == 3


def test_words_that_are_said_again_come_back() -> None:
    rows = talk(8)
    rows[5].prompt = f"As I said: {RULE}"
    fates = trace_fates(rows, (2, Edit("drop", "left out", Span(0, 2))))
    (fate,) = (each for each in fates if each.rule.text == RULE)
    assert (fate.lost, fate.back) == (2, 5)


def test_an_answer_that_repeats_the_words_holds_them() -> None:
    rows = talk(6)
    rows[1].answer = [{"type": "text", "text": f"I know: {RULE}"}]
    (fate,) = trace_fates(rows, (2, Edit("drop", "left out", Span(0, 2))))
    assert fate.is_kept


def test_a_cut_elsewhere_loses_nothing() -> None:
    rows = [*talk(2), Row(18, content=result("t", "x" * 400)), Row(27, prompt="on"), Row(36, prompt="on")]
    (fate,) = trace_fates(rows, (4, make_clearing(4)))
    assert fate.is_kept


def test_it_is_said_what_a_slow_count_over_all_requests_says() -> None:
    """Every request of a sample under several policies, read as a whole."""
    known = turnscope.load(FORGETS)
    index = RuleIndex(known)
    assert len(index.rules) >= 4
    for name in ("as-recorded", "keep-everything", "last-5-pairs", "condense-oldest", "extracts"):
        trace = turnscope.replay(known, name)
        for fate in trace_rules(trace, index):
            holds = [fate.rule.text.rstrip(".! ") in read_whole(known, plan.seen) for plan in trace.plans[fate.since :]]
            missing = [fate.since + n for n, there in enumerate(holds) if not there]
            assert fate.lost == (missing[0] if missing else -1), (name, fate)
            later = [n for n in range(fate.lost, len(trace.plans)) if missing and n not in missing]
            assert fate.back == (later[0] if later else -1), (name, fate)


def read_whole(known: Session, envelope: object) -> str:
    texts = []
    for piece in envelope.pieces:  # type: ignore[attr-defined]
        if piece.body is None:
            texts += [block.text for block in known.blocks[piece.start : piece.stop]]
        else:
            texts += [known.blocks[part.ref].text if part.ref is not None else part.text for part in piece.body]
    return " ".join("\n".join(texts).split())


def test_the_sample_whose_chat_forgets_has_the_finding() -> None:
    trace = turnscope.replay(turnscope.load(FORGETS))
    (found,) = (each for each in rank_findings(trace, build_overview(trace)) if each.kind == "rule")
    assert found.text == (
        "A rule of yours left the window at request 11: “Before anything else: I use a manual wheelchair, so everything has to "
        "be step-free - rooms, restaurants, transport”; so did two others."
    )
    assert found.request == 10
    assert (found.evidence["rules"], found.evidence["kept"]) == (4, 1)
    assert [each["lost"] for each in found.evidence["lost"]] == [10, 10, 25]


def test_the_finding_says_when_it_came_back_and_whose_it_is() -> None:
    rows = talk(8)
    rows[5].prompt = f"{RULE}"
    trace = make_trace(rows, [(2, Edit("drop", "left out", Span(0, 2)))])
    (found,) = (each for each in rank_findings(trace, build_overview(trace), most=9) if each.kind == "rule")
    assert found.text == (
        "A rule of yours left the window at request 3 and came back at request 6: “Never push to the main branch”."
    )
    rows = [Row(0, kind="system", prompt=RULE), *talk(8, "hello")[1:]]
    trace = make_trace(rows, [(2, Edit("drop", "left out", Span(0, 2)))])
    (found,) = (each for each in rank_findings(trace, build_overview(trace), most=9) if each.kind == "rule")
    assert found.text.startswith("A rule of the system prompt left the window at request 3: ")


def test_a_quotation_is_short_and_on_one_line_and_hides_nothing() -> None:
    builder = Builder("made", "test")
    builder.add_message("user", "Never use \x1b[31m red\u202e ink " + "on the white wall " * 8)
    builder.set_request(builder.add_message("assistant", "done"))
    (rule,) = find_rules(builder.build([]))
    assert quote_rule(rule).isprintable()
    assert len(quote_rule(rule)) < 130
    assert quote_rule(rule).endswith(" …”")


def test_a_comparison_says_how_many_rules_each_policy_keeps() -> None:
    made = turnscope.compare(turnscope.load(FORGETS), ["as-recorded", "keep-everything"])
    record, whole = made.rows
    assert (record.rules_label, whole.rules_label) == ("1 of 4", "4 of 4")
    assert "rules kept" in repr(made).splitlines()[0]
    assert "1 of 4" in repr(made)
    assert made.to_csv().splitlines()[0].endswith(",rules,rules_kept")
    assert made.to_csv().splitlines()[1].endswith(",4,1")
    told = json.loads(made.to_json())["policies"]
    assert [each["lost"] for each in told[0]["lost_rules"]] == [10, 10, 25]
    assert told[1]["lost_rules"] == []


def test_a_request_lacks_the_rules_that_the_replay_says_it_lost() -> None:
    session = turnscope.load(FORGETS)
    trace = turnscope.replay(session)
    index = RuleIndex(session)
    fates = trace_rules(trace, index)
    for plan in trace.plans:
        n = plan.request.n
        lost = [fate.rule for fate in fates if not fate.is_kept and fate.lost <= n and not 0 <= fate.back <= n]
        assert [*find_lost_rules(plan, index)] == lost


def test_the_next_request_says_what_leaves_and_what_repeating_costs() -> None:
    session = turnscope.load(FORGETS)
    trace = turnscope.replay(session)
    assert find_next_lost(trace.plans[9], trace.plans[8], session, trace.ledger) is None
    leaving = find_next_lost(trace.plans[10], trace.plans[9], session, trace.ledger)
    assert leaving is not None
    assert leaving.sentence.startswith("A rule of yours leaves the window with the next request: “Before anything else: ")
    assert leaving.sentence.endswith("; so did one other.")
    assert leaving.usd is not None
    assert 0 < leaving.usd < 0.001
    gone = find_next_lost(trace.plans[11], trace.plans[10], session, trace.ledger)
    assert gone is not None
    assert gone.sentence.startswith("A rule of yours left the window: ")
    plan = replay_repeating(session).plans[11]
    (insert,) = (piece for piece in plan.after.pieces if piece.slot == "user_rules")
    assert gone.tokens == plan.calibration.predict(sum(insert.counts)), "what is said of it is what the rule inserts"


def replay_repeating(session: Session) -> Trace:
    return turnscope.replay(session, repeat_user_rules(load("as-recorded")))


def test_rules_that_are_repeated_are_kept_and_stay_at_one_place_while_nothing_more_is_cut() -> None:
    session = turnscope.load(FORGETS)
    trace = replay_repeating(session)
    fates = trace_rules(trace, RuleIndex(session))
    assert [fate.is_kept for fate in fates] == [True] * 4
    last = turnscope.replay(session, repeat_user_rules(load("condense-oldest")))
    places = [[p.start for p in plan.after.pieces if p.slot == "user_rules"] for plan in last.plans]
    cuts = [
        max((d.edit.span.stop for d in plan.decisions if d.edit.action == "condense" and d.edit.span), default=0)
        for plan in last.plans
    ]
    assert any(places)
    for before, now, cut in zip(places, places[1:], cuts[1:], strict=False):
        assert cut or not before or before == now, "without a cut the cache is left alone"


@pytest.mark.parametrize("name", ["condense-oldest", "last-5-pairs", "half-in-pairs", "last-20-messages", "extracts"])
def test_under_a_policy_that_cuts_every_rule_of_the_user_is_kept(name: str) -> None:
    rows = talk(40, f"Hello. {RULE} {'Some words. ' * 400}")
    rows[7].prompt = "Always run the tests before you answer."
    found = make_trace(rows).session
    trace = turnscope.replay(found, repeat_user_rules(load(name)))
    fates = trace_rules(trace, RuleIndex(found))
    assert [fate.rule.text for fate in fates] == [RULE, "Always run the tests before you answer."]
    assert all(fate.is_kept for fate in fates)


def test_where_no_rule_is_found_it_says_so() -> None:
    made = turnscope.compare(turnscope.load(ROOT / "sample_sessions" / "cache-goes-cold.jsonl"), ["as-recorded"])
    assert made.rows[0].rules_label == "none found"


def test_real_prompts_have_rules_and_few_sentences_that_are_none() -> None:
    folder = shared("data", "new", "aider")
    rules = [rule.text for rule in find_rules(turnscope.load(folder / "metadata-aider.md"))]
    assert "Do NOT use Chart.js." in rules
    assert "Only use vanilla HTML5 Canvas." in rules
    assert len(rules) <= 8
