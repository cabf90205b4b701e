"""How LibreChat's agents shorten texts: tool results lose their middle, oversized arguments of calls become an envelope.

Pure functions over texts, ported from `truncation.ts`, `toolContent.ts`, `prune.ts` and `contextPruning.ts` of
@librechat/agents 3.6.11. All lengths are UTF-16 units, as in JavaScript. The texts that mark a cut are in our wording, at
the lengths and with the line breaks of the original, because both decide where a text is cut the next time.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from turnscope.session.model import JSON

MAX_RESULT, MAX_ARGS = 400_000, 200_000  # most characters of a result, and of the arguments of a call
MASKED = 300  # least characters of an answered result
LEAST_RESULT, LEAST_ARGS = 200, 4
CLEARED = "[Result of an old call, left out]"
_MARK, _ENDS = "\n\n… [shortened: ", "] …\n\n"  # before and after the numbers of the characters that were cut out
CUT_ARGS = "… [shortened]"
_SNAP = 200  # a cut moves to a line break within so many characters
_SPLIT = re.compile("[\ud800-\udfff]")
_LONE = re.compile("[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]")


@dataclass(frozen=True, slots=True)
class ByPosition:
    """Options for shortening by age, at any fill (`contextPruningConfig`; off by default)."""

    by_age: Annotated[bool, "shorten results by their age"] = False
    keep_turns: Annotated[int, "assistant turns at the end that do not change"] = 3
    trim_from: Annotated[float, "age (0 newest to 1 oldest) from which on the middle is cut out"] = 0.3
    clear_from: Annotated[float, "age from which on the whole result is removed"] = 0.5
    min_chars: Annotated[int, "shorter results do not change (characters)"] = 50_000
    max_chars: Annotated[int, "results up to this length keep their middle (characters)"] = 4_000
    head: Annotated[int, "characters of the start that stay"] = 1_500
    tail: Annotated[int, "characters of the end that stay"] = 1_500
    clear: Annotated[bool, "remove old results as a whole"] = True
    cleared: Annotated[str, "the text that replaces them"] = CLEARED


def widen(text: str) -> str:
    """Return a text as UTF-16 units, one character each, so that lengths and slices are JavaScript's."""
    if text.isascii() or max(text) <= "\uffff":
        return text
    return "".join(map(chr, array("H", text.encode("utf-16-le", "surrogatepass"))))


def narrow_text(text: str) -> str:
    """Return the text that `widen` took apart. Halves of surrogate pairs stay halves."""
    if text.isascii() or not _SPLIT.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def pack(text: str, whole: str) -> bytes:
    """Return a wide text that was cut out of `whole`, as bytes.

    They say how much of the start and the end is unchanged, and what is between. Bytes, because halves of surrogate pairs
    cannot be written as proper UTF-8.

    Args:
        text: The cut text, wide (see `widen`).
        whole: The text that it was cut out of, wide.
    """
    size, large = len(text), len(whole)
    a = text.find(_MARK)
    b = text.find(_ENDS, a) + len(_ENDS)
    if 0 <= a < b - len(_ENDS) and whole.startswith(text[:a]) and whole.endswith(text[b:]):  # the result of a single cut
        return b"%d %d " % (a, size - b) + text[a:b].encode("utf-8", "surrogatepass")
    head = _find_most(min(size, large), lambda low, high: text[low:high] == whole[low:high])
    tail = _find_most(
        min(size, large) - head, lambda low, high: text[size - high : size - low] == whole[large - high : large - low]
    )
    return b"%d %d " % (head, tail) + text[head : size - tail].encode("utf-8", "surrogatepass")


def pack_cut(whole: str, cut: Middle) -> bytes:
    """Return the same as `pack`, if it is known how `whole` was cut.

    Args:
        whole: The text before the cut, wide.
        cut: Where its start ends, the mark, and where its end begins.
    """
    return b"%d %d " % (cut[0], len(whole) - cut[2]) + cut[1].encode("utf-8", "surrogatepass")


def unpack(text: bytes, whole: str) -> str:
    """Return the wide text that `pack` wrote.

    Args:
        text: What `pack` returned.
        whole: The text that it was cut out of, wide.
    """
    head, tail, between = text.split(b" ", 2)
    return whole[: int(head)] + between.decode("utf-8", "surrogatepass") + whole[len(whole) - int(tail) :]


def _find_most(stop: int, alike: Callable[[int, int], bool]) -> int:
    """Return the largest number of equal characters, up to `stop`, if `alike` says of any number whether they are equal."""
    low = 0
    while low < stop:
        middle = (low + stop + 1) // 2
        low, stop = (middle, stop) if alike(low, middle) else (low, middle - 1)
    return low


Middle = tuple[int, str, int]
"""How a text is cut: where its beginning stops, what stands between, where its end starts."""


def find_middle(text: str, limit: int) -> Middle:
    """Return how a wide text that is longer than `limit` is cut: its start (70 %), its end, and a mark between, which counts.

    If fewer than 200 characters are left for both, only the start stays. If no mark fits, there is none.

    Args:
        text: The text, wide.
        limit: UTF-16 units that may stay, the mark included.
    """
    length = len(text)
    mark = f"{_MARK}{length} characters, allowed: {limit}{_ENDS}"
    room = limit - len(mark)
    if room <= 0:
        return limit, "", length
    if room < 200:
        return room, mark.rstrip(), length
    head = math.ceil(room * 0.7)
    end, start = head, length - (room - head)
    if (line := text.rfind("\n", 0, head + 1)) > max(head - _SNAP, 0):
        end = line
    if 0 < (line := text.find("\n", start)) < start + _SNAP:
        start = line + 1
    return end, mark, start


