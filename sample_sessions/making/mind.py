"""Says what an agent thinks at each phase of a piece of work, never the same way twice in a row.

Holds sentences with slots; the stories fill in what is true at that moment.
"""

from __future__ import annotations

import random

PHASES: dict[str, tuple[tuple[str, ...], ...]] = {
    "study": (
        (
            "Before touching {thing} I want to see how it behaves today.",
            "Next is {thing}. The old code is the only specification there is.",
            "{thing}: let me read the original once more, I don't trust my memory of a 700-line file.",
            "I keep mixing up {thing} with its neighbours, so back to the source.",
            "Let me get the exact behaviour of {thing} in front of me first.",
            "So, {thing}. The shape is the same as the others, the rule is not.",
        ),
        (
            "What makes it different is that it {rule}.",
            "The part that matters: it {rule}.",
            "If I remember right it {rule}; that is the piece a hash with a TTL does not give for free.",
            "Its docstring claims it {rule}. I should check that the SQL really does that.",
            "The tricky requirement is that it {rule}.",
        ),
        (
            "I'll look at `{method}` and at whoever calls it.",
            "`{method}` carries the rule, the rest is bookkeeping.",
            "Everything hangs on `{method}`, so that is where I start.",
            "I want the order of the checks in `{method}`, not only their presence.",
            "",
        ),
    ),
    "design": (
        (
            "A hash per {thing}, EXPIRE for the lifetime, a set per user as the index.",
            "Same layout as before: hash with TTL, plus a set of ids for each user.",
            "Key layout stays `ferrydesk:<tenant>:{prefix}:<id>`, so one SCAN pattern finds them all.",
            "I can let Redis do the expiring and drop `purge_expired` to almost nothing.",
        ),
        (
            "The index can hold ids whose hash is gone; reading has to clean up after itself.",
            "Nothing removes an id from the user's set when the TTL fires, so `list_active` must tolerate ghosts.",
            "A pipeline keeps the hash and the index together; a crash in between would otherwise leave an orphan.",
            "WATCH is only needed where a decision depends on what is stored.",
            "Two round trips per login are fine, ten are not: pipeline it.",
        ),
        (
            "For the special rule ({rule}) I need `{method}` to decide and write in one step.",
            "`{method}` is where Postgres gave us a row lock for nothing. Here I have to be explicit.",
            "The rule - it {rule} - goes into `{method}`, nowhere else.",
            "Port `{method}` last, once the plain operations are green.",
        ),
    ),
    "fail": (
        (
            "One red: `{test}`.",
            "Eight pass, `{test}` doesn't.",
            "`{test}` fails, and it is exactly the rule I was worried about.",
            "Only `{test}`. Good: the plumbing is right, the rule is wrong.",
        ),
        (
            "It says `{error}`.",
            "The traceback ends in `{error}`, inside the store and not in the test.",
            "`{error}` - so it gets as far as the store.",
        ),
        (
            "My guess: {why}.",
            "I think {why}.",
            "Reading my own line again: {why}.",
            "That fits: {why}.",
        ),
    ),
    "fix": (
        (
            "Confirmed by the source: {why}.",
            "Yes, that's it.",
            "There it is, one line.",
            "The line is mine, not inherited.",
        ),
        (
            "The old version never had this problem because the database did the comparing.",
            "A smaller change than I feared; no signature moves.",
            "I'd rather correct the line than bend the test.",
            "No need to touch the base class for this.",
            "I'll leave the test alone, it states the rule correctly.",
        ),
    ),
    "verify": (
        (
            "Run just this file again before the whole suite.",
            "Again, only the tests of {thing}.",
            "Let me see it green with my own eyes.",
            "If this passes I go on to the callers.",
        ),
        ("", "CI runs with logs on, so I do the same.", "The logs are long, but a silent pass would hide a warning."),
    ),
    "callers": (
        (
            "Who still imports the old table for {thing}?",
            "Now the callers of {thing}.",
            "The class is done; somebody has to use it.",
            "Let me look for stragglers that talk to {thing} directly.",
        ),
        (
            "`{caller}` builds its own table object at import time, which a store can't do without a connection.",
            "`{caller}` reaches past the facade; that was already wrong before.",
            "`{caller}` only needs the import and the constructor changed.",
        ),
    ),
    "check": (
        (
            "A look at the diff before I call this done.",
            "Type check and linter, then the next one.",
            "Let me make sure nothing else moved.",
            "Small hygiene round for {thing}.",
        ),
        ("", "mypy has opinions about bytes | str, so I expect something.", "I want to see the whole change in one piece."),
    ),
}


class Mind:
    """Deals sentences phase by phase; a slot of a phase repeats only after all its sentences were used."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.decks: dict[tuple[str, int], list[str]] = {}

    def think(self, phase: str, **facts: str) -> str:
        """Say two or three sentences about the matter at hand."""
        said = []
        for slot, choices in enumerate(PHASES[phase]):
            deck = self.decks.setdefault((phase, slot), [])
            if not deck:
                deck.extend(choices)
                self.rng.shuffle(deck)
            said.append(deck.pop().format(**facts))
        return " ".join(sentence for sentence in said if sentence)
