"""Pages about policies: made from their own files, the same for the README beside them and for the app."""

from __future__ import annotations

from dataclasses import fields

import turnscope
from hand_made import OPUS, call, result
from turnscope.planning import policy as policies
from turnscope.planning.policy_catalog import load_shipped
from turnscope.planning.render import render
from turnscope.planning.rule_registry import load_rules
from turnscope.session.builder import Builder
from turnscope.views import policy_groups
from turnscope.views.parameter_labels import LABELS, SHARED_LABELS
from turnscope.views.policy_pages import EXCEPT_UNANSWERED, README, build_page, build_pages, get_first_sentence, to_markdown


def test_the_readme_beside_the_policies_is_what_they_say_of_themselves() -> None:
    assert README.read_text(encoding="utf-8") == to_markdown(load_shipped()), "run `python -m tests.regenerate policies`"


def test_every_policy_has_a_page_in_a_group_with_every_rule_and_constant_and_a_picture_of_each_rule() -> None:
    made = build_pages(load_shipped())
    assert sorted(each.name for each in made) == [*policies.list_policies()]
    for each in made:
        policy = policies.load(each.name)
        assert [rule.name for rule in each.rules] == [part.rule.name for part in policy.rules]
        assert dict(each.constants) == {name: str(value) for name, value in policy.constants.items()}
        assert {"Source", "Fidelity", "Guarantees", "Counts with"} <= {name for name, _ in each.facts}, each.name
        bare = [rule.name for rule in each.rules if "session:" not in rule.picture or "after" not in rule.picture]
        assert bare == [], "write tests/pictures/<rule>.txt"
        assert each.group
        assert each.group != policy_groups.OTHERS, f"say in policy_groups.SYSTEMS whose {each.name} is"


def test_every_page_says_when_to_use_it_what_it_costs_saves_and_loses_with_the_source() -> None:
    for made in build_pages(load_shipped()):
        told = dict(made.facts)
        for name in ("When to use it", "Loss", "Source", "Saving, as published", "Cost to build"):
            assert told.get(name), (made.name, name)
        assert all("(" in told[name] for name in ("When to use it", "Loss")), made.name
    told = dict(build_page(policies.load("roo")).facts)
    assert "agent loops with many tool calls (survey of memory patterns, 3.1: summarization)" in told["When to use it"]
    assert "60-80 %" in told["Saving, as published"]


def test_a_page_has_the_parameters_in_words_with_their_values() -> None:
    made = build_page(policies.load("last-5-pairs"))
    rule = made.rules[0]
    assert "5" in [value for _, value, _ in rule.parameters]
    assert rule.memory == "decides anew for each request"
    assert "paired: no call without its result" in dict(made.facts)["Guarantees"]
    assert get_first_sentence("One thing. Another thing.") == "One thing."
    assert get_first_sentence("") == ""


def test_a_policy_that_sends_calls_without_results_says_so_and_no_other() -> None:
    builder = Builder("aborted", "test")
    for n in range(4):
        builder.add_message("user", f"prompt {n}", origin="prompt")
        builder.set_request(builder.add_message("assistant", [call(f"c{n}", path="a.py")]), model=OPUS)
        if n != 1:  # the user interrupted it
            builder.add_message("user", result(f"c{n}", "fine"))
            builder.set_request(builder.add_message("assistant", "done"), model=OPUS)
    session = builder.build()
    checked = 0
    for name in policies.list_policies():
        policy = policies.load(name)
        if "paired" not in policy.guarantees:
            continue
        body = render(turnscope.replay(session, name).plans[-1].after, session)
        parts = [part for message in body["messages"] for part in message["content"] if isinstance(part, dict)]
        bare = {part.get("id") for part in parts} - {part.get("tool_use_id") for part in parts}
        said = EXCEPT_UNANSWERED in dict(build_page(policy).facts)["Guarantees"]
        assert said == ("c1" in bare), name
        checked += said
    assert checked >= 10


def test_every_parameter_of_every_rule_has_words_of_its_own_and_no_words_are_left_over() -> None:
    """Words for a parameter that no rule has would be of one that was renamed."""
    named = {f"{name}.{field.name}" for name, rule in load_rules().items() for field in fields(rule.params)}
    bare = {name for name in named if name not in LABELS and name.split(".")[1] not in SHARED_LABELS}
    assert not bare, "give them words in `engine/turnscope/views/parameter_labels.py`"
    assert {name for name in LABELS if not name.startswith("budget.")} <= named
