"""What it costs to repeat the user's rules: `python tests/bench/repeated_rules.py FOLDER [POLICY ...]`.

Ten made-up rules of about 40 tokens are put behind the first prompt of every session below FOLDER that records usage. A policy
is replayed alone, and with `repeat_user_rules` behind its cuts. A row: of how many rules every request holds the words, and the
cost as a factor of what the records cost, without and with it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import turnscope
from msgspec import structs
from turnscope.errors import TurnscopeError
from turnscope.library import opening
from turnscope.library.discovery import find_sources
from turnscope.library.policy_table import is_measurable
from turnscope.live.injected_context import repeat_user_rules
from turnscope.session.model import Session
from turnscope.views.comparison import SharedFacts, build_row

POLICIES = ("extracts", "condense-oldest", "half-in-pairs", "clear-in-batches", "last-20-messages")
SUBJECTS = ("harbour", "lexer", "ledger", "signal", "atlas", "beacon", "kernel", "garden", "mirror", "anchor")
RULE = (
    "Never change the public functions of the {} module without a test that fails before the change and passes after it,"
    " and name that test in your answer to me."
)


def add_rules(session: Session) -> Session | None:
    """Return the session with the made-up rules behind its first prompt; None where it has none."""
    at = next(
        (
            block.at
            for message in session.messages
            for block in session.blocks[message.start : message.stop]
            if message.origin == "prompt" and block.role == "user" and block.kind == "text"
        ),
        None,
    )
    if at is None:
        return None
    block = session.blocks[at]
    text = "\n".join((block.text, "", *(f"- {RULE.format(subject)}" for subject in SUBJECTS)))
    changed = structs.replace(block, content={"type": "text", "text": text}, digest=f"{block.digest}+rules")
    return structs.replace(session, blocks=(*session.blocks[:at], changed, *session.blocks[at + 1 :]))


def load_sessions(folder: Path) -> Iterator[Session]:
    """Yield the sessions with a bill, each with the made-up rules."""
    for path in sorted(find_sources(folder)):
        try:
            for entry in turnscope.entries(path):
                session = turnscope.load(path, entry.id)
                if is_measurable(session) and (made := add_rules(session)):
                    yield made
        except TurnscopeError as error:
            print(f"{path.name}: {error}", file=sys.stderr)


def measure(session: Session, names: Sequence[str]) -> Iterator[tuple[str, bool, float, float, int, int]]:
    """Yield for each policy, without and with the rule: its USD, those of the record, rules kept, rules found."""
    record = opening.replay(session)
    shared = SharedFacts.from_trace(record)
    for name in names if shared.record.total else ():
        policy = opening.load_policy(name)
        for repeats in (False, True):
            trace = opening.replay(session, repeat_user_rules(policy) if repeats else policy, ledger=record.ledger)
            row = build_row(trace, shared)
            if row.usd is not None:
                yield name, repeats, float(row.usd), float(shared.record.total), row.rules_kept, len(row.rules)


def main(arguments: Sequence[str]) -> int:
    """Print the table. Gives 1 where FOLDER holds no session that records usage."""
    folder, *names = arguments
    rows = [row for session in load_sessions(Path(folder)) for row in measure(session, names or POLICIES)]
    if not rows:
        print(f"{folder} holds no session with a price.", file=sys.stderr)
        return 1
    print(f"  {'policy':<30}{'kept':>12}{'cost':>8}{'kept, repeated':>18}{'cost, repeated':>16}")
    for name in dict.fromkeys(row[0] for row in rows):
        line = f"  {name:<30}"
        for repeats, wide in ((False, (12, 8)), (True, (18, 16))):
            usd, record, kept, found = (sum(row[n] for row in rows if row[:2] == (name, repeats)) for n in (2, 3, 4, 5))
            line += f"{f'{kept} of {found}':>{wide[0]}}{usd / record:>{wide[1]}.3f}"
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