def find_list_middle(text: str, limit: int) -> Middle:
    """Return the same for the joined texts of a list. Only their start stays.

    Args:
        text: The joined texts, wide.
        limit: UTF-16 units that may stay, the mark included.
    """
    mark = f"\n\n… [shortened: {len(text)} characters, allowed: {limit}] …"
    head = max(0, limit - len(mark))
    return head, mark[: limit - head], len(text)


def shorten(text: str, limit: int) -> str:
    """Cut a wide text to `limit` characters as `find_middle` says.

    Args:
        text: The text, wide.
        limit: UTF-16 units that may stay.
    """
    if len(text) <= limit:
        return text
    end, mark, start = find_middle(text, limit)
    return text[:end] + mark + text[start:]


def trim(text: str, settings: ByPosition) -> str:
    """Cut the middle out of a wide text, by age alone. A tail of 0 keeps everything, as the original's slice does.

    Args:
        text: The text, wide.
        settings: How many UTF-16 units of its start and end stay.
    """
    mark = f"\n\n… [middle is taken out of {len(text)} characters; {settings.head + settings.tail} are left] …\n\n"
    return text[: settings.head] + mark + text[-settings.tail :]


def write_json(value: JSON) -> str:
    """Write compact JSON as JavaScript does, as a wide text."""
    text = widen(json.dumps(_convert_numbers(value), ensure_ascii=False, separators=(",", ":")))
    return _LONE.sub(lambda m: f"\\u{ord(m[0]):04x}", text) if not text.isascii() else text


def _convert_numbers(value: JSON) -> JSON:
    """Convert numbers as JavaScript writes them: 1.0 becomes 1."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 1e21 else value
    if isinstance(value, Mapping):
        return {key: _convert_numbers(item) for key, item in value.items()}
    return [_convert_numbers(item) for item in value] if isinstance(value, (list, tuple)) else value


def envelope_arguments(value: JSON, limit: int) -> tuple[JSON, bool]:
    """Fit the arguments of a call into `limit` characters of JSON. Return them, and whether they changed.

    Args:
        value: The arguments.
        limit: UTF-16 units of the JSON; values below 4 count as 4.
    """
    limit = max(LEAST_ARGS, limit)
    text = write_json(value)
    if len(text) <= limit:
        return value, False
    preview = shorten(text, limit)

    def wrap_part(part: str) -> dict[str, JSON]:
        return {"_truncated": narrow_text(part), "_originalChars": len(text)}

    if len(write_json(wrap_part(""))) > limit:
        return {}, True
    low, high = 0, min(len(preview), limit)
    while low < high:
        middle = (low + high + 1) // 2
        if len(write_json(wrap_part(preview[:middle]))) <= limit:
            low = middle
        else:
            high = middle - 1
    marked = low < len(preview) and low >= len(CUT_ARGS)
    return wrap_part(preview[: low - len(CUT_ARGS)] + CUT_ARGS if marked else preview[:low]), True


def compute_result_cap(tokens: int) -> int:
    """Return the characters that one result may have: 30 % of a window of `tokens`."""
    return min(math.floor(tokens * 0.3) * 4, MAX_RESULT) if tokens > 0 else MAX_RESULT


def compute_arguments_cap(tokens: int) -> int:
    """Return the characters that the arguments of one call may have: 15 % of a window of `tokens`."""
    return max(LEAST_ARGS, min(math.floor(tokens * 0.15) * 4, MAX_ARGS)) if tokens > 0 else MAX_ARGS


def compute_share(number: int, count: int) -> float:
    """Return the share of a cap for result `number` of `count`: from 0.2 for the oldest to 1 for the newest.

    Args:
        number: The number of the result, from 0 for the oldest.
        count: How many results there are.
    """
    return 0.2 + 0.8 * (number / (count - 1) if count > 1 else 1)


def compute_faded_cap(number: int, count: int, cap: int) -> int:
    """Return the characters for result `number` of `count`, if the newest may have `cap`.

    Args:
        number: The number of the result, from 0 for the oldest.
        count: How many results there are.
        cap: UTF-16 units for the newest one.
    """
    return max(LEAST_RESULT, math.floor(cap * compute_share(number, count)))


def build_masks(count: int, characters: int) -> Callable[[int], int]:
    """Return the characters for each of `count` answered results that share `characters`; 0 = the minimum for each.

    Args:
        count: How many answered results there are.
        characters: UTF-16 units for all of them together.
    """
    if characters <= 0:
        return lambda _number: MASKED
    last, shares = count - 1, 0.6 * count
    if last < 1:
        return lambda _number: max(MASKED, characters)
    floor = math.floor  # a local name, because this runs for all results of each request

    def most(number: int) -> int:
        found = floor((0.2 + 0.8 * (number / last)) / shares * characters)
        return max(MASKED, found)

    return most
