"""Numbers of requests and turns as people read them: counted from 1.

The API, addresses of pages, JSON and exported tables count both from 0, as `session.requests[n]` does. Every sentence, chart,
table and field of a page counts from 1. These functions are the only place where one becomes the other.
"""

from __future__ import annotations

FIRST = 1  # the number of the first request, and of the first turn


def number_request(n: int) -> int:
    """The number of a request for a chart or a field.

    >>> number_request(0)
    1
    """
    return n + FIRST


def index_request(number: int) -> int:
    """The index of a request that somebody gave by its number.

    >>> index_request(1)
    0
    """
    return number - FIRST


def format_request(n: int) -> str:
    """The number of a request for a sentence.

    >>> format_request(1_899)
    '1,900'
    """
    return f"{number_request(n):,}"


def format_turn(turn: int) -> str:
    """The number of a turn for a sentence.

    >>> format_turn(0)
    '1'
    """
    return f"{turn + FIRST:,}"


def format_requests(start: int, stop: int) -> str:
    """The numbers of a range of requests for a sentence.

    Args:
        start: index of the first request.
        stop: index after the last one.

    >>> format_requests(4, 9), format_requests(4, 5)
    ('5–9', '5')
    """
    first, last = format_request(start), format_request(max(start, stop - 1))
    return first if first == last else f"{first}–{last}"
