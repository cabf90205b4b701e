"""The trimming ports beside their golden cases: published values, requests in sequence, sessions of other shapes, renaming."""

from __future__ import annotations

import json
import random
import string
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.budget import BudgetParams
from turnscope.envelope.plan import Plan
from turnscope.planning import policy, trace
from turnscope.planning.render import render
from turnscope.ports.chatbot_ui.messages import CLOSE, LEAD_IN, OPEN, build_retrieval_text
from turnscope.ports.langchain.trim import get_sums
from turnscope.ports.litellm.trim import shorten
from turnscope.session.builder import Builder
from turnscope.session.model import Session

from tests.bench.compare_live import SYSTEMS, Missing, differences
from tests.goldens import DEFAULT, adapters, judge

MINE = ("litellm-trim", "langchain-trim", "librechat-legacy", "chatbot-ui")
TRIMMING = [*MINE, "librechat-legacy-summary"]


def make_plans(session: Session, name: str, limit: int, frame: int = 0, **params: Any) -> list[Plan]:
    """Plans under a policy whose limit is `limit` tokens of four characters, with other parameters for its last rule."""
    chosen = policy.load(name)
    last = chosen.rules[-1]
    rules = (*chosen.rules[:-1], replace(last, params=replace(last.params, **params)))
    chosen = replace(chosen, counter="", budget=BudgetParams(formula="fixed", tokens=limit, window=10**6), rules=rules)
    return list(trace.trace(session, chosen, build_ledger(session, CHARS, per_message=frame)).plans)


def talk(sizes: list[int], system: int = 0) -> Session:
    """Alternating messages of so many tokens, each answer to a request of its own."""
    builder = Builder("talk", "test")
    if system:
        builder.add_message("system", "s" * 4 * system)
    for number, size in enumerate(sizes):
        draft = builder.add_message("assistant" if number % 2 else "user", chr(97 + number % 26) * 4 * size, id=f"m{number}")
        if number % 2:
            builder.set_request(draft)
    builder.add_unanswered()
    return builder.build()


def list_standing(plan: Plan, session: Session) -> list[str]:
    """Ids of the messages that are sent as they were said."""
    pieces = (p for p in plan.after.pieces if p.body is None)
    return [session.messages[b.message].id for p in pieces for b in session.blocks[p.start : p.stop] if b.role != "system"]


@pytest.mark.parametrize(("limit", "kept", "remaining"), [(100, [5, 19, 18], 55), (50, [5, 19, 18], 5)])
def test_librechats_own_unit_test_values(limit: int, kept: list[int], remaining: int) -> None:
    sizes = kept if limit == 100 else [30, 30, *kept]
    session = talk(sizes)
    plan = make_plans(session, "librechat-legacy", limit)[-1]
    assert list_standing(plan, session) == [f"m{n}" for n in range(len(sizes) - 3, len(sizes))]
    assert limit - 3 - plan.after.tokens == remaining


def test_librechat_folds_what_no_longer_fits_and_its_older_summary_into_one_summary() -> None:
    session = talk([30, 30] * 8)
    plans = make_plans(session, "librechat-legacy-summary", 200)
    summaries = [[p for p in plan.after.pieces if p.slot == "summary"] for plan in plans]
    assert [len(found) for found in summaries] == sorted(len(found) for found in summaries)
    assert len(summaries[-1]) == 1, "one summary leads the request, however often it was folded"
    assert sum(bool(plan.asks) for plan in plans) > 1
    assert "summary: " in [ask for plan in plans for ask, _ in plan.asks][-1].content


def test_librechat_begins_at_the_newest_message_with_a_stored_summary() -> None:
    builder = Builder("stored", "test")
    for number in range(5):
        extra = {"summary": f"summary {number}"} if number in (1, 3) else {}
        builder.add_message("assistant" if number % 2 else "user", f"text {number}", id=f"m{number}", extra=extra)
        if number in (2, 4):
            builder.add_unanswered()
    session = builder.build()
    first, second = make_plans(session, "librechat-legacy-summary", 1000)
    assert list_standing(first, session) == ["m2"]
    assert list_standing(second, session) == ["m4"]
    assert render(second.after, session)["system"] == "summary 3"


def test_litellm_counts_ten_rounds_and_grows_a_text_that_cannot_get_small_enough() -> None:
    rounds: list[str] = []

    def count(text: str) -> int:
        rounds.append(text)
        return 7

    text, _ = shorten("a", 5, count, gpt=False)
    assert len(rounds) == 10
    assert text == ".....a", "a half of no characters takes the whole text: it swings between growing and shrinking"


def test_litellm_leaves_a_model_without_a_known_window_alone() -> None:
    session = talk([100_000] * 4)
    plans = trace.trace(session, "litellm-trim", build_ledger(session, CHARS)).plans
    assert not any(plan.is_changed for plan in plans)
    known = trace.trace(structs.replace(session, window=1000), "litellm-trim", build_ledger(session, CHARS)).plans
    assert any(plan.is_changed for plan in known)


