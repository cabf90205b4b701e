"""Roo Code's context management: its figures, the rules against the stored history they stand for, and a recorded task."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import pytest
import turnscope
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS, make_estimator
from turnscope.envelope.plan import Plan
from turnscope.planning.assemble import replay
from turnscope.planning.policy import Policy, Step, load
from turnscope.planning.render import render
from turnscope.ports.roo import management, results
from turnscope.session.builder import Builder
from turnscope.session.model import Answer, Session, Usage

from tests.goldens import DEFAULT, ROOT, judge
from tests.goldens import roo as goldens

RECORDED = ROOT.parent / "shared" / "data" / "open" / "roo-cline" / "ac8aa7b4"
MODEL = "claude-sonnet-4-5"

needs_recorded = pytest.mark.skipif(not RECORDED.is_dir(), reason="the open sessions are not beside the project")
needs_goldens = pytest.mark.skipif(not DEFAULT.is_dir(), reason="the golden cases are not beside the project")


# --- figures ----------------------------------------------------------------------------------------------------------------


def make_plain(count: int) -> list[management.Stored]:
    return [{"role": "assistant" if n % 2 else "user", "content": f"m{n}", "ts": n} for n in range(count)]


@pytest.mark.parametrize(
    ("count", "removed"),
    [(0, 0), (1, 0), (4, 0), (5, 2), (8, 2), (9, 4), (12, 4), (21, 10), (22, 10), (23, 10), (24, 10), (25, 12)],
)
def test_the_published_numbers_of_hidden_messages_come_out(count: int, removed: int) -> None:
    assert management.truncate(make_plain(count), 0.5, "T").removed == removed


def test_a_second_truncation_counts_visible_messages_alone() -> None:
    once = management.truncate(make_plain(21), 0.5, "T1")
    assert management.truncate(once.messages, 0.5, "T2").removed == 4


def test_our_notices_are_as_long_as_the_originals() -> None:
    texts = (
        management.HEADING,
        management.OFFLINE_HEADING,
        management.MARKER.format(4),
        management.MARKER.format(10),
        "".join(management.WORKFLOWS),
        management.DEFERRED,
    )
    assert [len(text) for text in (*texts, results.INTERRUPTED)] == [24, 24, 64, 65, 132, 56, 49]


@pytest.mark.parametrize(
    ("window", "reserve", "gives"),
    [(200_000, None, 171_808), (128_000, 0, 107_008), (64_000, 8_192, 49_408), (1_000, 100, 800)],
)
def test_a_tenth_of_the_window_and_the_reserve_are_kept_free(window: int, reserve: int | None, gives: float) -> None:
    limit = management.compute_allowed(window, reserve)
    assert limit == pytest.approx(gives)
    assert management.will_manage(math.floor(limit) + 1, 0, window, reserve, auto=False)
    assert not management.will_manage(math.floor(limit), 0, window, reserve, auto=False)


def test_a_profile_may_set_its_own_percentage_within_bounds() -> None:
    due = [management.will_manage(10_000, 0, 200_000, None, True, 100, profile) for profile in (None, -1, 4, 5, 5.1, 100, 101)]
    assert due == [False, False, False, True, False, False, False]


def test_commands_of_the_task_and_the_environment_stand_behind_a_summary() -> None:
    first = {
        "content": [
            {"type": "text", "text": "do <command name='a'>\nx</command> and"},
            {"type": "text", "text": "<command>y</command>"},
        ]
    }
    texts = [block["text"] for block in management.build_summary_content("H", "S", first, "  \n")]
    assert texts == ["HS", "<command name='a'>\nx</command>\n<command>y</command>".join(management.WORKFLOWS)]
    assert [block["text"] for block in management.build_summary_content("H", "S", {"content": "no commands"}, " env ")] == [
        "HS",
        " env ",
    ]


# --- the rules against the stored history that they stand for ---------------------------------------------------------------

CALLS = [{"type": "tool_use", "id": "c", "name": "x", "input": {}}]


class Stored:
    """The original's way: the whole history is stored with its tags, and read anew for each request."""

    def __init__(self, settings_: dict[str, Any]) -> None:
        self.settings = settings_
        self.messages: list[management.Stored] = []
        self.made = {"T": 0, "C": 0}

    def prepare(self, append: list[management.Stored], used: int, fake: str | None) -> dict[str, Any]:
        self.messages += append
        did: dict[str, Any] = {"action": "skipped", "condense_error": None, "removed": None, "new_tokens": None}
        if used:
            did |= {"action": "none"} | self._manage(used, fake)
        sent = management.select_effective(self.messages)
        return did | {
            "sent": goldens._runs([m["id"] for m in sent]),
            "messages_after_merge": len(management.merge_neighbours(sent)),
        }

    def _manage(self, used: int, fake: str | None) -> dict[str, Any]:
        given = self.settings
        last = goldens.tokens_of(self.messages[-1]["content"])
        numbers = (used, last, given["window"], given["max_output"])
        did: dict[str, Any] = {"previous_tokens": used + last}
        system = goldens.text_tokens(given["system_prompt"])
        if given["auto_condense"] and management.will_manage(*numbers, True, given["threshold_percent"]):
            error = management.explain_refusal(self.messages)
            error = error or ("condense_api_failed" if fake is None else "" if fake.strip() else "condense_failed")
            if not error and fake is not None:
                return did | {"action": "condense", "new_tokens": system + self._condense(fake)}
            did["condense_error"] = error
        if management.will_manage(*numbers, auto=False):
            cut = management.truncate(self.messages, 0.5, f"T{self.made['T'] + 1}")
            self.made["T"] += cut.marker is not None
            self.messages = [{**m, "id": f"marker:T{self.made['T']}"} if m is cut.marker else m for m in cut.messages]
            kept = [m for m in self.messages if not m.get("truncationParent") and not m.get("isTruncationMarker")]
            left = system + sum(goldens.tokens_of(m["content"]) for m in kept)
            return did | {"action": "truncate", "removed": cut.removed, "new_tokens": left}
        return did

    def _condense(self, fake: str) -> int:
        self.made["C"] += 1
        name = f"C{self.made['C']}"
        content = management.build_summary_content(management.HEADING, fake.strip(), self.messages[0], "")
        self.messages = [{"condenseParent": name, **m} for m in self.messages]
        self.messages.append(
            {"id": f"summary:{name}", "role": "user", "content": content, "isSummary": True, "condenseId": name}
        )
        return goldens.tokens_of(content)


