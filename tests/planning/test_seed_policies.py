"""Policies of the published designs: each clause that they publish, in their own numbers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from msgspec import structs
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope import condensing
from turnscope.envelope.budget import compute_budget
from turnscope.envelope.condensing import get_summary
from turnscope.envelope.plan import Plan
from turnscope.planning import extract
from turnscope.planning.answers import Answers
from turnscope.planning.assemble import replay
from turnscope.planning.policy import REPAIRS, Policy, load, parse, set_pairs
from turnscope.planning.render import render
from turnscope.planning.trace import build_own_ledger
from turnscope.ports.roo import folding
from turnscope.session.builder import Builder
from turnscope.session.model import Answer, Ask, Session, Usage
from turnscope.views.parameters import apply_changes


def chat(turns: int, characters: int, tokens: int = 0, models: tuple[str, ...] = ("gpt-4o",), window: int = 100_000) -> Session:
    """Turns of a question and an answer of so many characters; each request billed `tokens` more than the last.

    The last of `models` answers the last turn, the first one all others. `window` 0: that of the model.
    """
    builder = Builder("chat", "test")
    builder.window = window or None
    for turn in range(turns):
        builder.add_message("user", f"{turn:04}" + "q" * (characters - 4), id=f"q{turn}", origin="prompt")
        answer = builder.add_message("assistant", f"{turn:04}" + "a" * (characters - 4), id=f"a{turn}")
        model = models[-1] if turn == turns - 1 else models[0]
        builder.set_request(answer, model=model, usage=Usage(input_tokens=tokens * (turn + 1)) if tokens else None)
    return builder.build()


def work(
    *turns: list[tuple[str, dict[str, Any], str]], thinking: bool = False, system: str = "", id: str = "t{}_{}"
) -> Session:
    """Turns of calls, each `(tool, input, result)`; ids are `q1`, `c1.1`, `r1.1`, `a1`."""
    builder = Builder("work", "test")
    if system:
        builder.add_message("system", system)
    for n, calls in enumerate(turns, 1):
        builder.add_message("user", f"question {n}", id=f"q{n}", origin="prompt")
        for m, (tool, given, result) in enumerate(calls, 1):
            thought = [{"type": "thinking", "thinking": f"thought {n}.{m}", "signature": "s"}] if thinking else []
            call = {"type": "tool_use", "id": id.format(n, m), "name": tool, "input": given}
            builder.set_request(builder.add_message("assistant", [*thought, call], id=f"c{n}.{m}"), model="claude-sonnet-4-5")
            said = {"type": "tool_result", "tool_use_id": id.format(n, m), "content": result}
            builder.add_message("user", [said], id=f"r{n}.{m}", origin="tool")
        builder.set_request(builder.add_message("assistant", f"answer {n}", id=f"a{n}"), model="claude-sonnet-4-5")
    return builder.build()


def plans(policy: str | Policy, session: Session, answers: Answers | None = None) -> list[Plan]:
    policy = load(policy) if isinstance(policy, str) else policy
    return list(replay(session, policy, build_ledger(session, CHARS), build_own_ledger(session, policy), answers=answers))


def answer_ask(ask: Ask) -> Answer:
    """A model's answer that tells how it was asked."""
    return Answer(f"said {len(ask.content)}", model="m", source="model")


def stands(session: Session, plan: Plan) -> list[str]:
    spans = (session.blocks[piece.start : piece.stop] for piece in plan.after.pieces if piece.body is None)
    return [session.messages[block.message].id for blocks in spans for block in blocks]


def parts(messages: list[Any], kind: str) -> list[Any]:
    """The content blocks of a kind, of all messages."""
    blocks = (part for message in messages if isinstance(message["content"], list) for part in message["content"])
    return [part for part in blocks if part["type"] == kind]


def summaries(plan: Plan) -> list[str]:
    return [text for piece in plan.after.pieces if (text := get_summary(piece))]


# Cline, as a survey describes it


def test_half_goes_in_pairs_behind_the_first_user_message() -> None:
    session = chat(10, 100, tokens=9_000)  # a window of 100,000 allows 80,000
    found = plans("cline-as-described", session)
    assert not any(plan.is_changed for plan in found[:9])
    assert stands(session, found[9]) == ["q0", "a4", *(f"{who}{n}" for n in range(5, 9) for who in "qa"), "q9"]  # 8 of 18


