"""One conversation as a tree of messages. Its paths from root to leaf are sessions.

The tree is kept as its main path, plus what each branch adds to the path that it left (`model.Fork`). So what paths share
exists once: in memory, in storage, and in counts. The module knows no format.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from msgspec import Struct, structs

from turnscope.session.model import Block, Fork, Message, Session


class Thread(Struct, frozen=True):
    """One conversation. `session` is its main path, the one that continues. Branches and subagents hang from it.

    >>> thread = turnscope.thread("sample_sessions/cache-goes-cold.jsonl")
    >>> thread.get_path() is thread.session, sum(1 for message, blocks in thread.iter_messages())
    (True, 177)
    """

    session: Session

    @property
    def leaves(self) -> tuple[str, ...]:
        """Ids of the paths: the main path first, then the branches."""
        return (self.session.id, *(fork.own.id for fork in self.session.forks))

    def get_path(self, leaf: str = "") -> Session:
        """Get the path to a leaf by its id; "" = the main path. KeyError where there is no such leaf."""
        if leaf in ("", self.session.id):
            return self.session
        for number, fork in enumerate(self.session.forks):
            if fork.own.id == leaf:
                return self.session.branches[number]
        raise KeyError(leaf)

    def iter_messages(self) -> Iterator[tuple[Message, tuple[Block, ...]]]:
        """Iterate over every message of the tree once, with its blocks: the main path's first, then what each branch adds."""
        for start, own in ((0, self.session), *((fork.start, fork.own) for fork in self.session.forks)):
            for message in own.messages:
                yield message, own.blocks[message.start - start : message.stop - start]


class Descendant(NamedTuple):
    """A branch or a subagent at any depth. `own`: what it adds; `fork`: its number among the branches of `of`; -1: subagent"""

    depth: int
    of: Session
    fork: int
    own: Session

    @property
    def name(self) -> str:
        """What it is, and its title."""
        return f"{'Branch' if self.fork >= 0 else 'Subagent'}: {self.own.title or self.own.id}"


def iter_descendants(session: Session) -> Iterator[Descendant]:
    """Iterate over all branches and subagents of a session, nearest first. Their order numbers them from 1."""
    pending = deque([(0, session)])
    while pending:
        depth, of = pending.popleft()
        for at, fork in enumerate(of.forks):
            yield Descendant(depth, of, at, fork.own)
            pending.append((depth + 1, of.branches[at] if fork.own.forks else fork.own))
        for agent in of.subagents:
            yield Descendant(depth, of, -1, agent)
            pending.append((depth + 1, agent))


def make_forks(main: Session, branches: Sequence[Session]) -> tuple[Fork, ...]:
    """Convert whole sessions into branches of `main`: each keeps what it does not share with the main path.

    Args:
        main: The main path.
        branches: Whole sessions that begin like it.
    """
    return tuple(_make_fork(main, branch) for branch in branches)


def _make_fork(main: Session, branch: Session) -> Fork:
    pairs = zip(main.messages, branch.messages, strict=False)
    shared = [a for a, _ in takewhile(lambda pair: pair[0] == pair[1] and _is_same_message(main, branch, pair[0]), pairs)]
    start = shared[-1].stop if shared else 0
    requests = list(takewhile(lambda request: request.stop <= start, branch.requests))
    observed = [o for o in branch.observed if o.request < len(requests)]
    mine = list(takewhile(lambda request: request.stop <= start, main.requests))
    if mine != requests or [o for o in main.observed if o.request < len(requests)] != observed:
        return Fork(branch)  # the messages are alike, but the requests differ: nothing is shared
    relinked = tuple(b for a, b in zip(main.blocks[:start], branch.blocks, strict=False) if a != b)
    own = structs.replace(
        branch,
        blocks=branch.blocks[start:],
        messages=branch.messages[len(shared) :],
        requests=branch.requests[len(requests) :],
        observed=branch.observed[len(observed) :],
    )
    return Fork(own, 0, start, relinked)


def _is_same_message(main: Session, branch: Session, message: Message) -> bool:
    """Whether two paths hold the same blocks in a message, whatever those blocks are paired with."""
    pairs = zip(main.blocks[message.start : message.stop], branch.blocks[message.start : message.stop], strict=False)
    return all(a == b or structs.replace(a, pair=b.pair) == b for a, b in pairs)
