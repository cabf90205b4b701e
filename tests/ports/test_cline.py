"""Cline's classic context manager: published ranges, and that planning step by step equals planning at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from hashlib import blake2b
from itertools import groupby
from typing import Any

import pytest
from conftest import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.plan import Plan
from turnscope.planning.assemble import Basis, plan_step, reconcile_plan, replay
from turnscope.planning.policy import load
from turnscope.planning.render import render
from turnscope.ports.cline import ranges
from turnscope.ports.cline.ranges import History, State
from turnscope.ports.cline.reads import replace_as_javascript
from turnscope.ports.cline.sending import Place, build_content, find_places
from turnscope.session.builder import Builder
from turnscope.session.index import Index
from turnscope.session.model import Session, Usage

from tests.goldens import DEFAULT, judge
from tests.goldens import cline_classic as goldens

# End of the range by number of messages, alternating and nothing hidden before: published values of the original.
KEEPS: tuple[ranges.Keep, ...] = ("none", "lastTwo", "half", "quarter")
ENDS = {
    0: (1, 1, -1, -1),
    1: (1, 1, -1, -1),
    2: (1, 1, 1, 1),
    3: (1, 1, 1, 1),
    4: (3, 1, 1, 1),
    5: (3, 1, 1, 3),
    6: (5, 3, 3, 3),
    7: (5, 3, 3, 3),
    8: (7, 5, 3, 5),
    10: (9, 7, 5, 7),
    11: (9, 7, 5, 7),
    12: (11, 9, 5, 7),
    13: (11, 9, 5, 9),
    14: (13, 11, 7, 9),
    20: (19, 17, 9, 13),
    21: (19, 17, 9, 15),
    41: (39, 37, 19, 29),
}


def alternate_role(number: int) -> str:
    return "assistant" if number % 2 else "user"


@pytest.mark.parametrize("count", ENDS)
def test_the_published_ranges_come_out(count: int) -> None:
    there = [
        ranges.compute_next_range(lambda i: alternate_role(i) if 0 <= i < count else "", count, None, keep) for keep in KEEPS
    ]
    assert there == [(2, end) for end in ENDS[count]]


def test_successive_truncations_extend_the_range() -> None:
    current, ends = None, []
    for keep in ("half", "half", "quarter", "lastTwo", "none"):
        current = ranges.compute_next_range(lambda i: alternate_role(i) if i < 41 else "", 41, current, keep)  # type: ignore[arg-type]
        ends.append(current[1])
    assert ends == [19, 29, 37, 37, 39]


def test_with_two_users_in_a_row_the_end_steps_back_once() -> None:
    roles = ["assistant" if r == "a" else "user" for r in "uauuauauauau"]
    there = [ranges.compute_next_range(roles.__getitem__, 12, None, keep)[1] for keep in ("half", "quarter")]  # type: ignore[arg-type]
    assert there == [4, 6]


def test_our_notices_are_as_long_as_the_originals() -> None:
    assert [ranges.count_units(text) for text in (ranges.TRUNCATED, ranges.FIRST_USER, ranges.READ_AGAIN)] == [336, 30, 153]
    assert not any("$" in text for text in goldens.NOTICES.values()), "JavaScript would read a pattern into it"


def test_lengths_are_counted_as_javascript_does() -> None:
    assert [ranges.count_units(text) for text in ("abc", "é", "💻", "\ud83d")] == [3, 1, 2, 1]


@pytest.mark.parametrize(
    ("instead", "gives"),
    [("$$x", "a $x z"), ("[$&]", "a [mid] z"), ("$`|", "a a | z"), ("$'|", "a  z| z"), ("$1 $<n>", "a $1 $<n> z")],
)
def test_dollar_patterns_mean_what_they_mean_to_javascript(instead: str, gives: str) -> None:
    assert replace_as_javascript("a mid z", "mid", instead) == gives


# --- planning step by step equals planning at once --------------------------------------------------------------------------

FILES = st.sampled_from(["a.py", "b.py", "$&.md"])
SIZES = st.integers(0, 900)


@st.composite
def user_messages(draw: st.DrawFn, calls: tuple[str, ...]) -> Any:
    kind = draw(st.sampled_from(["plain", "text", "read", "old", "write", "mention", "results", "empty"]))
    name, fill = draw(FILES), "x" * draw(SIZES)
    if kind == "plain":
        return f"just text {fill}"
    if kind == "read":
        return [{"type": "text", "text": f"[read_file for '{name}'] Result:\n{fill}"}, {"type": "text", "text": "env"}]
    if kind == "old":
        return [{"type": "text", "text": f"[read_file for '{name}'] Result:"}, {"type": "text", "text": fill}]
    if kind == "write":
        body = f'<final_file_content path="{name}">{fill}</final_file_content>'
        return [{"type": "text", "text": f"[write_to_file for '{name}'] Result:\n{body}"}]
    if kind == "mention":
        body = f'<file_content path="{name}">{fill}</file_content> <file_content path="b.py">{fill}</file_content>'
        return [{"type": "text", "text": "see"}, {"type": "text", "text": body}]
    if kind == "results":
        known = [*calls, "unknown"] if draw(st.booleans()) else list(calls)
        text = f"[read_file for '{name}'] Result:\n{fill}"
        rows = [{"type": "tool_result", "tool_use_id": c, "content": [{"type": "text", "text": text}]} for c in known]
        return draw(st.permutations([*rows, {"type": "text", "text": "env"}]))
    return [] if kind == "empty" else [{"type": "text", "text": f"hm {fill}"}]


@st.composite
def tasks(draw: st.DrawFn) -> tuple[Session, list[int]]:
    """A task of any message order, with usage that reaches the limit often, and the window of each request."""
    builder, calls = Builder("task", "test"), ()  # type: tuple[Builder, tuple[str, ...]]
    windows = []
    for n in range(draw(st.integers(1, 9))):
        for role in draw(st.sampled_from(["u", "au", "auau", "aau", "auu", "ua"])):
            if role == "u":
                builder.add_message("user", draw(user_messages(calls)), fence=True)
            else:
                calls = tuple(f"c{n}{i}" for i in range(draw(st.integers(0, 2))))
                uses = [{"type": "tool_use", "id": call, "name": "x", "input": {}} for call in calls]
                builder.add_message("assistant", [{"type": "text", "text": f"say {n}"}, *uses], fence=True)
        tokens = draw(st.sampled_from([None, 10, 40_000, 70_000, 90_000]))
        builder.add_unanswered(usage=Usage(input_tokens=tokens, output_tokens=5) if tokens else None)
        windows.append(draw(st.sampled_from([64_000, 64_000, 128_000])))
    return builder.build(), windows


def users_alone() -> tuple[Session, list[int]]:
    """Three messages of the user, the first request at its limit: the range ends before it begins, and steps back once more."""
    builder = Builder("task", "test")
    for n in range(3):
        builder.add_message("user", f"just text {n}", fence=True)
        builder.add_unanswered(usage=Usage(input_tokens=40_000))
    return builder.build(), [64_000] * 3


@given(tasks())
@example(users_alone())
@settings(max_examples=examples(150), deadline=None)
def test_each_request_is_what_the_whole_state_gives_at_once(task: tuple[Session, list[int]]) -> None:
    session, windows = task
    starts = ranges.find_starts(session, Index.build(session))
    for plan in plans(session, windows):
        state = plan.get_state("hide_oldest_pairs")
        history = History(session, starts, plan.request.cut, state.lost)
        assert list(iter_standing(plan.after, session)) == list(build_all(history, state))


@given(tasks())
@settings(max_examples=examples(50), deadline=None)
def test_the_first_requests_alone_give_the_same_plans(task: tuple[Session, list[int]]) -> None:
    session, windows = task
    whole = [plan.after for plan in plans(session, windows)]
    for n in range(1, len(windows) + 1):
        cut = session.requests[n - 1].cut
        messages = tuple(m for m in session.messages if m.start < cut)
        first = structs.replace(session, blocks=session.blocks[:cut], messages=messages, requests=session.requests[:n])
        assert [plan.after for plan in plans(first, windows[:n])] == whole[:n]


@given(tasks())
@settings(max_examples=examples(50), deadline=None)
def test_every_change_is_a_decision_that_can_be_undone(task: tuple[Session, list[int]]) -> None:
    for plan in plans(*task):
        envelope = plan.after
        for decision in reversed(plan.decisions):
            envelope = envelope.undo(decision.splice) if decision.splice else envelope
        assert [*envelope.pieces] == [*plan.before.pieces]


def plans(session: Session, windows: list[int]) -> Iterator[Plan]:
    policy, previous = load("cline-classic"), None
    basis = Basis.of(session, build_ledger(session, CHARS))
    for request, window in zip(session.requests, windows, strict=True):
        plan = plan_step(previous, session, request, replace(policy, budget=replace(policy.budget, window=window)), basis)
        previous = reconcile_plan(plan)
        yield plan


def build_all(history: History, state: State) -> Iterator[tuple[int, Any]]:
    """Every message as the original sends it, made anew from the stored history, the range and the edits."""
    found = find_places(history, state, range(len(history)))
    first = [place for place in found if not place.again and place.message < 2]
    rest = sorted((place for place in found if place not in first), key=lambda place: place.message)
    for place in (*first, *rest):
        content = build_content(history, state, place)
        yield place.message, content if isinstance(content, str) else [item.raw for item in content]


def iter_standing(envelope: Envelope, session: Session) -> Iterator[tuple[int, Any]]:
    """Message numbers and contents as an envelope holds them."""
    rows = []
    for piece in envelope.pieces:
        again = piece.start == piece.stop
        if piece.body is None:
            rows += [((block.message, False), block.raw) for block in session.blocks[piece.start : piece.stop]]
        for part in piece.body or ():
            number = int(piece.slot.split()[1]) if again else session.blocks[piece.start].message
            rows.append(((number, again), session.blocks[part.ref].raw if part.ref is not None else part.raw))
    for (number, _), group in groupby(rows, key=lambda row: row[0]):
        content = [raw for _, raw in group if raw is not None]
        yield number, content[0] if len(content) == 1 and isinstance(content[0], str) else content


# --- what triggers, and what stays ------------------------------------------------------------------------------------------


def task(*used: int | None, text: str = "words " * 20) -> Session:
    """A task of one pair per request; `used`: prompt tokens of each."""
    builder = Builder("task", "test")
    for n, tokens in enumerate(used):
        builder.add_message("user", [{"type": "text", "text": f"ask {n} {text}"}])
        answer = builder.add_message("assistant", [{"type": "text", "text": f"reply {n} {text}"}])
        builder.set_request(answer, model="claude-sonnet-4-5", usage=Usage(input_tokens=tokens) if tokens else None)
    return builder.build()


def replay_session(session: Session) -> list[Plan]:
    return list(replay(session, load("cline-classic"), build_ledger(session, CHARS)))


def test_a_request_whose_log_carries_no_usage_counts_as_nothing_where_others_carry_it() -> None:
    plans = replay_session(task(*[10_000] * 6, 170_000, None, 10_000))
    assert [plan.get_state("hide_oldest_pairs").range for plan in plans][6:] == [None, (2, 7), (2, 7)]


def test_where_no_request_carries_usage_what_was_counted_decides() -> None:
    plans = replay_session(task(*[None] * 12, text="x" * 100_000))
    assert any(plan.get_state("hide_oldest_pairs").range for plan in plans)


def test_a_truncation_puts_the_notice_into_the_first_answer_and_hides_from_message_two_on() -> None:
    session = task(*[10_000] * 6, 170_000, 10_000)
    body = render(replay_session(session)[-1].after, session)
    texts = [message["content"][0]["text"] for message in body["messages"]]
    assert texts[0].startswith("ask 0")
    assert texts[1] == ranges.TRUNCATED
    assert [text.split()[1] for text in texts[2:]] == ["4", "4", "5", "5", "6", "6", "7"]


def test_system_and_tools_inside_the_hidden_range_stay() -> None:
    builder = Builder("task", "test")
    for n in range(8):
        if n == 2:
            builder.add_message("system", "a later system prompt")
        builder.add_message("user", f"ask {n}")
        builder.set_request(
            builder.add_message("assistant", f"reply {n}"), usage=Usage(input_tokens=170_000 if n == 6 else 1_000)
        )
    session = builder.build()
    plan = replay_session(session)[-1]
    assert plan.get_state("hide_oldest_pairs").range is not None
    assert render(plan.after, session)["system"] == "a later system prompt"


def test_neighbours_of_one_role_are_one_message_unless_a_fence_parts_them() -> None:
    builder = Builder("task", "test")
    for role, fence in (
        ("user", False),
        ("user", False),
        ("assistant", False),
        ("user", False),
        ("user", True),
        ("user", False),
    ):
        builder.add_message(role, "text", fence=fence)
    session = builder.build()
    assert ranges.find_starts(session, Index.build(session)) == (0, 2, 3, 4, 5)


def test_a_place_behind_the_range_follows_the_first_pair() -> None:
    session = task(1, 1, 1)
    history = History(session, ranges.find_starts(session, Index.build(session)), len(session.blocks))
    assert find_places(history, State((2, 3)), [3, 4]) == [Place(4, 1)]


# --- renaming ---------------------------------------------------------------------------------------------------------------

PROTECTED = frozenset("file read path final content write replace result Result text image user assistant for".split())


def rename_values(value: Any, salt: str, key: str = "") -> Any:
    """The case with other ids, paths and words, all of the same length."""
    if isinstance(value, dict):
        return {
            rename_values(k, salt, "id") if re.fullmatch(r"m\d+", k) else k: rename_values(v, salt, k) for k, v in value.items()
        }
    if isinstance(value, list):
        return [rename_values(item, salt, key) for item in value]
    if not isinstance(value, str) or key in (
        "type",
        "role",
        "name",
        "keep",
        "keeps",
        "roles",
        "media_type",
        "data",
        "previous_request",
    ):
        return value
    if key in ("id", "tool_use_id", "sent", "edited"):
        return make_word(value, salt)
    return re.sub(r"(?<![\w⟦])[a-z]{1,8}(?![\w⟧])", lambda m: m[0] if m[0] in PROTECTED else make_word(m[0], salt), value)


def make_word(word: str, salt: str) -> str:
    digest = blake2b(f"{salt}{word}".encode()).hexdigest()
    return (
        (digest.translate(str.maketrans("0123456789abcdef", "ghijklmnopqrstuv")) * 2)[: max(len(word), 1)]
        if len(word) > 3
        else word
    )


@pytest.mark.skipif(not DEFAULT.is_dir(), reason="the golden cases are not beside the project")
@pytest.mark.parametrize("salt", ["one", "two"])
def test_renaming_ids_and_words_changes_no_outcome(salt: str) -> None:
    file = json.loads((DEFAULT / "cline-classic.json").read_text(encoding="utf-8"))
    changed = [(case, rename_values(case, salt)) for case in file["cases"]]
    assert any(case["input"] != new["input"] for case, new in changed)
    assert [new["id"] for case, new in changed if judge(goldens, {**new, "kind": case["kind"]}, file).wrong] == []
