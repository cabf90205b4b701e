"""Whether each request of a replay holds the rules that a person gave in words, which `envelope.user_rules` finds.

A rule is kept where its words stand in a request, in any block or placeholder, with any white space between them. Words that
survive are not words that a model recalls.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from operator import attrgetter

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
_CUT = attrgetter("cut")


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
    reader = RuleReader(trace, index)
    if index.rules and any(plan.is_changed or plan.is_server_edited for plan in trace.outlines):
        for plan, come, gone in iter_changes(trace.plans, len(trace.session.blocks)):
            reader.read(plan, come, gone)
            if not reader.left:
                break
    return reader.list_fates(trace)


class RuleReader:
    """Finds which rules the requests of a replay lack, which it is given in order.

    Attributes:
        left: numbers of the rules of which more may come to light.

    Args:
        trace: the replay.
        index: the rules of its session.
    """

    def __init__(self, trace: Trace, index: RuleIndex) -> None:
        self._index = index
        requests = trace.session.requests  # `trace` may not be planned yet
        self._fates = [RuleFate(rule, bisect_right(requests, rule.block, key=_CUT)) for rule in index.rules]
        self._placeholders = _PlaceholderReader(trace.session, [RuleWords(rule.text) for rule in index.rules])
        self.left = {*range(len(self._fates))}
        self._carriers = [0] * len(self._fates)  # how many blocks with its words the request has verbatim

    def read(self, plan: Plan, come: Sequence[int], gone: Sequence[int]) -> None:
        """Note which rules the next request lacks, and which it has again.

        Args:
            plan: its plan.
            come: blocks that it has verbatim and the request before it has not.
            gone: the other way round.
        """
        if not self.left:
            return
        held, carriers, fates = self._index.held, self._carriers, self._fates
        for blocks, change in ((come, 1), (gone, -1)):
            for at in blocks:
                for n in held.get(at, ()):
                    carriers[n] += change
        request = plan.request.n
        missing = {n for n in self.left if not carriers[n] and fates[n].since <= request}
        if missing:
            missing -= self._placeholders.read(plan.seen)
        for n in [*self.left]:
            if n in missing and fates[n].is_kept:
                fates[n] = replace(fates[n], lost=request)
            elif n not in missing and not fates[n].is_kept:
                fates[n] = replace(fates[n], back=request)
                self.left.discard(n)

    def list_fates(self, trace: Trace) -> tuple[RuleFate, ...]:
        """What became of each rule; those that no request could hold are left out.

        Args:
            trace: the replay whose requests were read.
        """
        fates, many = self._fates, len(trace.plans)
        if not any(plan.is_changed or plan.is_server_edited for plan in trace.outlines):
            fates = [RuleFate(fate.rule, fate.since) for fate in fates]  # every request holds all of them
        return tuple(fate for fate in fates if fate.since < many)


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
