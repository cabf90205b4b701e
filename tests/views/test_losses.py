"""What a policy lost: planted facts are found where it drops them, and nowhere where everything is kept."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, examples, shared
from hand_made import OPUS, call, result
from hypothesis import given, settings
from hypothesis import strategies as st
from law_sessions import ledger_of
from turnscope.envelope.identifiers import find_identifiers
from turnscope.library.opening import load, replay
from turnscope.planning.render import build_body
from turnscope.planning.trace import Trace
from turnscope.session.builder import Builder
from turnscope.session.model import Session, Span, Usage
from turnscope.views.losses import (
    Losses,
    LostReference,
    StringSearch,
    find_blocks,
    find_departures,
    find_losses,
    find_losses_of,
    find_references,
)

FACTS = [
    "src/billing/rates.toml",
    "apply_discount",
    "parseInvoice",
    "482913",
    "the blue heron lands",
    "3.1415",
    "toolu_01AbCdEf",
]


def make_session(facts: dict[int, str], uses: dict[int, str], turns: int = 30, where: str = "result") -> Session:
    """A session whose tool results (or prompts) say facts, and whose answers use them turns later."""
    builder = Builder("planted", "test")
    builder.add_message("user", "Begin.", origin="prompt")
    for n in range(turns):
        said = f'All is well. "{uses[n]}" is what it was.' if n in uses else "All is well."
        answer = builder.add_message("assistant", [{"type": "text", "text": said}, call(f"c{n}", path=f"part {n}")])
        builder.set_request(answer, model=OPUS, usage=Usage(input_tokens=1_000 + 100 * n, output_tokens=20))
        fact = f'It says "{facts[n]}" here.' if n in facts else "Nothing new."
        content = result(f"c{n}", fact if where == "result" else "Nothing new.")
        builder.add_message("user", [*content, {"type": "text", "text": fact if where == "prompt" else "go on"}])
    return builder.build()


def lost(session: Session, policy: str) -> tuple[Trace, Losses]:
    trace = replay(session, policy, ledger_of(session))
    return trace, find_losses(trace, find_references(session))


@pytest.mark.parametrize("fact", FACTS)
def test_every_kind_of_identifier_is_found_lost_with_its_block_and_the_decision_that_took_it(fact: str) -> None:
    session = make_session({1: fact}, {28: fact})
    trace, found = lost(session, "last-20-messages")
    (hit,) = (hit for hit in found.hits if hit.text == fact)
    assert (hit.request, fact in session.blocks[hit.block].text, fact in session.blocks[hit.answer].text) == (28, True, True)
    decision = trace.get_decision(hit.by)
    assert (decision.rule, decision.action) == ("keep_last_messages", "drop")
    assert decision.edit.span
    assert decision.edit.span.start <= hit.block < decision.edit.span.stop
    assert found.per_request[28] == len([h for h in found.hits if h.request == 28])


def test_what_was_said_again_within_the_window_is_not_lost() -> None:
    session = make_session({1: FACTS[0], 26: FACTS[0]}, {28: FACTS[0]})
    assert [hit for hit in lost(session, "last-20-messages")[1].hits if hit.text == FACTS[0]] == []


def test_what_a_placeholder_still_says_is_not_lost() -> None:
    session = make_session({1: FACTS[0] + '" and so on' * 6_000}, {28: FACTS[0]})
    trace, found = lost(session, "short-tool-results")
    assert any(plan.is_changed for plan in trace.plans)
    assert [hit for hit in found.hits if hit.text == FACTS[0]] == []


def test_a_call_that_is_sent_in_another_form_still_says_what_is_handed_over() -> None:
    """Codex hands over a text where Anthropic's API wants an object: what it says is sent all the same."""
    builder = Builder("patched", "test")
    for _ in range(2):
        builder.add_message("user", "Begin.", origin="prompt")
        given = call("patch", "apply_patch") | {"input": '+- "tell me why this is so"\n+- "and how it came"'}
        builder.set_request(builder.add_message("assistant", [given]), model=OPUS)
        builder.add_message("user", result("patch", "done"))
    session = builder.build()
    assert "tell me why this is so" in find_references(session).uses[1]
    trace, found = lost(session, "keep-everything")
    assert any(d.edit.because == "a call's input must be an object" for plan in trace.plans for d in plan.decisions)
    assert found.hits == ()