@st.composite
def tasks(draw: st.DrawFn) -> dict[str, Any]:
    """A task of any order of roles, near its limit often, whose summaries fail now and then."""
    steps, number = [], 0
    for n in range(draw(st.integers(1, 30))):
        append = []
        for role in draw(st.sampled_from(["au", "au", "au", "auau", "auu", "u", "aau", "aauau"])) if n else "u":
            text = {"type": "text", "text": "t" * draw(st.integers(1, 30))}
            content: Any = (
                [text, *CALLS] if role == "a" and draw(st.booleans()) else [text] if draw(st.booleans()) else text["text"]
            )
            append.append(
                {"id": f"m{number}", "role": {"u": "user", "a": "assistant"}[role], "content": content, "ts": 1_000 + number}
            )
            number += 1
        used = draw(st.sampled_from([0, 10, 40_000, 49_400, 55_000, 60_000])) if n else 0
        fake = draw(st.sampled_from([None, None, None, " ", "a summary", "s" * 90]))
        steps.append({"append": append, "context_tokens": used, "fake_summary": fake})
    return {
        "window": 64_000,
        "max_output": draw(st.sampled_from([None, 0, 8_192])),
        "auto_condense": draw(st.sampled_from([True, True, False])),
        "threshold_percent": draw(st.sampled_from([60, 90, 100])),
        "system_prompt": draw(st.sampled_from(["SYSTEM PROMPT", ""])),
        "steps": steps,
    }


@pytest.mark.thorough
@given(tasks())
@settings(max_examples=examples(200), deadline=None)
def test_each_request_is_what_the_stored_history_gives_at_once(task: dict[str, Any]) -> None:
    stored = Stored(task)
    planned = goldens.run({"kind": "sequence", "input": task}, {})["steps"]
    for part, got in zip(task["steps"], planned, strict=True):
        want = stored.prepare(part["append"], part["context_tokens"], part["fake_summary"])
        assert {key: got[key] for key in want} == want


# --- what a request holds ---------------------------------------------------------------------------------------------------


