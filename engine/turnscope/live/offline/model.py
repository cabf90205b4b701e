"""What the built-in model counts, caches, cuts off and answers. Pure functions, apart from the cache in `CacheState`."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from turnscope.counting.media import count_media
from turnscope.counting.tokens import Counter, count_texts
from turnscope.envelope.memories import find_facts as found_in
from turnscope.live import attachments
from turnscope.live.offline.context_edits import drop_compacted
from turnscope.live.offline.validation import sign_thinking
from turnscope.planning.extract import extract
from turnscope.session.content import dumps, extract_block_text, extract_text

JSON = Any
WINDOWS = {"offline-16k": 16_000, "offline-64k": 64_000, "offline-200k": 200_000}  # tokens
COUNTER = Counter("toktok", "o200k_base", 1.0, "", "o200k_base")
TOKENS_PER_MESSAGE = 4
MIN_CACHED_TOKENS = 256  # a shorter prefix is not cached
TTL_SECONDS = {"5m": 300.0, "1h": 3600.0}  # seconds
TRANSCRIPT = re.compile(r"<transcript>\n?(.*)\n?</transcript>", re.DOTALL)

_TOOL_PATTERNS = (
    (
        re.compile(r"\b(?:write|take|make|keep)\s+a\s+note(?:\s+(?:that|of|on))?[\s:]+(.+)", re.IGNORECASE | re.DOTALL),
        "write_note",
        "text",
    ),
    (re.compile(r"\bread\s+(?:back\s+)?(?:the\s+)?note\s+([0-9a-f]+)", re.IGNORECASE), "read_note", "id"),
    (
        re.compile(r"\b(?:read|open|show)\s+(?:me\s+)?(?:the\s+)?(?:file\s+)?[`'\"]?([\w./-]+\.\w+)", re.IGNORECASE),
        "read_file",
        "path",
    ),
    (
        re.compile(r"\blist\s+(?:the\s+)?(?:files(?:\s+in)?|folder|directory)?\s*[`'\"]?([\w./-]*)", re.IGNORECASE),
        "list_files",
        "path",
    ),
    (re.compile(r"\bsearch\s+(?:for\s+)?[`'\"]?([^`'\"\n?]+)", re.IGNORECASE), "search_files", "query"),
    (re.compile(r"\b(?:retrieve|recall)\s+(?:conversations?\s+)?(c\d+)", re.IGNORECASE), "retrieve_conversations", "ids"),
    (re.compile(r"\breport\s+(?:that\s+)?([^\n]+)", re.IGNORECASE), "report_housekeeping", "context_summary"),
    (re.compile(r"\b(?:calculate|compute|what is)\s+([-+*/(). \d]{3,})", re.IGNORECASE), "calculate", "expression"),
)


@dataclass(slots=True)
class CacheState:
    """The cached prefixes (digest: when it expires, in seconds), and every usage that was billed."""

    prefixes: dict[str, float] = field(default_factory=dict)
    billed: list[dict[str, JSON]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PromptBlock:
    """One block of a prompt, with the time to live of its cache breakpoint ("" = none)."""

    digest: str
    tokens: int
    ttl: str


def split_prompt(body: Mapping[str, JSON]) -> list[PromptBlock]:
    """Split a prompt into blocks in the provider's order: tools, system, messages."""
    raws: list[tuple[JSON, str, int]] = [(tool, "tool", 0) for tool in body.get("tools") or ()]
    system = body.get("system") or []
    raws += [(block, "system", 0) for block in ([system] if isinstance(system, str) else system)]
    for message in drop_compacted(body.get("messages") or []):
        content = message.get("content")
        blocks = [content] if isinstance(content, str) else content or []
        raws += [
            (b, b.get("type", "") if isinstance(b, dict) else "text", TOKENS_PER_MESSAGE * (i == 0))
            for i, b in enumerate(blocks)
        ]
    kinds = {"server_tool_use": "tool_use"}
    texts = [extract_block_text(kinds.get(kind, kind), _strip_cache_control(raw)) for raw, kind, _ in raws]
    counts = count_texts(texts, COUNTER)
    found = []
    for (raw, _, extra), count in zip(raws, counts, strict=True):
        mark = raw.get("cache_control") if isinstance(raw, dict) else None
        ttl = str(mark.get("ttl", "5m")) if isinstance(mark, dict) else ""
        found.append(
            PromptBlock(
                _hash_text(dumps(_strip_cache_control(raw))),
                count + count_media(_strip_cache_control(raw), COUNTER.family) + extra,
                ttl,
            )
        )
    if body.get("cache_control") and found:
        found[-1] = PromptBlock(found[-1].digest, found[-1].tokens, str(body["cache_control"].get("ttl", "5m")))
    return found


