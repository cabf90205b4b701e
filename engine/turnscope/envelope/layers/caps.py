"""Keeping a text within its cap: by sentences first, then by key points, at last by words. Pure; counts are handed in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Count = Callable[[Sequence[str]], list[int]]
"""Tokens of each of some texts."""

Point = tuple[str, str, tuple[str, ...]]
"""What a key point is called, what joins its sentences, and these, the most telling first."""


def fit_points(head: str, points: Sequence[Point], cap: int, count: Count) -> str:
    """A head and its points, a line each, in at most `cap` tokens.

    What is too much goes sentence by sentence from the last point that has several, then point by point from the last.
    """
    kept = [[*said] for _, _, said in points]
    costs = count([head, *(text for said in kept for text in said), *(f"\n{label}: " for label, _, _ in points)])
    rest = iter(costs[1:])
    sizes = [[next(rest) + 1 for _ in said] for said in kept]
    labels = [next(rest) + 1 for _ in points]
    total = costs[0] + sum(label + sum(size) for label, size in zip(labels, sizes, strict=True) if size)
    while total > cap and (gone := _choose_point(kept)) >= 0:
        kept[gone].pop()
        total -= sizes[gone].pop() + (0 if kept[gone] else labels[gone])
    while count([text := _format_points(head, points, kept)])[0] > cap:  # a text can cost more than its parts
        if (gone := _choose_point(kept)) < 0:
            return cut_text(head, cap, count)
        kept[gone].pop()
    return text


def cut_text(text: str, cap: int, count: Count) -> str:
    """The first words of a text that have at most `cap` tokens; "" where not one does."""
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


def _choose_point(kept: Sequence[list[str]]) -> int:
    """The point that gives up a sentence next: the last with several, else the last with one; -1 = none has any."""
    many = [n for n, said in enumerate(kept) if len(said) > 1]
    some = [n for n, said in enumerate(kept) if said]
    return (many or some or [-1])[-1]


def _format_points(head: str, points: Sequence[Point], kept: Sequence[Sequence[str]]) -> str:
    lines = (f"{label}: {between.join(said)}" for (label, between, _), said in zip(points, kept, strict=True) if said)
    return "\n".join(filter(None, (head, *lines)))
