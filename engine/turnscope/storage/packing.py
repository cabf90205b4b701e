"""A session as bytes: everything except the content of its blocks, which lies under its digest among the blobs.

`unpack` gives an equal session without reading any content: a block fetches its own when it is read, with its neighbours. So
opening a long session costs what its addresses cost, and texts that nobody reads stay on disk.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO

import msgspec
from msgspec import Struct, structs

from turnscope.errors import TurnscopeError
from turnscope.session.model import JSON, Block, Bucket, Fork, LazyContent, Session, get_block
from turnscope.storage.blobs import Content, compute_digest, encode_content

PACK_VERSION = 4  # version of what `pack` writes: count up when it changes, or a field of the session's types
FETCH_BLOCKS = 256  # neighbours that are fetched in one go
DIGEST_BYTES = 16  # of a digest
Fetch = Callable[[Sequence[str]], Mapping[str, JSON]]


class _Packed(Struct, frozen=True, array_like=True):
    """One session: `head` without blocks, branches and subagents, and a column per field of its blocks.

    `kinds[i]` is a row of `words`: role, bucket, kind and name of block `i`.
    """

    head: Session
    words: tuple[tuple[str, str, str, str], ...]
    kinds: tuple[int, ...]
    messages: tuple[int, ...]
    turns: tuple[int, ...]
    pairs: tuple[int, ...]
    digests: tuple[str, ...]
    subagents: tuple[_Packed, ...]
    forks: tuple[tuple[int, int, tuple[tuple[int, int], ...], _Packed], ...]  # of, start, pairs of relinked blocks, own


def encode_contents(session: Session) -> Iterator[tuple[str, Content]]:
    """Encode every block: digest and JSON, in the order of `iter_blocks`.

    Raises:
        TypeError, ValueError, RecursionError: A block holds what JSON cannot hold.
    """
    for block in iter_blocks(session):
        content = encode_content(block.raw)
        yield compute_digest(content), content


def iter_blocks(session: Session) -> Iterator[Block]:
    """Iterate over every block: the session's own, then those of its subagents and branches."""
    yield from session.blocks
    for inner in (*session.subagents, *(fork.own for fork in session.forks)):
        yield from iter_blocks(inner)


def pack(session: Session) -> bytes:
    """Pack a session without its contents. TypeError, ValueError or RecursionError where that cannot be written."""
    packed = _pack(session)
    try:
        return msgspec.msgpack.encode(packed)
    except (UnicodeEncodeError, OverflowError):  # lone surrogates, huge numbers
        return json.dumps(msgspec.to_builtins(packed, str_keys=True)).encode()


def unpack(packed: bytes, digests: bytes, fetch: Fetch) -> Session:
    """Unpack a session.

    Args:
        packed: What `pack` wrote.
        digests: Digests of `encode_contents`, 16 bytes each.
        fetch: Gives the values of all requested digests.
    """
    if packed[:1] == b"[":
        value = msgspec.convert(json.loads(packed), _Packed, str_keys=True)
    else:
        value = msgspec.msgpack.decode(packed, type=_Packed)
    return _unpack(value, BytesIO(digests), fetch)


def release_contents(session: Session, digests: bytes, fetch: Fetch) -> None:
    """Make the blocks of a stored session fetch their contents, as those of `unpack` do.

    The session stays usable, and its texts are not in memory as well as on disk.

    Args:
        session: The session.
        digests: Digests of `encode_contents`, 16 bytes each.
        fetch: Gives the values of all requested digests.
    """
    _release(session, BytesIO(digests), fetch)


def split_digests(packed: bytes) -> Iterator[str]:
    """Split digests of 16 bytes each. Gives hexadecimal text."""
    return (packed[i : i + DIGEST_BYTES].hex() for i in range(0, len(packed), DIGEST_BYTES))


def _pack(session: Session) -> _Packed:
    words: dict[tuple[str, str, str, str], int] = {}
    kinds = tuple(words.setdefault((b.role, b.bucket.value, b.kind, b.name), len(words)) for b in session.blocks)
    return _Packed(
        structs.replace(session, blocks=(), subagents=(), forks=()),
        tuple(words),
        kinds,
        tuple(block.message for block in session.blocks),
        tuple(block.turn for block in session.blocks),
        tuple(block.pair for block in session.blocks),
        tuple(block.digest for block in session.blocks),
        tuple(map(_pack, session.subagents)),
        tuple((f.of, f.start, tuple((b.at, b.pair) for b in f.relinked), _pack(f.own)) for f in session.forks),
    )


def _unpack(packed: _Packed, digests: BytesIO, fetch: Fetch, start: int = 0) -> Session:
    """Unpack a session, or what a branch adds from block `start` on."""
    texts = _Texts(digests.read(len(packed.kinds) * DIGEST_BYTES), fetch)
    words = [(role, Bucket(bucket), kind, name) for role, bucket, kind, name in packed.words]
    columns = (packed.kinds, packed.messages, packed.turns, packed.pairs, packed.digests)
    blocks = []
    for n, (word, message, turn, pair, digest) in enumerate(zip(*columns, strict=True)):
        role, bucket, kind, name = words[word]
        blocks.append(Block(start + n, message, turn, role, bucket, kind, digest, pair, name, LazyContent(texts, n)))
    session = structs.replace(
        packed.head, blocks=tuple(blocks), subagents=tuple(_unpack(inner, digests, fetch) for inner in packed.subagents)
    )
    forks: list[Fork] = []
    for of, left, pairs, own in packed.forks:
        relinked = tuple(structs.replace(get_block(session, forks, of, at), pair=pair) for at, pair in pairs)
        forks.append(Fork(_unpack(own, digests, fetch, left), of, left, relinked))
    return structs.replace(session, forks=tuple(forks))


def _release(session: Session, digests: BytesIO, fetch: Fetch) -> None:
    texts = _Texts(digests.read(len(session.blocks) * DIGEST_BYTES), fetch)
    for n, block in enumerate(session.blocks):
        structs.force_setattr(block, "content", LazyContent(texts, n))
    for inner in session.subagents:
        _release(inner, digests, fetch)
    for fork in session.forks:
        _release(fork.own, digests, fetch)
        for relinked in fork.relinked:
            structs.force_setattr(relinked, "content", get_block(session, session.forks, fork.of, relinked.at).content)


class _Texts:
    """The contents of one session's blocks, fetched in runs of neighbours and kept. Any thread may ask."""

    def __init__(self, digests: bytes, fetch: Fetch) -> None:
        self._digests, self._fetch = digests, fetch
        self._known: dict[int, JSON] = {}

    def __call__(self, at: int) -> JSON:
        if at not in self._known:
            start = at - at % FETCH_BLOCKS
            wanted = list(split_digests(self._digests[start * DIGEST_BYTES : (start + FETCH_BLOCKS) * DIGEST_BYTES]))
            values = self._fetch(wanted)
            if any(digest not in values for digest in wanted):
                raise TurnscopeError("a text of this session is no longer stored", hint="Open the session's file again.")
            self._known.update((start + i, values[digest]) for i, digest in enumerate(wanted))
        return self._known[at]
