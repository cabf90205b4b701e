"""An optional extra: texts ordered by what they mean, with a small model of sentence-transformers that lies on this machine.

Nothing is downloaded. Where the package or the model is absent, the answer says so, and the rule that asked goes on without it.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import msgspec

from turnscope.session.model import Answer, Ask

PACKAGE = "sentence_transformers"


def rerank_texts(ask: Ask) -> Answer:
    """How near each text is to a question, as items in the order of the texts, from -1 to 1; failed where nobody can say.

    `prompt` names the model, `content` is the question and the texts as a JSON list.
    """
    try:
        question, *texts = msgspec.json.decode(ask.content, type=list[str])
    except msgspec.DecodeError:
        return Answer(failed="no answer to this rank was recorded, and nobody is here to give one")
    try:
        vectors = _load_model(ask.prompt).encode([question, *texts], normalize_embeddings=True, show_progress_bar=False)
    except ImportError:
        return Answer(failed="sentence-transformers is not installed: pip install turnscope[rerank]")
    except (OSError, ValueError, RuntimeError) as error:
        return Answer(failed=f"the model {ask.prompt!r} is not on this machine: {type(error).__name__}", model=ask.prompt)
    return Answer(items=tuple(f"{float(vector @ vectors[0]):.4f}" for vector in vectors[1:]), model=ask.prompt)


@cache
def _load_model(name: str) -> Any:
    """The model, from this machine alone."""
    return importlib.import_module(PACKAGE).SentenceTransformer(name, local_files_only=True)