def test_a_name_that_a_tool_gives_its_parameters_is_no_identifier_but_what_is_handed_over_is() -> None:
    builder = Builder("named", "test")
    for name in ("one", "two"):
        builder.add_message("user", "Begin.", origin="prompt")
        given = call(name, "Edit", old_string="first_value", path="a/b.py")
        builder.set_request(builder.add_message("assistant", [given]), model=OPUS)
        builder.add_message("user", result(name, "done"))
    (_, second) = find_references(builder.build()).uses
    assert set(second) == {"first_value", "a/b.py"}


@pytest.mark.parametrize(
    ("said", "still"),
    [
        ("src/app.py", "It lies in /home/me/src/app.py.orig now."),
        ("parse_args", "my_parse_args_again"),
        ("a plain sentence", 'log: {"what": "a plain sentence, and more"}'),
        ("--verbose", "run--verbose-mode"),
        ("naïve_Größe", "überdienaïve_Größen"),
    ],
)
def test_what_stands_in_the_body_in_any_form_is_not_lost(said: str, still: str) -> None:
    session = make_session({1: said}, {28: said})
    assert [hit.text for hit in lost(session, "last-20-messages")[1].hits if hit.text == said] == [said]
    session = make_session({1: said, 26: still}, {28: said})
    assert [hit for hit in lost(session, "last-20-messages")[1].hits if hit.text == said] == []


def test_the_name_of_a_parameter_and_what_is_within_its_value_are_in_the_body() -> None:
    session = make_session({1: "old_string", 2: "core/run.py"}, {28: "old_string", 29: "core/run.py"})
    (edit, path) = (session.blocks[session.requests[n].stop - 1] for n in (26, 27))
    assert {hit.text for hit in lost(session, "last-20-messages")[1].hits} >= {"old_string", "core/run.py"}
    builder = Builder("planted", "test")
    for message in session.messages:
        blocks = session.blocks[message.start : message.stop]
        more = {edit.at: {"old_string": "x"}, path.at: {"options": {"files": ["~/work/core/run.py"]}}}
        raw = [{**b.raw, "input": {**b.raw["input"], **more[b.at]}} if b.at in more else b.raw for b in blocks]
        draft = builder.add_message(message.role, raw, origin=message.origin)
        if message.role == "assistant":
            builder.set_request(draft, model=OPUS)
    assert {hit.text for hit in lost(builder.build(), "last-20-messages")[1].hits}.isdisjoint({"old_string", "core/run.py"})


def test_a_number_that_is_the_value_of_a_parameter_is_no_identifier() -> None:
    builder = Builder("numbers", "test")
    for n in range(2):
        builder.add_message("user", f"Begin {n}.", origin="prompt")
        given = call(f"c{n}", "Bash", command="kill 48123", timeout=120_000, limit="2000")
        builder.set_request(builder.add_message("assistant", [given]), model=OPUS)
        builder.add_message("user", result(f"c{n}", "done"))
    (_, second) = find_references(builder.build()).uses
    assert set(second) == {"48123"}


@settings(max_examples=examples(200))
@given(st.lists(st.text("ab_/ .é\n\ud800Z", max_size=24)), st.sets(st.text("ab_/ .é\ud800Z", min_size=1, max_size=4)))
def test_exactly_the_strings_that_a_text_holds_are_found_in_it(texts: list[str], strings: set[str]) -> None:
    search = StringSearch(sorted({*strings, "  "}))
    strings.add("  ")
    for text in texts:
        assert {search.strings[number] for number in search.find(text)} == {string for string in strings if string in text}


