"""Continue's CLI over items of a history; `test_continue_policy` replays its sessions under its policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from turnscope.counting.tokens import count_texts, make_estimator
from turnscope.ports.continuedev import cli
from turnscope.ports.continuedev.compiling import adjust

SYSTEM = "continue-cli"
PROMPT, CANCELLED = "⟦COMPACTION_PROMPT⟧", "⟦TOOL_CANCELLED⟧"
PARTLY = ("request", "compact")  # a case that ends in an error says nothing of what would come after it


def run(case: dict[str, Any], file: dict[str, Any]) -> dict[str, Any]:
    """What the port gives for one case."""
    got = KINDS[case["kind"]](case["input"])
    return {key: value for key, value in got.items() if key in case["expect"]} if case["kind"] in PARTLY else got


def _counter(given: Mapping[str, Any]) -> cli.Count:
    known = {_text(text): tokens for text, tokens in given["text_tokens"]}
    return lambda text: known[text]


def _text(given: Any) -> Any:
    if isinstance(given, list):
        return [_text(part) for part in given]
    return (given["unit"] * given["fill"])[: given["fill"]] if isinstance(given, dict) and "fill" in given else given


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
    return 0 if stored or not given.get("system") else tokens + cli.SYSTEM


def _should(given: dict[str, Any]) -> dict[str, Any]:
    window = cli.get_window(given["context_length"])
    total = _sums(given["history"])[-1] + _beside(given, given["system_tokens"]) + given["tools_tokens"]
    due = cli.compute_threshold(window, cli.compute_output(window, given["max_tokens"]))
    return {"compact": None if due is None else total >= due, "error": due is None, "input_tokens": total}


def _validate(given: dict[str, Any]) -> dict[str, Any]:
    window = cli.get_window(given["context_length"])
    total = _sums(given["history"])[-1] + _beside(given, given["system_tokens"]) + (given.get("tools_tokens") or 0)
    held = cli.reserve_output(window, given["max_tokens"])
    valid = cli.fits(total, window, given["max_tokens"], given.get("buffer") or 0)
    return {"valid": valid, "input_tokens": total, "reserved": held}


def _cut_from(given: dict[str, Any]) -> dict[str, Any]:
    said, index = given["history"], given["index"]
    if index == "find":
        index = cli.find_begin([n for n, item in enumerate(said) if item.get("summary")])
    start = 0 if index is None or index >= len(said) else index
    head = [m["id"] for m in said[:1] if m["role"] == "system" and start > 0]
    return {"index": index, "sent": [*head, *(item["id"] for item in said[start:])]}


def _compact(given: dict[str, Any]) -> dict[str, Any]:
    history, window = given["history"], cli.get_window(given["context_length"])
    stored = any(item["role"] == "system" for item in history)
    asked = _ask_for_summary(history, given, 0 if stored else given["system_message_tokens"])
    system = 0 if stored else given["request_system_tokens"] + cli.SYSTEM
    left = cli.cut_to_fit(_roles(asked), _sums(asked), window, given["max_tokens"], system)
    fits = cli.fits(_sums(asked)[left] + system, window, given["max_tokens"])
    ids = ["system", *(_name(item) for item in asked[:left])] if fits else []
    if given["call_fails"] or not fits:
        return {"error": True, "asked": ids or None, "history": None, "index": None}
    made = [*(["system"] if stored else []), "SUM"]
    return {"error": False, "asked": ids, "history": made, "index": len(made) - 1}


def _ask_for_summary(history: list[Any], given: Mapping[str, Any], system_tokens: int) -> list[dict[str, Any]]:
    """The items of the history that the summariser reads, and the prompt."""
    window = cli.get_window(given["context_length"])
    output = cli.compute_output(window, given["max_tokens"])
    prompt = {"id": PROMPT, "role": "user", "tokens": adjust(cli.PROMPT_TOKENS, given["model"]) + cli.ITEM}
    beside = prompt["tokens"] + cli.LISTED + system_tokens
    stop = cli.cut_for_summary(_roles(history), _sums(history), window, output, beside)
    return [*history[:stop], prompt]


def _name(item: Mapping[str, Any]) -> str:
    return "system" if item["role"] == "system" else str(item["id"])


def _request(given: dict[str, Any]) -> dict[str, Any]:
    history, window = [_item(item) for item in given["history"]], cli.get_window(given["context_length"])
    beside = _beside(given, given["system_tokens"]) + given["tools_tokens"]
    sums = _sums(history)
    stop = cli.cut_to_fit(_roles(history), sums, window, given["max_tokens"], beside)
    if not cli.fits(sums[stop] + beside, window, given["max_tokens"]):
        return {"error": True}
    made = [(_name(item), _hide_notice(message)) for item in history[:stop] for message in cli.convert(item)]
    ids = [f"tool:{m['tool_call_id']}" if m["role"] == "tool" else name for name, m in made]
    system = {"role": "system", "content": given["system"] or ""}
    return {"error": False, "sent": ["system", *ids], "messages": [system, *(m for _, m in made)]}


def _hide_notice(message: dict[str, Any]) -> dict[str, Any]:
    cancelled = message["role"] == "tool" and message["content"] == cli.CANCELLED
    return {**message, "content": CANCELLED} if cancelled else message


KINDS = {
    "limits": _limits,
    "count": lambda x: {"tokens": cli.count_item(_item({"content": "", **x["item"]}), _counter(x), x["model"])},
    "tool_definitions": lambda x: {"tokens": cli.count_tools(x["tools"], _counter(x))},
    "should_compact": _should,
    "validate": _validate,
    "prune": lambda x: {"kept": cli.count_kept(_roles(x["history"]), len(x["history"]))},
    "history_for_llm": _cut_from,
    "compact": _compact,
    "request": _request,
}


class TooLongError(Exception):
    """The program's loop ends with an error."""


