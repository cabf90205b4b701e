"""Names of people, places and organisations, by an optional recogniser: presidio, with a spaCy model of this machine.

Such names have no form that a pattern could find. Nothing is downloaded: where package or model is missing, an error says what
to type.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from turnscope.errors import TurnscopeError
from turnscope.session.model import Session

MODELS = ("en_core_web_trf", "en_core_web_lg", "en_core_web_md", "en_core_web_sm")  # the most exact first
ENTITIES = ["PERSON", "ORGANIZATION", "LOCATION", "NRP"]  # NRP: nationality, religion, political group
SCORE = 0.4  # presidio's scores go from 0 to 1; spaCy's names have 0.85
CHUNK = 50_000  # characters that the recogniser reads at once
MIN_CHARS = 3  # shorter names would remove ordinary words
Recogniser = Callable[[str], Iterable[str]]


def find_names(session: Session, recognise: Recogniser) -> list[str]:
    """Find the names that a session's texts hold, the longest first.

    Args:
        session: The session.
        recognise: Yields the names of a text, as `load_recogniser` makes it.
    """
    found = {
        name.strip()
        for text in dict.fromkeys((session.title, *(block.text for block in session.blocks)))
        for at in range(0, len(text), CHUNK)
        for name in recognise(text[at : at + CHUNK])
    }
    return sorted((name for name in found if len(name) >= MIN_CHARS), key=lambda name: (-len(name), name))


def load_recogniser(engine: Any = None) -> Recogniser:
    """Load the recogniser.

    Args:
        engine: An `AnalyzerEngine` of presidio; None = one with the best English model of this machine.

    Raises:
        TurnscopeError: The package or a model is missing.
    """
    engine = engine or _make_engine()

    def recognise(text: str) -> Iterator[str]:
        for span in engine.analyze(text, language="en", entities=ENTITIES, score_threshold=SCORE):
            yield text[span.start : span.end]

    return recognise


def _make_engine() -> Any:
    if importlib.util.find_spec("presidio_analyzer") is None:
        hint = "Type `pip install 'turnscope[names]'`, or name the words by `--without`."
        raise TurnscopeError("names are recognised by presidio, which is not installed", hint=hint)
    model = next((name for name in MODELS if importlib.util.find_spec(name)), "")
    if not model:
        hint = f"Install one of {', '.join(MODELS)}, such as by `python -m spacy download {MODELS[-1]}`."
        raise TurnscopeError("names are recognised by a model of spaCy, and none is installed", hint=hint)
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import NlpEngineProvider

    models = {"nlp_engine_name": "spacy", "models": [{"lang_code": "en", "model_name": model}]}
    return AnalyzerEngine(nlp_engine=NlpEngineProvider(nlp_configuration=models).create_engine())
