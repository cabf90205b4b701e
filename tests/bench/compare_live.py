"""Ports compared with the libraries themselves on random histories: `python -m tests.bench.compare_live [COUNT] [SEED]`.

The real `langchain_core.messages.trim_messages` and `litellm.utils.trim_messages` are given the same messages, options and
counters as the ports (through the adapters of the golden cases). A library that is not installed is left out, saying so.
"""

from __future__ import annotations

import logging
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.goldens import difference, langchain_trim, litellm_trim

WORDS = "amber birch cliff dune é😀 fern gorge heath isle juniper kelp loch moor notch oak pond quay reef".split()
Case = dict[str, Any]
Library = Callable[[Case], dict[str, Any]]


class Missing(Exception):
    """A library cannot be compared with: the reason."""


def differences(system: str, count: int, seed: int = 0) -> Iterator[tuple[Case, str]]:
    """Cases in which port and library differ, with the first difference. Missing: the library is not there."""
    library, port, draw = SYSTEMS[system]
    original = library()
    chance = random.Random(f"{system} {seed}")
    for _ in range(count):
        case = draw(chance)
        cuts = case.get("prefix_lengths")
        expect = {"rows": [_row(original, case, cut) for cut in cuts]} if cuts else original(case)
        found = port.run({"kind": "growing" if cuts else "trim", "input": case}, {})
        if cuts:
            expect, found = _leave_system_out(expect, case), _leave_system_out(found, case)
        if wrong := difference(expect, found):
            yield case, wrong


def _row(original: Library, case: Case, cut: int) -> dict[str, Any]:
    """One request of a growing history."""
    found = original({**case, "messages": case["messages"][:cut], "want_response_tokens": False})
    return {"kept": found["kept"], "shortened": found["changed"]}


def _leave_system_out(found: dict[str, Any], case: Case) -> dict[str, Any]:
    """The rows without system messages: a growing history records what became of them only where that changes."""
    system = {"SYSTEM", *(message["id"] for message in case["messages"] if message["role"] == "system")}
    return {
        "rows": [
            {
                "kept": [id for id in row["kept"] if id not in system],
                "shortened": {id: text for id, text in row["shortened"].items() if id not in system},
            }
            for row in found["rows"]
        ]
    }


def _text(chance: random.Random, most: int = 40) -> str:
    words = chance.choices(WORDS, k=chance.choice([0, 1, 2, 5, chance.randint(0, most)]))
    return "".join(word + chance.choice([" ", " ", " ", "\n"]) for word in words)


# --- LiteLLM


def _litellm() -> Library:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else importing it asks the network for prices
    logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)  # the errors that it catches are part of the cases
    try:
        import litellm
        import litellm.utils
    except ImportError as error:
        raise Missing(f"litellm cannot be imported: {error}") from error

    def original(case: Case) -> dict[str, Any]:
        messages, counter = case["messages"], case["counter"]
        litellm.utils.token_counter = lambda messages=(), **_: _count_messages(messages, counter)  # type: ignore[assignment]
        model = case["model"]
        if case["model_input_limit"] is not None:
            model = f"{model}-known"
            litellm.model_cost[model] = dict.fromkeys(("max_input_tokens", "max_tokens"), case["model_input_limit"])
        elif case["max_tokens"] is None:
            model = f"unlisted {model}"
        found = litellm.utils.trim_messages(
            messages, model, case["trim_ratio"], case["want_response_tokens"], max_tokens=case["max_tokens"]
        )
        response = found[1] if isinstance(found, tuple) else None
        sent: list[Any] = list(found[0] if isinstance(found, tuple) else found)
        said = {m["id"]: m["content"] for m in messages}
        result: dict[str, Any] = {
            "kept": [m.get("id", "SYSTEM") for m in sent],
            "changed": {m.get("id", "SYSTEM"): m["content"] for m in sent if "id" not in m or m["content"] != said[m["id"]]},
        }
        if case["want_response_tokens"]:
            result["response_tokens"] = response
        return {**result, "returned_input": True} if found is messages else result

    return original


