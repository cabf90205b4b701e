"""What Cline's SDK counts of a request, and where that makes it compact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.plan import Plan
from turnscope.planning.assemble import replay
from turnscope.planning.policy import Policy, load
from turnscope.ports.cline_sdk import basic
from turnscope.ports.cline_sdk import messages as port
from turnscope.ports.cline_sdk.files import find_touched_files
from turnscope.ports.cline_sdk.messages import Message
from turnscope.ports.cline_sdk.repeated import NOTHING, Chooser, Measured
from turnscope.rules.cline_sdk import summarise_before_cut
from turnscope.session.builder import Builder
from turnscope.session.model import Session, Usage
from turnscope.views.parameters import apply_changes

LONG = 30_000  # characters of a result, of which 8,000 are sent


def read_files(rounds: int, characters: int, billed: int = 0) -> Session:
    """A prompt, and rounds that read one file each; each request was billed `billed` tokens (0 = the log does not say)."""
    builder = Builder("work", "test")
    builder.add_message("user", "read on", origin="prompt")
    for n in range(rounds):
        call: dict[str, Any] = {
            "type": "tool_use",
            "id": f"t{n}",
            "name": "read_files",
            "input": {"files": [{"path": f"{n}.py"}]},
        }
        usage = Usage(input_tokens=billed) if billed else None
        builder.set_request(builder.add_message("assistant", [call]), model="some-model", usage=usage)
        result = {"type": "tool_result", "tool_use_id": f"t{n}", "content": f"{n:02}" + "x" * (characters - 2)}
        builder.add_message("user", [result], origin="tool")
    builder.set_request(builder.add_message("assistant", "done"), model="some-model")
    return builder.build()


def make_plans(policy: str, session: Session, tools: int = 0, window: int = 128_000) -> list[Plan]:
    used: Policy = apply_changes(load(policy), {"2.tools": tools, "budget.window": window})
    return list(replay(session, used, build_ledger(session, CHARS)))


def find_compactions(plans: list[Plan]) -> list[int]:
    return [plan.request.n for plan in plans if "condense" in plan.actions]


def test_long_results_count_as_sent_before_the_first_compaction_and_whole_after_it() -> None:
    """A trigger of 103,680: thirty-eight results of 2,700 tokens each, or ten of 10,000."""
    plans = make_plans("cline-sdk-basic", read_files(70, LONG))
    first, second, *_ = find_compactions(plans)
    assert first == 38
    assert 3 <= second - first <= 5, "what stays was counted whole, and fills seven tenths already"


def test_results_that_are_sent_whole_compact_by_their_size() -> None:
    first, second, *_ = find_compactions(make_plans("cline-sdk-basic", read_files(150, 7_000)))
    assert first == 43
    assert 10 <= second - first <= 16


def test_of_a_long_result_the_ends_are_sent() -> None:
    plan = make_plans("cline-sdk", read_files(2, LONG))[-1]
    texts = [part.text for piece in plan.after.pieces for part in piece.body or ()]
    assert [len(text) for text in texts] == [7_999, 7_999]
    assert texts[1].startswith("01xx")


def test_what_was_billed_above_the_estimate_lowers_the_trigger() -> None:
    """A prompt that was billed twice its estimate compacts at half the trigger, and one far above it at a quarter."""
    plain = find_compactions(make_plans("cline-sdk-basic", read_files(45, 7_000)))
    dear = find_compactions(make_plans("cline-sdk-basic", read_files(45, 7_000, billed=10**6)))
    assert plain == [43]
    assert dear[0] == 11


def test_a_summary_is_counted_once_and_not_at_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of what it replaced are all calls since the session began, so reading them takes longer and longer."""
    read, find = list[int](), find_touched_files

    def find_and_note(messages: Sequence[Message]) -> dict[str, list[str]]:
        read.append(len(messages))
        return find(messages)

    monkeypatch.setattr(summarise_before_cut, "find_touched_files", find_and_note)
    made = find_compactions(make_plans("cline-sdk", read_files(150, 7_000)))
    assert 1 <= len(read) <= len(made) < 10


def ask_often(turns: int) -> Session:
    """Long questions, each answered after a call."""
    builder = Builder("work", "test")
    for n in range(turns):
        builder.add_message("user", f"{n}: " + "why? " * 400, origin="prompt")
        call = {"type": "tool_use", "id": f"t{n}", "name": "run_commands", "input": {"commands": [f"make {n}"]}}
        builder.set_request(builder.add_message("assistant", [call]), model="some-model")
        builder.add_message("user", [{"type": "tool_result", "tool_use_id": f"t{n}", "content": "y" * 900}], origin="tool")
        builder.set_request(builder.add_message("assistant", f"Because of {n}."), model="some-model")
    return builder.build()