@pytest.mark.parametrize(
    ("models", "gone"),
    [(("claude-sonnet-4-5", "gpt-4o"), 12), (("gpt-4o", "claude-sonnet-4-5"), 8)],
    ids=["smaller", "larger"],
)
def test_three_quarters_go_for_a_smaller_model_and_half_for_a_larger(models: tuple[str, ...], gone: int) -> None:
    session = chat(10, 100, models=models, window=0)
    found = plans("cline-as-described", session)
    assert not any(plan.is_changed for plan in found[:9])
    kept = stands(session, found[9])
    assert kept[0] == "q0"
    assert 19 - len(kept) == gone  # of 18 behind the first, in pairs


@pytest.mark.parametrize(("window", "limit"), [(200_000, 160_000), (64_000, 37_000), (128_000, 98_000), (1_000_000, 960_000)])
def test_its_limit_is_the_adaptive_one(window: int, limit: int) -> None:
    assert compute_budget(load("cline-as-described").budget, window).limit == limit


def test_a_file_read_again_leaves_the_published_notice() -> None:
    session = work([("read_file", {"path": "a.ts"}, "x" * 400), ("read_file", {"path": "a.ts"}, "y" * 400)])
    sent = render(plans("cline-as-described", session)[-1].after, session)
    assert [part["content"] for part in parts(sent["messages"], "tool_result")] == ["[DUPLICATE FILE READ]", "y" * 400]


def test_a_long_file_is_cut_at_a_thousand_lines_with_the_published_notice() -> None:
    lines = [f"line {n}" for n in range(1, 5_001)]
    session = work([("read_file", {"path": "large-file.ts"}, "\n".join(lines))])
    (plan,) = (plan for plan in plans("cline-as-described", session) if plan.is_changed)
    (text,) = (part.text for piece in plan.after.pieces for part in piece.body or ())
    assert text.splitlines() == [
        "[read_file for 'large-file.ts']",
        "IMPORTANT: File content truncated.",
        "Status: Showing lines 1-1000 of 5000 total lines.",
        "To read more: Use the read_file tool with offset=1001",
        *lines[:1_000],
    ]


def test_reading_on_from_an_offset_is_told_in_the_files_own_lines() -> None:
    session = work([("read_file", {"path": "a.ts", "offset": 1_001}, "\n".join(["line"] * 1_500))])
    (plan,) = (plan for plan in plans("cline-as-described", session) if plan.is_changed)
    (text,) = (part.text for piece in plan.after.pieces for part in piece.body or ())
    assert "lines 1001-2000 of 2500 total" in text
    assert "offset=2001" in text


def test_a_summary_stands_for_what_is_cut_when_auto_condense_is_on() -> None:
    session = chat(10, 100, tokens=9_000)
    on = apply_changes(load("cline-as-described"), {"3.summarise": True})
    last = plans(on, session, answer_ask)[9]
    assert stands(session, last)[:2] == ["q0", "a4"]
    assert summaries(last)
    assert "it stands for 8 messages" in summaries(last)[0]
    failed = plans(on, session, lambda _: Answer(failed="no model"))[9]
    assert (stands(session, failed), summaries(failed)) == (stands(session, last), [])


# ChainReview


def test_today_sends_twenty_messages_as_role_and_text() -> None:
    turns = [[("Read", {"path": f"{n}.py"}, f"{n} " + "x" * 3_000)] for n in range(14)]
    session = work(*turns, thinking=True, system="You review code.")
    last = plans("chainreview-today", session)[-1]
    messages = render(last.after, session)["messages"]
    past = messages[: -len(turns[-1]) * 2 - 1]
    assert [message["role"] for message in past] == ["user", "assistant"] * 9 + ["user"] * (len(past) % 2)
    kinds = {part["type"] for message in past for part in message["content"] if isinstance(message["content"], list)}
    assert kinds <= {"text"}
    first = _first(past)
    assert first == 4  # 14 turns are 28 messages; of these the newest 20 but for the answer to come
    told = next(part["text"] for part in past[1]["content"] if part["text"].startswith("[Read]"))
    assert told == "[Read] " + f"{first} {'x' * 3_000}"[:1_000]
    assert not load("chainreview-today").counter


