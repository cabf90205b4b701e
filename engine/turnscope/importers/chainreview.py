"""ChainReview's session files: `.chainreview/sessions/ID.json`, the API history with its condensed summary and token count.

The summary stood before the history as the first message of the user. The messages of the screen (`uiMessages`) are read where
they are those of the history with their thinking. From the specification; no real sample exists.
"""

from __future__ import annotations

from turnscope.importers import Importer
from turnscope.reading.calls import as_text
from turnscope.reading.content_blocks import as_mapping, as_rows
from turnscope.reading.messages import make_nodes
from turnscope.reading.nodes import NodeMessage, SkippedRecords, build_thread
from turnscope.reading.source import Entry, Source
from turnscope.session.builder import Builder
from turnscope.session.content import drop_thoughts
from turnscope.session.thread import Thread

NAME = "chainreview"
ABOUT = ("repoPath", "reviewRunId", "tokenCount", "createdAt", "updatedAt", "findings")


def sniff(source: Source) -> int:
    document = source.document if source.kind == "file" else None
    found = isinstance(document, dict) and isinstance(document.get("apiHistory"), list)
    return 90 if found and isinstance(document, dict) and {"repoPath", "tokenCount", "createdAt"} & document.keys() else 0


def read(source: Source, _entry: Entry) -> Thread:
    document = as_mapping(source.document)
    builder, passed = Builder(as_text(document.get("id")) or source.path.stem, NAME), SkippedRecords()
    builder.about |= {key: document[key] for key in ABOUT if document.get(key)}
    history, shown = as_rows(document.get("apiHistory")), as_rows(document.get("uiMessages"))
    if shown and drop_thoughts(shown) == history:
        history = shown
    elif shown:
        what = f"{len(shown)} messages of the screen are not those that were sent ({len(history)}), which are read"
        builder.add_note("info", 0, what)
        builder.about["uiMessages"] = shown
    nodes = list(make_nodes(history, lambda _: {}, passed))
    summary = as_text(document.get("condensedSummary"))
    lead = [NodeMessage("user", summary, "summary", "summary")] if summary else []
    if summary:
        builder.add_note("info", 0, "a summary stands for messages that were condensed and that the file does not hold")
    passed.add_notes(builder)
    return build_thread(builder, nodes, lead=lead)


IMPORTER = Importer(
    NAME,
    "ChainReview session (JSON)",
    sniff,
    read,
    wants="`api_history` of a review session",
    right="the condensed summary before the history; thinking from the messages of the screen; the recorded token count",
    sample=False,
    version=4,
)
