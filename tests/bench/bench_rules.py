"""What each rule costs over a long session: `python tests/bench/bench_rules.py [name ...]`; exit 1 above a limit.

Every built-in policy on Claude Code sessions of 24 MB, 2,000 requests and 21 compactions, which most of them outgrow: one of a
model that keeps old thinking, one whose server drops it, one whose log seals it. CPU seconds, growth, memory of a process of
its own: while it holds the plans, and at its peak. Growth is from the first half to the whole of the requests since the policy
first changed one: what it does not do yet costs nothing, and says nothing of how its work grows; behind the decisions stands
how those grew. Then each rule alone, and the policy `balanced`, over 8,000 requests: the same, with growth from half of the
session to the whole. Then each ported policy: CPU seconds. Then reverse iteration over 10,000 messages, a request per turn,
beside what `trim_messages` of langchain-core and of litellm take for the same turns (the `bench` extra; skipped with a word
where absent). langchain-core counts with its own cheap counter, "approximate" (characters / 4); litellm has none and counts
with a tokenizer.

What counts is the process's CPU time with the sessions out of the garbage collector's sight, as the app has them, from a heap
that was just collected. What is over a limit is measured again, up to ROUNDS times, and its best counts: a busy machine slows
even CPU time, a slow rule stays slow. What takes less than BRIEF is measured so often in any case.

A name is a rule, a policy, a model (`sonnet-4-5`: every policy on its session alone) or a number of requests (`6000`: on longer
sessions; the limits grow with them).
"""

from __future__ import annotations

import gc
import os
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import turnscope
from make_claude_code import VARIETIES, write
from turnscope.counting.ledger import Ledger, build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.planning.assemble import replay
from turnscope.planning.held_plans import begin_plans
from turnscope.planning.policy import Policy, list_policies, load, parse
from turnscope.planning.rule_registry import load_rules
from turnscope.planning.trace import build_own_ledger
from turnscope.pricing.prices import PRICES
from turnscope.session.builder import Builder
from turnscope.session.model import Session

REQUESTS = 8_000
ROUNDS = 3
BRIEF = 0.5  # seconds below which a single run says little: a ratio of two such is of their best
SECONDS = 2.0
GROWTH = 2.3
FAST = 0.3  # seconds below which growth is the clock's own noise
MEMORY = (100_000_000, 20_000)  # bytes, and bytes per request
LANGCHAIN, LITELLM = 100, 1_000  # times faster
TURNS = 5_000
SAMPLED = {"langchain-core": (500, 1_500, 2_500, 3_500, 4_500), "litellm": (800,)}  # turns that are timed
WHOLE = "balanced"  # a whole policy, run beside the single rules
GROWN = (REQUESTS, 2 * REQUESTS)  # that policy first condenses at request 5,000 of this session
PORTS = ("cline-classic", "roo", "librechat-agents", "litellm-trim", "langchain-trim", "librechat-legacy", "chatbot-ui")
PORTS += ("claude-code", "claude-code-microcompact", "codex", "goose", "letta", "openrouter-middle-out", "mini-swe-agent")
PORT_SECONDS = 5.0
LOG = (24, 2_000, 21)  # megabytes, requests and compactions of the session that every policy replays
LOG_SECONDS, LOG_BYTES = 2.0, 60_000_000  # CPU, and growth of the process while it holds the plans
LOG_MORE = {"librechat-agents": (4.0, 120_000_000)}  # it cuts all anew at each turn
LIMIT = 40_000  # tokens: a quarter of the turns below fit

RULES = {
    "keep_last_messages": "keep = 20",
    "keep_last_pairs": "pairs = 5",
    "keep_newest_within_budget": "",
    "cut_in_pairs": "",
    "replace_duplicate_reads": "",
    "cut_long_results": "max_tokens = 100",
    "clear_old_results": "trigger = 20000",
    "strip_old_thinking": "",
    "compress_old_calls": "",
    "drop_repeated_content": "min_tokens = 20",
}