@pytest.mark.parametrize(("stored", "keep", "left"), [(40, 20, 20), (40, 0, 28), (8, 20, 8), (0, 0, 28), (6, 4, 4)])
def test_of_the_messages_that_are_stored_so_many_are_sent(stored: int, keep: int, left: int) -> None:
    session = work(*[[("Read", {"path": "a.py"}, "x")]] * 14)
    policy = load("chainreview-today")
    made = replace(policy.rules[0], params=replace(policy.rules[0].params, stored=stored, keep=keep))
    messages = render(plans(replace(policy, rules=(made, *policy.rules[1:])), session)[-1].after, session)["messages"]
    prompts = sum(message["role"] == "user" for message in messages)
    assert prompts - 1 == left // 2, "the newest turn's result is a user's message, too; 28 are 14 turns"


def test_a_call_that_was_told_stays_a_text_where_its_id_is_mended() -> None:
    session = work(*[[("Bash", {"command": "run"}, "x" * 900)]] * 3, id="{}.{}")
    last = plans("chainreview-today", session)[-1]
    assert not parts(render(last.after, session)["messages"][:3], "tool_use")


def _first(messages: list[Any]) -> int:
    """Number of the first turn that is sent, from 0."""
    content = messages[0]["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    return int(text.split()[-1]) - 1


def test_recommended_counts_by_four_characters_rounded_up_against_144_000() -> None:
    policy = load("chainreview-recommended")
    assert (policy.counter, policy.per_message, compute_budget(policy.budget, 200_000).limit) == (
        "chars-up",
        0,
        160_000 - 16_000,
    )


@pytest.mark.parametrize(("characters", "condensed"), [(67_196, False), (67_197, True)])
def test_recommended_condenses_the_oldest_sixty_percent_above_seventy(characters: int, condensed: bool) -> None:
    """144,000 less a question of one token leave 143,999; 70 % are 100,799.3. Three answers have 16,800 tokens each, and so
    have three questions of 67,197 characters, rounded up."""
    builder = Builder("review", "test")
    for n in range(3):
        builder.add_message("user", "q" * characters, id=f"q{n}", origin="prompt")
        builder.set_request(builder.add_message("assistant", "a" * 67_200, id=f"a{n}"), model="claude-haiku-4-5")
    builder.add_message("user", "why?", id="q3", origin="prompt")
    builder.add_unanswered()
    session = builder.build()
    asked: list[Ask] = []
    last = plans("chainreview-recommended", session, lambda ask: asked.append(ask) or answer_ask(ask))[-1]  # type: ignore[func-returns-value]
    assert bool(summaries(last)) is condensed
    if condensed:
        assert stands(session, last) == ["a1", "q2", "a2", "q3"]  # of six messages three go (3.6)
        assert asked[0].max_tokens == 2_000
        assert all(
            word in asked[0].prompt for word in ("questions", "finding", "files", "decisions", "read again", "reasoning")
        )
        first = render(last.after, session)["messages"][0]
        assert first["role"] == "user"
        assert "said" in str(first["content"]), "the summary comes first"


def test_recommended_keeps_calls_and_results_and_shortens_what_is_old_and_long() -> None:
    long = [("Bash", {"command": f"run {n}"}, f"output {n}\n" + "x" * 3_000) for n in range(8)]
    again = [("Read", {"path": "a.py"}, "x" * 900), ("Read", {"path": "a.py"}, "y" * 900)]
    session = work(long, [*again, *long[:5]], [], thinking=True, system="You review code.")
    last = plans("chainreview-recommended", session)[-1]
    sent = render(last.after, session)
    assert len(parts(sent["messages"], "tool_use")) == len(parts(sent["messages"], "tool_result")) == 15
    results = [part["content"] for part in parts(sent["messages"], "tool_result")]
    assert results[0].startswith("[called Bash: run 0 -> output 0")
    assert all(len(text) <= 200 for text in results[:8])
    assert all(len(text) > 3_000 for text in results[-5:])
    assert "An older reading of a.py" in results[8]
    assert not [part for part in parts(sent["messages"][:-1], "thinking") if part["thinking"].startswith("thought 1")]


def test_recommended_puts_findings_into_the_system_prompt_and_never_into_a_message() -> None:
    session = structs.replace(work([], [], system="You review code."), about={"findings": ["a leak in a.py"]})
    sent = render(plans("chainreview-recommended", session)[-1].after, session)
    assert "a leak in a.py" in str(sent["system"])
    assert "You review code." in str(sent["system"])
    assert "a leak in a.py" not in str(sent["messages"])


def test_staged_rests_up_to_sixty_then_cuts_condenses_and_warns() -> None:
    policy = load("chainreview-staged")
    marks = next(part.params for part in policy.rules if part.rule.name == "stage_by_fill")
    assert (marks.truncate_at, marks.keep, marks.condense_at, marks.keep_turns, marks.warn_at) == (0.6, 0.7, 0.8, 5, 0.9)
    small = replace(policy, budget=replace(policy.budget, formula="fixed", tokens=1_000))
    session = chat(12, 176)  # 48 tokens a message with its frame: 12 of them are 576, 13 are 624
    found = plans(small, session, answer_ask)
    assert not any(plan.is_changed for plan in found[:6])
    assert found[6].is_changed
    assert found[6].before.tokens == 13 * 48
    kept = stands(session, found[6])
    assert kept == [f"{who}{n}" for n in range(2, 7) for who in "qa"][:-1], "9 of 13 messages: 70 %, from the nearest prompt on"


# Multi-turn architecture


def test_the_window_sends_twenty_messages_at_most_and_begins_at_a_question() -> None:
    session = chat(15, 100)
    assert stands(session, plans("multi-turn-window", session)[-1]) == [f"{who}{n}" for n in range(5, 15) for who in "qa"][:-1]


@pytest.mark.parametrize(("characters", "condensed"), [(7_619, False), (7_624, True)])  # 21 messages of 1,904 or 1,906 tokens
def test_the_oldest_half_is_summed_up_above_forty_thousand(characters: int, condensed: bool) -> None:
    session = chat(11, characters)
    last = plans("multi-turn-summary", session, answer_ask)[-1]
    assert last.is_changed is condensed
    if condensed:
        assert stands(session, last)[0] == "q5"  # of 21 messages ten
        first, second = (piece for piece in next(iter(last.after.pieces)).body or ())
        assert first.text.startswith("[Conversation summary so far: said ")
        assert first.text.endswith("]")
        assert (second.role, second.text) == ("assistant", "Understood, I'll keep that context in mind.")


def test_a_prior_summary_is_folded_into_the_next() -> None:
    session, asked = chat(30, 8_000), []
    plans("multi-turn-summary", session, lambda ask: asked.append(ask) or Answer(f"made {len(asked)}", source="model"))
    assert len(asked) == 4
    assert {ask.max_tokens for ask in asked} == {512}
    assert [ask.content.startswith(f"summary: made {n}\n") for n, ask in enumerate(asked)] == [False, True, True, True]


def test_the_hybrid_pins_the_first_question_and_keeps_twenty_behind_a_summary() -> None:
    session = chat(14, 8_000)
    last = plans("multi-turn-hybrid", session, answer_ask)[-1]
    assert stands(session, last) == ["q0", "a3", *[f"{who}{n}" for n in range(4, 14) for who in "qa"][:-1]]
    assert [piece.start for piece in last.after.pieces if get_summary(piece)] == [1], "it stands behind the pinned one"


def test_the_hybrid_leaves_a_middle_that_is_smaller_than_a_summary() -> None:
    session = chat(14, 100)
    assert stands(session, plans("multi-turn-hybrid", session, answer_ask)[-1])[1] == "a0"


def test_the_listing_s_order_sends_the_oldest_twenty_messages_and_loses_the_newest_exchanges() -> None:
    session = chat(15, 100)
    found = plans("multi-turn-window-listing", session)
    oldest = [f"{who}{n}" for n in range(10) for who in "qa"]
    assert [stands(session, found[n])[-3:] for n in (9, 14)] == [["q8", "a8", "q9"], ["q9", "a9", "q14"]]
    assert stands(session, found[14]) == [*oldest, "q14"]
    assert stands(session, plans("multi-turn-window", session)[14])[-3:] == ["q13", "a13", "q14"], "what its text says"


def test_the_listing_appends_a_question_that_it_has_stored_already() -> None:
    session = chat(12, 100)
    for n, plan in enumerate(plans("multi-turn-window-listing", session)):
        sent = str(render(plan.after, session)["messages"])
        assert sent.count(f"{n:04}qq") == (2 if 2 * n < 20 else 1), n


def test_the_listing_never_hands_a_summary_on_so_every_request_summarises_half_of_everything() -> None:
    session, asked, kept = chat(16, 8_000), [], []
    plans("multi-turn-summary-listing", session, lambda ask: asked.append(ask) or Answer(f"made {len(asked)}", source="model"))
    plans("multi-turn-summary", session, lambda ask: kept.append(ask) or Answer(f"made {len(kept)}", source="model"))
    assert len(asked) == 16 - 10, "each request above 40,000 tokens: from the eleventh on"
    assert not any("summary: made" in ask.content for ask in asked)
    assert len(kept) == 2
    assert sum(len(ask.content) for ask in asked) > 3 * sum(len(ask.content) for ask in kept)


def test_the_listing_reads_each_message_once_however_often_it_is_summarised(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered, read = list[int](), list[int]()
    render_line, iter_lines = condensing._render_line, extract._iter_lines
    monkeypatch.setattr(condensing, "_render_line", lambda block, clip: rendered.append(block.at) or render_line(block, clip))
    monkeypatch.setattr(extract, "_iter_lines", lambda content: read.append(len(content)) or iter_lines(content))
    session = chat(100, 4_000)
    found = plans("multi-turn-summary-listing", session)
    asks = [ask for plan in found for ask, _ in plan.asks]
    longest = max(len(ask.content) for ask in asks)
    assert len(asks) > 75
    assert sum(len(ask.content) for ask in asks) > 25 * longest
    assert rendered == [*range(len(rendered))], "each block once, in order"
    assert sum(read) <= longest
    held = {id(line): len(line) for ask in asks if not isinstance(ask.source, str) for line in ask.source.lines}
    assert sum(held.values()) + sum(len(ask.source) for ask in asks if isinstance(ask.source, str)) <= longest
    assert all(ask.key == condensing.build_text_ask("segment", ask.content, 512, "claude-haiku-4-5").key for ask in asks)


def test_the_listing_begins_anew_where_the_past_did_not_only_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [[("Bash", {"command": f"run {n}.{m}"}, f"it failed {n}.{m}. " * 20) for m in range(12)] for n in range(4)]
    rules = "[[rules]]\nrule = 'keep_first_messages'\nkeep = 6\nagain = false\n"
    rules += "[[rules]]\nrule = 'summarise_half_each_time'\nabove = 100"
    session, policy = work(*calls), parse("few", f"[budget]\nformula = 'window'\n\n{rules}")
    asks = [pair for plan in plans(policy, session) for pair in plan.asks]
    monkeypatch.setattr(condensing, "_continue_transcript", lambda *_: None)
    assert [pair for plan in plans(policy, session) for pair in plan.asks] == asks
    assert all(answer.text == extract.extract(ask.content, 512) for ask, answer in asks)
    texts = [ask.source for ask, _ in asks if not isinstance(ask.source, str)]
    goes_on = [b.lines is a.lines for a, b in pairwise(texts)]
    assert any(goes_on)
    assert not all(goes_on)
    assert any(not long.content.startswith(short.content) for (short, _), (long, _) in pairwise(asks)), "a new question"


def test_the_listings_defects_are_named_where_they_are_not_copied() -> None:
    told = " ".join(str(load(f"multi-turn-{name}").constants["defects not copied"]) for name in ("window", "summary", "hybrid"))
    assert all(word in told for word in ("ASC LIMIT", "appended", "existing_summary", "token_budget", "interrupted stream"))


# The baseline of smart context management


def test_reactive_does_nothing_below_three_quarters_and_then_loses_three_quarters() -> None:
    session = chat(10, 100, tokens=9_000)
    found = plans("reactive-75", session)
    assert not any(plan.is_changed for plan in found[:8])  # 72,000 of 100,000 were billed for the eighth
    nine = found[9]  # 81,000 were billed for the ninth
    assert nine.is_changed
    assert stands(session, nine) == ["q7", "a7", "q8", "a8", "q9"]  # 14 of 19 messages go: three quarters, in pairs


def test_reactive_sends_every_call_and_whole_result_as_xml_text_as_long_as_it_stands() -> None:
    session = work(*[[("Bash", {"command": f"run {n}"}, f"{n}" + "x" * 9_000)] for n in range(6)])
    for plan in plans("reactive-75", session):
        contents = [message["content"] for message in render(plan.after, session)["messages"]]
        given = [
            part
            for content in contents
            for part in ([{"type": "text", "text": content}] if isinstance(content, str) else content)
        ]
        assert {part["type"] for part in given} == {"text"}
        done = range((plan.request.n + 1) // 2)
        texts = [part["text"] for part in given]
        assert [text for text in texts if text.startswith("<")] == [
            f"<Bash>\n<command>run {n}</command>\n</Bash>" for n in done
        ]
        assert [text for text in texts if "Result" in text] == [f"[Bash] Result:\n{n}{'x' * 9_000}" for n in done]


# The specification of a context-aware chat


def test_five_pairs_go_with_a_question_and_a_summary_of_all_before_beyond_twenty() -> None:
    session = chat(24, 400, window=0, models=("gpt-4o",))
    found = plans("context-aware-chat", session, answer_ask)
    assert stands(session, found[20])[0] == "q15"
    assert not summaries(found[20])
    assert stands(session, found[21])[0] == "q16"
    assert len(summaries(found[21])) == 1
    assert stands(session, found[23])[0] == "q18"
    assert summaries(found[23]) == summaries(found[21])
    messages = render(found[21].after, session)["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * 6 + ["user"]


def test_a_summary_is_made_before_the_budget_leaves_fewer_than_two_pairs() -> None:
    session = chat(6, 8_000, window=20_000)  # 11,850 tokens for the prompt: a question of 2,000 and two pairs of 4,000
    policy = load("context-aware-chat")
    assert compute_budget(policy.budget, 20_000).limit == 11_850
    found = plans(policy, session, answer_ask)
    assert not any(summaries(plan) for plan in found[:3])
    tight = replace(policy, budget=replace(policy.budget, window=16_000))  # 9,450 tokens: one pair
    found = plans(tight, session, answer_ask)
    assert [bool(summaries(plan)) for plan in found] == [False, False, True, True, True, True]
    assert all(plan.verdict in ("send", "warn") for plan in found)


def test_the_number_of_pairs_can_be_set_for_what_is_kept_and_what_is_summed_up() -> None:
    policy = set_pairs(load("context-aware-chat"), 3)
    assert [policy.rules[0].params.keep_turns, policy.rules[1].params.pairs] == [4, 3]
    assert set_pairs(load("condense-oldest"), 3) == load("condense-oldest")


def test_the_baseline_of_today_carries_the_question_alone_and_one_answer_limit_for_all_models() -> None:
    session = chat(6, 400, window=0, models=("gpt-4o",))
    found = plans("context-aware-chat-today", session, answer_ask)
    assert [stands(session, plan) for plan in found] == [[f"q{n}"] for n in range(6)]
    budget = load("context-aware-chat-today").budget
    assert {compute_budget(budget, window).max_output for window in (64_000, 128_000, 1_000_000)} == {5_000}
    assert set_pairs(load("context-aware-chat-today"), 5) == load("context-aware-chat-today")


# Open WebUI, whose maximum turns and tokens are parameters


def test_open_webui_sends_everything_until_a_maximum_is_set() -> None:
    session = chat(8, 400)
    assert not any(plan.is_changed for plan in plans("openwebui", session))


@pytest.mark.parametrize(
    ("knobs", "first"),
    [({"1.pairs": 3}, "q4"), ({"1.tokens": 700}, "q5"), ({"1.tokens": 700, "1.pairs": 1}, "q6"), ({"1.tokens": 1}, "q7")],
    ids=["turns", "tokens", "both", "never less than the question"],
)
def test_open_webuis_maximum_counts_no_system_message(knobs: dict[str, int], first: str) -> None:
    """104 tokens a message with its frame, and a system message larger than all of them."""
    builder = Builder("chat", "test")
    builder.add_message("system", "s" * 40_000, id="s")
    for turn in range(8):
        builder.add_message("user", f"{turn:04}" + "q" * 396, id=f"q{turn}", origin="prompt")
        builder.set_request(builder.add_message("assistant", f"{turn:04}" + "a" * 396, id=f"a{turn}"), model="gpt-4o")
    session = builder.build()
    kept = stands(session, plans(apply_changes(load("openwebui"), knobs), session)[-1])
    assert kept[:2] == ["s", first]


def test_the_variable_for_pairs_sets_no_maximum_of_open_webui() -> None:
    assert set_pairs(load("openwebui"), 3) == load("openwebui")


# Five buckets and their ladder


def test_each_bucket_has_its_own_rule_and_the_ladder_follows() -> None:
    names = [part.rule.name for part in load("five-buckets").rules]
    ladder = ["compact_when_over", "fall_back_to_larger_window", "refuse_when_over", "warn_at"]
    assert [name for name in names if name not in REPAIRS] == [
        "supersede_static",
        "strip_old_thinking",
        "clear_old_results",
        *ladder,
    ]


def test_thinking_is_stripped_and_the_oldest_results_are_cleared_first() -> None:
    long = [("Bash", {"command": f"run {n}"}, f"{n} " + "x" * 80_000) for n in range(6)]
    session = work(long, [], thinking=True, system="Be careful.")
    last = plans("five-buckets", session)[-1]
    sent = render(last.after, session)
    cleared = ["[cleared" in str(part["content"]) for part in parts(sent["messages"], "tool_result")]
    assert cleared == [True] * 2 + [False] * 4  # at the fifth there were more than 100,000 tokens
    assert sent["system"] == render(last.before, session)["system"]
    assert last.verdict == "send"


@pytest.mark.parametrize(
    ("model", "verdict", "actions"),
    [("claude-sonnet-4-5", "send", {"fallback"}), ("gpt-4.1-mini", "refuse", {"refuse"})],
)
def test_what_compaction_cannot_mend_goes_to_a_larger_window_or_is_refused(model: str, verdict: str, actions: set[str]) -> None:
    builder = Builder("big", "test")
    builder.add_message("user", "x" * (900_000 if verdict == "send" else 8_000_000), origin="prompt")
    builder.add_unanswered(model=model)
    (plan,) = plans("five-buckets", builder.build())
    assert actions <= {decision.action for decision in plan.decisions}
    assert plan.verdict == verdict


# Roo's condense with outlines of files

READER = "class Reader:\n    def read(self):\n        a = 1\n        b = 2\n        return a + b\n"
CODE = f"import os\n\n\n{READER}\n\ndef small():\n    pass\n"


def test_an_outline_names_definitions_of_at_least_four_lines() -> None:
    assert [*folding.find_definitions(CODE)] == ["4--8 | class Reader:", "5--8 |     def read(self):"]
    numbered = "\n".join(f"{n} | {line}" for n, line in enumerate(CODE.split("\n"), 1))
    assert [*folding.find_definitions(numbered)] == ["4--8 | class Reader:", "5--8 |     def read(self):"]
    script = "export async function load(a) {\n  const b = 1\n  return a\n}\nconst go = (x) => {\n  x()\n  x()\n}\n"
    assert [*folding.find_definitions(script)] == ["1--4 | export async function load(a) {", "5--8 | const go = (x) => {"]


def test_outlines_of_all_files_stay_within_fifty_thousand_characters() -> None:
    big = "\n".join(f"def function_{n}():\n    a = 1\n    b = 2\n    return a" for n in range(700))
    found = folding.build_outlines([(f"{n}.py", big) for n in range(4)])
    assert 49_000 < sum(map(len, found)) <= 50_000
    assert found[-1].endswith("... (truncated)\n</system-reminder>")
    assert folding.build_outlines([("notes.txt", "no code")]) == []


def test_a_summary_of_roo_holds_outlines_of_what_the_session_read() -> None:
    reads = [
        ("read_file", {"path": "a.py"}, CODE),
        ("read_file", {"path": "b.py"}, CODE),
        ("Bash", {"command": "x"}, CODE * 500),
    ]
    session = structs.replace(work(reads, []), window=16_000)
    last = next(plan for plan in plans("roo", session, answer_ask) if summaries(plan))
    texts = [part.text for piece in last.after.pieces for part in piece.body or ()]
    named = [text.split("\n")[1] for text in texts if text.startswith("<system-reminder>")]
    assert named == ["## File Context: b.py", "## File Context: a.py"], "the one that was read last comes first"
