"""The worked examples of the design documents that Turnscope began with, computed by its own formulas and rules.

Which window an example speaks of is named with it. Where a document's arithmetic slips, the test says so.
"""

from __future__ import annotations

import pytest
from turnscope.counting.ledger import Ledger, build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.budget import Budget, BudgetParams, compute_budget
from turnscope.planning.assemble import replay
from turnscope.planning.policy import Policy, load, parse
from turnscope.session.builder import Builder
from turnscope.session.model import Session

CLINE = BudgetParams(formula="cline")
SPLIT = BudgetParams(formula="split", share=0.6, reserve=150, fallback_window=8_000)

# Seed 4's conversation with its tokens: three pairs, then the new question.
TALK = (
    ("user", "Which basketball team in the NBA has won the most finals?", 15),
    ("assistant", "**The Boston Celtics** have won...", 128),
    ("user", "What is the average salary of NBA players?", 12),
    ("assistant", "The average salary of NBA players...", 688),
    ("user", "Favourite Dota 2 duo laning heroes", 8),
    ("assistant", "When it comes to Dota 2's duo lanes...", 659),
    ("user", "What about Dota 2 pro player salaries?", 10),
)


@pytest.mark.parametrize(("window", "limit"), [(200_000, 160_000), (64_000, 37_000), (128_000, 98_000)])
def test_the_adaptive_formula_gives_the_published_budgets(window: int, limit: int) -> None:
    assert compute_budget(CLINE, window).limit == limit


def test_the_adaptive_formula_keeps_forty_thousand_or_a_fifth_free_for_any_other_window() -> None:
    assert compute_budget(CLINE, 1_000_000).limit == 960_000
    assert compute_budget(CLINE, 100_000).limit == 80_000


@pytest.mark.parametrize(
    ("window", "prompt", "answer"),
    [
        (128_000, 76_650, 51_200),  # GPT-4o: "~77K input context, ~51K output"
        (64_000, 38_250, 25_600),  # DeepSeek R1: "~38K input context, ~26K output"
        (8_000, 4_650, 3_200),  # free models: "~5K input context, ~3K output"
    ],
)
def test_sixty_to_forty_with_a_reserve_of_150_gives_the_published_parts(window: int, prompt: int, answer: int) -> None:
    room = compute_budget(SPLIT, window)
    assert (room.limit, room.max_output) == (prompt, answer)
    assert round(room.limit / 1000) == {76_650: 77, 38_250: 38, 4_650: 5}[prompt]
    assert round(answer / 1000) == {51_200: 51, 25_600: 26, 3_200: 3}[answer]


def test_an_unknown_window_counts_as_eight_thousand_and_is_known_to_be_assumed() -> None:
    assert compute_budget(SPLIT, None) == Budget(8_000, 4_650, 3_200, False)


def conversation(questions: bool = True) -> tuple[Session, Ledger]:
    """Seed 4's conversation, each message with the tokens that the document gives it; or the answers and the new question alone
    counted, as its total does (an answer's `total_tokens` holds the question that it answers)."""
    builder = Builder("seed", "seed")
    for role, text, _ in TALK:
        draft = builder.add_message(role, text)
        if role == "assistant":
            builder.set_request(draft)
    builder.add_unanswered()
    session = builder.build()
    counted = [questions or role == "assistant" or place == len(TALK) - 1 for place, (role, _, _) in enumerate(TALK)]
    sizes = [size if count else 0 for count, (_, _, size) in zip(counted, TALK, strict=True)]
    return session, build_ledger(session, CHARS, {b.digest: n for b, n in zip(session.blocks, sizes, strict=True)}, 0)


def count_sent(policy: Policy, questions: bool = True) -> tuple[int, int]:
    """How many of the six earlier messages the last request still holds, and its tokens."""
    session, ledger = conversation(questions)
    plan = list(replay(session, policy, ledger))[-1]
    standing = sum(piece.stop - piece.start for piece in plan.after.pieces if piece.body is None)
    return standing - 1, plan.after.tokens


def split(window: int, rule: str = "keep_newest_within_budget") -> Policy:
    """Reverse iteration under 60/40 with the reserve, on a window of that size."""
    spec = f'formula = "split"\nshare = 0.6\nreserve = 150\nwindow = {window}'
    return parse("seed", f'[budget]\n{spec}\n\n[[rules]]\nrule = "{rule}"\n')


def make_fixed(tokens: int, rule: str = "keep_newest_within_budget") -> Policy:
    """Reverse iteration within so many tokens."""
    return parse("seed", f'[budget]\nformula = "fixed"\ntokens = {tokens}\n\n[[rules]]\nrule = "{rule}"\n')


def test_the_conversation_weighs_what_its_messages_add_up_to() -> None:
    """The document says 1,475 tokens; its own figures add up to 1,510 (15 + 128 + 12 + 688 + 8 + 659), the answers to 1,475."""
    session, ledger = conversation()
    assert ledger.count_tokens(0, 6) == 1_510
    assert sum(ledger.count_tokens(i, i + 1) for i in (1, 3, 5)) == 1_475
    assert ledger.count_tokens(0, len(session.blocks)) == 1_520


@pytest.mark.parametrize("window", [64_000, 16_000])
def test_at_64k_and_16k_all_six_messages_are_sent_as_published(window: int) -> None:
    assert count_sent(split(window), questions=False) == (6, 1_485)
    assert count_sent(split(window)) == (6, 1_520)


def test_at_4k_the_published_algorithm_sends_all_six_too() -> None:
    """The document expects "2-3 messages" at 4K (about 2.4K of input): a slip. By its own algorithm all six fit, for the whole
    conversation has 1,485 tokens as it counts them (1,520 with the questions), and 4,000 x 0.6 - 150 = 2,250."""
    assert compute_budget(SPLIT, 4_000).limit == 2_250
    assert count_sent(split(4_000), questions=False) == (6, 1_485)
    assert count_sent(split(4_000)) == (6, 1_520)
    assert count_sent(make_fixed(2_400)) == (6, 1_520)


def test_two_or_three_messages_are_what_a_budget_of_about_700_tokens_gives() -> None:
    """ "Dota 2 question + answer + new message", "~700-800 tokens": 8 + 659 + 10 = 677 tokens."""
    assert count_sent(make_fixed(677)) == (2, 677)
    assert count_sent(make_fixed(800)) == (2, 677)
    assert count_sent(make_fixed(1_376)) == (2, 677)  # the answer of 688 would fit, but it does not stand without its question
    assert count_sent(make_fixed(1_377)) == (4, 1_377)
    assert count_sent(make_fixed(676)) == (0, 10)


def test_pairs_are_given_up_one_by_one() -> None:
    assert count_sent(make_fixed(1_520, "keep_last_pairs")) == (6, 1_520)
    assert count_sent(make_fixed(1_519, "keep_last_pairs")) == (4, 1_377)
    assert count_sent(make_fixed(1_376, "keep_last_pairs")) == (2, 677)
    assert count_sent(make_fixed(676, "keep_last_pairs")) == (0, 10)


def test_the_policy_of_five_pairs_is_the_specification_s() -> None:
    policy = load("last-5-pairs")
    assert policy.budget == SPLIT
    assert policy.rules[0].params.pairs == 5
