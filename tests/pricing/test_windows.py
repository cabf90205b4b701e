"""The window of a session follows from what its log shows, and only then from a price list."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import turnscope
from msgspec import structs
from turnscope.importers.claude_code.limits import hand_windows_down
from turnscope.pricing.prices import PRICES
from turnscope.pricing.windows import ChosenWindow
from turnscope.session.builder import Builder, observe_drop
from turnscope.session.model import MODEL_WINDOWS, Session, Usage

from tests.claude_log import Log, call
from tests.conftest import shared
from tests.wire import open_run
from tests.wire.compare import sessions

OPUS_4_6, OPUS_4_7, SONNET_4_5 = "claude-opus-4-6", "claude-opus-4-7", "claude-sonnet-4-5-20250929"
BETA_DAY, LATER = 1_770_500_000.0, 1_785_000_000.0  # 2026-02-07, when 1M was a beta of Opus 4.6, and 2026-07-25
SWITCHED = "<local-command-stdout>Set model to \x1b[1mopus[1m] (claude-opus-4-6[1m])\x1b[22m</local-command-stdout>"


def load_log(tmp_path: Path, log: Log) -> Session:
    return turnscope.load(log.save(tmp_path / "s1.jsonl"))


def talk(
    sizes: Sequence[int],
    model: str = OPUS_4_7,
    *,
    source: str = "claude-code",
    at: float | None = LATER,
    compacted: Sequence[int] = (),
    settings: Any = None,
    **about: Any,
) -> Session:
    """A session of prompts of these sizes; the requests in `compacted` follow an automatic compaction."""
    builder = Builder("s", source, "t", **about)
    for n, size in enumerate(sizes):
        builder.add_message("user", f"go on {n}")
        answer = builder.add_message("assistant", f"Done {n}.")
        sent_at = None if at is None else at + 60 * n
        builder.set_request(
            answer, model=model, usage=Usage(size - 100, output_tokens=100), sent_at=sent_at, settings=settings or {}
        )
    looks = [
        lambda session, n=n: [
            observe_drop(
                n, 0, session.requests[n - 1].cut, "compacted", "condense", trigger="auto", preTokens=sizes[n - 1] + 150
            )
        ]
        for n in compacted
    ]
    return builder.build(looks)


def windows(session: Session) -> list[int]:
    return [int(window) for window in turnscope.overview(session).windows]


def kinds(session: Session) -> list[tuple[str, int, int]]:
    return [(each.kind, each.window, each.start) for each in turnscope.overview(session).evidence]


def test_a_tool_that_compacts_at_167_000_ran_in_200_000_whatever_the_price_list_says() -> None:
    session = talk([150_000, 166_700, 30_000, 120_000, 166_950, 25_000], compacted=[2, 5])
    assert windows(talk([150_000, 166_700, 30_000])) == [1_000_000] * 3
    assert windows(session) == [200_000] * 6
    view = turnscope.overview(session)
    assert view.evidence[0].sentence == (
        "a window of 200,000 tokens, not 1,000,000: the tool compacted by itself 2 times, at 166,850 tokens or more"
    )
    assert view.fill.max() == pytest.approx(0.83425)


@pytest.mark.parametrize(
    ("sizes", "compacted", "window"),
    [
        ([150_000, 155_000, 20_000], [2], 200_000),  # older versions compact at 155,000
        ([900_000, 966_800, 30_000], [2], 1_000_000),
        ([300_000, 346_000, 30_000], [2], 1_000_000),  # before its time, in the larger window
        ([66_000, 66_950, 20_000], [2], 100_000),  # a window that was set
        ([30_000, 82_000, 20_000], [2], 200_000),  # one that nothing encloses closely: the smallest that is sold
    ],
)
def test_prompts_left_alone_and_prompts_compacted_enclose_the_window(
    sizes: list[int], compacted: list[int], window: int
) -> None:
    assert set(windows(talk(sizes, compacted=compacted))) == {window}


def test_a_compaction_by_hand_says_nothing_of_the_window() -> None:
    session = talk([150_000, 166_700, 30_000], compacted=[2])
    edits = [structs.replace(seen.edit, facts={"trigger": "manual", "preTokens": 166_850}) for seen in session.observed]
    observed = tuple(structs.replace(seen, edit=edit) for seen, edit in zip(session.observed, edits, strict=True))
    assert windows(structs.replace(session, observed=observed)) == [1_000_000] * 3


def test_a_larger_window_holds_from_the_compaction_before_the_prompt_that_needs_it() -> None:
    session = talk([150_000, 166_900, 30_000, 160_000, 320_000], compacted=[2])
    assert windows(session) == [200_000, 200_000, 1_000_000, 1_000_000, 1_000_000]
    assert kinds(session) == [("compacted", 200_000, 0), ("prompt", 1_000_000, 2)]


def test_a_beta_and_a_name_with_1m_come_before_compactions() -> None:
    asked = talk(
        [150_000, 166_700, 30_000], OPUS_4_6, at=BETA_DAY, compacted=[2], settings={"betas": ["context-1m-2025-08-07"]}
    )
    assert kinds(asked) == [("beta", 1_000_000, 0)]
    assert kinds(talk([150_000], "claude-opus-4-6[1m]", at=BETA_DAY)) == [("suffix", 1_000_000, 0)]


def test_what_was_a_beta_is_no_default_until_it_was_none() -> None:
    assert kinds(talk([150_000], OPUS_4_6, at=BETA_DAY)) == [("default", 200_000, 0)]
    assert kinds(talk([150_000], OPUS_4_6, at=LATER)) == [("default", 1_000_000, 0)]
    assert kinds(talk([150_000], OPUS_4_6, at=None)) == [("default", 1_000_000, 0)]
    assert kinds(talk([150_000, 312_000], OPUS_4_6, at=BETA_DAY)) == [("prompt", 1_000_000, 0)]


def test_a_model_chosen_with_1m_has_it_from_there_until_another_choice(tmp_path: Path) -> None:
    log = Log()
    for n, said in enumerate(("go", SWITCHED, SWITCHED.replace("[1m]", "").replace("\x1b", "\x1b[1m"))):
        log.user(said)
        log.user("on")
        log.answer(f"m{n}", "Done.", usage=(10, 0, 90_000, 20), model=OPUS_4_6)
    session = load_log(tmp_path, log)
    assert kinds(session) == [("default", 200_000, 0), ("suffix", 1_000_000, 1), ("suffix", 200_000, 2)]
    assert windows(session) == [200_000, 1_000_000, 200_000]


def test_the_same_words_of_a_person_choose_nothing(tmp_path: Path) -> None:
    log = Log()
    log.user(f"what does this mean: {SWITCHED}")
    log.answer("m", "prompt is too long: 201583 tokens > 150000 maximum", usage=(10, 0, 90_000, 20), model=OPUS_4_7)
    assert kinds(load_log(tmp_path, log)) == [("default", 1_000_000, 0)]


@pytest.mark.parametrize("as_line", [True, False])
def test_a_refusal_names_the_limit(tmp_path: Path, as_line: bool) -> None:
    log, what = Log(), "prompt is too long: 201583 tokens > 200000 maximum"
    log.user("go")
    log.answer("m1", "Done.", usage=(10, 0, 190_000, 20), model=OPUS_4_7)
    log.user("on")
    if as_line:
        log.line("system", subtype="api_error", error={"status": 400, "error": {"error": {"message": what}}})
    else:
        log.answer("e", f"API Error: 400 {what}", model="<synthetic>", isApiErrorMessage=True)
    log.answer("m2", "Done.", usage=(10, 0, 20_000, 20), model=OPUS_4_7)
    session = load_log(tmp_path, log)
    assert windows(session) == [200_000, 200_000]
    assert turnscope.overview(session).evidence[0].because == "the provider refused a prompt of 201,583 tokens"


def test_totals_by_model_tell_their_windows(tmp_path: Path) -> None:
    log = Log()
    log.user("go")
    log.answer("m1", "Done.", usage=(10, 0, 90_000, 20), model=OPUS_4_6)
    log.add_bare(type="cost-state", sessionId="s1", modelUsage={f"{OPUS_4_6}[1m]": {"inputTokens": 10}, "claude-haiku-4-5": {}})
    session = load_log(tmp_path, log)
    assert session.about[MODEL_WINDOWS] == {"models": {OPUS_4_6: 1_000_000}}
    assert kinds(session) == [("recorded", 1_000_000, 0)]


def test_a_persons_choice_comes_before_all_evidence_and_holds_for_one_model_of_one_session() -> None:
    session = talk([150_000, 166_700, 30_000], compacted=[2])
    prices = replace(PRICES, chosen=(ChosenWindow("s", OPUS_4_7, 500_000),))
    assert {plan.limit for plan in turnscope.replay(session, prices=prices).plans} == {500_000}
    assert {plan.limit for plan in turnscope.replay(session, "last-5-pairs", prices=prices).plans} == {500_000}
    other = structs.replace(session, id="another")
    assert {plan.limit for plan in turnscope.replay(other, prices=prices).plans} == {200_000}


def test_another_model_in_its_place_has_its_own_window() -> None:
    from turnscope.library.comparing import replace_model
    from turnscope.library.opening import begin_replay, load_policy

    recorded = turnscope.replay(talk([150_000, 166_700, 30_000], compacted=[2]))
    _, plans = begin_replay(replace_model(recorded, "gemini-2.5-pro"), load_policy("keep-everything"))
    assert {plan.limit for plan in plans} == {1_048_576}


@pytest.mark.parametrize("name", ["entire-cd95-3compactions", "entire-b029-2compactions-apierrors"])
def test_real_sessions_that_compacted_at_155_000_show_200_000_under_any_name_of_their_model(name: str) -> None:
    session = turnscope.load(shared("data", "open", "claude-code", f"{name}.jsonl"))
    renamed = tuple(structs.replace(request, model=OPUS_4_7, sent_at=None) for request in session.requests)
    assert set(windows(session)) == {200_000}
    assert set(windows(structs.replace(session, requests=renamed))) == {200_000}


def test_a_recorded_run_with_a_window_of_100_000_shows_it() -> None:
    with open_run(shared("data", "wire", "claude", "B2-acwindow100k")) as run:
        for session in sessions(run.transcripts):
            assert kinds(session) == [("compacted", 100_000, 0)]


def test_a_recorded_run_of_qwen_code_encloses_its_window_without_its_log_saying_so() -> None:
    with open_run(shared("data", "wire", "qwen", "B1-100k")) as run:
        found = [session for session in sessions(run.transcripts) if session.source == "qwen-code"]
        assert [windows(structs.replace(session, window=None))[0] for session in found if session.parent == ""] == [100_000]


def add_compacted_path(log: Log) -> None:
    """A path whose tool compacts by itself at 167,000 tokens, after a call of a subagent, and goes on."""
    log.user("go")
    log.answer("m1", call("c1", "Task", prompt="look it up"), usage=(10, 0, 120_000, 20), model=OPUS_4_7)
    log.result("c1", toolUseResult={"agentId": "a1"})
    log.answer("m2", "Done.", usage=(10, 0, 166_700, 20), model=OPUS_4_7)
    log.compact(preTokens=167_100)
    log.user("on")
    log.answer("m3", "Done.", usage=(10, 0, 30_000, 20), model=OPUS_4_7)


def save_agent(tmp_path: Path, *models: str) -> None:
    agent = Log(agent="a1")
    agent.user("look it up")
    for n, model in enumerate(models):
        agent.answer(f"a{n}", "Found.", usage=(10, 0, 60_000, 20), model=model)
        agent.user("more")
    agent.save(tmp_path / "s1" / "subagents" / "agent-a1.jsonl")


def test_branches_and_subagents_ran_in_the_window_that_the_main_paths_compactions_show(tmp_path: Path) -> None:
    log = Log()
    first = log.user("begin")
    log.answer("m0", "Left.", usage=(10, 0, 70_000, 20), model=OPUS_4_7)
    log.last = first
    add_compacted_path(log)
    save_agent(tmp_path, OPUS_4_7, "claude-opus-4-8", OPUS_4_7)
    session = load_log(tmp_path, log)
    (branch,), (agent,) = session.branches, session.subagents
    assert kinds(session) == [("compacted", 200_000, 0)]
    assert kinds(branch) == [("compacted", 200_000, 0)]
    assert turnscope.overview(branch).evidence[0].because == (
        "on the session's main path, the tool compacted by itself once, at 167,100 tokens or more"
    )
    assert windows(agent) == [200_000, 1_000_000, 200_000]  # of the other model the main path shows nothing


def test_a_branch_ran_in_the_window_that_a_prompt_of_the_main_path_shows(tmp_path: Path) -> None:
    log = Log()
    first = log.user("begin")
    log.answer("m0", "Left.", usage=(10, 0, 70_000, 20), model=SONNET_4_5)
    log.last = first
    log.user("once more")
    log.answer("m1", "Read.", usage=(10, 0, 320_000, 20), model=SONNET_4_5)
    save_agent(tmp_path, SONNET_4_5)
    session = load_log(tmp_path, log)
    (branch,), (agent,) = session.branches, session.subagents
    assert kinds(session) == kinds(branch) == kinds(agent) == [("prompt", 1_000_000, 0)]
    because = "on the session's main path, a prompt of 320,010 tokens was answered"
    assert turnscope.overview(branch).evidence[0].because == because


def test_a_subagents_own_prompts_prove_more_than_the_main_path(tmp_path: Path) -> None:
    log = Log()
    add_compacted_path(log)
    agent = Log(agent="a1")
    agent.user("look it up")
    agent.answer("a1", "Found.", usage=(10, 0, 320_000, 20), model=OPUS_4_7)
    agent.save(tmp_path / "s1" / "subagents" / "agent-a1.jsonl")
    assert kinds(load_log(tmp_path, log).subagents[0]) == [("prompt", 1_000_000, 0)]


def test_a_choice_with_1m_holds_for_the_family_that_it_names_also_in_subagents(tmp_path: Path) -> None:
    log, sonnet = Log(), "claude-sonnet-4-6"
    log.user(SWITCHED)
    log.user("go")
    log.answer("m1", call("c1", "Task", prompt="look it up"), usage=(10, 0, 90_000, 20), model=OPUS_4_6)
    log.result("c1", toolUseResult={"agentId": "a1"})
    log.answer("m2", "Done.", usage=(10, 0, 90_000, 20), model=sonnet)
    log.answer("m3", "Done.", usage=(10, 0, 90_000, 20), model=SONNET_4_5)
    log.user("<local-command-stdout>Set model to sonnet (claude-sonnet-4-6)</local-command-stdout>")
    log.answer("m4", "Done.", usage=(10, 0, 90_000, 20), model=OPUS_4_6)
    save_agent(tmp_path, OPUS_4_6, sonnet)
    session = load_log(tmp_path, log)
    assert windows(session) == [1_000_000, 200_000, 200_000, 1_000_000]
    assert windows(session.subagents[0]) == [1_000_000, 200_000]


@pytest.mark.parametrize(
    ("choice", "found"),
    [
        ("opusplan[1m]", [1_000_000, 1_000_000]),
        ("Default (Opus 4.6 with 1M context)", [1_000_000, 200_000]),
        ("some-alias[1m]", [1_000_000, 1_000_000]),
    ],
)
def test_a_choice_of_no_family_or_of_two_holds_for_each(choice: str, found: list[int], tmp_path: Path) -> None:
    log = Log()
    log.user(f"<local-command-stdout>Set model to {choice}</local-command-stdout>")
    for n, model in enumerate((OPUS_4_6, "claude-sonnet-4-6")):
        log.user("go")
        log.answer(f"m{n}", "Done.", usage=(10, 0, 90_000, 20), model=model)
    assert windows(load_log(tmp_path, log)) == found


def test_subagents_take_the_beta_that_the_main_path_asked_for_at_the_time() -> None:
    beta = ["context-1m-2025-08-07"]
    main = talk([90_000, 90_000], OPUS_4_6, at=BETA_DAY, settings={"betas": beta})
    later = structs.replace(main.requests[1], settings={"betas": ["another"]})
    main = structs.replace(main, requests=(main.requests[0], later))
    agent = talk([20_000, 20_000], OPUS_4_6, at=BETA_DAY + 30)
    (agent,) = hand_windows_down(structs.replace(main, subagents=(agent,))).subagents
    assert kinds(agent) == [("beta", 1_000_000, 0), ("beta", 200_000, 1)]
    assert "asked no more for the beta context-1m-2025-08-07" in turnscope.overview(agent).evidence[1].because
