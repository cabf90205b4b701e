"""Laws of every policy in the package: what it declares holds on what would be sent, for any session."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from conftest import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from law_sessions import ledger_of, make, sessions
from long_session import make_long_session
from msgspec import structs
from turnscope.envelope.plan import Plan
from turnscope.planning import policy as policies
from turnscope.planning.assemble import Basis, plan_step, replay
from turnscope.planning.lint import lint
from turnscope.planning.policy import Policy
from turnscope.planning.render import render
from turnscope.session.model import Answer, Ask, Bucket, RecordedFacts, Session

ROOT = Path(__file__).resolve().parents[2]
NAMES = policies.list_policies()
MODEL = "claude-opus-4-5"
LAYERED = ("layered", "layered-24", "openwebui-memory", "relevant-within-budget")  # also where conversations are asked for
limits = st.integers(60, 1_500)
EXAMPLES = settings(max_examples=examples(14))


def tight(name: str, limit: int) -> Policy:
    """A policy of the package under a budget so small that random sessions overflow it; marks in tokens shrink with it."""
    policy = policies.load(name)
    spec = replace(policy.budget, formula="fixed", tokens=limit, output=0, margin=0.0)
    steps = []
    for part in policy.rules:
        small = {"trigger": limit // 2} if part.rule.name == "clear_old_results" else {}
        small |= {"clear_at_least": 0, "keep": 1} if small else {}
        small |= {"cap": 40} if hasattr(part.params, "cap") else {}
        small |= {"min_tokens": 20, "min_requests": 1} if hasattr(part.params, "min_requests") else {}
        steps.append(replace(part, params=replace(part.params, **small)))
    return replace(policy, budget=spec, rules=tuple(steps))


def is_ours(name: str) -> bool:
    return policies.load(name).fidelity.startswith("ours")


def test_every_policy_of_ours_declares_that_it_keeps_pairs_and_prefix() -> None:
    ours = [name for name in NAMES if is_ours(name) and policies.load(name).rules]
    assert {"balanced", "chainreview-staged", "ladder", "condense-oldest"} <= set(ours)
    bare = [name for name in ours if not {"paired", "prefix"} <= set(policies.load(name).guarantees)]
    assert bare == [], 'write `guarantees = ["paired", "prefix"]` into their files'


def check_fits(_policy: Policy, _session: Session, plan: Plan) -> None:
    """A plan that would be sent is within its budget; all others are refused."""
    assert plan.verdict in ("send", "warn", "refuse"), plan
    if plan.verdict != "refuse":
        assert plan.expected_tokens <= plan.budget.limit


def check_paired(policy: Policy, session: Session, plan: Plan) -> None:
    """No call without its result and the reverse, in the rendered request; behind `repair` nothing at all to reject."""
    repaired = any(part.rule.name == "repair" for part in policy.rules)
    newest = max((m.start for m in session.messages if m.start < plan.request.cut), default=0)
    if session.blocks[newest].role == "user":  # an answer that follows an answer is no request that anybody sends
        problems = lint(render(plan.after, session), MODEL)
        assert [p for p in problems if repaired or p.what != "the first message must be a user's"] == [], plan.decisions


def check_prefix(_policy: Policy, session: Session, plan: Plan) -> None:
    """System prompt and tools stand as they were said."""
    static = [b.at for b in session.blocks[: plan.request.cut] if b.bucket in (Bucket.SYSTEM, Bucket.TOOLS)]
    assert all(plan.after.find_piece(at).body is None for at in static)
    sent, whole = render(plan.after, session), render(plan.before, session)
    assert (sent.get("system"), sent.get("tools")) == (whole.get("system"), whole.get("tools"))


def check_newest(_policy: Policy, session: Session, plan: Plan) -> None:
    """Of the newest message something stands: no policy of ours answers a question by leaving it out."""
    newest = max((m.start for m in session.messages if m.start < plan.request.cut), default=None)
    if newest is not None and session.blocks[newest].role == "user":
        assert plan.after.find_piece(newest).body != (), plan.decisions


CHECKS = {"fits": check_fits, "paired": check_paired, "prefix": check_prefix}


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("name", [name for name in NAMES if is_ours(name) or policies.load(name).guarantees])
@EXAMPLES
@example(session=make([[("say", 180), ("say", 0), ("say", 20), ("tool", 148)]], False, False), limit=60)
@given(session=sessions, limit=limits)
def test_a_policy_keeps_what_it_declares(name: str, session: Session, limit: int) -> None:
    """Its guarantees, and of those of ours that the newest message is sent: one replay shows all of them."""
    policy = tight(name, limit)
    checks = [*map(CHECKS.__getitem__, policy.guarantees), *([check_newest] if is_ours(name) else [])]
    for plan in replay(session, policy, ledger_of(session)):
        for check in checks:
            check(policy, session, plan)


@pytest.mark.thorough(every=10)
@pytest.mark.parametrize("name", NAMES)
@EXAMPLES
@given(session=sessions, limit=limits)
def test_recorded_answers_replay_without_a_model(name: str, session: Session, limit: int) -> None:
    """What a model answered once is found again by its key; a replay asks nobody and gives the same plans."""
    policy, ledger = tight(name, limit), ledger_of(session)
    basis = Basis.of(structs.replace(session, requests=tuple(structs.replace(r, usage=None) for r in session.requests)), ledger)
    bare = structs.replace(session, requests=tuple(structs.replace(r, usage=None) for r in session.requests))

    def model(ask: Ask) -> Answer:
        return Answer(f"A summary of {len(ask.content)} characters.", model="m", source="model")

    live: list[Plan] = []
    for request in bare.requests:
        live.append(plan_step(live[-1] if live else None, bare, request, policy, basis, model))
    known = {ask.key: answer for plan in live for ask, answer in plan.asks}
    again = [*replay(structs.replace(bare, recorded=RecordedFacts(known)), policy, ledger)]
    assert [digest(plan) for plan in again] == [digest(plan) for plan in live]


def digest(plan: Plan) -> str:
    """Everything a plan says, as one digest."""
    said: list[Any] = [plan.request.n, plan.model, plan.verdict, plan.expected_tokens, plan.after.counts, plan.budget.limit]
    said += [[p.start, p.stop, p.counts, repr(p.body), p.slot, p.by] for p in plan.after.pieces]
    said += [
        [d.seq, d.rule, d.action, d.edit.because, json.dumps(d.edit.facts, default=str), d.before, d.after]
        for d in plan.decisions
    ]
    said += [[ask.key, ask.content, answer.text] for ask, answer in plan.asks]
    return hashlib.blake2b(json.dumps(said, default=str).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@cache
def digest_all() -> str:
    """One digest over all policies on one busy session: read by another process below."""
    busy = [
        [("tool", 300), ("think", 200), ("two", 250), ("say", 100)],
        [("tool", 400)],
        [("say", 50), ("two", 10)],
        [("tool", 90)],
    ]
    session = make(busy * 3, system=True)
    said = [
        digest(plan)
        for name, limit in zip(NAMES, cycle((250, 900)), strict=False)
        for plan in replay(session, tight(name, limit), ledger_of(session))
    ]
    long = make_long_session(14, {11: ("Look at falcon again.", {"ids": ["c2", "c4"], "format": "mixed"})}, lines=4)
    said += [
        digest(plan)
        for name in LAYERED
        for plan in replay(long, tight(name, 1_500), ledger_of(long))
        if plan.request.n % 3 == 1
    ]
    return hashlib.blake2b("".join(said).encode(), digest_size=16).hexdigest()


@pytest.mark.thorough
def test_the_same_input_gives_the_same_plans_in_every_process() -> None:
    """This process has a seed of its own, by chance."""
    folders = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "laws"), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONHASHSEED": "4711", "PYTHONPATH": os.pathsep.join(folders)}
    code = "import test_policies; print(test_policies.digest_all())"
    other = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True, timeout=120
    )
    assert other.stdout.strip() == digest_all()
