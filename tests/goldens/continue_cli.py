"""Continue's CLI against cases of the original."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import count_texts, make_estimator
from turnscope.envelope.budget import BudgetParams
from turnscope.envelope.plan import Plan
from turnscope.planning.assemble import Basis, plan_step, reconcile_plan
from turnscope.planning.policy import Step, load
from turnscope.ports.continuedev import cli
from turnscope.ports.continuedev.compiling import adjust
from turnscope.session.builder import Builder
from turnscope.session.model import Session

from tests.goldens._apps import Teller

SYSTEM = "continue-cli"
PROMPT = "⟦COMPACTION_PROMPT⟧"


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    got = KINDS[case["kind"]](case["input"])
    return _same(got, case["expect"]) if case["kind"] == "request" else got


def _counter(given: Mapping[str, Any]) -> cli.Count:
    known = {_text(text): tokens for text, tokens in given["text_tokens"]}
    return lambda text: known[text]


def _text(given: Any) -> Any:
    return (given["unit"] * given["fill"])[: given["fill"]] if isinstance(given, dict) else given


def _item(item: Mapping[str, Any]) -> dict[str, Any]:
    calls = [{**call, "output": _text(call["output"])} if "output" in call else call for call in item.get("calls") or ()]
    words = item.get("words")
    text = f"#{item['id']}" + " river" * (words or 0) if "content" not in item else _text(item["content"])
    return {**item, "content": text, "calls": calls}


def _roles(history: Sequence[Mapping[str, Any]]) -> list[str]:
    return ["call" if item.get("calls") and item["role"] == "assistant" else item["role"] for item in history]


def _sums(history: Sequence[Mapping[str, Any]]) -> list[int]:
    return [0, *accumulate(item["tokens"] + cli.LISTED for item in history)]


def _limits(given: dict[str, Any]) -> dict[str, Any]:
    window = cli.get_window(given["context_length"])
    return {"context_limit": window, "max_tokens": cli.compute_output(window, given["max_tokens"])}


def _beside(given: Mapping[str, Any], tokens: int) -> int:
    stored = any(item["role"] == "system" for item in given["history"])
    return 0 if stored or given.get("system") is None else tokens + cli.SYSTEM


def _should(given: dict[str, Any]) -> dict[str, Any]:
    window = cli.get_window(given["context_length"])
    total = _sums(given["history"])[-1] + _beside(given, given["system_tokens"]) + given["tools_tokens"]
    due = cli.compute_threshold(window, cli.compute_output(window, given["max_tokens"]))
    return {"compact": None if due is None else total >= due, "error": due is None, "input_tokens": total}


def _validate(given: dict[str, Any]) -> dict[str, Any]:
    total = _sums(given["history"])[-1] + _beside(given, given["system_tokens"])
    held = cli.reserve_output(given["context_length"], given["max_tokens"])
    valid = cli.fits(total, given["context_length"], given["max_tokens"], given["buffer"])
    return {"valid": valid, "input_tokens": total, "reserved": held}


def _from(given: dict[str, Any]) -> dict[str, Any]:
    said, index = given["history"], given["index"]
    if index == "find":
        index = cli.find_begin([n for n, item in enumerate(said) if item.get("summary")])
    start = index or 0
    head = [m["id"] for m in said[:1] if m["role"] == "system" and start > 0]
    return {"index": index, "sent": [*head, *(item["id"] for item in said[start:])]}


def _compact(given: dict[str, Any]) -> dict[str, Any]:
    history, window = given["history"], given["context_length"]
    output = cli.compute_output(window, given["max_tokens"])
    stored = bool(history) and history[0]["role"] == "system"
    prompt = {"id": PROMPT, "role": "user", "tokens": adjust(cli.PROMPT_TOKENS, given["model"]) + cli.ITEM}
    beside = prompt["tokens"] + cli.LISTED + (0 if stored else given["system_message_tokens"])
    stop = cli.cut_for_summary(_roles(history), _sums(history), window, output, beside)
    asked = [*history[:stop], prompt]
    system = 0 if stored else given["request_system_tokens"] + cli.SYSTEM
    left = cli.cut_to_fit(_roles(asked), _sums(asked), window, given["max_tokens"], system)
    ids = ["system" if item["role"] == "system" else item["id"] for item in asked[:left]]
    if given["call_fails"]:
        return {"error": True, "asked": ["system", *ids], "history": None, "index": None}
    made = [*(["system"] if stored else []), "SUM"]
    return {"error": False, "asked": ["system", *ids], "history": made, "index": len(made) - 1}


def _request(given: dict[str, Any]) -> dict[str, Any]:
    history = [_item(item) for item in given["history"]]
    beside = _beside(given, given["system_tokens"]) + given["tools_tokens"]
    sums = _sums(history)
    stop = cli.cut_to_fit(_roles(history), sums, given["context_length"], given["max_tokens"], beside)
    if not cli.fits(sums[stop] + beside, given["context_length"], given["max_tokens"]):
        return {"error": True}
    made = [(item["id"], message) for item in history[:stop] for message in cli.convert(item)]
    ids = [f"tool:{m['tool_call_id']}" if m["role"] == "tool" else name for name, m in made]
    system = [{"role": "system", "content": given["system"]}] if given["system"] is not None else []
    return {"error": False, "sent": [*(["system"] if system else []), *ids], "messages": [*system, *(m for _, m in made)]}


def _same(got: dict[str, Any], case: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in got.items() if key in case}


KINDS = {
    "limits": _limits,
    "count": lambda x: {"tokens": cli.count_item(_item({"content": "", **x["item"]}), _counter(x), x["model"])},
    "tool_definitions": lambda x: {"tokens": cli.count_tools(x["tools"], _counter(x))},
    "should_compact": _should,
    "validate": _validate,
    "prune": lambda x: {"kept": cli.count_kept(_roles(x["history"]), len(x["history"]))},
    "history_for_llm": _from,
    "compact": _compact,
    "request": _request,
}


def _session(given: dict[str, Any]) -> dict[str, Any]:
    """The program's loop, each request planned by the policy: what it says by itself depends on what was compacted."""
    loop = _Loop(given)
    return {"steps": [loop.turn(turn) for turn in given["turns"]]}


