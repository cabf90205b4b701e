"""What policies are chosen by: kind, proof, whether they lose anything; and the strategies that they follow."""

from __future__ import annotations

from dataclasses import dataclass

from turnscope.planning.policy import OURS, REPAIRS, Policy
from turnscope.planning.policy_catalog import PolicyCatalog
from turnscope.views.policy_figures import PolicyFigures, load_figures
from turnscope.views.policy_groups import group_policies
from turnscope.views.policy_pages import get_first_sentence

KINDS = {  # kind -> what it does, for people
    "keeps": "keeps everything",
    "clears": "clears results or thinking",
    "truncates": "truncates the history",
    "condenses": "condenses into a summary",
    "memory": "adds memory or context",
}
PROOFS = {  # how sure -> what it says, the surest first
    "wire": "verified on the wire",
    "verified": "verified against the original's outputs",
    "partly": "partly verified",
    "source": "read from source or documentation",
    "approximate": "approximate",
    "illustrative": "illustrative",
}
_WORDS = {  # kind -> parts of the names of rules that do it
    "condenses": ("condense", "summar", "compact", "compress_topic", "fresh_start"),
    "clears": ("clear", "mask", "elide", "duplicate", "supersede", "outdated", "strip_old", "repeated", "old_calls", "tidy"),
    "truncates": tuple(
        "keep_first keep_last keep_newest keep_longest keep_prompts keep_recent keep_relevant cut_ hide_ trim discard prune "
        "shift drop_from shorten middle_events past_as_text stage_by".split()
    ),
    "memory": ("memories", "notes", "findings", "provide_context", "insert_", "write_context", "retrieve"),
}


@dataclass(frozen=True, slots=True)
class Traits:
    """What a policy is chosen by.

    Attributes:
        system: title of its group in the list of policies.
        kinds: keys of `KINDS`.
        proof: a key of `PROOFS`.
        line: what it does, in a few words.
        doc: the same in sentences.
        figures: its measured figures; None for a policy that is not shipped, and for the record.
    """

    name: str
    title: str
    system: str
    kinds: tuple[str, ...]
    proof: str
    line: str
    doc: str
    figures: PolicyFigures | None

    @property
    def is_lossless(self) -> bool:
        """Whether it lost no reference on any sample."""
        return self.figures is not None and self.figures.is_lossless

    def matches(self, words: str) -> bool:
        """Whether its name, title, system or description holds each of some words."""
        text = f"{self.name} {self.title} {self.system} {self.line} {self.doc}".lower()
        return all(word in text for word in words.lower().split())


def list_traits(catalog: PolicyCatalog) -> tuple[Traits, ...]:
    """List the traits of all policies of a catalog, in the order of its groups."""
    shipped = load_figures()
    return tuple(
        Traits(
            name=name,
            title=policy.title or name,
            system=group.title,
            kinds=find_kinds(policy),
            proof=find_proof(policy),
            line=policy.line or get_first_sentence(policy.doc),
            doc=policy.doc,
            figures=None if name in catalog.own else shipped.get(name),
        )
        for group in group_policies(catalog)
        for name in group.names
        for policy in (catalog.policies[name],)
    )


def find_kinds(policy: Policy) -> tuple[str, ...]:
    """What a policy does to a conversation, by its rules; repairs do not count."""
    rules = [part.rule.name for part in policy.rules if part.rule.name not in REPAIRS]
    found = tuple(kind for kind, words in _WORDS.items() if any(word in rule for rule in rules for word in words))
    return found or ("keeps",)


def find_proof(policy: Policy) -> str:
    """How sure we are that a policy does what its original does: a key of `PROOFS`."""
    fidelity = policy.fidelity
    if fidelity.startswith("verified"):
        return "wire" if fidelity.startswith("verified on the wire") else "verified"
    if fidelity.startswith(OURS) or not fidelity:
        return "illustrative"
    if fidelity.startswith("approximate"):
        return "approximate"
    return "partly" if "verified" in fidelity else "source"


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to keep a conversation inside its window, and the shipped policy that shows it.

    Attributes:
        retention: what stays in the prompt.
        complexity: what it takes to build and to run.
        saving, loss: as published.
        use: when to use it.
        sources: all four with their sources, for a closer look.
    """

    title: str
    policy: str
    retention: str
    complexity: str
    saving: str
    loss: str
    use: str
    sources: str
    figures: PolicyFigures | None


_STRATEGIES = (  # title, policy, what stays
    ("Full history", "keep-everything", "everything"),
    ("Sliding window", "multi-turn-window", "the newest messages"),
    ("Newest that fit", "newest-within-budget", "the newest, up to a budget"),
    ("Clearing", "clear-tool-results", "all but old tool results"),
    ("Summaries", "multi-turn-summary", "the newest, and facts of the rest"),
    ("Selective", "relevant-within-budget", "what the question is about"),
    ("Hybrid", "multi-turn-hybrid", "both ends, a summary between"),
    ("Layered", "layered", "the newest, headers of the rest"),
)


def list_strategies(catalog: PolicyCatalog) -> tuple[Strategy, ...]:
    """List the strategies, the simplest first. Words are those of the policies' files; figures are measured."""
    found = []
    for title, name, retention in _STRATEGIES:
        policy = catalog.policies[name]
        facts = (policy.build_cost, policy.saving, policy.loss, policy.when)
        complexity, saving, loss, use = map(_shorten, facts)
        found.append(
            Strategy(
                title=title,
                policy=name,
                retention=retention,
                complexity=complexity,
                saving=saving or "none published",
                loss=loss,
                use=use,
                sources="; ".join(filter(None, facts)),
                figures=load_figures().get(name),
            )
        )
    return tuple(found)


def _shorten(text: str) -> str:
    """A fact without its sources: what stands before the first bracket, semicolon or colon."""
    for end in (" (", ";", ": "):
        text = text.partition(end)[0]
    return text
