"""What stands out in a session; each sentence leads to its request."""

from __future__ import annotations

import streamlit as st
from turnscope.numbering import format_request
from turnscope.views.events import EVENTS
from turnscope.views.findings import Finding

from pages.parts import opening, url, widgets

KINDS = {
    "bill": "Bill",
    "cache": "Cache",
    "repeated": "Duplicate reads",
    "forgotten": "Forgotten",
    "rule": "Lost rule",
    "middle": "Lost in the middle",
    "thinking": "Thinking",
    "full": "Window full",
    "retry": "Retries",
    "side": "Beside the conversation",
    "unrecorded": "Not recorded",
    "stub": "Suspect usage data",
    "standing": "Persistent context",
    "unlogged": "Cut, not in the log",
    "unattributed": "Unattributed",
}


def draw(shown: opening.ShownSession) -> None:
    """What stands out in the session; each sentence leads to its request."""
    if not shown.findings:
        st.html('<div class="ts-empty">Nothing stands out: no cache miss, no duplicate reads, no overfull window.</div>')
        return
    items = [
        {
            "title": _name_finding(finding),
            "text": finding.text,
            "request": finding.request,
            "end": f"request {format_request(finding.request)} →",
        }
        for finding in shown.findings
    ]
    widgets.draw_rows("findings", items, at=-1, count=len(shown.view), go=url.go_to_request)


def _name_finding(finding: Finding) -> str:
    event = EVENTS.get(str(finding.evidence.get("event")))
    return event.word.capitalize() if event else KINDS.get(finding.kind, "Note")