REAL = (
    "claude-code/entire-cd95-3compactions.jsonl",
    "claude-code/entire-d599-microcompact.jsonl",
    "claude-code/obra-long-conversation.jsonl",
    "codex/entire-skills-d5c5-compacted.jsonl",
    "mini-swe-agent/mini-swe-agent.traj.json",
    "opencode/prsui-01KYP8H2-export.json",
    "pi/pi-before-compaction.jsonl",
    "roo-cline/ac8aa7b4/api_conversation_history.json",
)
NUMBER = re.compile(r"[\d.]+")


def strings(value: Any) -> Iterator[str]:
    """Everything in a JSON value, with the names of its fields."""
    if isinstance(value, dict):
        for key, held in value.items():
            yield key
            yield from strings(held)
    elif isinstance(value, list):
        for held in value:
            yield from strings(held)
    else:
        yield str(value)


def is_false(hit: LostReference, body: Any, answer: Any) -> bool:
    """Whether an identifier is in the body as sent, or in the answer only as a number that is the value of a parameter."""
    said = "\n".join(strings(body))
    if any(hit.text in text for text in (said, re.sub(r"\\[ntr\"\\/]", " ", said), json.dumps(body, ensure_ascii=False))):
        return True
    if not NUMBER.fullmatch(hit.text) or not isinstance(answer, dict) or answer.get("type") != "tool_use":
        return False
    return all(NUMBER.fullmatch(value.strip()) for value in strings(answer["input"]) if hit.text in value)


@pytest.mark.thorough
def test_of_a_hundred_losses_in_real_sessions_at_most_one_is_false() -> None:
    draw, hits, wrong = random.Random(7), 0, list[tuple[str, str, LostReference]]()
    for name in REAL:
        path = shared("data", "open", *name.split("/"))
        session = load(path)
        references = find_references(session)
        for policy in ("last-20-messages", "clear-tool-results", "claude-code"):
            trace = replay(session, policy)
            found = [hit for hit in find_losses(trace, references).hits if hit.by >= 0]
            for hit in draw.sample(found, min(len(found), 40)):
                body = build_body(trace.plans[hit.request], session)
                hits += 1
                if is_false(hit, body, session.blocks[hit.answer].raw):
                    wrong.append((name, policy, hit))
        wrong += [(name, "as-recorded", hit) for hit in find_losses(replay(session), references).hits if is_unsaid(path, hit)]
    assert hits > 300
    assert len(wrong) <= hits / 100, wrong


def is_unsaid(path: Path, hit: LostReference) -> bool:
    """Whether the raw lines of a file do not say an identifier twice: where it was first, and in the answer that reuses it."""
    raw = path.read_text("utf-8")
    pattern = r"(?:\s|\\+[ntr\"/u]|\\u00..)+".join(re.escape(part) for part in re.split(r"[\s\"\\]+", hit.text) if part)
    return len(re.findall(pattern, raw)) < 2


@pytest.mark.thorough
@pytest.mark.parametrize("policy", ["as-recorded", "last-20-messages", "clear-tool-results"])
def test_the_losses_of_some_requests_to_some_blocks_are_those_of_the_whole_session(policy: str) -> None:
    """Also where only a summary holds the identifier, or a block that stays says it too."""
    session = load(ROOT / "sample_sessions" / "tool-results-eat-the-window.jsonl")
    trace, draw = replay(session, policy), random.Random(5)
    hits = find_losses(trace, find_references(session)).hits
    assert hits
    for hit in draw.sample(hits, min(len(hits), 5)):
        requests = range(max(0, hit.request - 5), min(len(trace.plans), hit.request + 60))
        blocks = {*range(max(0, hit.block - 20), hit.block + 200)} - {other.block for other in hits[::5]} | {hit.block}
        mine = [other for other in hits if other.request in requests and other.block in blocks]
        assert hit in mine
        assert find_losses_of(trace, requests, blocks) == mine
    everything = range(len(trace.plans)), range(len(session.blocks))
    assert tuple(find_losses_of(trace, *everything)) == hits
    assert find_losses_of(trace, range(0), {1}) == find_losses_of(trace, range(3), ()) == []