def test_a_message_is_measured_a_few_times_and_not_at_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where prompts alone fill the window, every request compacts, and looks at all that earlier ones left."""
    written, write = list[int](), port.write_json

    def write_and_note(value: Any) -> str:
        written.append(1)
        return write(value)

    monkeypatch.setattr(port, "write_json", write_and_note)
    for turns in (50, 150):
        written.clear()
        session = ask_often(turns)
        plans = make_plans("cline-sdk-basic", session, window=20_000)
        assert len(find_compactions(plans)) > turns
        assert len(written) < 12 * len(session.messages)


def write_block(random: Random, call: int) -> dict[str, Any]:
    """A block of an answer: text of any signs, thinking, a picture, or a call."""
    text = "".join(random.choices('ab \n"\\\x01é𝄞', k=random.choice((0, 3, 17, 40, 400, 3_000))))
    kinds: list[dict[str, Any]] = [
        {"type": "text", "text": text},
        {"type": "text", "text": f" {text}x\n"},
        {"type": "thinking", "thinking": text},
        {"type": "redacted_thinking", "data": text},
        {"type": "image", "mediaType": "image/png", "data": text},
        {"type": "tool_use", "id": f"t{call}", "name": "run_commands", "input": {"commands": [text]}},
    ]
    return random.choice(kinds)


def write_messages(random: Random) -> Iterator[Message]:
    """A transcript without end; now and then a call gets no result."""
    number = 0
    while True:
        asks = random.random() < 0.4
        blocks = [write_block(random, number) for _ in range(random.randint(1, 3))]
        content = [b for b in blocks if b["type"] in ("text", "image", "thinking")] if asks else blocks
        if content:
            yield {
                "id": f"m{number}",
                "role": "user" if asks else "assistant",
                "content": content,
                "metrics": {"inputTokens": 9},
            }
        for call in {b["id"] for b in content if b["type"] == "tool_use"}:
            if random.random() < 0.97:
                inside = write_block(random, number)
                plain = inside["text"] if inside["type"] == "text" else [inside] if inside["type"] == "image" else "done"
                result = {"type": "tool_result", "tool_use_id": call, "content": plain}
                yield {"id": f"r{number}", "role": "user", "content": [result]}
        number += 1


@pytest.mark.parametrize("seed", range(20))
def test_one_compaction_after_the_other_leaves_what_each_alone_leaves(seed: int) -> None:
    """Until texts are shortened, and messages are dropped; beside the port of the original, which reads all again."""
    random = Random(seed)
    messages, chooser, earlier, dropped = write_messages(random), Chooser(), NOTHING, False
    trigger = random.choice((300, 3_000, 9_000))
    fresh = [Measured({"id": "begin", "role": "user", "content": [{"type": "text", "text": "Begin."}]}, old=False)]
    for _ in range(25):
        fresh += [Measured(next(messages), old=False) for _ in range(random.randint(1, 12))]
        items = [*earlier.items, *fresh]
        current = [item.message for item in items]
        choice, made = chooser.choose(earlier, fresh, 0.7 * trigger, trigger), basic.compact(current, 0.7 * trigger, trigger)
        assert choice
        if made is None:
            assert choice.places == [*range(len(items))]
            continue
        told = [(current[n]["id"], list_types(form.message)) for n, form in zip(choice.places, choice.forms, strict=True)]
        assert told == [(message["id"], list_types(message)) for message in made[1].messages]
        dropped |= any(action[1] in ("over_budget", "tool_pair_boundary") and action[5] == 0 for action in made[1].actions)
        left = [keep(items[n], form.message) for n, form in zip(choice.places, choice.forms, strict=True)]
        earlier, fresh = earlier.replace(choice.same, left[choice.same :]), []
    assert dropped or trigger > 300


def list_types(message: Message) -> list[str]:
    return [block["type"] for block in message["content"]]


def keep(item: Measured, left: Message) -> Measured:
    """A message as it is stored after a compaction; a short prompt with a notice behind it."""
    bare = {name: value for name, value in item.message.items() if name != "metrics"}
    if not item.typed:
        return Measured({**bare, "content": left["content"], "metadata": {"compaction": "preserved"}}, old=True)
    notice = [{"type": "text", "text": "notice " * 9}] if len(left["content"]) == 1 else []
    return Measured({**item.message, "content": [*left["content"], *notice]}, old=True)


def test_definitions_of_tools_count_where_the_log_holds_none() -> None:
    without, with_tools = (find_compactions(make_plans("cline-sdk", read_files(45, 7_000), tools)) for tools in (0, 24_000))
    assert with_tools[0] == without[0] - 10
