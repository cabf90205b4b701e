"""Persistent context: what a tool injects once and every later request carries, such as listings, instructions and memory.

Sums tokens only; `findings` decides what is worth a sentence.
"""

from __future__ import annotations

import numpy as np

from turnscope.counting.reconciliation import Floats
from turnscope.planning.trace import Trace

PERSISTENT_KINDS = {
    "agents": "agent listings",
    "skills": "skill listings",
    "deferred_tools": "names of deferred tools",
    "mcp_instructions": "MCP instructions",
    "memory": "memory",
    "files": "attached files",
    "hooks": "text from hooks",
}  # by kind of block; reminders of the moment do not persist


def measure_persistent_context(trace: Trace, scales: Floats) -> dict[str, Floats]:
    """Provider tokens of persistent context by request and kind, the largest kind first. Kinds that no request carries are left
    out.

    Args:
        trace: the session as recorded.
        scales: provider tokens per counted token, `[n]`.
    """
    blocks = [block for block in trace.session.blocks if block.kind in PERSISTENT_KINDS]
    found = {block.kind: np.zeros(len(trace.plans)) for block in blocks}
    for block, spans in zip(blocks, trace.iter_shown_spans(block.at for block in blocks), strict=True):
        for start, stop in spans:
            found[block.kind][start:stop] += trace.ledger.count_tokens(block.at, block.at + 1) * scales[start:stop]
    return {kind: row for kind, row in sorted(found.items(), key=lambda item: -item[1].sum()) if row.any()}
