"""What stands beside a chat: context of a folder, a middleware's stages, tiers of memory, outputs read back by address."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs
from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.context_items import KINDS, ContextItem, decode_item
from turnscope.envelope.memories import Memory, Owner
from turnscope.envelope.plan import Plan
from turnscope.envelope.tool_outputs import make_address, tidy_output
from turnscope.live.context_sources import ContextSources
from turnscope.live.injected_context import add_memory_rules, list_tool_definitions, remove_added_rules, repeat_user_rules
from turnscope.live.output_tool import OutputTool
from turnscope.planning.answers import make_answerer
from turnscope.planning.assemble import replay
from turnscope.planning.policy import list_policies, load, parse
from turnscope.planning.render import render
from turnscope.session.builder import Builder
from turnscope.session.model import Answer, Ask, Session
from turnscope.storage.memories import FADE_SECONDS, Memories

DAY = 86_400.0
OWNERS: tuple[Owner, ...] = ("user", "agent")
FOUND = {"web": "A page on ships. " * 30, "document": "Ships leave at noon. " * 30}


def session(*prompts: str, system: tuple[str, ...] = ("Base instructions.",)) -> Session:
    builder = Builder("chat", "test")
    for text in system:
        builder.add_message("system", text)
    for prompt in prompts:
        builder.add_message("user", prompt)
        builder.set_request(builder.add_message("assistant", "Yes. " * 60))
    return builder.build()


def plans(
    said: Session, name: str, store: Memories | Told | None = None, limit: int = 0, share: float = 0, **more: str
) -> list[Plan]:
    def provide(ask: Ask) -> Answer:
        rows = (ContextItem(kind, kind, more[kind]) for kind in KINDS if kind in ask.prompt.split() and kind in more)
        return Answer(items=tuple(msgspec.json.encode(one).decode() for one in rows))

    policy = load(name)
    if limit:
        fixed = replace(policy.budget, formula="fixed", tokens=limit, output=0, margin=0.0)
        fixed = replace(fixed, slots=dict.fromkeys(fixed.slots, share)) if share else fixed
        policy = replace(policy, budget=fixed)
    answers = make_answerer(said.recorded.answers.get, {"provide": provide} | ({"recall": store.answer} if store else {}))
    return [*replay(said, policy, build_ledger(said, CHARS), answers=answers)]


class Told:
    """A store that always gives the same facts."""

    def __init__(self, facts: list[Memory]) -> None:
        self.facts = facts

    def answer(self, _ask: Ask) -> Answer:
        return Answer(items=tuple(msgspec.json.encode(fact).decode() for fact in self.facts))


def slots(plan: Plan) -> dict[str, int]:
    return {piece.slot: sum(piece.counts) for piece in plan.after.pieces if piece.slot and piece.body}


def test_a_middleware_is_one_sequence_each_stage_a_decision_with_its_tokens(tmp_path: Path) -> None:
    store = Memories(tmp_path / "db")
    store.add("I sail on Fridays.")
    (plan, *_) = plans(session("When do ships leave?"), "openwebui-middleware", store, **FOUND)
    told = [(d.edit.facts["stage"], d.edit.facts["tokens"]) for d in plan.decisions if d.rule == "tell_stages"]
    held = slots(plan)
    assert [name for name, _ in told] == ["memory", "web search", "RAG", "tool results", "messages"]
    assert dict(told)["memory"] == held["memory"]
    assert dict(told)["web search"] == held["web_results"]
    assert dict(told)["RAG"] == held["documents"]
    assert sum(tokens for _, tokens in told) == plan.after.tokens
    order = [d.edit.slot for d in plan.decisions if d.action == "insert"]
    assert order == ["memory", "web_results", "documents"]
    body = render(plan.after, session("When do ships leave?"))
    question = [block["text"] for block in body["messages"][-1]["content"]]
    assert [text.partition(" name")[0] for text in question[:2]] == ['<source id="1"', '<source id="2"'], "one numbering"
    assert question[2] == "When do ships leave?"


def test_open_webui_words_facts_of_both_owners_in_one_section() -> None:
    facts = [Memory("1", "user", "I sail.", "", "c"), Memory("2", "agent", "The project uses pnpm.", "", "c")]
    for name in ("openwebui-middleware", "librechat-memory"):
        (plan, *_) = plans(session("Sail with pnpm?"), name, Told(facts))
        texts = [part.text for piece in plan.after.pieces if piece.slot.endswith("memory") for part in piece.body or ()]
        if name == "librechat-memory":
            heads = [text.partition("\n")[0] for text in texts]
            assert heads == ["# Existing memory about the user", "# Existing memory about the work"], "one heading per owner"
        else:
            assert texts == [
                "<memory_context>\n[User Memory]\n- I sail.\n[Relevant Context]\n- The project uses pnpm.\n</memory_context>"
            ]


@pytest.mark.parametrize("limit", [420, 300, 220, 140])
def test_what_stands_beside_a_question_shrinks_before_a_message_goes(limit: int, tmp_path: Path) -> None:
    store = Memories(tmp_path / "db")
    store.add("I sail on Fridays, as the whole harbour knows by now.")
    said = session("When?", "When do ships leave?")
    plan = plans(said, "openwebui-middleware", store, limit, **FOUND)[-1]
    dropped = [d for d in plan.decisions if d.action == "drop" and d.edit.span and d.edit.span.stop > d.edit.span.start]
    shares = load("openwebui-middleware").budget.slots
    assert all(tokens <= shares[slot] * limit for slot, tokens in slots(plan).items())
    assert not (dropped and slots(plan)), "no message goes while an insert stands"
    assert plan.after.tokens <= limit


BESIDE = ("openwebui-memory", "openwebui-middleware", "librechat-memory", "chainreview-memory", "context-providers")
WORDS = st.text("ab \n", min_size=1, max_size=400).filter(str.strip)


@pytest.mark.parametrize("name", BESIDE)
@settings(max_examples=examples(8))
@given(
    prompts=st.lists(WORDS, min_size=1, max_size=5),
    found=st.dictionaries(st.sampled_from(KINDS), WORDS),
    limit=st.integers(80, 1_200),
)
def test_no_message_leaves_for_what_is_put_in_and_each_slot_keeps_to_its_share(
    name: str, prompts: list[str], found: dict[str, str], limit: int
) -> None:
    said = session(*prompts)
    facts = [Memory(f"m{n}", owner, f"Fact {n} of the {owner}. " * n, "2026-01-02") for n in range(1, 5) for owner in OWNERS]
    bare, full = (
        plans(said, name, None, limit),
        plans(said, name, Told(facts), limit, 0.2, **{k: v * 3 for k, v in found.items()}),
    )
    for without, plan in zip(bare, full, strict=True):
        assert all(tokens <= 0.2 * limit for tokens in slots(plan).values())
        kept, wanted = ({at for at in range(p.request.cut) if p.after.find_piece(at).body is None} for p in (plan, without))
        assert wanted <= kept, "an insert shrinks before anything else"


def test_librechat_sends_shared_context_base_instructions_and_mcp_instructions_in_this_order(tmp_path: Path) -> None:
    store = Memories(tmp_path / "db")
    store.add("I sail on Fridays.")
    said = session("When?", "And on Mondays?", "And on Sundays?", system=("Base instructions.",))
    asked = [message.start for message in said.messages if message.role == "user"]
    files = [{"kind": "file", "name": "t", "text": f"Timetable {n}.", "turn": said.blocks[asked[n]].turn} for n in (0, 2)]
    said = structs.replace(said, about={"context": files})
    for n, plan in enumerate(plans(said, "librechat-memory", store, document="Ships leave.", mcp="Ask for dates.")):
        assert [block["text"] for block in render(plan.after, said)["system"]] == [
            *([] if n == 1 else [f'<file name="t">\nTimetable {n}.\n</file>']),
            '<document name="document">\nShips leave.\n</document>',
            "# Existing memory about the user\n- I sail on Fridays.",
            "Base instructions.",
            "# MCP Server Instructions\n\n## mcp\nAsk for dates.",
        ]


def test_earlier_reviews_findings_are_facts_of_the_next(tmp_path: Path) -> None:
    store = Memories(tmp_path / "db", project="ferry")
    about = {"findings": [{"severity": "high", "file": "a.py", "title": "open file"}]}
    first = plans(structs.replace(session("Review it."), about=about), "chainreview-memory", store)[0]
    (fact,) = first.get_state("insert_memories")
    assert "agent_memory" not in slots(first), "a review's own findings are no earlier ones"
    store.add(fact.text, fact.owner, f"review-1 {fact.source}", "2026-11-01", fact.tier)
    store.add("I prefer short answers about a.py.")
    store.add("The project uses a.py.", "agent")
    later = plans(session("What of a.py?"), "chainreview-memory", store)[0]
    texts = {p.slot: "".join(part.text for part in p.body or ()) for p in later.after.pieces if p.slot.endswith("memory")}
    assert texts == {
        "memory": "What is known of the user:\n- I prefer short answers about a.py.",
        "agent_memory": "Findings of earlier reviews:\n- [2026-11-01] high: a.py: open file",
    }


def test_documents_are_the_parts_of_the_folders_files_that_have_to_do_with_the_question(tmp_path: Path) -> None:
    (tmp_path / "ferry.md").write_text("Ships leave at noon.\n" + "Nothing else.\n" * 200 + "The anchor weighs two tons.\n")
    (tmp_path / "tea.md").write_text("Tea is served cold.\n")
    (tmp_path / ".secret").write_text("The anchor is gold.\n")
    answer = ContextSources(tmp_path).answer(Ask("provide", "k", "web document", "How heavy is the anchor?", 8))
    found = [one for item in answer.items if (one := decode_item(item))]
    assert [(one.kind, one.name) for one in found] == [("document", "ferry.md")]
    assert "two tons" in found[0].text
    assert "Ships" not in found[0].text, "a part of the file, not all of it"


def test_a_short_fact_goes_with_its_chat_a_medium_one_fades_and_a_third_chat_makes_it_stay(tmp_path: Path) -> None:
    now = [1_767_348_000.0]
    store = Memories(tmp_path / "db", clock=lambda: now[0])
    policy = '[budget]\nformula = "fixed"\ntokens = 9000\n[[rules]]\nrule = "insert_memories"\nshort_turns = 1\n'
    said = session("I use a test server for now.", "a", "b")
    made = [*replay(said, parse("t", policy), build_ledger(said, CHARS))]
    assert ["memory" in slots(plan) for plan in made] == [True, True, False]
    fact = store.add("I like tea.", source="c1 block 2", tier="medium")
    now[0] += FADE_SECONDS - DAY
    assert store.add("I like tea.", source="c1 block 9", tier="medium").tier == "medium", "the same chat"
    assert store.recall("tea") == (fact,)
    now[0] += FADE_SECONDS + DAY
    assert store.recall("tea") == ()
    assert [store.add("I like tea.", source=f"c{n} block 1", tier="medium").tier for n in (2, 3)] == ["medium", "long"]
    now[0] += 5 * FADE_SECONDS
    assert [known.text for known in store.recall("tea")] == ["I like tea."]


def test_a_folder_provides_rules_files_trees_and_searches_and_nothing_outside_it(tmp_path: Path) -> None:
    folder = tmp_path / "ferry"
    (folder / "src").mkdir(parents=True)
    (folder / "CLAUDE.md").write_text("Use tabs.")
    (folder / ".clinerules").mkdir()
    (folder / ".clinerules" / "one.md").write_text("Be brief.")
    (folder / "src" / "pool.py").write_text("def open_pool(): ...\n")
    (tmp_path / "secret.txt").write_text("no")
    at = ContextSources(folder, (ContextItem("issue", "#7", "It leaks."),))

    def list_items(kinds: str, question: str) -> list[tuple[str, str, str]]:
        items = at.answer(Ask("provide", "k", kinds, question, 8)).items
        return [(one.kind, one.name, one.text) for item in items if (one := decode_item(item))]

    assert list_items("rules", "") == [("rules", "CLAUDE.md", "Use tabs."), ("rules", ".clinerules/one.md", "Be brief.")]
    assert list_items("workspace", "") == [("workspace", "ferry", "CLAUDE.md\nsrc/\n  pool.py")]
    assert list_items("file", "Look at @src/pool.py now")[0][2] == "def open_pool(): ...\n"
    bare = "Does src/pool.py, e.g. its pool, need v1.2 of https://example.org/src/pool.py or ../secret.txt? See src/pool.py."
    assert list_items("file", bare) == [("file", "src/pool.py", "def open_pool(): ...\n")], (
        "a path without @ of a file that is there"
    )
    assert list_items("tree", "@tree src") == [("tree", "src", "pool.py")]
    assert "src/pool.py:1" in list_items("search", "@search open_pool")[0][2]
    assert list_items("issue", "") == [("issue", "#7", "It leaks.")]
    assert list_items("web document", "x") == []
    assert list_items("tree", "@tree ../") == []
    assert "leads out" in list_items("file", "@file ../secret.txt")[0][2] or list_items("file", "@file ../secret.txt") == []


def test_an_output_that_gave_way_to_a_reference_is_read_back_by_its_address() -> None:
    builder, text = Builder("chat", "test"), "\n".join(f"line {n}" for n in range(1_000))
    builder.add_message("user", "Run it.")
    builder.set_request(builder.add_message("assistant", [{"type": "tool_use", "id": "t", "name": "Bash", "input": {}}]))
    builder.add_message("user", [{"type": "tool_result", "tool_use_id": "t", "content": text}])
    said = builder.build()
    tools, name = OutputTool(lambda: said), make_address(tidy_output(text))
    told, failed = tools.run("read_output", {"address": name, "line": 990})
    assert (told.splitlines()[0], failed) == ("line 989", False)
    assert tools.run("read_output", {"address": name})[0].endswith("[600 more lines, from line 401]")
    assert tools.run("read_output", {"address": "nothing"})[1]
    assert tools.run("read_output", {"address": name, "line": 5_000})[1]
    assert [tool["name"] for tool in list_tool_definitions(load("tidy-tool-output"))] == ["read_output"]


@pytest.mark.parametrize("name", ["balanced", "layered", "librechat-memory"])
def test_every_policy_can_be_given_memory_and_notes(name: str) -> None:
    assert name in list_policies()
    policy = add_memory_rules(load(name))
    rules = [part.rule.name for part in policy.rules]
    assert rules.count("insert_memories") == rules.count("index_notes") == 1
    assert add_memory_rules(policy) == policy


@pytest.mark.parametrize("name", ["balanced", "condense-oldest"])
def test_the_rule_that_repeats_rules_stands_behind_the_cuts_and_can_be_taken_away(name: str) -> None:
    base = load(name)
    made = repeat_user_rules(base)
    names = [part.rule.name for part in made.rules]
    behind = names[names.index("repeat_user_rules") + 1 :]
    assert not {"condense", "clear_old_results", "compact_when_over"} & {*behind}
    assert repeat_user_rules(made) is made
    assert remove_added_rules(add_memory_rules(made), base) == base