def count_tokens(body: Mapping[str, JSON]) -> int:
    """Count the input tokens of a body."""
    return sum(unit.tokens for unit in split_prompt(body))


def bill_prompt(found: list[PromptBlock], memory: CacheState, now: float) -> dict[str, JSON]:
    """Bill a prompt: compute what is read from the cache, written to it, and neither.

    Args:
        found: The blocks of the prompt.
        memory: The cache; new prefixes are added to it.
        now: The time in seconds.
    """
    total = sum(unit.tokens for unit in found)
    chain, sizes, digest, size = [], [], "", 0
    for unit in found:
        digest, size = _hash_text(digest + unit.digest), size + unit.tokens
        chain.append(digest)
        sizes.append(size)
    read = max((s for d, s in zip(chain, sizes, strict=True) if memory.prefixes.get(d, 0.0) > now), default=0)
    written = {"5m": 0, "1h": 0}
    upto = read
    for unit, place, size in zip(found, chain, sizes, strict=True):
        if unit.ttl and size >= MIN_CACHED_TOKENS:
            memory.prefixes[place] = now + TTL_SECONDS.get(unit.ttl, TTL_SECONDS["5m"])
            if size > upto:
                written["1h" if unit.ttl == "1h" else "5m"] += size - upto
                upto = size
    return {
        "input_tokens": total - upto,
        "cache_creation_input_tokens": upto - read,
        "cache_read_input_tokens": read,
        "cache_creation": {"ephemeral_5m_input_tokens": written["5m"], "ephemeral_1h_input_tokens": written["1h"]},
        "output_tokens": 0,
    }


def write_answer(body: Mapping[str, JSON], size: int, sent: list[JSON]) -> list[JSON]:
    """Write the content blocks of an answer. The same body always has the same answer.

    Args:
        body: The request body.
        size: Its input tokens.
        sent: The messages as they were sent, which thinking is signed for.
    """
    messages = body["messages"]
    last_prompt = next((m for m in reversed(messages) if m["role"] == "user"), messages[-1])  # a summary may follow it
    last = last_prompt.get("content")
    attached, text = attachments.split_content(last)
    typed = _find_last_text(last, text)
    tool_names = {tool.get("name") for tool in body.get("tools") or ()}
    blocks: list[JSON] = []
    if (body.get("thinking") or {}).get("type") in ("enabled", "adaptive"):
        thought = _write_thinking(text, size, len(messages))
        seal = sign_thinking(str(body.get("model", "")), sent, thought)
        blocks.append({"type": "thinking", "thinking": thought, "signature": seal})
    transcript = TRANSCRIPT.search(text)
    if transcript and "`user:`" in text[: transcript.start()]:  # asks for facts: they are found by patterns
        lines = transcript.group(1).splitlines()
        facts = (fact for role, _, line_text in (line.partition(": ") for line in lines) for fact in found_in(role, line_text))
        return [*blocks, {"type": "text", "text": "\n".join(f"{fact.owner}: {fact.text}" for fact in facts)}]
    if transcript:
        return [
            *blocks,
            {"type": "text", "text": extract(transcript.group(1), min(int(body.get("max_tokens") or 1_000), 2_000))},
        ]
    results = [b for b in last if isinstance(b, dict) and b.get("type") == "tool_result"] if isinstance(last, list) else []
    if not results:
        for pattern, name, argument in _TOOL_PATTERNS:
            found = pattern.search(typed)
            if found and name in tool_names:
                call = f"toolu_{_hash_text(dumps(messages) + name)[:16]}"
                wanted = found.group(1).strip() or "."
                arguments = {argument: [wanted], **_find_form(typed)} if argument == "ids" else {argument: wanted}
                arguments |= {"title": wanted.splitlines()[0].partition(": ")[0][:60]} if name == "write_note" else {}
                return [*blocks, {"type": "tool_use", "id": call, "name": name, "input": arguments}]
    return [
        *blocks,
        {"type": "text", "text": _describe_attachments(attached) + _write_text(typed, results, size, len(messages))},
    ]


