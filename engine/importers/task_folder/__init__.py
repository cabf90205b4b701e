"""Task folders of Cline and Roo Code: `api_conversation_history.json`, `ui_messages.json` and what lies beside them.

Cline keeps the whole conversation and masks it: the mask stands in the UI messages, rewritten texts in `context_history.json`.
Roo (from 3.36) tags hidden messages and keeps summaries and markers among them; older versions deleted what they condensed, and
what the UI still shows of it is put back. Tools that are written as XML inside texts become calls and results.

`folder` reads the files, `markup` the XML, `timeline` builds messages and requests, `changes` tells what left the window.
"""

from __future__ import annotations

from engine.importers import Importer
from engine.importers.task_folder.folder import is_history, is_screen, open_folder
from engine.importers.task_folder.timeline import NAME, session_of
from engine.reading.source import Source
from engine.session.model import Session


def sniff(source: Source) -> bool:
    return is_history(source.document) or is_screen(source.document)


def read(source: Source) -> tuple[Session, ...]:
    return (session_of(open_folder(source)),)


IMPORTER = Importer(NAME, "Cline or Roo Code task (api_conversation_history.json, ui_messages.json)", sniff, read)
