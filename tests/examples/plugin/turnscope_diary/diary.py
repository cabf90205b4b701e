"""Diaries of an invented tool: {"diary": 1, "days": [{"day": "2026-01-02", "said": [["me", "Hi"], ["it", "Yes?", 12, 3]]}]}

Each day is a session. An answer may name its prompt and output tokens.
"""

from collections.abc import Iterator
from typing import Any

from turnscope.importers import Entry, Importer, Source
from turnscope.reading.calls import parse_time
from turnscope.session.builder import Builder, parse_usage
from turnscope.session.thread import Thread


def sniff(source: Source) -> int:
    document = source.document
    return 90 if isinstance(document, dict) and "diary" in document and isinstance(document.get("days"), list) else 0


def find_days(source: Source) -> dict[str, Any]:
    days = (day for day in source.document["days"] if isinstance(day, dict) and isinstance(day.get("day"), str))
    return {day["day"]: day.get("said") for day in days}


def entries(source: Source) -> Iterator[Entry]:
    for name in reversed(find_days(source)):
        yield Entry(name, f"Diary of {name}", parse_time(f"{name}T00:00Z"))


def read(source: Source, entry: Entry) -> Thread:
    builder = Builder(f"{source.path.stem} {entry.id}", "diary", entry.title)
    records = find_days(source)[entry.id]
    for number, record in enumerate(records if isinstance(records, list) else [records], 1):
        match record:
            case ["me", str(text)]:
                builder.add_message("user", text, sent_at=entry.at)
            case ["it", str(text), *tokens]:
                usage = parse_usage(dict(zip(("input_tokens", "output_tokens"), tokens, strict=False))) if tokens else None
                builder.set_request(builder.add_message("assistant", text, sent_at=entry.at), usage=usage)
            case _:
                builder.add_note("warning", 0, f"record {number} of {entry.id} has no known shape and was left out")
    return Thread(builder.build())


IMPORTER = Importer("diary", "Diary (JSON)", sniff, read, entries, wants="object with the keys diary and days")
