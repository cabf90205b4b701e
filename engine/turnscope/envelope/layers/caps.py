"""Shorten texts to a token cap: by sentences first, then by key points, at last by words. Pure; the caller counts tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Count = Callable[[Sequence[str]], list[int]]
"""Tokens of each of some texts."""

Point = tuple[str, str, tuple[str, ...]]
"""A key point: its name, the text between its sentences, and its sentences, the most important first."""


def fit_points(head: str, points: Sequence[Point], cap: int, count: Count) -> str:
    """Return a head and its points, one line each, in at most `cap` tokens.

    Sentences are dropped first, from the last point that has several; then whole points, from the last.

    Args:
        head: The first line.
        points: The key points, the most important first.
        cap: The most tokens.
        count: Counts the tokens of texts.
    """
    lists = [[*sentences] for _, _, sentences in points]
    costs = count([head, *(text for sentences in lists for text in sentences), *(f"\n{label}: " for label, _, _ in points)])
    rest = iter(costs[1:])
    sizes = [[next(rest) + 1 for _ in sentences] for sentences in lists]
    labels = [next(rest) + 1 for _ in points]
    total = costs[0] + sum(label + sum(size) for label, size in zip(labels, sizes, strict=True) if size)
    while total > cap and (gone := _choose_point(lists)) >= 0:
        lists[gone].pop()
        total -= sizes[gone].pop() + (0 if lists[gone] else labels[gone])
    while count([text := _format_points(head, points, lists)])[0] > cap:  # a text can have more tokens than its parts
        if (gone := _choose_point(lists)) < 0:
            return cut_text(head, cap, count)
        lists[gone].pop()
    return text


def cut_text(text: str, cap: int, count: Count) -> str:
    """Return the first words of a text that have at most `cap` tokens; "" where the first word has more.

    Args:
        text: The text.
        cap: The most tokens.
        count: Counts the tokens of texts.
    """
    if cap <= 0 or not text:
        return ""
    if count([text])[0] <= cap:
        return text
    words = text.split(" ")
    low, high = 0, len(words) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if count([" ".join(words[:middle])])[0] <= cap else (low, middle - 1)
    return " ".join(words[:low])


def _choose_point(lists: Sequence[list[str]]) -> int:
    """The point that loses its last sentence next: the last with several, else the last with one; -1 = none has any."""
    many = [n for n, sentences in enumerate(lists) if len(sentences) > 1]
    some = [n for n, sentences in enumerate(lists) if sentences]
    return (many or some or [-1])[-1]


def _format_points(head: str, points: Sequence[Point], lists: Sequence[Sequence[str]]) -> str:
    lines = (
        f"{label}: {between.join(sentences)}" for (label, between, _), sentences in zip(points, lists, strict=True) if sentences
    )
    return "\n".join(filter(None, (head, *lines)))