def test_identifiers_are_taken_from_escaped_json_and_prose_alike() -> None:
    assert find_identifiers(r'{"path":"src\/a.py","text":"one\nrun_all()\n"}') >= {"run_all"}
    assert find_identifiers("It costs 12345 at `some place`, see docs/a-b/c.md.") == {"12345", "some place", "docs/a-b/c.md"}
    assert find_identifiers("Plain words, and a number: 12.") == set()


planted = st.dictionaries(st.integers(0, 29), st.sampled_from(FACTS), min_size=1, max_size=6)


@settings(max_examples=examples(25))
@given(planted, planted, st.sampled_from(["result", "prompt"]))
def test_whatever_is_planted_is_lost_where_no_block_of_the_request_says_it_and_only_there(
    facts: dict[int, str], uses: dict[int, str], where: str
) -> None:
    session = make_session(facts, uses, where=where)
    assert lost(session, "keep-everything")[1].hits == ()
    assert lost(session, "as-recorded")[1].hits == ()
    trace, found = lost(session, "last-20-messages")
    expected = {
        (n, fact)
        for n, fact in uses.items()
        if any(fact in block.text for block in session.blocks[: session.requests[n].cut])
        and not any(fact in text for text in _texts(trace, n))
    }
    assert {(hit.request, hit.text) for hit in found.hits if hit.text in FACTS} == expected


def _texts(trace: Trace, n: int) -> list[Any]:
    pieces = [*trace.plans[n].seen.pieces]
    whole = [block.text for p in pieces if p.body is None for block in trace.session.blocks[p.start : p.stop]]
    parts = [part for piece in pieces for part in piece.body or ()]
    return whole + [part.text if part.ref is None else trace.session.blocks[part.ref].text for part in parts]


def test_when_a_text_left_is_told_for_every_policy() -> None:
    session = make_session({1: FACTS[0]}, {})
    kept, cut = find_departures([replay(session, "keep-everything"), replay(session, "last-20-messages")], FACTS[0])
    assert (kept.spans, kept.out) == ((Span(2, 30),), None)
    assert len(cut.spans) == 1
    assert cut.out is not None
    assert (cut.spans[0].start, cut.out.since, cut.out.state) == (2, cut.spans[0].stop, "absent")
    assert "keep_last_messages" in cut.out.sentence
    assert find_departures([replay(session)], "said nowhere")[0].spans == ()


def test_a_block_is_asked_for_by_its_number_and_nothing_else_is_taken_for_one() -> None:
    session = load(ROOT / "sample_sessions" / "cache-goes-cold.jsonl")
    traces = [replay(session, name) for name in ("keep-everything", "last-5-pairs")]
    kept, cut = find_departures(traces, "#3")
    assert kept.spans == next(traces[0].iter_shown_spans([3]))
    assert (kept.out, cut.spans) == (None, next(traces[1].iter_shown_spans([3])))
    assert cut.out == traces[1].explain(3, cut.spans[-1].stop)
    for text in ("#999999", "#", "#x", "3"):
        assert find_blocks(session, text) == tuple(block.at for block in session.blocks if text in block.text)


def test_each_loss_names_the_place_of_the_decision_that_put_it_out() -> None:
    session = load(ROOT / "sample_sessions" / "cache-goes-cold.jsonl")
    trace = replay(session, "last-5-pairs")
    found = find_losses(trace, find_references(session))
    assert {hit.by for hit in found.hits} == found.decisions.keys()
    for number, (request, step) in found.decisions.items():
        assert trace.plans[request].decisions[step - 1] is trace.get_decision(number)


def test_a_loss_is_a_plain_tuple() -> None:
    assert LostReference(3, "a/b.py", 9, 2, 4)._asdict() == {"request": 3, "text": "a/b.py", "answer": 9, "block": 2, "by": 4}
