"""Context edits and compaction that the Messages API makes on its server: asked for, read back, priced and shown."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import turnscope
from claude_log import Log
from conftest import let_go
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.plan import Plan
from turnscope.errors import PolicyError
from turnscope.live import branches
from turnscope.live.betas import list_betas
from turnscope.live.chat import Settings
from turnscope.live.events import Event, QueryAnswered, RequestDone, RequestPlanned, RequestRefused, TurnFailed
from turnscope.live.offline.edit_validation import find_missing_beta, sign_summary
from turnscope.live.offline.validation import find_rejection
from turnscope.live.provider import connect
from turnscope.live.stream_assembler import StreamAssembler, assemble_message
from turnscope.planning.assemble import replay
from turnscope.planning.lint import lint
from turnscope.planning.policy import Policy, load, parse
from turnscope.planning.render import build_body
from turnscope.pricing.prices import PRICES
from turnscope.reading.contents import read_path as read_file
from turnscope.session.builder import Builder
from turnscope.session.model import AppliedEdit, Session, Usage
from turnscope.session.portable import dumps, loads
from turnscope.session.usage import parse_applied_edits, parse_usage
from turnscope.storage.threads import Threads
from turnscope.views.decision_log import iter_decisions, iter_rows
from turnscope.views.overview import build_overview
from turnscope.views.parameters import apply_changes

from tests.matrix import Watched, _ledger, _sum_billed, files

USES, THINKING = "clear_tool_uses_20250919", "clear_thinking_20251015"
WORDS = "Whoever carries the message further remembers everything important that somebody mentioned about weather. "
PASTE = WORDS * 1_900  # about 28,000 tokens


def load_changed(name: str, **values: Any) -> Policy:
    """A shipped policy with other parameters, each where a rule has it."""
    policy = load(name)
    steps = []
    for step in policy.rules:
        own = {key: value for key, value in values.items() if hasattr(step.params, key)}
        steps.append(replace(step, params=replace(step.params, **own)))
    return replace(policy, rules=tuple(steps))


@dataclass
class Talked:
    """A chat that was led to its end: what went over the wire, what was planned and what stands after the answers."""

    stored: Session
    policy: Policy
    wire: list[dict[str, Any]]
    betas: list[tuple[str, ...]]
    planned: list[Plan]
    plans: list[Plan]
    asked: list[QueryAnswered]
    rejected: list[str]
    ledgers: tuple[tuple[int, int], tuple[int, int]]
    path: Path

    @property
    def usages(self) -> list[Usage]:
        return [request.usage for request in self.stored.requests if request.usage]


def hold_chat(folder: Path, policy: Policy, prompts: list[str], model: str = "offline-64k", thinking: bool = True) -> Talked:
    """Say the prompts in a chat with the built-in model under a policy; nothing may fail."""
    with let_go(Watched()) as server:
        threads, box = Threads(folder / "chats.db"), files(folder / "project")
        thread = threads.create(title="edits")
        chosen = Settings(model, policy, thinking=thinking)
        provider = connect(server.url, "none", retries=0, timeout=60)
        chat = branches.start_chat(thread, provider, threads.open_writer(thread), chosen, "You are brief.", box.definitions)
        chat.tools = box
        told: list[Event] = [event for prompt in prompts for event in chat.send(prompt)]
        wrong = [event for event in told if isinstance(event, TurnFailed | RequestRefused)]
        assert not wrong, wrong
        done = [event for event in told if isinstance(event, RequestDone)]
        assert all(event.plan for event in done)
        stored = threads.load(thread)
        return Talked(
            stored,
            policy,
            server.streamed,
            server.betas,
            [event.plan for event in told if isinstance(event, RequestPlanned)],
            [event.plan for event in done if event.plan],
            [event for event in told if isinstance(event, QueryAnswered)],
            server.rejected,
            (_ledger(stored), _sum_billed(server)),
            folder / "chats.db",
        )


def shape(plan: Plan) -> list[Any]:
    """What the model saw, whoever put it there, with neighbours that stand as they are as one."""
    found: list[Any] = []
    for piece in plan.seen.pieces:
        joins = found and piece.body in (None, ()) and found[-1][2] == piece.body
        if joins:
            found[-1] = (found[-1][0], piece.stop, piece.body)
        else:
            found.append((piece.start, piece.stop, piece.body))
    return found


READS = ["read file file1.py", "And then?", "read file file2.py", "read file file3.py", "So?", "read file file4.py", "And now?"]


@pytest.fixture(scope="module")
def cleared(tmp_path_factory: pytest.TempPathFactory) -> Talked:
    policy = load_changed("server-clear-both", trigger=5_000, keep=1)
    return hold_chat(tmp_path_factory.mktemp("cleared"), policy, READS)


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Talked:
    policy = load_changed("server-compaction", trigger=50_000)
    prompts = ["read file file1.py", PASTE, f"And this: {PASTE}", "And then?", "read file file2.py"]
    return hold_chat(tmp_path_factory.mktemp("compacted"), policy, prompts, "offline-200k")


@pytest.fixture(scope="module")
def demanded(tmp_path_factory: pytest.TempPathFactory) -> Talked:
    policy = load_changed("server-compaction-on-demand", share=0.5)
    return hold_chat(tmp_path_factory.mktemp("demanded"), policy, [*READS, *READS], "offline-16k")


@pytest.fixture(params=["cleared", "compacted", "demanded"])
def any_of(request: pytest.FixtureRequest) -> Talked:
    found: Talked = request.getfixturevalue(request.param)
    return found


# --- on the wire ------------------------------------------------------------------------------------------------------------


def test_the_edits_go_out_as_the_policy_says_thinking_first_under_the_header_they_need(cleared: Talked) -> None:
    wanted = {
        "edits": [
            {"type": THINKING, "keep": {"type": "thinking_turns", "value": 1}},
            {
                "type": USES,
                "trigger": {"type": "input_tokens", "value": 5_000},
                "keep": {"type": "tool_uses", "value": 1},
            },
        ]
    }
    assert all(sent["context_management"] == wanted for sent in cleared.wire)
    assert set(cleared.betas) == {("context-management-2025-06-27",)}
    assert not cleared.rejected


def test_what_is_sent_is_whole_whatever_the_server_clears_of_it(cleared: Talked) -> None:
    sent = cleared.wire[-1]["messages"]
    assert "[cleared to save context]" not in json.dumps(sent)
    blocks = [block for message in sent if isinstance(message["content"], list) for block in message["content"]]
    assert sum(block["type"] == "tool_result" for block in blocks) == 4
    assert sum(block["type"] == "thinking" for block in blocks) > 4


def test_without_thinking_the_edit_that_needs_it_is_not_sent(tmp_path: Path) -> None:
    without = hold_chat(tmp_path, load_changed("server-clear-both", trigger=5_000), ["Hello", "And?"], thinking=False)
    assert [edit["type"] for edit in without.wire[-1]["context_management"]["edits"]] == [USES]


def test_a_threshold_goes_out_and_its_block_comes_back_as_it_came(compacted: Talked) -> None:
    (edit,) = compacted.wire[0]["context_management"]["edits"]
    assert edit == {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 50_000}}
    assert set(compacted.betas) == {("compact-2026-01-12",)}
    blocks = [b for m in compacted.wire[-1]["messages"] if isinstance(m["content"], list) for b in m["content"]]
    (block,) = [b for b in blocks if b["type"] == "compaction"]
    assert block["content"].startswith("Summary made offline")
    assert compacted.wire[-1]["messages"][0]["content"] == "read file file1.py", "what it stands for is sent as ever"


def test_on_demand_the_signed_block_stands_first_and_alone_in_place_of_what_it_sums_up(demanded: Talked) -> None:
    asks = [told for told in demanded.asked if told.ask.kind == "compact"]
    assert len(asks) >= 2
    assert all(told.answer.source == "model" for told in asks)
    assert ("compact-2026-09-04",) in demanded.betas
    last = demanded.wire[-1]
    assert last["messages"][0]["role"] == "assistant"
    (block,) = last["messages"][0]["content"]
    assert block["signature"] == sign_summary(block["content"])
    assert "context_management" not in last
    assert (
        sum(b.get("type") == "compaction" for m in last["messages"] if isinstance(m["content"], list) for b in m["content"])
        == 1
    )


def test_replaying_the_stored_chat_gives_what_was_sent_and_so_does_the_record(any_of: Talked) -> None:
    for policy in (any_of.policy, "as-recorded"):
        plans = turnscope.replay(any_of.stored, policy).plans
        assert [build_body(plan, any_of.stored) for plan in plans] == any_of.wire


# --- what was done is what is shown -----------------------------------------------------------------------------------------


def test_one_number_the_prompt_after_edits_is_what_was_billed_and_the_whole_bill_has_each_pass_once(any_of: Talked) -> None:
    ours, theirs = any_of.ledgers
    assert ours == theirs
    record = turnscope.replay(any_of.stored, "as-recorded")
    for n, request in enumerate(any_of.stored.requests):
        assert request.usage is not None
        assert record.count_tokens(n) == request.usage.answered_prompt_tokens
        assert (
            abs(record.plans[n].seen.tokens - request.usage.answered_prompt_tokens)
            <= 0.02 * request.usage.answered_prompt_tokens + 70
        )
        assert shape(record.plans[n]) == shape(any_of.plans[n]), "what stands after the answer is what the record shows"


def test_which_tool_uses_were_cleared_is_inferred_and_says_so(cleared: Talked) -> None:
    told = [request.applied for request in cleared.stored.requests]
    assert any(made.edit == USES and made.cleared >= 2 for made in told[-1])
    plan = cleared.plans[-1]
    gone = [d for d in plan.server if d.action == "clear"]
    results = [b.at for b in cleared.stored.blocks if b.kind == "tool_result"]
    (uses,) = [made for made in told[-1] if made.edit == USES]
    assert [d.edit.span.start for d in gone if d.edit.span] == results[: uses.cleared]
    assert all(d.edit.facts["inferred"] and d.edit.facts["cleared_input_tokens"] == uses.tokens for d in gone)
    assert f"cleared {uses.cleared} tool uses ({uses.tokens:,} tokens); which ones is inferred" in gone[0].edit.because
    record = turnscope.replay(cleared.stored, "as-recorded")
    standing = record.explain(results[0], len(told) - 1)
    assert (standing.state, standing.by) == ("unseen", "server")
    assert "which ones is inferred" in standing.sentence


def test_the_plan_before_the_answer_is_near_what_the_server_then_does(cleared: Talked, compacted: Talked) -> None:
    for talk in (cleared, compacted):
        for planned, request in zip(talk.planned, talk.stored.requests, strict=True):
            assert request.usage is not None
            assert (
                abs(planned.expected_tokens - request.usage.answered_prompt_tokens)
                <= 0.1 * request.usage.answered_prompt_tokens + 100
            )


def test_a_compaction_is_a_pass_of_its_own_which_is_priced_and_shown_as_the_servers(compacted: Talked) -> None:
    (n,) = [i for i, used in enumerate(compacted.usages) if used.iterations]
    (made_,) = compacted.usages[n].iterations
    assert (made_.kind, made_.prompt_tokens > 50_000) == ("compaction", True)
    record = turnscope.replay(compacted.stored, "as-recorded")
    assert record.plans[n].seen.tokens < 2_000
    assert record.plans[n].after.tokens > 50_000
    assert [d.action for d in record.plans[n].server] == ["condense"]
    told = build_overview(record)
    assert [(m.request, m.kind) for m in told.markers] == [(n, "compact")]
    assert [(row["by"], row["action"]) for row in iter_rows(record) if row["request"] == n] == [("server", "condense")]
    first = next(m.start for m in compacted.stored.messages if m.origin == "prompt")
    assert all(later.seen.find_piece(first).body == () for later in record.plans[n + 1 :])


def test_markers_and_the_log_of_decisions_name_the_server(cleared: Talked) -> None:
    record = turnscope.replay(cleared.stored, "as-recorded")
    kinds = {marker.kind for marker in build_overview(record).markers}
    assert "clear" in kinds
    assert {by for plan in record.plans for by, _ in iter_decisions(plan)} == {"server"}


def test_another_policy_neither_asks_for_edits_nor_carries_what_they_did(any_of: Talked) -> None:
    other = turnscope.replay(any_of.stored, "keep-everything")
    for plan in other.plans:
        assert plan.seen == plan.after
        assert not plan.server
        assert plan.request.applied == ()
        sent = build_body(plan, any_of.stored)
        assert "context_management" not in sent
        assert "compaction" not in json.dumps([m for m in sent["messages"] if m["role"] == "assistant"])
        assert not list_betas(sent)


def test_store_and_json_give_back_what_the_server_did(any_of: Talked) -> None:
    again = loads(json.loads(dumps(any_of.stored)))
    assert again == any_of.stored
    assert [r.applied for r in again.requests] == [r.applied for r in any_of.stored.requests]
    assert Threads(any_of.path).load(any_of.stored.id) == any_of.stored


def test_what_the_server_did_once_may_be_undone_at_the_next_request(tmp_path: Path) -> None:
    """A request without the edit reads all again, though nothing was decided at it."""
    calls = [_log()[0], _log()[1]]
    calls[1]["response"]["content"] = [{"type": "text", "text": "So."}]
    path = tmp_path / "calls.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in calls))
    (session,) = read_file(path)
    record = turnscope.replay(session, "as-recorded")
    at = next(b.at for b in session.blocks if b.kind == "tool_result" and b.raw["tool_use_id"] == "b")
    assert [record.explain(at, n).state for n in (0, 1)] == ["unseen", "here"]
    assert next(record.iter_shown_spans([at])) == ((1, 2),)
    assert not record.plans[1].server


# --- facts and prices -------------------------------------------------------------------------------------------------------

ITERATIONS = [
    {"type": "compaction", "input_tokens": 180_000, "output_tokens": 3_500},
    {"type": "message", "input_tokens": 23_000, "output_tokens": 1_000},
]


def test_usage_counts_each_pass_once_and_the_context_is_the_last_answers() -> None:
    told = parse_usage(
        {"input_tokens": 45_000, "output_tokens": 1_234, "iterations": [{**ITERATIONS[1], "input_tokens": 22_000}, *ITERATIONS]}
    )
    assert told is not None
    assert (told.prompt_tokens, told.answered_prompt_tokens) == (45_000, 23_000)
    assert [(each.kind, each.prompt_tokens) for each in told.iterations] == [("compaction", 180_000)]
    assert sum(each.prompt_tokens for each in told.passes) == 225_000
    one = parse_usage({"input_tokens": 23_000, "output_tokens": 1_000, "iterations": ITERATIONS})
    assert one is not None
    assert (one.answered_prompt_tokens, one.context) == (23_000, 0)


def test_an_advisor_has_the_price_of_its_own_model_and_a_fallback_is_no_further_pass() -> None:
    advisor = {"type": "advisor_message", "model": "claude-opus-4-6", "input_tokens": 1_000_000, "output_tokens": 0}
    fallback = {"type": "fallback_message", "model": "claude-sonnet-4-6", "input_tokens": 10, "output_tokens": 5}
    told = parse_usage({"input_tokens": 10, "output_tokens": 5, "iterations": [advisor, fallback]})
    assert told is not None
    assert [each.model for each in told.iterations] == ["claude-opus-4-6"]
    found = PRICES.compute_cost(told, "claude-sonnet-4-6")
    assert found is not None
    assert found.iterations == Decimal(5)


def test_a_call_on_demand_costs_what_its_iteration_says(demanded: Talked) -> None:
    asks = [told for told in demanded.asked if told.ask.kind == "compact"]
    assert all(told.answer.usage and told.answer.usage.prompt_tokens == 0 for told in asks)
    assert all(sum(u.prompt_tokens for u in told.answer.usage.passes) > 5_000 for told in asks if told.answer.usage)


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (
            {"applied_edits": [{"type": USES, "cleared_tool_uses": 8, "cleared_input_tokens": 50_000}]},
            (AppliedEdit(USES, 8, 50_000),),
        ),
        (
            {"applied_edits": [{"type": THINKING, "cleared_thinking_turns": 3, "cleared_input_tokens": 15_000}]},
            (AppliedEdit(THINKING, 3, 15_000),),
        ),
        ({"applied_edits": []}, ()),
        ({"applied_edits": [{"type": None}, 7, {"type": USES, "cleared_tool_uses": "x"}]}, (AppliedEdit(USES),)),
        ("nonsense", ()),
        (None, ()),
    ],
)
def test_applied_edits_are_read_whatever_stands_there(raw: Any, found: tuple[AppliedEdit, ...]) -> None:
    assert parse_applied_edits(raw) == found


def test_a_stream_tells_edits_at_its_end_and_summaries_whole() -> None:
    heard = StreamAssembler()
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "compaction", "content": None}},
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "compaction_delta", "content": "sum", "encrypted_content": "e"},
        },
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "compaction", "content": "x", "signature": "s"}},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 2, "iterations": ITERATIONS},
            "context_management": {"applied_edits": [{"type": USES, "cleared_tool_uses": 1, "cleared_input_tokens": 9}]},
        },
    ]
    for event in events:
        assert [*heard.add_event(event)] == []
    assert heard.content == (
        {"type": "compaction", "content": "sum", "encrypted_content": "e"},
        {"type": "compaction", "content": "x", "signature": "s"},
    )
    assert heard.applied == (AppliedEdit(USES, 1, 9),)
    assert heard.usage is not None
    assert heard.usage.iterations[0].kind == "compaction"
    assert assemble_message(
        {"content": [], "context_management": {"applied_edits": [{"type": USES, "cleared_tool_uses": 2}]}}
    ).applied


# --- logs -------------------------------------------------------------------------------------------------------------------


def _log() -> list[dict[str, Any]]:
    """Three calls in documented form: nothing done, two results of three cleared, all summed up."""
    asked = {"edits": [{"type": USES, "trigger": {"type": "input_tokens", "value": 9}, "exclude_tools": ["keep_me"]}]}
    long = "line of a result\n" * 60

    def use(id: str, name: str) -> list[dict[str, Any]]:
        return [
            {"role": "assistant", "content": [{"type": "tool_use", "id": id, "name": name, "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": f"{id} {long}"}]},
        ]

    said = [{"role": "user", "content": "go"}, *use("a", "keep_me"), *use("b", "read"), *use("c", "read"), *use("d", "read")]
    base = {"model": "claude-sonnet-4-6", "max_tokens": 100, "context_management": asked}
    first = {**base, "messages": said}
    answer = {
        "role": "assistant",
        "content": [{"type": "compaction", "content": "What was said."}, {"type": "text", "text": "Done."}],
    }
    second = {
        **base,
        "messages": [
            *said,
            {"role": "assistant", "content": [{"type": "text", "text": "On."}]},
            {"role": "user", "content": "go on"},
        ],
    }
    third = {**base, "messages": [*second["messages"], answer, {"role": "user", "content": "and?"}]}

    def make_call(request: Any, content: Any, used: Any, edits: Any) -> dict[str, Any]:
        response = {"type": "message", "role": "assistant", "id": f"m{len(request['messages'])}", "model": base["model"]}
        more = {"content": content, "stop_reason": "end_turn", "usage": used, "context_management": {"applied_edits": edits}}
        return {"request": request, "response": {**response, **more}}

    cleared = [{"type": USES, "cleared_tool_uses": 2, "cleared_input_tokens": 400}]
    return [
        make_call(first, [{"type": "text", "text": "On."}], {"input_tokens": 500, "output_tokens": 5}, cleared),
        make_call(second, answer["content"], {"input_tokens": 30, "output_tokens": 9, "iterations": ITERATIONS}, []),
        make_call(third, [{"type": "text", "text": "Yes."}], {"input_tokens": 60, "output_tokens": 9}, []),
    ]


def test_a_log_of_the_api_shows_what_the_server_did_at_the_request_where_it_did(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in _log()))
    (session,) = read_file(path)
    record = turnscope.replay(session, "as-recorded")
    results = {b.raw["tool_use_id"]: b.at for b in session.blocks if b.kind == "tool_result"}
    first, second, third = record.plans
    assert [first.seen.find_piece(results[id]).body is None for id in "abcd"] == [True, False, False, True], (
        "a is spared by name"
    )
    assert [second.seen.find_piece(results[id]).body is None for id in "abcd"] == [False] * 4, "nothing but the summary is read"
    assert "answered from its summary" in second.server[-1].edit.because
    assert third.seen.tokens < 60
    assert [record.count_tokens(n) for n in range(3)] == [500, 30, 60]
    assert [build_body(plan, session) for plan in record.plans] == [call["request"] for call in _log()]
    assert session.requests[1].usage is not None
    assert sum(u.prompt_tokens for u in session.requests[1].usage.passes) == 180_030


def test_claude_codes_lines_hold_edits_and_passes_too(tmp_path: Path) -> None:
    log, told = Log(), {"input_tokens": 10, "output_tokens": 4, "iterations": ITERATIONS}
    log.user("read it")
    log.answer("m1", "so", usage=told)
    edit = {"type": THINKING, "cleared_thinking_turns": 2, "cleared_input_tokens": 70}
    log.lines[-1]["message"]["context_management"] = {"applied_edits": [edit]}
    path = log.save(tmp_path / "s1.jsonl")
    (session, *_) = read_file(path)
    assert session.requests[-1].applied == (AppliedEdit(THINKING, 2, 70),)
    assert session.requests[-1].usage is not None
    assert [each.kind for each in session.requests[-1].usage.iterations] == ["compaction"]


def test_a_span_of_the_sdk_has_the_compactions_beside_the_requests_own_tokens(tmp_path: Path) -> None:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-opus-4-6",
        "gen_ai.usage.input_tokens": 30,
        "gen_ai.usage.output_tokens": 9,
        "anthropic.usage.compaction.input_tokens": 180_000,
        "anthropic.usage.compaction.output_tokens": 3_500,
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]),
        "gen_ai.output.messages": json.dumps(
            [{"role": "assistant", "parts": [{"type": "compaction", "content": "sum"}, {"type": "text", "content": "so"}]}]
        ),
    }
    listed = [
        {"key": key, "value": {"intValue": str(v)} if isinstance(v, int) else {"stringValue": v}}
        for key, v in attributes.items()
    ]
    span = {
        "traceId": "a" * 32,
        "spanId": "b" * 16,
        "name": "anthropic.messages.create",
        "startTimeUnixNano": "1767000000000000000",
        "endTimeUnixNano": "1767000001000000000",
        "attributes": listed,
    }
    path = tmp_path / "traces.jsonl"
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}) + "\n")
    (session,) = read_file(path)
    assert session.requests[0].usage is not None
    assert session.requests[0].usage.iterations == (Usage(180_000, output_tokens=3_500, kind="compaction"),)
    (plan,) = turnscope.replay(session, "as-recorded").plans
    assert [d.action for d in plan.server] == ["condense"]


# --- what the API rejects ---------------------------------------------------------------------------------------------------


def _body(*edits: Any, **more: Any) -> dict[str, Any]:
    held = {"context_management": {"edits": [*edits]}} if edits else {}
    return {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], **held, **more}


BLOCK = {"type": "compaction", "content": "sum", "signature": sign_summary("sum")}
ON = {"thinking": {"type": "adaptive"}}
WRONG: dict[str, dict[str, Any]] = {
    "must be listed first": _body({"type": USES}, {"type": THINKING}, **ON),
    "requires `thinking` to be enabled or adaptive": _body({"type": THINKING}),
    "may be given once": _body({"type": USES}, {"type": USES}),
    "does not match any of the expected tags": _body({"type": "clear_everything"}),
    "trigger.value: Input should be greater than or equal to 50000": _body(
        {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": 49_999}}
    ),
    "keep: Input should have `type` tool_uses": _body({"type": USES, "keep": {"type": "thinking_turns", "value": 1}}),
    "keep.value: Input should be greater than 0": _body(
        {"type": THINKING, "keep": {"type": "thinking_turns", "value": 0}}, **ON
    ),
    "placeholder: Extra inputs are not permitted": _body({"type": USES, "placeholder": "x"}),
    "exclude_tools: Input should be a valid list": _body({"type": USES, "exclude_tools": "read"}),
    "clear_tool_inputs: Input should be a valid boolean or list": _body({"type": USES, "clear_tool_inputs": "read"}),
    "Input should be a valid dictionary": _body(context_management=[]),
    "cannot be combined with `context_management`": _body({"type": USES}, compaction={"type": "summarize"}),
    "Input should have `type` 'summarize'": _body(compaction={"type": "shorten"}),
    "cannot be combined with `stop_sequences`": _body(compaction={"type": "summarize"}, stop_sequences=["x"]),
    "compaction_block_misplaced": _body(
        messages=[
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [BLOCK]},
            {"role": "user", "content": "so"},
        ]
    ),
    "compaction_signature_invalid": _body(
        messages=[{"role": "assistant", "content": [{**BLOCK, "content": "other"}]}, {"role": "user", "content": "so"}]
    ),
    "compaction_block_ambiguous": _body(
        messages=[{"role": "assistant", "content": [BLOCK, BLOCK]}, {"role": "user", "content": "so"}]
    ),
    "carries a signed compaction block": _body(
        {"type": "compact_20260112"}, messages=[{"role": "assistant", "content": [BLOCK]}, {"role": "user", "content": "so"}]
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_malformed_edits_and_misplaced_summaries_are_rejected(what: str) -> None:
    assert what in find_rejection(WRONG[what])


@pytest.mark.parametrize(
    "right",
    [
        _body({"type": THINKING, "keep": "all"}, {"type": USES, "trigger": {"type": "tool_uses", "value": 3}}, **ON),
        _body({"type": "compact_20260112", "instructions": "names", "pause_after_compaction": True}),
        _body(compaction={"type": "summarize", "instructions": "names"}),
        _body(messages=[{"role": "assistant", "content": [BLOCK]}, {"role": "user", "content": "so"}]),
    ],
)
def test_what_is_documented_is_accepted(right: dict[str, Any]) -> None:
    assert find_rejection(right) == ""


@pytest.mark.parametrize(
    ("sent", "needs", "what"),
    [
        (_body({"type": USES}), ("context-management-2025-06-27",), "context_management: Extra inputs"),
        (_body({"type": "compact_20260112"}), ("compact-2026-01-12",), "context_management: Extra inputs"),
        (
            _body({"type": USES}, {"type": "compact_20260112"}),
            ("context-management-2025-06-27", "compact-2026-01-12"),
            "Extra inputs",
        ),
        (_body(compaction={"type": "summarize"}), ("compact-2026-09-04",), "requires anthropic-beta: compact-2026-09-04"),
        (WRONG["compaction_block_misplaced"], ("compact-2026-09-04",), "Input tag 'compaction'"),
        (
            _body(
                messages=[
                    {"role": "user", "content": "a"},
                    {"role": "assistant", "content": [{"type": "compaction", "content": "s"}]},
                ]
            ),
            ("compact-2026-01-12",),
            "Input tag 'compaction'",
        ),
        (_body(), (), ""),
    ],
)
def test_each_needs_its_beta_header_and_is_rejected_without(sent: dict[str, Any], needs: tuple[str, ...], what: str) -> None:
    assert list_betas(sent) == needs
    assert find_missing_beta(sent, needs) == ""
    assert what in find_missing_beta(sent, ())
    assert bool(find_missing_beta(sent, ())) == bool(needs)


def test_a_request_without_its_header_is_refused_over_http(tmp_path: Path) -> None:
    with let_go(Watched()) as server:
        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            data = json.dumps({**_body({"type": USES}), "model": "offline-16k"}).encode()
            plain = urllib.request.Request(f"{server.url}{path}", data)
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(plain)
            assert refused.value.code == 400
            plain.add_header("anthropic-beta", "context-management-2025-06-27")
            with urllib.request.urlopen(plain) as answer:
                assert answer.status == 200


def test_counting_before_sending_counts_what_is_left_after_the_edits(tmp_path: Path) -> None:
    with let_go(Watched()) as server:
        provider = connect(server.url, "none", retries=0, timeout=60)
        use = [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "read", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": WORDS * 20}]},
        ]
        said = [{"role": "user", "content": "go"}, *use]
        edit = {"type": USES, "trigger": {"type": "input_tokens", "value": 9}, "keep": {"type": "tool_uses", "value": 0}}
        whole = provider.count_tokens({"model": "offline-16k", "messages": said})
        left = provider.count_tokens({"model": "offline-16k", "messages": said, "context_management": {"edits": [edit]}})
        assert whole is not None
        assert left is not None
        assert left < 60
        assert whole > 250


def test_a_pause_after_compaction_goes_on_by_itself(tmp_path: Path) -> None:
    policy = load_changed("server-compaction", trigger=50_000, pause_after_compaction=True)
    paused = hold_chat(tmp_path, policy, [PASTE, f"And this: {PASTE}", "And then?"], "offline-200k")
    reasons = [request.stop_reason for request in paused.stored.requests]
    assert reasons == ["end_turn", "compaction", "end_turn", "end_turn"]
    assert paused.usages[1].prompt_tokens == 0
    assert paused.ledgers[0] == paused.ledgers[1]
    assert [build_body(plan, paused.stored) for plan in turnscope.replay(paused.stored, policy).plans] == paused.wire


def test_a_failed_compaction_changes_nothing(tmp_path: Path) -> None:
    said = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "compaction", "content": None}, {"type": "text", "text": "on"}]},
        {"role": "user", "content": "and?"},
    ]
    made_ = [{"request": {"model": "claude-opus-4-6", "max_tokens": 9, "messages": said[:n]}} for n in (1, 3)]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in made_))
    (session,) = read_file(path)
    plan = turnscope.replay(session, "as-recorded").plans[-1]
    assert plan.seen == plan.after
    assert build_body(plan, session)["messages"] == said


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [("server-compaction", "trigger = 150000", "trigger = 49999"), ("server-clear-thinking", "keep = 1", "keep = 0")],
)
def test_a_policy_that_asks_for_what_the_api_never_takes_is_refused(name: str, old: str, new: str) -> None:
    text = load(name).to_toml()
    assert old in text
    with pytest.raises(PolicyError, match="at least"):
        parse(name, text.replace(old, new))
    key, _, value = new.partition(" = ")
    with pytest.raises(PolicyError, match="at least"):
        apply_changes(load(name), {f"1.{key}": int(value)})


def test_lint_lets_a_servers_summary_stand_first_or_last() -> None:
    first = _body(messages=[{"role": "assistant", "content": [BLOCK]}, {"role": "user", "content": "so"}])
    last = _body(messages=[{"role": "user", "content": "so"}, {"role": "assistant", "content": [BLOCK]}])
    said = _body(messages=[{"role": "assistant", "content": [{"type": "text", "text": "so"}]}])
    assert lint(first, "claude-opus-4-6") == lint(last, "claude-opus-4-6") == ()
    assert len(lint(said, "claude-opus-4-6")) == 2


def test_a_request_is_not_refused_for_what_the_server_summed_up() -> None:
    """What is sent stays whole for ever; the server reads nothing of it that stands before its summary."""
    builder = Builder("long", "long")
    for number in range(40):
        builder.add_message("user", f"Question {number}. " + "some words " * 3_000)
        builder.set_request(builder.add_message("assistant", f"Answer {number}."), model="claude-opus-4-5")
    session = builder.build()
    refusing = '[budget]\nformula = "window"\noutput = 8192\n[[rules]]\nrule = "refuse_when_over"\n'
    compacting = refusing + '[[rules]]\nrule = "compact_20260112"\n'
    ledger = build_ledger(session, CHARS)
    refused, summed = ([*replay(session, parse("p", text), ledger)] for text in (refusing, compacting))
    assert max(plan.after.tokens for plan in summed) > summed[0].budget.window
    assert {plan.verdict for plan in summed} == {"send"}
    assert "refuse" in {plan.verdict for plan in refused}


@pytest.mark.parametrize("keep", ["all", {"type": "thinking_turns", "value": 1}])
def test_a_replay_keeps_a_recorded_wish_that_all_thinking_stays_and_no_recorded_clearing(keep: Any) -> None:
    """The model's server would drop the thinking of past turns, and the record asked that it does not."""
    asked = {"context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": keep}]}}
    builder = Builder("s", "claude-code")
    for turn in range(3):
        builder.add_message("user", f"Question {turn}.")
        content = [{"type": "thinking", "thinking": "Hm. " * 20, "signature": "s"}, {"type": "text", "text": "So."}]
        builder.set_request(builder.add_message("assistant", content), model="claude-sonnet-4-5", settings=asked)
    plan = turnscope.replay(builder.build(), "last-20-messages").plans[2]
    stays = keep == "all"
    assert plan.request.settings == (asked if stays else {})
    assert [block.at for block in builder.build().blocks[:3] if plan.seen.find_piece(block.at).body is None] == (
        [0, 1, 2] if stays else [0, 2]
    )