def test_litellm_joins_systems_and_shortens_a_result_and_an_answer_beside_its_call() -> None:
    builder = Builder("shapes", "test")
    builder.add_message("system", [{"type": "text", "text": "first rule"}])
    builder.add_message("user", "question " * 40)
    call = {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}}
    builder.add_message("assistant", [{"type": "text", "text": "answer " * 60}, call])
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "result " * 60}]}
    builder.add_message("user", [result, {"type": "text", "text": "go on"}])
    builder.add_message("system", "second rule")
    builder.add_unanswered(model="other")
    session = builder.build()
    sent = [render(make_plans(session, "litellm-trim", limit, 4)[-1].after, session) for limit in (60, 160)]
    assert {json.dumps(body["system"]) for body in sent} == {'"first rule\\nsecond rule"'}
    (small,) = sent[0]["messages"]
    assert ".." in small["content"][0]["content"], "the result is shortened in its own block, its call is left out"
    answer = sent[1]["messages"][0]["content"]
    assert ".." in answer[0]["text"]
    assert answer[1] == call


def test_litellm_sends_everything_where_a_list_breaks_the_original() -> None:
    builder = Builder("list", "test")
    builder.add_message("user", [{"type": "text", "text": "x" * 800}])
    builder.add_unanswered()
    broken = builder.build()
    assert make_plans(talk([50, 50, 50]), "litellm-trim", 60, lists="fail")[-1].is_changed
    plan = make_plans(broken, "litellm-trim", 60, lists="fail")[-1]
    assert not plan.is_changed
    assert "is not a string" in plan.decisions[0].edit.because
    assert make_plans(broken, "litellm-trim", 60)[-1].is_changed


def test_langchains_approximate_counter_counts_calls_results_and_lists() -> None:
    builder = Builder("count", "test")
    use = {"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}
    builder.add_message("assistant", ["hi", use])
    builder.add_message("assistant", [{"type": "text", "text": "hi"}, use])
    builder.add_message("user", [{"type": "tool_result", "tool_use_id": "c1", "content": "abc"}])
    sums = get_sums(builder.build())
    beside = len("assistant") + 2 + len(repr([{"name": "f", "args": {"a": 1}, "id": "c1", "type": "tool_call"}]))
    inside = len("assistant") + 2 + len(repr(use))
    assert sums[1:] == [-(-beside // 4) + 3, -(-beside // 4) + -(-inside // 4) + 6, sums[2] + 6]


def test_chatbot_uis_inserted_texts_have_the_lengths_that_are_counted() -> None:
    assert [len(text) for text in (LEAD_IN, OPEN, CLOSE)] == [126, 15, 14]
    assert len(build_retrieval_text(["ab", "c"])) == 2 + 126 + (15 + 2 + 14) + 2 + (15 + 1 + 14)


def test_chatbot_ui_puts_passages_onto_the_system_prompt_where_nothing_else_is_left() -> None:
    session = talk([400], system=5)
    session = structs.replace(session, about={"retrieved": {"m0": ["a passage"]}})
    plan = make_plans(session, "chatbot-ui", 100)[-1]
    assert list_standing(plan, session) == []
    assert "a passage" in str(render(plan.after, session)["system"])


@pytest.mark.parametrize("name", TRIMMING)
def test_a_port_keeps_the_newest_part_of_a_growing_talk(name: str) -> None:
    session = talk([*[3, 9, 4, 20, 5, 11] * 12, 3], system=4)
    plans = make_plans(session, name, 90, frame=0 if name == "chatbot-ui" else 4)
    assert any(plan.is_changed for plan in plans)
    for plan in plans:
        kept = list_standing(plan, session)
        newest = session.messages[session.blocks[plan.request.cut - 1].message].id
        assert not kept or kept[-1] == newest


def _rename_values(case: dict[str, Any], seed: int) -> dict[str, Any]:
    """The case with other ids and, letter by letter, other words."""
    chance = random.Random(seed)
    letters = list(string.ascii_lowercase)
    chance.shuffle(letters)
    other = str.maketrans(string.ascii_lowercase, "".join(letters))
    given = case["input"]
    names = {m[key] for m in given.get("messages", ()) for key in ("id", "messageId") if key in m} | set(given.get("files", ()))
    ids = {name: f"id-{chance.getrandbits(40):x}" for name in sorted(names)}

    def text(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: v if k == "type" else text(v) for k, v in value.items()}
        return (
            [text(v) for v in value] if isinstance(value, list) else value.translate(other) if isinstance(value, str) else value
        )

    def walk(value: Any, key: str = "") -> Any:
        if key in ("content", "text", "chat_prompt"):
            return text(value)
        if key in ("changed", "shortened"):
            return {ids.get(k, k): text(v) for k, v in value.items()}
        if key == "files" and isinstance(value, dict):
            return {ids[k]: text(v) for k, v in value.items()}
        if isinstance(value, dict):
            return {ids.get(k, k): walk(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [walk(v) for v in value]
        return ids.get(value, value) if isinstance(value, str) and key not in ("role", "counter", "strategy") else value

    return walk(case)  # type: ignore[no-any-return]


@pytest.mark.skipif(not DEFAULT.is_dir(), reason="the golden cases are not beside the project")
@pytest.mark.parametrize("system", MINE)
def test_other_ids_and_words_change_no_outcome(system: str) -> None:
    file = json.loads((DEFAULT / f"{system}.json").read_text(encoding="utf-8"))
    for seed, case in enumerate(file["cases"]):
        outcome = judge(adapters()[system], {**_rename_values(case, seed), "id": case["id"], "kind": case["kind"]}, file)
        assert not outcome.wrong, f"{case['id']}: {outcome.wrong}"


@pytest.mark.parametrize("system", sorted(SYSTEMS))
def test_a_thousand_random_histories_are_trimmed_as_the_library_trims_them(system: str) -> None:
    try:
        wrong = list(differences(system, 1_000))
    except Missing as reason:
        pytest.skip(str(reason))
    assert not wrong, wrong[0]
