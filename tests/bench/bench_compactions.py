"""Where recorded tools compacted, and where their policies do: `python tests/bench/bench_compactions.py [PATH ...]`; exit 1.

Every session below PATH (default: the open sessions beside the project, the samples, and task folders of the originals' own
tasks) whose log shows a compaction, under the policies of its tool. With the observed trigger each recorded compaction must be
met at its request. With the default trigger: how many are met, missed, and come where none is recorded; and for each recorded
one, how far the size at which the tool compacted lies from the policy's mark, in tokens. Task folders of Cline and Roo have no
trigger to observe: the replayed ranges are the recorded ones, or a reason stands here why they cannot be. Exit code 1: a
recorded compaction is missed under the observed trigger, or a range differs without a reason.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import turnscope
from msgspec import structs
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.plan import Plan
from turnscope.errors import TurnscopeError
from turnscope.planning.assemble import replay
from turnscope.planning.foreign_summaries import DROP_DECISION
from turnscope.planning.policy import Policy, load
from turnscope.session.model import Answer, Session

from tests import original_tasks
from tests.goldens import ROOT

PLACES = (ROOT.parent / "shared" / "data" / "open", ROOT / "sample_sessions")
POLICIES: Mapping[str, tuple[str, ...]] = {
    "claude-code": ("claude-code", "claude-code-32k"),
    "codex": ("codex",),
    "goose": ("goose",),
    "letta": ("letta",),
}
OLD_ROO = (
    "Reason: an older Roo wrote it (a summary as an answer: before 3.43), which kept the first message and the newest three"
)


@dataclass(frozen=True, slots=True)
class Met:
    """What became of a session's recorded compactions under one policy. `sizes`: by request, tokens and the policy's mark."""

    policy: str
    trigger: str
    hits: tuple[int, ...]
    missed: tuple[int, ...]
    extra: tuple[int, ...]
    sizes: Mapping[int, tuple[int, int]]


def find_recorded(session: Session) -> list[int]:
    """Requests at which the log first shows that the tool condensed something."""
    return sorted({seen.request for seen in session.observed if seen.edit.action == "condense"})


def make_observing(policy: Policy) -> Policy:
    """The policy with the trigger that the log shows."""
    steps = (
        replace(s, params=replace(s.params, trigger="observed")) if hasattr(s.params, "trigger") else s for s in policy.rules
    )
    return replace(policy, rules=tuple(steps))


def met(session: Session, policy: Policy, trigger: str) -> Met:
    """Replay a session; a compaction is met where the policy condenses at the very request."""
    sizes: dict[int, tuple[int, int]] = {}
    for plan in turnscope.replay(session, make_observing(policy) if trigger == "observed" else policy).plans:
        for decision in plan.decisions:
            if decision.action == "condense" and decision.splice and decision.rule != DROP_DECISION:
                facts = decision.edit.facts
                sizes[plan.request.n] = (facts["tokens"], facts.get("mark") or facts.get("limit") or 0)
    wanted = {*find_recorded(session)}
    did = {*sizes}
    hits, missed, extra = (tuple(sorted(part)) for part in (wanted & did, wanted - did, did - wanted))
    return Met(policy.name, trigger, hits, missed, extra, sizes)


def lines(name: str, session: Session) -> Iterator[tuple[str, bool]]:
    """Lines about one session of a tool with a trigger, and whether each is as it must be."""
    for policy in map(load, POLICIES[session.source]):
        observed = met(session, policy, "observed")
        told = ", ".join(f"request {n} at {size:,} ({size - mark:+,})" for n, (size, mark) in observed.sizes.items())
        yield f"{name:44.44} {policy.name:16} recorded: {told or 'none'}", True
        for found in (observed, met(session, policy, "default")):
            good = not found.missed or found.trigger == "default"
            line = f"{'':61} {found.trigger:9} {len(found.hits)} met, {len(found.missed)} missed, {len(found.extra)} elsewhere"
            where = f" (at requests {', '.join(map(str, found.extra))})" if found.extra else ""
            yield line + where + ("" if good else f"  MISSED {found.missed}"), good


def ranges(session: Session, window: int | None = None) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """What a task folder's log hides at which request, and what its policy hides there; ranges of messages, or of blocks."""
    session = structs.replace(session, window=window) if window else session
    if session.about.get("tool") == "Cline":
        found = re.compile(r"hides messages (\d+) to (\d+)")
        masks = {seen.request: hit[0] for seen in session.observed if (hit := found.search(seen.edit.because))}
        states = [plan.get_state("hide_oldest_pairs") for plan in turnscope.replay(session, "cline-classic").plans]
        before = [None, *states[:-1]]
        moved = (
            (n, f"hides messages {now.range[0]} to {now.range[1]}")
            for n, (was, now) in enumerate(zip(before, states, strict=True))
            if now and now.range and now.range[0] <= now.range[1] and (was is None or now.range != was.range)
        )
        return sorted(masks.items()), list(moved)
    hidden = [
        (seen.request, f"hides blocks {span[0]} to {span[1] - 1}") for seen in session.observed if (span := seen.edit.span)
    ]
    summed = any(seen.edit.action == "condense" for seen in session.observed)
    failing = None if summed else lambda _ask: Answer(failed="the summary failed, as it must have for Roo to hide messages")
    ledger = build_ledger(session, CHARS)
    return hidden, [*_roo(replay(session, load("roo"), ledger, answers=failing))]


