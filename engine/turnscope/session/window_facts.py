"""What a session shows of the context windows of its models: facts, without a decision (see `pricing.windows`).

Which window was asked for, which prompts were refused, which the tool compacted by itself, and which it left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from turnscope.session.model import CHAT, JSON, MODEL_WINDOWS, Bucket, Request, Session

STANDARD_WINDOW = 200_000  # tokens of the window that Claude models are sold with, next to a larger one
LARGER_WINDOWS = (1_000_000, 2_000_000)  # tokens of the larger windows that providers sell
LEAST_WINDOW = 100_000  # tokens of the smallest window that is sold in a larger size, too
LARGE_BETA = "context-1m"  # how the name of the beta begins that asks for 1,000,000 tokens
COMPACTING_TOOLS = frozenset({"claude-code", "codex", "qwen-code"})  # their automatic compactions tell the window


class Compactions(NamedTuple):
    """How often a tool compacted by itself, the most tokens that it left alone, and the least that it compacted."""

    times: int
    least: int
    most: int


def describe_main_path(main: Session) -> dict[str, JSON]:
    """Describe what a main path shows of its models' windows, for branches and subagents: facts by model (`MODEL_WINDOWS`)."""
    shown: dict[str, JSON] = {}
    for model, requests in group_by_model(main).items():
        betas: list[list[JSON]] = []
        for request in requests:
            name = find_large_beta(list_betas(request))
            if not betas or betas[-1][1] != name:
                betas.append([request.sent_at or 0.0, name])
        requested = any(name for _, name in betas)
        by_name = requested or any(large for _, large in list_switches(main, model))
        found = None if by_name else measure_compactions(main, model, requests)
        facts = {
            "betas": betas if requested else None,
            "refused": find_refusal(main, model, requests),
            "compacted": list(found) if found else None,
            "prompt": _find_largest(main, requests),
        }
        if given := {key: value for key, value in facts.items() if value}:
            shown[model] = given
    return shown


def _find_largest(main: Session, requests: Sequence[Request]) -> int:
    """Tokens of the largest prompt that was answered, where it is beyond the standard window; else 0."""
    answered = (request for request in requests if request.stop > request.cut and is_one_prompt(main, request))
    largest = max(map(count_prompt, answered), default=0)
    return largest if largest > STANDARD_WINDOW else 0


def is_one_prompt(session: Session, request: Request) -> bool:
    """Whether a request's prompt tokens are those of one prompt: none of the provider's tools ran inside the answer.

    Args:
        session: The session.
        request: One of its requests.
    """
    return all(block.bucket is not Bucket.TOOL_RESULTS for block in session.blocks[request.cut : request.stop])


def count_prompt(request: Request) -> int:
    """Tokens of the prompt as billed; 0 without usage."""
    return request.usage.prompt_tokens if request.usage else 0


def count_used(request: Request) -> int:
    """Tokens of the prompt and its answer, as a tool holds them against its threshold."""
    usage = request.usage
    return usage.answered_prompt_tokens + (0 if request.output_stub else usage.output_tokens) if usage else 0


def group_by_model(session: Session) -> dict[str, list[Request]]:
    """The requests of each model, in order."""
    by_model: dict[str, list[Request]] = {}
    for request in session.requests:
        by_model.setdefault(request.model, []).append(request)
    return by_model


def get_listed(session: Session, key: str) -> Any:
    """What the importer found of windows in the log, by key of `MODEL_WINDOWS`.

    Args:
        session: The session.
        key: A key of that object.
    """
    listed = session.about.get(MODEL_WINDOWS) if session.source != CHAT else None
    return listed.get(key) if isinstance(listed, Mapping) else None


def list_switches(session: Session, model: str) -> list[tuple[float, bool]]:
    """The choices that concern a model, each with its time and whether it was one of the larger window.

    A choice concerns the families that it names; where it names none, every model.

    Args:
        session: The session.
        model: One of its models, as requests name it.
    """
    rows = get_listed(session, "switches") or ()
    return [(at, large) for at, large, *families in rows if not families or any(name in model.lower() for name in families)]


def list_betas(request: Request) -> list[str]:
    """The beta features that a request named, as far as the log has them."""
    betas = request.settings.get("betas") or request.settings.get("anthropic_beta")
    return [name for name in betas if isinstance(name, str)] if isinstance(betas, (list, tuple)) else []


def find_large_beta(betas: Iterable[str]) -> str:
    """The beta that asks for the larger window; "" = none."""
    return next((name for name in betas if name.startswith(LARGE_BETA)), "")


def find_refusal(session: Session, model: str, run: Sequence[Request]) -> list[int] | None:
    """Tokens of the newest prompt that the provider refused between two requests of a run, and the limit that it named.

    Args:
        session: The session.
        model: One of its models, as requests name it.
        run: Some of its requests, in order.
    """
    for at, tokens, window in reversed(get_listed(session, "refused") or ()):
        before = [request for request in session.requests if (request.sent_at or 0.0) <= at]
        near = before[-1] if before else session.requests[0]
        if run[0].n <= near.n <= run[-1].n and near.model == model:
            return [tokens, window]
    return None


def find_over(session: Session, run: Sequence[Request], window: int) -> tuple[int, Request, int] | None:
    """The next larger window that a run proves, the request that does, and the first request that it may hold for.

    Args:
        session: The session.
        run: Some of its requests, in order.
        window: The window so far, in tokens.
    """
    sizes = ((count_prompt(request), request) for request in run if window >= LEAST_WINDOW)
    over = [(size, request) for size, request in sizes if size > window and request.stop > request.cut]
    proven = [(size, request) for size, request in over if is_one_prompt(session, request)]
    size, largest = max(proven, key=lambda pair: pair[0], default=(0, None))
    tier = next((tier for tier in LARGER_WINDOWS if tier >= size), None)
    if largest is None or tier is None:
        return None
    first = proven[0][1].n
    return tier, largest, max((n for n, _ in list_compactions(session, run) if n <= first), default=run[0].n)


def list_compactions(session: Session, run: Sequence[Request]) -> list[tuple[int, int]]:
    """The automatic compactions within a run: the first request after each, and the tokens that were compacted.

    Args:
        session: The session.
        run: Some of its requests, in order.
    """
    numbers = {request.n: request for request in run}
    found: dict[int, int] = {}
    for seen in session.observed if session.source in COMPACTING_TOOLS else ():
        edit = seen.edit
        trigger = edit.facts.get("trigger", "" if session.source == "claude-code" else "auto")
        if edit.action == "condense" and trigger == "auto" and seen.request in numbers and seen.request:
            size, before = edit.facts.get("preTokens"), session.requests[seen.request - 1]
            found[seen.request] = size if isinstance(size, int) and size > 0 else count_used(before)
    return sorted((n, size) for n, size in found.items() if size)


def measure_compactions(session: Session, model: str, run: Sequence[Request]) -> Compactions | None:
    """What the tool left alone and what it compacted by itself in a run, up to where a larger window was in force.

    Args:
        session: The session.
        model: One of its models, as requests name it.
        run: Some of its requests, in order.
    """
    compactions = list_compactions(session, run)
    if not compactions:
        return None
    after = {n for n, _ in compactions}
    first = find_over(session, run, STANDARD_WINDOW) if "claude" in model else None
    end = first[2] if first and compactions[0][0] <= first[2] else run[-1].n
    compactions = [pair for pair in compactions if pair[0] <= end]
    alone = (request for request in run if request.n < end and request.n + 1 not in after)
    least, most = max(map(count_used, alone), default=0), min(size for _, size in compactions)
    return Compactions(len(compactions), least, most)
