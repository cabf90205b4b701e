"""Optional: order texts by meaning with a small model of sentence-transformers from this machine.

Nothing is downloaded. Without the package or the model the answer is a failure, and the rule continues without it.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import msgspec

from turnscope.session.model import Answer, Ask

PACKAGE = "sentence_transformers"


def rerank_texts(ask: Ask) -> Answer:
    """Return how close each text is to a question, from -1 to 1, as items in the order of the texts.

    `ask.prompt` names the model; `ask.content` is the question and the texts as a JSON list.
    """
    try:
        question, *texts = msgspec.json.decode(ask.content, type=list[str])
    except msgspec.DecodeError:
        return Answer(failed="no answer to this rank was recorded, and it cannot be asked here")
    try:
        vectors = _load_model(ask.prompt).encode([question, *texts], normalize_embeddings=True, show_progress_bar=False)
    except ImportError:
        return Answer(failed="sentence-transformers is not installed: pip install turnscope[rerank]")
    except (OSError, ValueError, RuntimeError) as error:
        return Answer(failed=f"the model {ask.prompt!r} is not on this machine: {type(error).__name__}", model=ask.prompt)
    return Answer(items=tuple(f"{float(vector @ vectors[0]):.4f}" for vector in vectors[1:]), model=ask.prompt)


@cache
def _load_model(name: str) -> Any:
    """The model, from this machine only."""
    return importlib.import_module(PACKAGE).SentenceTransformer(name, local_files_only=True)