def say(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def call(*names: str) -> list[Any]:
    return [{"type": "tool_use", "id": name, "name": "read", "input": {}} for name in names]


def result(name: str, text: str = "r") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": text}


def make_policy(**changes: dict[str, Any]) -> Policy:
    ported = load("roo")
    return replace(ported, rules=tuple(Step(p.rule, replace(p.params, **changes.get(p.rule.name, {}))) for p in ported.rules))


def replay_session(session: Session, policy: Policy | None = None) -> list[Plan]:
    own = build_ledger(session, make_estimator("o200k_base"), per_message=0)
    return list(replay(session, policy or load("roo"), build_ledger(session, CHARS), own))


def conversation(*messages: tuple[str, Any], used: tuple[int, ...] = ()) -> Session:
    """A session; each answer answers a request, with `used` prompt tokens one after another; a last request is open."""
    builder, left = Builder("task", "test"), iter(used)
    for n, (role, content) in enumerate(messages):
        draft = builder.add_message(role, content, sent_at=float(n))
        if role == "assistant":
            tokens = next(left, 0)
            builder.set_request(draft, model=MODEL, usage=Usage(input_tokens=tokens) if tokens else None)
    builder.add_unanswered(model=MODEL)
    return builder.build()


def bodies(session: Session, policy: Policy | None = None) -> list[list[Any]]:
    return [render(plan.after, session)["messages"] for plan in replay_session(session, policy)]


def test_answers_in_a_row_are_kept_apart_the_same_way_whether_they_come_one_by_one_or_at_once() -> None:
    answers = [("assistant", f"reply {n}") for n in range(5)]
    one_by_one = conversation(("user", "go"), *answers, ("user", "on"))
    at_once = structs.replace(one_by_one, requests=(structs.replace(one_by_one.requests[-1], n=0),))
    assert [m["content"] for m in bodies(at_once)[-1][1:-1]] == [f"reply {n}" for n in range(5)]
    assert bodies(at_once)[-1] == bodies(one_by_one)[-1]
    standing = [
        [(p.start, p.stop, p.body) for p in replay_session(session)[-1].after.pieces] for session in (at_once, one_by_one)
    ]
    assert standing[0] == standing[1]
    assert sum(body is not None for _, _, body in standing[0]) == 2, "every other one has to change"


def test_results_of_one_turn_in_several_messages_are_fitted_together() -> None:
    session = conversation(("user", "go"), ("assistant", call("a", "b")), ("user", [result("a")]), ("user", [result("b")]))
    assert not any(plan.decisions for plan in replay_session(session))
    assert bodies(session)[-1][-1]["content"] == [result("a"), result("b")]


def test_wrong_second_and_missing_results_are_mended_when_they_come() -> None:
    answer = [say("x"), *call("a", "b", "c")]
    session = conversation(
        ("user", "go"), ("assistant", answer), ("user", [result("zz", "1"), result("b"), result("b", "2"), say("e")])
    )
    first, *rest = bodies(session)[-1][-1]["content"]
    assert first == result("c", results.INTERRUPTED)
    assert rest == [result("a", "1"), result("b"), say("e")]
    assert {d.action for d in replay_session(session)[-1].decisions} == {"repair"}


def test_a_result_without_an_answer_before_it_is_sent_as_text() -> None:
    session = conversation(("user", [result("a", "seen")]), ("assistant", "ok"), ("user", "on"))
    assert bodies(session)[0][0]["content"] == [results.convert_to_text(result("a", "seen"))]


def test_answers_in_a_row_stay_apart_and_a_users_messages_are_joined() -> None:
    session = conversation(
        ("user", "go"),
        ("assistant", [say("one"), *call("a")]),
        ("assistant", [say("two")]),
        ("user", [say("b")]),
        ("user", "c"),
    )
    assert [(m["role"], len(m["content"])) for m in bodies(session)[-1]] == [
        ("user", 2),
        ("assistant", 2),
        ("assistant", 1),
        ("user", 2),
    ]


def make_long_task(pairs: int, used: tuple[int, ...]) -> Session:
    told = [("user", [say("ask 0"), say("<environment_details>at 0</environment_details>")])]
    for n in range(1, pairs):
        told += [
            ("assistant", f"reply {n}"),
            ("user", [say(f"ask {n}"), say(f"<environment_details>at {n}</environment_details>")]),
        ]
    return conversation(*told, used=used)


def test_a_condense_takes_the_newest_message_along_and_ends_with_the_environment() -> None:
    session = make_long_task(4, (1_000, 1_000, 180_000))
    (message,) = bodies(session)[-1]
    assert message["role"] == "user"
    assert message["content"][0]["text"].startswith(management.OFFLINE_HEADING)
    assert message["content"][1] == say("<environment_details>at 3</environment_details>")
    (decision,) = replay_session(session)[-1].decisions
    assert decision.action == "condense"
    assert decision.edit.facts["offline"] is True


def test_right_after_a_condense_its_own_count_is_compared_and_then_what_was_billed() -> None:
    session = make_long_task(7, (1_000, 1_000, 180_000, 180_000, 180_000))
    acted = [[d.action for d in plan.decisions] for plan in replay_session(session)]
    assert acted[3] == ["condense"]
    assert acted[4] == []
    as_billed = make_policy(
        condense_to_fresh_start={"count_after_condense": False}, hide_older_half={"count_after_condense": False}
    )
    assert [d.action for d in replay_session(session, as_billed)[4].decisions] == ["condense"]


def test_without_condensing_half_is_hidden_behind_a_marker_that_joins_nothing() -> None:
    session = make_long_task(6, (1_000, 1_000, 1_000, 1_000, 180_000))
    messages = bodies(session, make_policy(condense_to_fresh_start={"auto": False}))[-1]
    assert [m["role"] for m in messages] == ["user", "user", "assistant", "user", "assistant", "user", "assistant", "user"]
    assert messages[1]["content"] == management.MARKER.format(4)
    assert messages[2]["content"] == "reply 3"


def test_a_result_whose_call_a_summary_stands_for_is_left_out() -> None:
    told: list[tuple[str, Any]] = [
        ("user", "go"),
        ("assistant", call("a")),
        ("user", [say("not yet")]),
        ("assistant", [*call("n")]),
    ]
    session = conversation(*told, ("user", [result("a"), result("n"), say("here")]), used=(180_000, 1_000))
    ported = make_policy()
    stored = replace(ported, rules=tuple(part for part in ported.rules if part.rule.name != "match_results_to_calls"))
    assert bodies(session, stored)[-1][-1]["content"] == [result("n"), say("here")]


def test_system_and_tools_in_the_middle_stay_and_hidden_markers_go_with_a_condense() -> None:
    builder = Builder("task", "test")
    used = iter([1_000, 1_000, 1_000, 180_000, 1_000, 180_000])
    for n in range(7):
        if n == 2:
            builder.add_message("system", "a later system prompt")
        builder.add_message("user", f"ask {n}")
        if n < 6:
            builder.set_request(
                builder.add_message("assistant", f"reply {n}"), model=MODEL, usage=Usage(input_tokens=next(used))
            )
    builder.add_unanswered(model=MODEL)
    session = builder.build()
    answers = {"left": 0}

    def fail_first(ask: Any) -> Answer:
        answers["left"] += 1
        return Answer(failed="no") if answers["left"] == 1 else Answer("all of it", source="recorded")

    plans = replay_stepwise(session, fail_first)
    hidden = render(plans[4].after, session)
    assert hidden["system"] == "a later system prompt"
    assert [m["content"] for m in hidden["messages"]][:3] == ["ask 0", management.MARKER.format(4), "reply 2"]
    last = render(plans[-1].after, session)
    assert last["system"] == "a later system prompt"
    assert [m["content"] for m in last["messages"]] == [[say(f"{management.HEADING}all of it")]]


def replay_stepwise(session: Session, answers: Any) -> list[Plan]:
    from turnscope.planning.assemble import Basis, plan_step, reconcile_plan

    ledger = build_ledger(session, CHARS)
    basis, previous, plans = Basis.of(session, ledger), None, []
    for request in session.requests:
        plans.append(plan_step(previous, session, request, load("roo"), basis, answers))
        previous = reconcile_plan(plans[-1])
    return plans


@given(st.integers(0, 12))
@settings(max_examples=13, deadline=None)
def test_the_first_requests_alone_give_the_same_plans(count: int) -> None:
    session = make_long_task(14, tuple([1_000, 60_000, 180_000, 2_000, 175_000] * 3))
    policy = make_policy(condense_to_fresh_start={"auto": count % 2 == 0})
    whole, part = (
        replay_session(session, policy),
        replay_session(structs.replace(session, requests=session.requests[:count]), policy),
    )
    assert [list(plan.after.pieces) for plan in part] == [list(plan.after.pieces) for plan in whole[:count]]
    assert [plan.states for plan in part] == [plan.states for plan in whole[:count]]


# --- a recorded task --------------------------------------------------------------------------------------------------------


@needs_recorded
def test_a_recorded_condense_comes_at_the_same_request_and_takes_four_messages_more() -> None:
    """The task was recorded with a version before 3.43, at 75 %. That version keeps the first message and the newest three and
    puts the summary between them; 3.52 goes on from the summary alone. Nothing was truncated. The trigger is the same, but the
    new message was counted by the provider (36,352 tokens) and is estimated here as 3.52 does for most: o200k times 1.5."""
    session = turnscope.load(RECORDED / "ui_messages.json")
    (recorded,) = session.observed
    told = json.loads((RECORDED / "ui_messages.json").read_text(encoding="utf-8"))
    (condensed,) = (event["contextCondense"] for event in told if event.get("say") == "condense_context")
    before = session.requests[recorded.request - 1].usage
    assert before is not None
    billed = before.prompt_tokens + before.output_tokens
    assert condensed["prevContextTokens"] - billed == 36_352
    assert 75 <= 100 * condensed["prevContextTokens"] / 200_000 < 76

    plans = replay_session(session, make_policy(condense_to_fresh_start={"threshold": 75}))
    acted = {plan.request.n: [d for d in plan.decisions if d.action == "condense"] for plan in plans}
    first = min(n for n, decisions in acted.items() if decisions)
    assert first == recorded.request
    (ours,) = acted[first]
    assert ours.edit.facts["size"] - billed == pytest.approx(36_352, rel=0.2)

    sent = [m for m in session.messages if m.start < session.requests[first].cut]
    assert recorded.edit.span == (sent[1].start, sent[-3].start)
    assert ours.edit.span == (sent[0].start, sent[-1].stop)


@needs_recorded
def test_at_the_default_percentage_the_recorded_task_is_condensed_later_and_never_over_the_limit() -> None:
    session = turnscope.load(RECORDED / "ui_messages.json")
    plans = replay_session(session)
    first = next(plan for plan in plans if any(d.action == "condense" for d in plan.decisions))
    assert first.request.n > session.observed[0].request
    assert all(plan.verdict != "overflow" for plan in plans)


# --- renaming ---------------------------------------------------------------------------------------------------------------

NAMES = frozenset({"tool_use_id", "condenseParent", "truncationParent", "condenseId", "truncationId"})


def rename_values(value: Any, salt: str, key: str = "", owner: Any = None) -> Any:
    """The case with other ids of calls, tags and texts, all of the same length; the ids of messages stay."""
    if isinstance(value, dict):
        return {k: rename_values(v, salt, k, value) for k, v in value.items()}
    if isinstance(value, list):
        if key == "tags":  # of `clean_up`: a message's id, and its tags
            return [[row[0], *(rename_values(tag, salt, "condenseParent") for tag in row[1:])] for row in value]
        return [rename_values(item, salt, key) for item in value]
    call_id = key == "id" and isinstance(owner, dict) and owner.get("type") == "tool_use"
    texts = key in ("content", "text", "fake_summary", "system_prompt", "environment_details")
    if not isinstance(value, str) or "{" in value or (not texts and not call_id and key not in NAMES):
        return value
    if not texts:
        return value + "-" + blake2b(f"{salt}{value}".encode()).hexdigest()[:6]
    parts = re.split("(⟦.*?⟧)", value)
    return "".join(part if part.startswith("⟦") else "".join(rotate_letter(char, salt) for char in part) for part in parts)


def rotate_letter(char: str, salt: str) -> str:
    turn = 1 + int(blake2b(salt.encode()).hexdigest(), 16) % 25
    return chr((ord(char.lower()) - 97 + turn) % 26 + 97) if char.isascii() and char.isalpha() else char


@needs_goldens
@pytest.mark.parametrize("salt", ["one", "two"])
def test_renaming_ids_and_texts_changes_no_outcome(salt: str) -> None:
    file = json.loads((DEFAULT / "roo.json").read_text(encoding="utf-8"))
    changed = [
        (case, {**case, "input": rename_values(case["input"], salt), "expect": rename_values(case["expect"], salt)})
        for case in file["cases"]
    ]
    assert sum(case["input"] != new["input"] for case, new in changed) > 40
    failed: Iterator[str] = (new["id"] for _, new in changed if judge(goldens, new, file).wrong)
    assert list(failed) == []