class _Loop:
    """A chat that grows as the program would let it grow."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given
        self.said: list[tuple[str, str, Any]] = []  # id, role, content; None = a request was sent here
        self.calls: dict[str, dict[str, Any]] = {}
        self.plan: Plan | None = None
        self.teller = Teller([""])
        self.made = 0
        chosen = load(SYSTEM)
        params = replace(chosen.rules[0].params, output=given["max_tokens"] if given["max_tokens"] is not None else -1)
        room = BudgetParams(formula="window", window=given["context_length"])
        self.policy = replace(chosen, budget=room, rules=(Step(chosen.rules[0].rule, params),))

    def session(self) -> Session:
        builder = Builder("golden", SYSTEM)
        builder.add_message("system", self.given["system"])
        for name, role, content in self.said:
            if role == "request":
                builder.add_unanswered(model=self.given["model"])
            else:
                builder.add_message(role, content, id=name, fence=True)
        return builder.build()

    def ask(self) -> tuple[list[dict[str, Any]], bool]:
        """The next request; the requests that it took, and whether a summary was made."""
        before = self.history()
        self.said.append(("", "request", None))
        session = self.session()
        self.teller.texts[0] = f"#S{self.made + 1}" + " river" * self.given["summary_words"]
        asked = len(self.teller.asks)
        ledger = build_ledger(session, make_estimator("o200k_base"), per_message=0)
        tools = [self.given["tools_tokens"]] * len(ledger.total)
        basis = Basis.of(session, replace(ledger, sums=(ledger.sums[0], tools, *ledger.sums[2:])))
        self.plan = reconcile_plan(plan_step(self.plan, session, session.requests[-1], self.policy, basis, self.teller))
        found = []
        compacted = len(self.teller.asks) > asked
        if compacted:
            self.made += 1
            stop = next(d.edit.facts["asked"] for d in self.plan.decisions if "asked" in d.edit.facts)
            ids = [x for name in before[:stop] for x in self.sent(name)]
            found.append({"purpose": "compaction", "messages": ["system", *ids, PROMPT]})
        ids = [x for name in self.history() for x in self.sent(name)]
        found.append({"purpose": "answer", "messages": ["system", *ids]})
        return found, compacted

    def history(self) -> list[str]:
        """Ids of the items that stand."""
        if self.plan is None or not self.plan.get_state("compact_whole_history"):
            start, lead = 0, []
        else:
            start, lead = self.plan.get_state("compact_whole_history").start, [f"S{self.made}"]
        session = self.session()
        ids = (m.id for m in session.messages if m.start >= start and m.id and not m.id.startswith("tool:"))
        return [*lead, *("continue" if name.startswith("continue") else name for name in ids)]

    def sent(self, name: str) -> list[str]:
        return [name, *(f"tool:{call}" for call in self.calls.get(name, ()))]

    def turn(self, turn: Mapping[str, Any]) -> dict[str, Any]:
        """One question, until an answer without calls stands."""
        self.said.append((turn["id"], "user", f"#{turn['id']}" + " river" * turn["words"]))
        found, flag, rounds, again = [], False, list(turn["rounds"]), 0
        while True:
            requests, compacted = self.ask()
            found += requests
            flag = flag or compacted
            if rounds:
                self.reply(f"a{turn['id']}r{len(turn['rounds']) - len(rounds) + 1}", rounds.pop(0))
                continue
            name = f"e{turn['id']}x{again}" if again else f"a{turn['id']}"
            self.said.append((name, "assistant", f"#{name}" + " river" * (2 if again else turn["answer"])))
            if not flag:
                break
            flag, again = False, again + 1
            self.said.append((f"continue {len(self.said)}", "user", "continue"))
        return {"requests": found, "error": False, "history": self.history(), "tokens": self.tokens()}

    def reply(self, name: str, calls: Sequence[Mapping[str, Any]]) -> None:
        uses = [{"type": "tool_use", "id": c["id"], "name": "Read", "input": {"path": "x"}} for c in calls]
        self.said.append((name, "assistant", [{"type": "text", "text": f"#{name} river"}, *uses]))
        texts = [f"#{c['id']}" + " river" * c["words"] for c in calls]
        results = [{"type": "tool_result", "tool_use_id": c["id"], "content": t} for c, t in zip(calls, texts, strict=True)]
        self.said.append((f"tool:{name}", "user", results))
        self.calls[name] = {c["id"]: c for c in calls}

    def tokens(self) -> int:
        """Tokens of the history, by the program's own count."""
        total = 0
        texts = {name: content for name, _, content in self.said}
        for name in self.history():
            held = "continue" if name == "continue" else texts.get(name, f"#{name}" + " river" * self.given["summary_words"])
            text = held if isinstance(held, str) else held[0]["text"]
            calls = [
                {"name": "Read", "arguments": '{"path":"x"}', "output": f"#{c['id']}" + " river" * c["words"]}
                for c in self.calls.get(name, {}).values()
            ]
            total += cli.count_item({"content": text, "calls": calls}, _o200k, self.given["model"]) + cli.LISTED
        return total


def _o200k(text: str) -> int:
    return count_texts([text], make_estimator("o200k_base"))[0]


KINDS["session"] = _session
