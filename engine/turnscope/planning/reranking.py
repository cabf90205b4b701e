"""Optional: compare texts by meaning, with a small model on this machine. Nothing is downloaded.

The model `wordllama` lies in its own package (`pip install 'turnscope[meaning]'`: 16 MB of word vectors, no PyTorch). Any other
name is a model of sentence-transformers that is on this machine already. In a live chat `provider:NAME` is a model of the
provider's own endpoint (`live.rule_queries`). Without package or model the answer is a failure; the rule goes on with words.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from turnscope.session.model import Answer, Ask

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PACKAGED = "wordllama"
PACKAGE = "sentence_transformers"
AT_PROVIDER = "provider:"  # in front of the name of a model that a provider runs
REMEMBERED = 20_000  # vectors that are kept: the texts of a conversation are compared with every new question

Embed = Callable[[Sequence[str]], Any]
"""Turns texts into vectors, one row each."""


def rerank_texts(ask: Ask) -> Answer:
    """Return how close each text is to a question, from -1 to 1, as items in the order of the texts.

    `ask.prompt` names the model; `ask.content` is the question and the texts as a JSON list.
    """
    if ask.prompt.startswith(AT_PROVIDER):
        return Answer(failed="a provider's model compares texts only when a request is sent", model=ask.prompt)
    try:
        return compare_texts(ask, partial(_embed_here, ask.prompt))
    except ImportError:
        which, extra = (PACKAGED, "meaning") if ask.prompt == PACKAGED else ("sentence-transformers", "rerank")
        return Answer(failed=f"{which} is not installed: pip install turnscope[{extra}]", model=ask.prompt)
    except (OSError, ValueError, RuntimeError) as error:
        return Answer(failed=f"the model {ask.prompt!r} is not on this machine: {type(error).__name__}", model=ask.prompt)


def compare_texts(ask: Ask, embed: Embed) -> Answer:
    """Answer a query with the cosine of each text to the question.

    Args:
        ask: See `rerank_texts`.
        embed: Turns texts into vectors. Those that are known already are not asked for again.
    """
    try:
        question, *texts = msgspec.json.decode(ask.content, type=list[str])
    except (msgspec.DecodeError, ValueError):
        return Answer(failed="no answer to this rank was recorded, and no model can be called here")
    vectors = _embed_new(ask.prompt, [question, *texts], embed)
    return Answer(items=tuple(f"{float(vector @ vectors[0]):.4f}" for vector in vectors[1:]), model=ask.prompt)


_known: dict[bytes, NDArray[np.float32]] = {}  # unit vectors by model and text


def _embed_new(model: str, texts: Sequence[str], embed: Embed) -> list[NDArray[np.float32]]:
    import numpy as np

    keys = [blake2b(f"{model}\0{text}".encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts]
    found = {key: vector for key in keys if (vector := _known.get(key)) is not None}
    new = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
    if new:
        rows = np.asarray(embed([*new.values()]), dtype=np.float32)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
        found |= dict(zip(new, rows, strict=True))
        if len(_known) + len(new) > REMEMBERED:
            _known.clear()
        _known.update(found)
    return [found[key] for key in keys]


def _embed_here(model: str, texts: Sequence[str]) -> Any:
    if model == PACKAGED:
        return _load_packaged().embed([text or " " for text in texts])
    return _load_model(model).encode([*texts], show_progress_bar=False)


@cache
def _load_packaged() -> Any:
    """The model that lies in its package."""
    package = importlib.import_module(PACKAGED)
    return package.WordLlama.load(cache_dir=Path(package.__file__ or "").parent, disable_download=True)


@cache
def _load_model(name: str) -> Any:
    """The model, from this machine only."""
    return importlib.import_module(PACKAGE).SentenceTransformer(name, local_files_only=True)