def _roo(plans: Iterator[Plan]) -> Iterator[tuple[int, str]]:
    for plan in plans:
        for decision in plan.decisions:
            span = decision.edit.span
            if decision.splice and decision.action in ("drop", "condense") and span and decision.rule != DROP_DECISION:
                yield plan.request.n, f"hides blocks {span[0]} to {span[1] - 1}"


def task_line(name: str, session: Session, window: int | None) -> tuple[str, bool]:
    """A line about a task folder, and whether its ranges are the recorded ones or there is a reason why not."""
    there, ours = ranges(session, window)
    told = "; ".join(f"request {n} {what}" for n, what in there) or "nothing is hidden"
    parts = [part for seen in session.observed if seen.edit.action == "condense" for part in seen.edit.body or ()]
    reason = OLD_ROO if any(part.role == "assistant" for part in parts) else ""
    if there == ours:
        return f"{name:44.44} {session.about.get('tool'):16} same: {told}", True
    other = "; ".join(f"request {n} {what}" for n, what in ours) or "nothing is hidden"
    return f"{name:44.44} {session.about.get('tool'):16} DIFFERS: {told}, replayed: {other}. {reason}", bool(reason)


def sessions(places: list[Path]) -> Iterator[tuple[str, Session]]:
    """Sessions below some paths whose log shows a compaction, or hides something of a task."""
    seen: set[str] = set()
    for place in places:
        for path in sorted(p for p in place.rglob("*") if p.is_file()) if place.is_dir() else [place]:
            try:
                session = turnscope.load(path)
            except (TurnscopeError, OSError):
                continue
            if session.observed and session.id not in seen and (session.source in POLICIES or session.source == "task-folder"):
                seen.add(session.id)
                yield path.parent.name if session.source == "task-folder" else path.name, session


def report(places: list[Path], made: bool) -> Iterator[tuple[str, bool]]:
    """All lines."""
    for name, session in sessions(places):
        if session.source == "task-folder":
            yield task_line(name, session, None)
        elif find_recorded(session):
            yield from lines(name, session)
    if made:
        with TemporaryDirectory() as folder:
            for path, window in original_tasks.write_tasks(Path(folder)):
                yield task_line(path.parent.name, turnscope.load(path), window)


def main(given: list[str]) -> int:
    """Print the report; 1 where something is not as it must be."""
    places = [Path(path) for path in given] or [place for place in PLACES if place.is_dir()]
    good = True
    for line, right in report(places, not given):
        print(line, flush=True)
        good &= right
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
