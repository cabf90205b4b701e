"""Whether each request of a replay holds the rules that a person gave in words, which `envelope.user_rules` finds.

A rule is kept where its words stand in a request, in any block or placeholder, with any white space between them. Words that
survive are not words that a model recalls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from turnscope.counting.ledger import Ledger
from turnscope.envelope.envelope import Chunk, Envelope
from turnscope.envelope.plan import Plan
from turnscope.envelope.user_rules import RULE_SOURCES, RuleWords, UserRule, find_rules, read_part_text, write_rules
from turnscope.planning.trace import Trace
from turnscope.pricing.prices import PRICES, Prices
from turnscope.session.model import Part, Session
from turnscope.views.losses import iter_changes
from turnscope.views.phrases import spell_count

QUOTED = 120  # characters of a rule that a sentence quotes
_NONE = frozenset[int]()


@dataclass(frozen=True, slots=True)
class RuleFate:
    """What became of a rule in a replay.

    Attributes:
        rule: the rule.
        since: the first request that could hold it.
        lost: the first request from there on without its words; -1 = every one has them.
        back: the first request after that with its words again; -1 = none.
    """

    rule: UserRule
    since: int
    lost: int = -1
    back: int = -1

    @property
    def is_kept(self) -> bool:
        """Whether every request holds it, from the first that could."""
        return self.lost < 0


def quote_rule(rule: UserRule) -> str:
    """A rule in quotation marks, on one line, cut where it is long; without characters that do not print."""
    text = "".join(each if each.isprintable() else " " for each in rule.text.rstrip(". "))
    return f"“{text}”" if len(text) <= QUOTED else f"“{text[:QUOTED].rsplit(' ', 1)[0]} …”"


@dataclass(slots=True)
class RuleIndex:
    """The rules of a session, and the blocks that hold their words, which are looked for once, when they are first needed.

    Args:
        session: the session.
    """

    session: Session
    rules: tuple[UserRule, ...] = field(init=False)
    _held: dict[int, tuple[int, ...]] | None = None

    def __post_init__(self) -> None:
        self.rules = find_rules(self.session)

    @property
    def held(self) -> Mapping[int, Sequence[int]]:
        """The numbers of the rules whose words a block holds, by its address: of prompts, answers, results, summaries, all."""
        if self._held is None:
            words = [*enumerate(RuleWords(rule.text) for rule in self.rules)]
            texts = ((block.at, block.text) for block in self.session.blocks)
            found = ((at, tuple(n for n, each in words if each.are_in(text))) for at, text in texts)
            self._held = {at: numbers for at, numbers in found if numbers}
        return self._held


def trace_rules(trace: Trace, index: RuleIndex) -> tuple[RuleFate, ...]:
    """Find for each rule the first request of a replay that lacks its words, and whether they came back.

    Reads the plans once. Rules that no request could hold are left out.

    Args:
        trace: the replay.
        index: the rules of its session.
    """
    many = len(trace.plans)
    fates = [RuleFate(rule, trace.find_first_request(rule.block)) for rule in index.rules]
    if index.rules and any(plan.is_changed or plan.is_server_edited for plan in trace.outlines):
        _follow(trace, index, fates)
    return tuple(fate for fate in fates if fate.since < many)


def _follow(trace: Trace, index: RuleIndex, fates: list[RuleFate]) -> None:
    """Set in which request each rule is lost, and in which it is there again."""
    reader = _PlaceholderReader(trace.session, [RuleWords(rule.text) for rule in index.rules])
    left, carriers = {*range(len(fates))}, [0] * len(fates)  # how many blocks with its words the request has verbatim
    for plan, come, gone in iter_changes(trace.plans, len(trace.session.blocks)):
        for blocks, change in ((come, 1), (gone, -1)):
            for n in (n for at in blocks for n in index.held.get(at, ())):
                carriers[n] += change
        request = plan.request.n
        missing = {n for n in left if fates[n].since <= request and not carriers[n]}
        if missing:
            missing -= reader.read(plan.seen)
        for n in [*left]:
            if n in missing and fates[n].is_kept:
                fates[n] = replace(fates[n], lost=request)
            elif n not in missing and not fates[n].is_kept:
                fates[n] = replace(fates[n], back=request)
                left.discard(n)
        if not left:
            return


def find_lost_rules(plan: Plan, index: RuleIndex) -> tuple[UserRule, ...]:
    """Find the rules whose words a request lacks: a person's own before those of files, in the order in which they came.

    Args:
        plan: the request, such as the next one of a chat.
        index: the rules of its session.
    """
    seen = plan.seen
    given = ((n, rule.block) for n, rule in enumerate(index.rules) if rule.block < seen.stop)
    gone = [n for n, at in given if seen.find_piece(at).body is not None]
    if not gone:
        return ()
    verbatim = (numbers for at, numbers in index.held.items() if at < seen.stop and seen.find_piece(at).body is None)
    missing = {*gone}.difference(*verbatim)
    if missing:
        missing -= _PlaceholderReader(index.session, [RuleWords(rule.text) for rule in index.rules]).read(seen)
    return tuple(sorted((index.rules[n] for n in missing), key=lambda rule: (RULE_SOURCES.index(rule.source), rule.block)))


WHOSE = {"prompt": "A rule of yours", "memory": "A rule of a memory file", "system": "A rule of the system prompt"}


def describe_lost_rules(rules: Sequence[UserRule], when: str) -> str:
    """Say in a sentence which rules are lost. The first one is quoted.

    Args:
        rules: the rules, at least one.
        when: what became of them, and when: a verb for the first one, such as "left the window at request 12".
    """
    more = f"; so did {spell_count(len(rules) - 1)} other{'s' if len(rules) > 2 else ''}" if len(rules) > 1 else ""
    return f"{WHOSE[rules[0].source]} {when}: {quote_rule(rules[0])}{more}."


@dataclass(frozen=True, slots=True)
class LostRules:
    """Rules that the next request of a chat lacks.

    Attributes:
        rules: the rules.
        is_new: whether the request before it has the first of them.
        tokens: provider tokens of saying them again.
        usd: what these tokens cost in one request at most; None without a price.
    """

    rules: tuple[UserRule, ...]
    is_new: bool
    tokens: int
    usd: Decimal | None

    @property
    def sentence(self) -> str:
        """What is lost, as the finding says it."""
        return describe_lost_rules(self.rules, "leaves the window with the next request" if self.is_new else "left the window")


def find_next_lost(
    plan: Plan, before: Plan | None, session: Session, ledger: Ledger, prices: Prices = PRICES
) -> LostRules | None:
    """Find the rules that the next request of a chat lacks, and what it would cost to say them again; None = it has all.

    Args:
        plan: the next request.
        before: the request before it, if there is one.
        session: the chat.
        ledger: its token counts.
        prices: facts of models.
    """
    index = RuleIndex(session)
    lost = find_lost_rules(plan, index)
    if not lost:
        return None
    tokens = plan.calibration.predict(sum(ledger.count_placeholder((write_rules(lost),))))
    rates = prices.find_rates(plan.model, plan.expected_tokens, plan.request.sent_at)
    usd = max(rates.input, rates.cache_write_5m) * tokens / 1_000_000 if rates else None
    is_new = before is not None and lost[0] not in find_lost_rules(before, index)
    return LostRules(lost, is_new, tokens, usd)


@dataclass(slots=True)
class _PlaceholderReader:
    """Finds which sentences stand in the placeholders of a request. Requests share chunks and texts, so each is read once.

    Args:
        session: the session that parts refer to.
        words: the sentences.
    """

    session: Session
    words: Sequence[RuleWords]
    _chunks: dict[int, tuple[Chunk, frozenset[int]]] = field(default_factory=dict)  # of that request; what is held keeps its id
    _texts: dict[str, frozenset[int]] = field(default_factory=dict)

    def read(self, envelope: Envelope) -> frozenset[int]:
        """The numbers of the sentences in the placeholders of a request."""
        before = self._chunks
        self._chunks = {id(chunk): before.get(id(chunk)) or (chunk, self._read_chunk(chunk)) for chunk in envelope.chunks}
        return _NONE.union(*(found for _, found in self._chunks.values() if found))

    def _read_chunk(self, chunk: Chunk) -> frozenset[int]:
        return _NONE.union(*(self._read_part(part) for piece in chunk.pieces for part in piece.body or ()))

    def _read_part(self, part: Part) -> frozenset[int]:
        text = read_part_text(part, self.session)
        if text not in self._texts:
            self._texts[text] = frozenset(n for n, words in enumerate(self.words) if words.are_in(text))
        return self._texts[text]