def _count_messages(messages: Sequence[Any], counter: str) -> int:
    total = 3
    for message in messages:
        held = message.get("content")
        text = "".join(part["text"] for part in held) if isinstance(held, list) else held or ""
        if counter == "explicit":
            total += message.get("tokens", len(text) // 4)
        else:
            total += 4 + len(text.split()) if counter == "words" else 3 + len(message["role"]) // 4 + len(text) // 4
    return total


def _litellm_case(chance: random.Random) -> Case:
    messages: list[dict[str, Any]] = []
    counter = chance.choice(["chars4", "chars4", "words", "explicit"])
    odd = chance.random() < 0.15
    for number in range(chance.randint(0, 14)):
        role = chance.choices(["user", "assistant", "tool", "system"], [6, 6, 2, 1 if number else 4])[0]
        text: Any = _text(chance)
        if odd and chance.random() < 0.2:
            text = chance.choice([None, [{"type": "text", "text": text}]])
        message = {"id": f"m{number}", "role": role, "content": text}
        if role == "tool":
            message["tool_call_id"] = f"c{number}"
        elif role == "assistant" and chance.random() < 0.15:
            message |= chance.choice(
                [{"function_call": {"name": "f", "arguments": "{}"}}, {"tool_calls": [{"id": f"c{number}"}]}]
            )
        if counter == "explicit" and (role != "system" or chance.random() < 0.5):
            message["tokens"] = chance.randint(0, 60)
        messages.append(message)
    limit = chance.choice(
        [chance.randint(0, 60), chance.randint(0, 400), _count_messages(messages, counter) + chance.randint(-3, 3)]
    )
    known = chance.random() < 0.1
    growing = {"prefix_lengths": sorted(chance.choices(range(1, len(messages) + 1), k=6))} if messages else {}
    return {
        **(growing if chance.random() < 0.4 else {}),
        "messages": messages,
        "max_tokens": None if known or chance.random() < 0.02 else max(0, limit),
        "counter": counter,
        "model": chance.choice(["gpt-4o", "other-model"]),
        "trim_ratio": chance.choice([0.75, 0.5]),
        "model_input_limit": max(1, limit) if known else None,
        "want_response_tokens": chance.random() < 0.5,
    }


# --- LangChain


def _langchain() -> Library:
    try:
        from langchain_core import messages as lc
    except ImportError as error:
        raise Missing(f"langchain-core cannot be imported: {error}") from error

    def message(given: dict[str, Any]) -> Any:
        more = {key: given[key] for key in ("id", "content", "name", "tool_call_id") if given.get(key) is not None}
        calls = [{"name": "f", "args": {}, "id": call, "type": "tool_call"} for call in given.get("tool_calls", ())]
        if given["role"] == "ai":
            return lc.AIMessage(**more, tool_calls=calls)
        return {"human": lc.HumanMessage, "system": lc.SystemMessage, "tool": lc.ToolMessage}[given["role"]](**more)

    def original(case: Case) -> dict[str, Any]:
        tokens = {m["id"]: m["tokens"] for m in case["messages"]}

        def chars(message: Any) -> int:
            held = message.content
            text = "".join(part.get("text", "") for part in held) if isinstance(held, list) else held
            return 3 + len(text) // 4

        counters: dict[str, Any] = {
            "explicit": lambda messages: sum(tokens[m.id] for m in messages),
            "chars_each": lambda messages: sum(map(chars, messages)),
            "chars_list_primer7": lambda messages: 7 + sum(map(chars, messages)),
            "message_count": len,
            "bump_at_3": lambda messages: 10 * len(messages) + 100 * (len(messages) == 3),
            "approximate": "approximate",
        }
        splitters = {"characters": list, "words": lambda text: [word + " " for word in text.split(" ")]}
        try:
            found = lc.trim_messages(
                [message(m) for m in case["messages"]],
                token_counter=counters[case["counter"]],
                text_splitter=splitters.get(case.get("splitter", "")),
                **{k: case[k] for k in ("max_tokens", "strategy", "allow_partial", "include_system", "start_on", "end_on")},
            )
        except ValueError:
            return {"error": "value_error"}
        said = {m["id"]: m["content"] for m in case["messages"]}
        return {"kept": [m.id for m in found], "changed": {m.id: m.content for m in found if m.content != said[m.id]}}

    return original


def _langchain_case(chance: random.Random) -> Case:
    messages: list[dict[str, Any]] = []
    for number in range(chance.randint(0, 16)):
        role = chance.choices(["human", "ai", "tool", "system"], [5, 5, 2, 0.5 if number else 4])[0]
        text: Any = _text(chance)
        if chance.random() < 0.25:
            text = [{"type": "text", "text": _text(chance, 12)} for _ in range(chance.randint(1, 4))]
        message = {"id": f"m{number}", "role": role, "content": text, "tokens": chance.randint(0, 40)}
        if role == "tool":
            message["tool_call_id"] = f"c{number}"
        elif role == "ai" and isinstance(text, str) and chance.random() < 0.3:
            message["tool_calls"] = [f"c{number}"]
        if chance.random() < 0.1:
            message["name"] = chance.choice(WORDS)
        messages.append(message)
    counter = chance.choice("explicit chars_each chars_each chars_list_primer7 message_count bump_at_3 approximate".split())
    types = [None, None, "human", ["human", "tool"], ["ai", "human"], "system"]
    case = {
        "messages": messages,
        "max_tokens": chance.choice([chance.randint(0, 20), chance.randint(0, 200)]),
        "counter": counter,
        "strategy": chance.choice(["last", "last", "first"]),
        # a partial message in a list whose count depends on its length is beyond the port's counters
        "allow_partial": counter not in ("bump_at_3", "message_count") and chance.random() < 0.6,
        "include_system": chance.random() < 0.4,
        "start_on": chance.choice(types),
        "end_on": chance.choice(types),
    }
    return {**case, "splitter": chance.choice(["words", "characters"])} if chance.random() < 0.5 else case


SYSTEMS: dict[str, tuple[Callable[[], Library], Any, Callable[[random.Random], Case]]] = {
    "langchain-trim": (_langchain, langchain_trim, _langchain_case),
    "litellm-trim": (_litellm, litellm_trim, _litellm_case),
}


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    failed = 0
    for system in SYSTEMS:
        try:
            wrong = list(differences(system, count, seed))
        except Missing as reason:
            print(f"{system}: left out, {reason}")
            continue
        failed += len(wrong)
        print(f"{system}: {count - len(wrong):,} of {count:,} histories equal")
        for case, what in wrong[:3]:
            print(f"  {what}\n  {case}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