def agent(requests: int) -> Session:
    """An agent's session: a prompt every 20 requests; else thinking, a call and its result, some of them repeated or long."""
    builder = Builder("bench", "bench")
    builder.add_message("system", "You are an agent. " * 200)
    for n in range(requests):
        if n % 20 == 0:
            builder.add_message("user", f"Task {n}: " + "please look into this " * 10)
        name, path = ("Read", f"src/file{n % 97}.py") if n % 2 else ("Bash", f"make target{n}")
        content = [
            {"type": "thinking", "thinking": f"Step {n}. " * 12, "signature": "s"},
            {"type": "text", "text": f"Next: {n}."},
        ]
        ends = n % 20 == 19
        call = {"type": "tool_use", "id": f"c{n}", "name": name, "input": {"path": path}}
        answer = builder.add_message("assistant", content if ends else [*content, call])
        builder.set_request(answer, model="claude-opus-4-5")
        if not ends:
            size = 100 if n % 7 == 0 else 8
            text = "the same output every time\n" * 6 if n % 5 == 0 else f"line of request {n}\n" * size
            builder.add_message("user", [{"type": "tool_result", "tool_use_id": f"c{n}", "content": text}])
    return builder.build()


def alone(rule: str, given: str, limit: int = LIMIT) -> Policy:
    """A policy of that one rule."""
    spec = f'[budget]\nformula = "fixed"\ntokens = {limit}'
    return parse("bench", f'{spec}\n\n[[rules]]\nrule = "{rule}"\n' + given.replace(", ", "\n"))


def cpu(work: Callable[[], Any]) -> float:
    gc.collect()
    gc.freeze()
    start = process_time()
    work()
    took = process_time() - start
    gc.unfreeze()
    return took


def best(works: Sequence[Callable[[], Any]], good: Callable[..., bool]) -> list[float]:
    """CPU seconds of each, the best of several rounds, of which there are no more than it takes to be `good`."""
    times = [cpu(work) for work in works]
    for _ in range(ROUNDS - 1):
        if good(*times) and max(times) >= BRIEF:
            break
        times = [min(took, cpu(work)) for took, work in zip(times, works, strict=True)]
    return times


def memory(work: Callable[[], list[Any]]) -> tuple[int, int, list[Any]]:
    """Bytes that plans hold, bytes at the peak, and the plans."""
    gc.collect()
    tracemalloc.start()
    plans = work()
    gc.collect()
    held, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held, peak, plans


def count_decisions(plans: list[Any]) -> int:
    return sum(len(plan.decisions) for plan in plans)


def make_plans(session: Session, ledger: Ledger, policy: Policy, own: Any = None) -> list[Any]:
    return list(replay(session, policy, ledger, own))


