"""Pictures: small envelopes before and after a rule, as text. Each `<rule>.txt` beside this file is read here.

A file holds cases, each headed by `## a sentence that names it`. Lines starting with `#` are comments. A case has lines:

    params: keep = 2, whole_pairs = true      parameters of the file's rule, as TOML (default: none)
    first: other_rule a = 1                   a rule that runs before it (may be repeated); `then:` one that runs after it
    limit: 1000                               the budget's limit in tokens (default: a million)
    budget: formula = "cline"                 the whole budget instead, as TOML
    session: S(50) U1(10) A1(20) U2 C2(Read a.py, 30) R2(500) A3
    extra A1: summary = "words"               further keys of the message that holds block A1, as TOML
    about: retrieved = { U1 = ["words"] }     what the log says of the whole session, as TOML
    record 1: -U1 ~R2 [summary:A1..U2] A3     what the original tool did at request 1, as `after` writes it (A3: put back;
                                              =A3: written anew; =A3*2: twice, as it is)
    billed 1: 500 + 20                        tokens of prompt and answer that the provider billed for request 1
    answer: words                             what a model answers to every ask; nothing = an empty summary (default: offline)
    after: S U1 -A1 ~R2 [summary:U2..A3]      the envelope of the last request
    after 2: ...                              the envelope of request 2 (requests count from 0)
    seen: S U1 ~R2                            what the model sees of it, once the provider has left out what it does; `seen 2:`
    settings: thinking = { type = "adaptive" }    of every request, as TOML; `sends:` a setting that the last one goes with
    because: words                            stand in the reason of one of the last request's decisions
    because 2: words
    action R2: repair                         what one of the last request's decisions does from block R2 on
    text R2: words                            in the placeholder of block R2 in the last request; `text +slot:` in an insert
    verdict: refuse                           of the last request; `model:` the model that it goes to

Blocks are `letter + label (size)`: `S` system, `T` tool definition, `U` user's text, `P` user's picture, `A` assistant's text,
`H` thinking, `C1(Tool path, size)` a call, `R1(size)` the result of call 1, `R1!(size)` one that failed. `U2(=U1)` repeats the
content of `U1`. Sizes are tokens (default 10) and hold exactly; placeholders count a token per four characters. Neighbours
of one side are one message, whose id is its first label; `|` ends it. A request is sent before each message of the assistant
and at the end of the session; `@name` names the model from there on. Text in quotes is a block's text, with '' for a quote in
it: `U1(10 "say ''hello''")`.

In `after`: `A1` stands verbatim, `-A1` is dropped, `~R2` has a placeholder of its own, `[kind:A1..R2]` one for several blocks,
`+slot` an insert.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from turnscope.counting.ledger import Ledger, build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.budget import BudgetParams
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.pieces import Decision, Piece
from turnscope.envelope.plan import Plan
from turnscope.planning.answers import Answers
from turnscope.planning.assemble import replay
from turnscope.planning.policy import Policy, Step, parse
from turnscope.planning.rule_registry import load_rules
from turnscope.session.builder import Builder, Draft
from turnscope.session.model import Action, Answer, Edit, ObservedEdit, Part, Session, Span, Usage

HERE = Path(__file__).parent
WORD = re.compile(
    r"""(?P<label>[STUAHCRP]\w*)(?P<failed>!?)(?:\((?P<inside>(?:"[^"]*"|[^()"])*)\))?|(?P<end>\|)|@(?P<model>\S+)"""
)
INSIDE = re.compile(
    r"""(?:(?P<tool>[A-Za-z_]\w*)(?: (?P<path>[^",=]+?))?(?:, *|$))?"""
    r"""(?P<size>\d+)?(?: *=(?P<same>\w+))?(?: *"(?P<text>[^"]*)")?$"""
)
STANDS = re.compile(r"\[(?P<kind>\w+):(?P<first>\w+)\.\.(?P<last>\w+)\]|(?P<mark>[-~=]?)(?P<one>\w+)(?:\*(?P<times>\d))?")
ACTIONS: dict[str, Action] = {"": "restore", "-": "drop", "~": "clear", "=": "repair"}
ROLES = {
    "S": "system",
    "T": "tools",
    "U": "user",
    "P": "user",
    "A": "assistant",
    "H": "assistant",
    "C": "assistant",
    "R": "user",
}


@dataclass
class Case:
    """One picture."""

    rule: str
    title: str
    lines: list[tuple[str, str]] = field(default_factory=list)

    def list_values(self, key: str) -> list[str]:
        return [value for name, value in self.lines if name == key]

    def get_value(self, key: str, default: str = "") -> str:
        return (self.list_values(key) or [default])[-1]

    def __str__(self) -> str:
        return f"{self.rule}: {self.title}"


def cases(path: Path) -> Iterator[Case]:
    """The cases of one file."""
    case: Case | None = None
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            if case:
                yield case
            case = Case(path.stem, line[3:].strip())
        elif line.strip() and not line.startswith("#"):
            assert case, f"{path.name}: a line before the first case"
            key, colon, value = line.partition(":")
            assert colon, f"{path.name}: {line!r} is not 'key: value'"
            case.lines.append((key.strip(), value.strip()))
    if case:
        yield case


def draw_session(text: str) -> tuple[Session, Ledger, list[str]]:
    """The session that a `session:` line draws, its ledger with the sizes as drawn, and the labels of its blocks."""
    builder = Builder("picture", "picture")
    labels: list[str] = []
    sizes: list[int] = []
    texts: dict[str, tuple[str, int]] = {}
    model, open_draft, last_role = "", None, ""
    position = 0
    for word in WORD.finditer(text):
        assert not text[position : word.start()].strip(), f"cannot read {text[position : word.start()]!r} in {text!r}"
        position = word.end()
        if word["end"]:
            open_draft = None
            continue
        if word["model"]:
            model = word["model"]
            continue
        label, raw, size = _block(word, texts)
        role = ROLES[label[0]]
        if open_draft is None or role != last_role:
            open_draft, last_role = _message(builder, role, model, label), role
        open_draft.parts.append((raw, ""))
        if open_draft.origin != "prompt" and label[0] == "U":
            open_draft.origin = "prompt"
        labels.append(label)
        sizes.append(size)
    assert not text[position:].strip(), f"cannot read {text[position:]!r}"
    builder.add_unanswered(model=model)
    session = builder.build()
    memo = {block.digest: size for block, size in zip(session.blocks, sizes, strict=True)}
    return session, build_ledger(session, CHARS, memo, per_message=0), labels


def _block(word: re.Match[str], texts: dict[str, tuple[str, int]]) -> tuple[str, Any, int]:
    label = word["label"]
    found = INSIDE.match(word["inside"] or "")
    assert found, f"cannot read {word['inside']!r} in {word[0]!r}"
    size = texts[found["same"]][1] if found["same"] else int(found["size"] or 10)
    text = texts[found["same"]][0] if found["same"] else _make_text(found["text"], label, size)
    texts[label] = text, size
    kind = label[0]
    if kind == "C":
        given = {"path": found["path"].strip()} if found["path"] else {"query": label}
        return label, {"type": "tool_use", "id": label[1:], "name": found["tool"] or "Tool", "input": given}, size
    if kind == "R":
        failed = {"is_error": True} if word["failed"] else {}
        return label, {"type": "tool_result", "tool_use_id": label[1:], "content": text, **failed}, size
    if kind == "H":
        return label, {"type": "thinking", "thinking": text, "signature": f"signed {label}"}, size
    if kind == "P":
        source = {"type": "base64", "media_type": "image/png", "data": label}
        return label, {"type": "image", "source": source}, size
    if kind == "T":
        return label, {"name": label, "description": text, "input_schema": {"type": "object"}}, size
    return label, {"type": "text", "text": text}, size


def _make_text(text: str | None, label: str, size: int) -> str:
    """The text in quotes; else numbered lines, four characters per token."""
    if text is not None:
        return text.replace("''", '"')
    prose = "\n".join(f"{label}, line {i} of some length" for i in range(1, size // 6 + 2))
    return (prose * (1 + size * 4 // len(prose)))[: size * 4]


def _message(builder: Builder, role: str, model: str, label: str) -> Draft:
    draft = builder.add_message(role, [])
    draft.id = label
    draft.origin = "answer" if role == "assistant" else "tool" if role == "user" else "system"
    if role == "assistant":
        builder.set_request(draft, model=model)
    return draft


def add_facts(session: Session, labels: list[str], case: Case) -> Session:
    """The session with what a case says of it beside its blocks."""
    messages, requests = [*session.messages], [*session.requests]
    observed: list[ObservedEdit] = []
    about: dict[str, Any] = {}
    for key, value in case.lines:
        name, _, which = key.partition(" ")
        if name == "extra":
            n = session.blocks[labels.index(which)].message
            messages[n] = structs.replace(messages[n], extra=_table(value))
        elif name == "about":
            about |= _table(value)
        elif name == "record":
            observed += (ObservedEdit(int(which), _edit(word, session, labels)) for word in value.split())
        elif name == "settings":
            requests = [structs.replace(request, settings=_table(value)) for request in requests]
        elif name == "billed":
            prompt, _, answer = value.partition("+")
            usage = Usage(input_tokens=int(prompt), output_tokens=int(answer))
            requests[int(which)] = structs.replace(requests[int(which)], usage=usage)
    observed.sort(key=lambda o: o.request)
    return structs.replace(
        session, messages=tuple(messages), requests=tuple(requests), observed=tuple(observed), about={**session.about, **about}
    )


def _edit(word: str, session: Session, labels: list[str]) -> Edit:
    found = STANDS.fullmatch(word)
    assert found, f"cannot read {word!r}"
    span = Span(labels.index(found["first"] or found["one"]), labels.index(found["last"] or found["one"]) + 1)
    part = Part(session.blocks[span.start].role, found["kind"] or "text", f"what the log holds for {word}")
    action = "condense" if found["kind"] else ACTIONS[found["mark"]]
    if found["times"]:
        block = session.blocks[span.start]
        return Edit(action, f"the log shows {word}", span, (Part(block.role, block.kind, block.text),) * int(found["times"]))
    body = {"drop": (), "restore": None}.get(action, (part,))
    return Edit(action, f"the log shows {word}", span, body, restore=action == "restore")


def _table(given: str) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads(f"table = {{ {given} }}")["table"]
    return table


def write_envelope(envelope: Envelope, labels: list[str]) -> str:
    """An envelope as the `after:` line writes it."""
    return " ".join(word for piece in envelope.pieces for word in _words(piece, labels))


def _words(piece: Piece, labels: list[str]) -> list[str]:
    names = labels[piece.start : piece.stop]
    if piece.start == piece.stop:
        return [f"+{piece.slot}"]
    if piece.body is None:
        return names
    if piece.body == ():
        return [f"-{name}" for name in names]
    if len(names) == 1:
        return [f"~{names[0]}"]
    return [f"[{'+'.join(dict.fromkeys(part.kind for part in piece.body))}:{names[0]}..{names[-1]}]"]


def policy_of(case: Case) -> Policy:
    """The policy that a case describes: the rules before, the file's own, and those after it, under its budget."""
    steps = [
        *map(_step, case.list_values("first")),
        _step(f"{case.rule} {case.get_value('params')}"),
        *map(_step, case.list_values("then")),
    ]
    limit = int(case.get_value("limit", "1000000").replace("_", ""))
    spec = BudgetParams(formula="fixed", tokens=limit)
    if case.get_value("budget"):
        spec = parse("picture", f"budget = {{ {case.get_value('budget')} }}").budget
    return Policy("picture", "picture", "", "", "", budget=spec, rules=tuple(steps))


def answers_of(case: Case) -> Answers | None:
    """Who answers what rules ask: a model with the words of the case; None = what is asked by default."""
    given = case.list_values("answer")
    return (lambda _ask: Answer(given[-1], source="model")) if given else None


def _step(text: str) -> Step:
    name, _, given = text.partition(" ")
    assert name in load_rules(), f"there is no rule {name!r}"
    toml = "\n".join(["[[rules]]", f'rule = "{name}"', *(f"{key} = {_toml(value)}" for key, value in _table(given).items())])
    return parse("picture", toml).rules[0]


def _toml(value: Any) -> str:
    import json

    if isinstance(value, dict):
        return "{ " + ", ".join(f"{json.dumps(key)} = {_toml(part)}" for key, part in value.items()) + " }"
    return json.dumps(value)


GIVEN = "params first then limit budget session extra about record billed answer settings".split()
ALL = [case for path in sorted(HERE.glob("*.txt")) for case in cases(path)]


@pytest.mark.parametrize("case", ALL, ids=str)
def test_a_rule_changes_an_envelope_as_its_picture_shows(case: Case) -> None:
    session, ledger, labels = draw_session(case.get_value("session"))
    session = add_facts(session, labels, case)
    plans = list(replay(session, policy_of(case), ledger, answers=answers_of(case)))
    shown = 0
    for key, wanted in case.lines:
        name, _, number = key.partition(" ")
        plan = plans[int(number) if number.isdigit() else -1]
        if name in ("after", "seen"):
            shown += 1
            assert write_envelope(plan.after if name == "after" else plan.seen, labels) == " ".join(wanted.split()), (
                f"request {plan.request.n}: {_why(plan)}"
            )
        elif name == "because":
            assert any(wanted in d.edit.because for d in list_standing(plans, plan)), _why(plan)
        elif name == "action":
            at = labels.index(number)
            assert any(d.action == wanted and d.edit.span and d.edit.span.start == at for d in plans[-1].decisions), _why(plan)
        elif name == "text":
            said = text_of(plans[-1], number, labels)
            assert wanted in said, said
        elif name == "verdict":
            assert plan.verdict == wanted, _why(plan)
        elif name == "model":
            assert plan.model == wanted
        elif name == "sends":
            assert _table(wanted).items() <= plan.request.settings.items(), plan.request.settings
        else:
            assert name in GIVEN, f"unknown line {key!r}"
    assert shown, "a picture shows an envelope"
    for plan in plans:
        assert_consistent(plan, ledger)


def list_standing(plans: list[Plan], plan: Plan) -> list[Decision]:
    """A request's own decisions, and those of earlier ones that hold in it: what is decided again is no decision."""
    made = {d.seq: d for each in plans for d in each.decisions}
    return [*plan.decisions, *plan.server, *(made[piece.by] for piece in plan.after.pieces if piece.by >= 0)]


def text_of(plan: Plan, what: str, labels: list[str]) -> str:
    """The text of the placeholder of a block, or of the insert in a `+slot`."""
    if what.startswith("+"):
        piece = next((p for p in plan.after.pieces if p.start == p.stop and p.slot == what[1:]), None)
    else:
        piece = plan.after.find_piece(labels.index(what))
    body = piece.body if piece else None
    assert body, f"{what} has no placeholder"
    return "\n".join(part.text for part in body)


def _why(plan: Plan) -> list[str]:
    return [f"{d.action} {tuple(d.edit.span or ())}: {d.edit.because}" for d in plan.decisions] + [repr(plan)]


def assert_consistent(plan: Plan, ledger: Ledger) -> None:
    """The envelope tiles its blocks, counts what it holds, and its decisions undone give the envelope before."""
    at = 0
    counts = [0, 0, 0, 0, 0]
    for piece in plan.after.pieces:
        assert piece.start == at
        at = piece.stop
        own = ledger.count_by_bucket(piece.start, piece.stop) if piece.body is None else ledger.count_placeholder(piece.body)
        counts = [a + b for a, b in zip(counts, own, strict=True)]
    assert at == plan.request.cut
    assert tuple(counts) == plan.after.counts
    envelope = plan.after
    for decision in reversed(plan.decisions):
        envelope = envelope.undo(decision.splice) if decision.splice else envelope
    assert [*envelope.pieces] == [*plan.before.pieces]


def test_every_rule_has_its_picture() -> None:
    """Those that only ports use as well: cases of the originals hold them to the letter, a picture shows what they do."""
    assert not set(load_rules()) - {case.rule for case in ALL}, "write tests/pictures/<rule>.txt"


def test_a_picture_holds_the_sizes_that_it_draws() -> None:
    session, ledger, labels = draw_session('S(50) U1(9 "hello") A1 C2(Read a.py, 30) R2(500) | U3(=U1)')
    assert labels == ["S", "U1", "A1", "C2", "R2", "U3"]
    assert [ledger.count_tokens(i, i + 1) for i in range(6)] == [50, 9, 10, 30, 500, 9]
    assert [m.role for m in session.messages] == ["system", "user", "assistant", "user", "user"]
    assert session.blocks[4].pair == 3
    assert [r.cut for r in session.requests] == [2, 6]
