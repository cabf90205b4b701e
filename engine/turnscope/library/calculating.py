"""The budget calculator: a planned conversation as a session like any other, and what policies do to it.

Its texts are common words of one token each, so that sizes are as requested, as far as the model's counter knows. The
planner and `views.comparison` do the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from random import Random
from typing import Any

from turnscope import notebook
from turnscope.counting.tokens import make_estimator
from turnscope.errors import TurnscopeError
from turnscope.library.comparing import resize_budget
from turnscope.library.opening import load_policy, load_prices, replay, replay_record
from turnscope.planning.policy import Policy
from turnscope.planning.trace import Trace
from turnscope.session.builder import Builder
from turnscope.session.content import dumps
from turnscope.session.model import Session
from turnscope.views.cached_cost import count_answer_tokens
from turnscope.views.comparison import Row, SharedFacts, build_row
from turnscope.views.losses import References
from turnscope.views.text_tables import format_csv, format_text

CALCULATED_POLICIES = (
    "keep-everything",
    "last-20-messages",
    "last-5-pairs",
    "clear-tool-results",
    "condense-oldest",
    "extracts",
    "balanced",
    "claude-code",
    "codex",
    "cline-classic",
    "half-in-pairs",
)
COLUMNS = ("policy", "title", "usd", "cache_share", "kept_share", "peak_fill", "first_cut_turn", "cuts", "ends_at_turn")
HEADINGS = ("policy", "USD", "from cache", "kept", "peak fill", "first cut at turn", "cuts", "ends at turn")
NOON = 1_795_262_400.0  # 2026-11-21 12:00 UTC, whose prices apply
MAX_TURNS = 2_000  # of a conversation
MAX_TOKENS = 20_000_000  # of all its texts
CALL_WORDS = 12  # words in the input of a call
WORDS = (
    "time year people way day thing world life hand part child place work week case point company number group problem fact "
    "house water room money story month right study book word business issue side kind head service friend father power hour "
    "game line end member law car city name team minute idea body back parent face level office door health person art war "
    "history party result change reason research girl moment air teacher force education"
).split()


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a planned conversation, in tokens.

    Attributes:
        window: the model's window.
        system, tools: system prompt and tool definitions.
        person, answer: prompt and answer of each turn.
        results: all tool results of a turn, divided among `calls` rounds of tool use.
        turns: how many turns.
        pause: seconds between two turns, which a cache may not survive.

    Raises:
        TurnscopeError: such a conversation is not possible.
    """

    window: int = 200_000
    system: int = 3_000
    tools: int = 12_000
    person: int = 150
    answer: int = 600
    results: int = 2_500
    calls: int = 1
    turns: int = 100
    pause: int = 60
    model: str = "claude-sonnet-4-5"

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            least = 1 if each.name in ("window", "person", "answer", "turns") else 0
            if each.name != "model" and (type(value) is not int or value < least):
                raise TurnscopeError(f"{each.name} is {value!r}", hint=f"Give a whole number from {least} on.")
        whole = self.system + self.tools + self.turns * (self.person + self.answer + self.results)
        if self.turns > MAX_TURNS or whole > MAX_TOKENS or self.calls > 50:
            raise TurnscopeError(
                "the conversation is too long to calculate",
                hint=f"At most {MAX_TURNS:,} turns, 50 rounds of tools, {MAX_TOKENS:,} tokens.",
            )