def rule_costs(chosen: list[str]) -> Iterator[tuple[str, bool]]:
    """A line per rule, and whether it holds its limits."""
    pairs = {name: GROWN if name == WHOLE else (REQUESTS // 2, REQUESTS) for name in chosen}
    sessions = {size: agent(size) for size in sorted({size for pair in pairs.values() for size in pair})}
    ledgers = {size: build_ledger(session, CHARS) for size, session in sessions.items()}
    policies = {name: load(name) if name == WHOLE else alone(name, RULES.get(name, "")) for name in chosen}
    for name, (short, long) in pairs.items():
        sizes = dict.fromkeys((short, long, REQUESTS))
        works = {size: partial(make_plans, sessions[size], ledgers[size], policies[name]) for size in sizes}
        took = dict(zip(sizes, best([*works.values()], partial(_fast, [*sizes], (short, long))), strict=True))
        held, peak, plans = memory(works[REQUESTS])
        decisions = count_decisions(plans)
        good = _fast([*sizes], (short, long), *took.values()) and peak <= MEMORY[0] + MEMORY[1] * REQUESTS
        line = (
            f"{name:28} {took[REQUESTS]:6.2f} s  x{took[long] / took[short]:.2f} {short:,} to {long:,}  "
            f"{held / 1e6:6.1f} MB held  {peak / 1e6:6.1f} MB peak  {decisions:7,} decisions"
        )
        yield line + ("" if good else "  TOO MUCH"), good


def _fast(sizes: Sequence[int], pair: tuple[int, int], *times: float) -> bool:
    took = dict(zip(sizes, times, strict=True))
    return took[REQUESTS] < SECONDS and took[pair[1]] <= GROWTH * took[pair[0]]


def ports(chosen: list[str]) -> Iterator[tuple[str, bool]]:
    """A line per ported policy, and whether it holds its limit."""
    session = agent(REQUESTS)
    ledger = build_ledger(session, CHARS)
    for name in chosen:
        (seconds,) = best([lambda n=name: make_plans(session, ledger, load(n))], lambda took: took < PORT_SECONDS)
        yield f"{name:28} {seconds:6.2f} s" + ("" if seconds < PORT_SECONDS else "  TOO MUCH"), seconds < PORT_SECONDS


class Cost(NamedTuple):
    """What a policy costs over one session: CPU seconds, bytes, and what it decided."""

    whole: float  # of all requests
    first: float  # of the first half of the requests since the policy first changed one
    rest: float  # of the second half of them
    begin: int  # that request
    held: int  # bytes by which the process grew while the plans were held
    peak: int  # bytes by which it grew at most
    decisions: int
    more: float  # times as many decisions as in the first half

    @property
    def growth(self) -> float:
        return (self.first + self.rest) / self.first

    def is_within(self, most: float = LOG_SECONDS) -> bool:
        late = self.first + self.rest
        return self.whole <= most and (late < FAST or self.growth <= GROWTH)


@cache
def read_counted(path: Path) -> tuple[Session, Ledger]:
    """A session with its counts."""
    session = turnscope.load(path)
    PRICES.find_facts("")  # what is loaded on first use is not the plans'
    return session, build_ledger(session, CHARS)


def resident() -> int:
    """Bytes of memory of this process alone: what it mapped from files, or shares, is not its own."""
    return next(int(line.split()[1]) * 1_024 for line in Path("/proc/self/status").open() if line.startswith("RssAnon"))


def time_requests(plans: Iterator[Any]) -> list[float]:
    """CPU time at the start and after each plan, all of which are held until the last one is made."""
    gc.collect()
    gc.freeze()
    held, clock = [], [process_time()]
    for plan in plans:
        held.append(plan)
        clock.append(process_time())
    gc.unfreeze()
    return clock


def weigh(job: tuple[Path, str]) -> Cost:
    """What a policy costs, in a process of its own."""
    path, name = job
    policy = load(name)
    session, ledger = read_counted(path)
    own = build_own_ledger(session, policy)
    list(islice(replay(session, policy, ledger, own), 20))  # what it loads on first use
    gc.collect()
    before, peak, made_by, begin = resident(), 0, [], len(session.requests) - 2
    plans = begin_plans(session, policy, ledger, own)  # as the app holds them
    for plan in plans.grow():
        made_by.append(len(plan.decisions))
        if any(made.splice for made in plan.decisions):
            begin = min(begin, plan.request.n)
        if plan.request.n % 50 == 0:
            peak = max(peak, resident() - before)
    held = resident() - before
    del plans, plan
    middle, cost = (begin + len(session.requests)) // 2, None
    decisions, more = sum(made_by), sum(made_by[begin:]) / max(1, sum(made_by[begin:middle]))
    for _ in range(ROUNDS):
        clock = time_requests(replay(session, policy, ledger, own))
        whole, first, rest = clock[-1] - clock[0], clock[middle] - clock[begin], clock[-1] - clock[middle]
        if cost:
            whole, first, rest = min(whole, cost.whole), min(first, cost.first), min(rest, cost.rest)
        cost = Cost(whole, first, rest, begin, held, max(peak, held), decisions, more)
        if cost.is_within() and whole >= BRIEF:
            break
    assert cost
    return cost


def iter_compacted(variety: str, chosen: list[str], longer: float) -> Iterator[tuple[str, bool]]:
    """A line per built-in policy on a session of that variety, so many times as long, and whether it holds its limits."""
    megabytes, requests, compactions = (round(longer * size) for size in LOG)
    with TemporaryDirectory() as folder, get_context("spawn").Pool(1, maxtasksperchild=1) as apart:
        path = Path(folder) / "session.jsonl"
        write(path, megabytes, requests, compactions, variety=VARIETIES[variety])
        for name, cost in zip(chosen, apart.imap(weigh, [(path, name) for name in chosen]), strict=True):
            most, room = LOG_MORE.get(name, (LOG_SECONDS, LOG_BYTES))
            good = cost.is_within(most * longer) and cost.held <= room * longer
            line = (
                f"{name:28} {cost.whole:6.2f} s  x{cost.growth:.2f} from {cost.begin:4}  {cost.held / 1e6:6.1f} MB held  "
                f"{cost.peak / 1e6:6.1f} MB at the peak  {cost.decisions:7,} decisions (x{cost.more:.2f})"
            )
            yield line + ("" if good else "  TOO MUCH"), good


def chat(turns: int) -> Session:
    """Questions and answers, one request per turn."""
    builder = Builder("bench", "bench")
    for n in range(turns):
        builder.add_message("user", f"Question {n}: what about this part? " + "word " * 10)
        builder.set_request(builder.add_message("assistant", f"Answer {n}: " + "some words of explanation " * 10))
    return builder.build()


def per_turn(session: Session, trim: Callable[[list[dict[str, str]]], Any], picked: tuple[int, ...]) -> float:
    """CPU seconds that trimming once per turn takes, from some turns. One turn stands for the later ones alone: a lower bound,
    for litellm's time grows faster than the messages (25 s at turn 800)."""
    messages = [{"role": block.role, "content": block.raw} for block in session.blocks]
    trim(messages[:11])  # what loads on first use is not counted
    turns = TURNS if len(picked) > 1 else TURNS - picked[0]
    return sum(cpu(lambda n=n: trim(messages[: 2 * n + 1])) for n in picked) / len(picked) * turns


def langchain() -> Callable[[list[dict[str, str]]], Any] | str:
    try:
        from langchain_core.messages import AIMessage, HumanMessage, trim_messages
    except ImportError:
        return "langchain-core is not installed (pip install langchain-core)"
    kept: dict[int, Any] = {}

    def trim(messages: list[dict[str, str]]) -> Any:
        made = [
            kept.setdefault(id(m), (HumanMessage if m["role"] == "user" else AIMessage)(m["content"]))
            if id(m) not in kept
            else kept[id(m)]
            for m in messages
        ]
        return trim_messages(made, max_tokens=LIMIT, token_counter="approximate", strategy="last", start_on="human")

    return trim


def litellm() -> Callable[[list[dict[str, str]]], Any] | str:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network for prices when it is loaded
    try:
        from litellm.utils import trim_messages
    except ImportError as error:
        return f"litellm cannot be loaded ({error}): pip install 'turnscope[bench]'"
    return lambda messages: trim_messages([*messages], model="gpt-4o", max_tokens=LIMIT, trim_ratio=1.0)


def comparison() -> Iterator[tuple[str, bool]]:
    """A line per other library, and whether we are as much faster as we say."""
    session = chat(TURNS)
    ledger = build_ledger(session, CHARS)
    policy = alone("keep_newest_within_budget", "")
    ours = median(cpu(lambda: make_plans(session, ledger, policy)) for _ in range(5))
    yield f"{2 * TURNS:,} messages, {TURNS:,} requests under keep_newest_within_budget: {ours:.2f} s", True
    for name, found, least in (("langchain-core", langchain(), LANGCHAIN), ("litellm", litellm(), LITELLM)):
        if isinstance(found, str):
            yield f"  {name}: skipped, {found}", True
            continue
        theirs = per_turn(session, found, SAMPLED[name])
        times, turns = theirs / ours, ", ".join(map(str, SAMPLED[name]))
        line = f"  {name} trim_messages, turns {turns} scaled: {theirs:,.0f} s = {times:,.0f}x (at least {least:,}x)"
        yield line, times >= least


def main(chosen: list[str]) -> int:
    """Print the tables; 1 where a limit is exceeded."""
    bad = False
    varieties = [name for name in VARIETIES if name in chosen] or [*VARIETIES]
    requests = next((int(name) for name in chosen if name.isdecimal()), LOG[1])
    logs = {*chosen} & {*VARIETIES, str(requests)}
    chosen = [name for name in chosen if name not in logs]
    unknown = [name for name in chosen if name not in load_rules() and name not in list_policies()]
    if unknown:
        print(f"no such rule or policy: {', '.join(unknown)}; known: {', '.join((*load_rules(), *list_policies()))}")
        return 2
    single, whole = (
        [name for name in chosen if name in load_rules() or (name == WHOLE and not logs)],
        [name for name in chosen if name in list_policies()],
    )
    tables: list[tuple[str, Iterator[tuple[str, bool]]]] = []
    if whole or not chosen:
        log = f"{LOG[0] * requests // LOG[1]} MB, {requests:,} requests and {LOG[2] * requests // LOG[1]} compactions"
        for variety in varieties:
            title = f"{log}, {variety}, under every policy, growth from its first change on:"
            tables.append((title, iter_compacted(variety, whole or [*list_policies()], requests / LOG[1])))
    if single or not (chosen or logs):
        tables.append((f"{REQUESTS:,} requests, each rule alone, and one whole policy:", rule_costs(single or [*RULES, WHOLE])))
    if ported := [name for name in PORTS if not logs and name in (chosen or PORTS)]:
        tables.append((f"{REQUESTS:,} requests under each ported policy, counts by characters:", ports(ported)))
    if not (chosen or logs):
        tables.append(("reverse iteration beside other libraries:", comparison()))
    for title, lines in tables:
        print(title)
        for line, good in lines:
            print(f"  {line}", flush=True)
            bad |= not good
    print(f"{process_time():.0f} s of CPU time in all")
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