def _session(given: dict[str, Any]) -> dict[str, Any]:
    """The program's loop, turn by turn, until it ends or fails."""
    loop, steps = _Loop(given), []
    for turn in given["turns"]:
        steps.append(loop.turn(turn))
        if steps[-1]["error"]:
            break
    return {"steps": steps}


class _Loop:
    """A chat that grows as the program lets it grow."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given
        self.window = cli.get_window(given["context_length"])
        self.history: list[dict[str, Any]] = []
        self.sent: list[dict[str, Any]] = []
        self.made = 0
        self.system = {"role": "system", "content": given["system"] or ""}

    def item(self, name: str, role: str, text: str, calls: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
        made = {"id": name, "role": role, "content": text, "calls": calls}
        return {**made, "tokens": cli.count_item(made, _o200k, self.given["model"])}

    def total(self, history: list[Any]) -> int:
        return _sums(history)[-1] + self.beside(history)

    def beside(self, history: list[Any]) -> int:
        return _beside({**self.given, "history": history}, self.given["system_tokens"]) + self.given["tools_tokens"]

    def send(self, history: list[Any], purpose: str) -> None:
        output = self.given["max_tokens"]
        stop = cli.cut_to_fit(_roles(history), _sums(history), self.window, output, self.beside(history))
        if not cli.fits(self.total(history[:stop]), self.window, output):
            raise TooLongError
        ids = [x for item in history[:stop] for x in (_name(item), *(f"tool:{call['id']}" for call in item.get("calls") or ()))]
        self.sent.append({"purpose": purpose, "messages": ["system", *ids]})

    def compact(self) -> bool:
        """Compact the history if it is due; whether that was done."""
        due = cli.compute_threshold(self.window, cli.compute_output(self.window, self.given["max_tokens"]))
        if due is None:
            raise TooLongError
        if self.total(self.history) < due:
            return False
        system = cli.count_item(self.system, _o200k, self.given["model"])
        try:
            self.send(_ask_for_summary(self.history, self.given, system), "compaction")
        except TooLongError:
            return False
        self.made += 1
        text = f"#S{self.made}" + " river" * self.given["summary_words"]
        self.history = [self.item(f"S{self.made}", "assistant", text)]
        return True

    def turn(self, turn: Mapping[str, Any]) -> dict[str, Any]:
        """One question, until an answer without calls stands."""
        self.sent = []
        self.history.append(self.item(turn["id"], "user", f"#{turn['id']}" + " river" * turn["words"]))
        try:
            self.answer(turn)
            error = False
        except TooLongError:
            error = True
        ids = [item["id"] for item in self.history]
        return {"requests": self.sent, "error": error, "history": ids, "tokens": _sums(self.history)[-1]}

    def answer(self, turn: Mapping[str, Any]) -> None:
        rounds, again, flag = list(turn["rounds"]), 0, False
        while True:
            flag = self.compact() or flag
            self.send(self.history, "answer")
            if rounds:
                name = f"a{turn['id']}r{len(turn['rounds']) - len(rounds) + 1}"
                self.history.append(self.item(name, "assistant", f"#{name} river", [_call(c) for c in rounds.pop(0)]))
                flag = self.check_results() or flag
                flag = self.compact() or flag
                continue
            name = f"e{turn['id']}x{again}" if again else f"a{turn['id']}"
            words = 2 if again else turn["answer"]
            self.history.append(self.item(name, "assistant", f"#{name}" + " river" * words))
            if not flag:
                return
            flag, again = False, again + 1
            self.history.append(self.item("continue", "user", "continue"))

    def check_results(self) -> bool:
        """Compact if the results are too long; whether that was done."""
        if cli.fits(self.total(self.history), self.window, self.given["max_tokens"]):
            return False
        if not self.compact() or not cli.fits(self.total(self.history), self.window, self.given["max_tokens"]):
            raise TooLongError
        return True


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    output = f"#{call['id']}" + " river" * call["words"]
    return {"id": call["id"], "name": "Read", "arguments": '{"path":"x"}', "output": output}


def _o200k(text: str) -> int:
    return count_texts([text], make_estimator("o200k_base"))[0]


KINDS["session"] = _session