_FIELD_HELP = {
    "window": "the model's window",
    "system": "system prompt",
    "tools": "definitions of tools",
    "person": "what a person says in a turn",
    "answer": "the answer to it",
    "results": "all tool results of a turn",
    "calls": "rounds of tool use in a turn",
    "turns": "how many turns",
    "pause": "seconds between two turns",
    "model": "whose prices and tokenizer",
}
FIELDS = tuple((name, getattr(Shape(), name), text) for name, text in _FIELD_HELP.items())


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a policy does to a planned conversation. Turns count from 1.

    Attributes:
        fill: share of the window at the fullest request of each turn.
        first: the first turn in which something is cut; None = none.
        ends: the first turn with a request over the window or refused; None = none.
    """

    row: Row
    fill: tuple[float, ...]
    first: int | None
    ends: int | None

    @property
    def cuts(self) -> int:
        """How many requests are cut."""
        return len(self.row.changed)

    @property
    def cells(self) -> tuple[Any, ...]:
        """Its values in the order of `COLUMNS`."""
        usd = None if self.row.usd is None else round(float(self.row.usd), 6)
        shares = (round(share, 4) for share in (self.row.cost.cache_share, self.row.kept_share, self.row.peak[0]))
        return (self.row.policy, self.row.title, usd, *shares, self.first, self.cuts, self.ends)


@dataclass(frozen=True, slots=True, repr=False)
class Calculation:
    """What policies do to a planned conversation, in the order in which they were given."""

    shape: Shape
    outlooks: tuple[Outlook, ...]

    def to_csv(self) -> str:
        """A line per policy as CSV."""
        return format_csv(COLUMNS, (each.cells for each in self.outlooks))

    def to_json(self) -> str:
        """The outlooks as JSON, with the fill of every turn."""
        shape = {each.name: getattr(self.shape, each.name) for each in fields(self.shape)}
        listed = [dict(zip(COLUMNS, each.cells, strict=True)) | {"fill": each.fill} for each in self.outlooks]
        return dumps({"conversation": shape, "policies": listed}) + "\n"

    def __repr__(self) -> str:
        return format_text(HEADINGS, map(_format_row, self.outlooks))

    def _repr_html_(self) -> str:
        title = f"{self.shape.turns:,} turns on {self.shape.model}"
        return notebook.render_card(title, notebook.render_table(HEADINGS, [*map(_format_row, self.outlooks)]))


def _format_row(outlook: Outlook) -> tuple[object, ...]:
    """A row for people, in the order of `HEADINGS`."""
    row = outlook.row
    return (
        row.title,
        "no known price" if row.usd is None else f"{row.usd:,.2f}",
        f"{row.cost.cache_share:.0%}",
        f"{row.kept_share:.0%}",
        f"{row.peak[0]:.0%}",
        outlook.first or "",
        outlook.cuts,
        outlook.ends or "",
    )


def calculate(shape: Shape | None = None, policies: Iterable[Policy | str] = CALCULATED_POLICIES) -> Calculation:
    """Calculate what policies do to a planned conversation: fill by turn, first cut, number of cuts, cost with a simulated
    cache.

    Args:
        shape: the conversation; None = that of `Shape()`.
        policies: policies, or their names.

    Raises:
        PolicyError: there is no policy of a name.

    >>> found = turnscope.calculate(policies=["keep-everything", "last-20-messages"])
    >>> [(each.row.policy, each.first, each.ends) for each in found.outlooks]
    [('keep-everything', None, 57), ('last-20-messages', 6, None)]
    """
    shape = shape or Shape()
    each = (policies,) if isinstance(policies, (str, Policy)) else policies
    return Calculation(shape, tuple(_get_outlook(shape, load_policy(one) if isinstance(one, str) else one) for one in each))


@lru_cache(maxsize=8)
def build_session(shape: Shape) -> Session:
    """Build the conversation as a session: each turn has a prompt, rounds of tools and an answer. No two texts are equal."""
    builder = Builder("calculated", "calculator", "A conversation that is only planned")
    words = _Words(Random(0), make_estimator(load_prices().find_facts(shape.model).family).factor)  # noqa: S311 - no secret
    if shape.tools:
        tool = {"name": "look_up", "description": words.make_text(shape.tools), "input_schema": {"type": "object"}}
        builder.add_message("tools", [{"type": "tool", **tool}], origin="system")
    if shape.system:
        builder.add_message("system", words.make_text(shape.system), origin="system")
    now = NOON
    for turn in range(shape.turns):
        builder.add_message("user", words.make_text(shape.person), sent_at=now)
        for number in range(shape.calls if shape.results else 0):
            call = {
                "type": "tool_use",
                "id": f"call_{turn}_{number}",
                "name": "look_up",
                "input": {"about": words.make_text(CALL_WORDS)},
            }
            now = _add_request(builder, [call], shape.model, now)
            text = words.make_text(shape.results * (number + 1) // shape.calls - shape.results * number // shape.calls)
            builder.add_message("user", [{"type": "tool_result", "tool_use_id": call["id"], "content": text}], sent_at=now)
        now = _add_request(builder, words.make_text(shape.answer), shape.model, now) + shape.pause
    return builder.build([])


def _add_request(builder: Builder, answer: Any, model: str, now: float) -> float:
    """Add a request and its answer, which takes 5 seconds. Returns the time of its end, in seconds since the epoch."""
    builder.set_request(builder.add_message("assistant", answer), model=model, sent_at=now, answered_at=now + 5)
    return now + 5


@dataclass(frozen=True, slots=True)
class _Words:
    """Makes texts of a number of tokens; a word is `factor` tokens."""

    random: Random
    factor: float

    def make_text(self, tokens: int) -> str:
        return " ".join(self.random.choices(WORDS, k=max(1, round(tokens / self.factor))))


@lru_cache(maxsize=8)
def _replay_record(shape: Shape) -> tuple[Trace, SharedFacts]:
    """The conversation as it is, and what all policies share. It has no references, so none can be lost."""
    trace = replay(build_session(shape))
    return trace, SharedFacts(References({}, tuple({} for _ in trace.plans)), count_answer_tokens(trace))


_outlooks: dict[tuple[Shape, str], Outlook] = {}
MAX_OUTLOOKS = 256  # outlooks that are cached


def _get_outlook(shape: Shape, policy: Policy) -> Outlook:
    key = shape, f"{policy.name}\n{policy.to_toml()}"
    if key not in _outlooks:
        record, shared = _replay_record(shape)
        _outlooks[key] = _build_outlook(replay_record(record, resize_budget(policy, shape.window)), shared)
        while len(_outlooks) > MAX_OUTLOOKS:
            _outlooks.pop(next(iter(_outlooks)), None)
    return _outlooks[key]


def _build_outlook(trace: Trace, shared: SharedFacts) -> Outlook:
    made = build_row(trace, shared)
    turns = [plan.request.turn for plan in trace.plans]
    first = min(turns)
    fill = [0.0] * (max(turns) - first + 1)
    for turn, size, window in zip(turns, made.sizes, made.windows, strict=True):
        fill[turn - first] = max(fill[turn - first], size / window)
    over = (plan.verdict == "refuse" or made.sizes[plan.request.n] > plan.budget.window for plan in trace.plans)
    ends = next((turn for turn, wrong in zip(turns, over, strict=True) if wrong), None)
    return Outlook(
        made,
        tuple(fill),
        turns[made.changed[0]] - first + 1 if made.changed else None,
        None if ends is None else ends - first + 1,
    )