def _find_form(text: str) -> dict[str, JSON]:
    """Return the form in which the prompt asks for an earlier conversation, if it names one."""
    found = re.search(r"\b(?:in|as)\s+(?:a\s+)?(full|summary|header)\b", text, re.IGNORECASE)
    return {"format": found.group(1).lower()} if found else {}


def _find_last_text(last: JSON, text: str) -> str:
    """Return the last text of a message. A policy may insert texts of its own before it."""
    texts = [b.get("text") for b in last if isinstance(b, dict) and b.get("type") == "text"] if isinstance(last, list) else []
    return str(texts[-1]) if texts and texts[-1] else text


def _describe_attachments(attached: list[JSON]) -> str:
    """Describe what is attached to the newest message, as far as the model can know without seeing it."""
    found = [(attachments.read_text_file(raw), attachments.read_image(raw), raw) for raw in attached]
    descriptions = [
        f"the file {file[0]} ({len(file[1]):,} characters)"
        if file
        else f"an image ({picture or 'elsewhere'}), counted as {count_media(raw, COUNTER.family):,} tokens"
        for file, picture, raw in found
    ]
    return f"You attached {'; '.join(descriptions)}. I cannot see into either. " if descriptions else ""


def cut_to_limit(
    blocks: list[JSON], max_tokens: int, body: Mapping[str, JSON], sent: list[JSON]
) -> tuple[list[JSON], int, bool]:
    """Cut an answer at its limit.

    A text or thinking is cut inside; a tool call comes whole or not at all. A cut answer is billed up to its limit, as
    providers do.

    Args:
        blocks: The blocks of the whole answer.
        max_tokens: The limit.
        body: The request body.
        sent: The messages as they were sent, which thinking is signed for.

    Returns:
        The blocks, the tokens that are billed, and whether the answer is complete.
    """
    kept_blocks: list[JSON] = []
    tokens_spent = TOKENS_PER_MESSAGE
    for block in blocks:
        tokens = _count_block(block)
        if tokens_spent + tokens <= max_tokens:
            kept_blocks.append(block)
            tokens_spent += tokens
            continue
        key = block["type"]
        if key in ("text", "thinking"):
            size = (
                bisect_right(
                    range(len(block[key]) + 1),
                    max_tokens - tokens_spent,
                    key=lambda n: _count_block({**block, key: block[key][:n]}),
                )
                - 1
            )
            if size > 0:
                cut = {**block, key: block[key][:size]}
                seal = {"signature": sign_thinking(str(body.get("model", "")), sent, cut[key])} if key == "thinking" else {}
                kept_blocks.append(cut | seal)
        return kept_blocks, max_tokens, False
    return kept_blocks, tokens_spent, True


def _count_block(block: Mapping[str, JSON]) -> int:
    return count_texts([extract_block_text(block["type"], {k: v for k, v in block.items() if k != "signature"})], COUNTER)[0]


def _write_text(text: str, results: list[JSON], size: int, messages: int) -> str:
    if results:
        result = extract_text(results[-1].get("content"))
        first = next((line for line in result.splitlines() if line.strip()), "")[:120]
        weight = "They count toward every later request of this chat."
        return f"The tool gave {len(result):,} characters, beginning with: {first}\n{weight}"
    start = " ".join(text.split())[:160]
    return (
        f'I am the built-in offline model. I understand nothing; I only keep count. Your message begins "{start}". '
        f"This request carried {messages} messages and {size:,} tokens. "
        "Ask me to read a file, to list or search the folder, or to calculate, and I will call the tool."
    )


def _write_thinking(text: str, size: int, messages: int) -> str:
    words = " ".join(text.split())[:400]
    return f"The prompt holds {messages} messages and {size:,} tokens. The newest says: {words}. " * (
        1 + min(len(text) // 400, 6)
    )


def _strip_cache_control(raw: JSON) -> JSON:
    return {k: v for k, v in raw.items() if k != "cache_control"} if isinstance(raw, dict) else raw


def _hash_text(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
