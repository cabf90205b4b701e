"""mini-swe-agent's observations: an output of 10,000 characters or more keeps its first and last 5,000."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated

from turnscope.envelope.conversation import build_result, get_previous_cut, get_result_text
from turnscope.envelope.envelope import Envelope
from turnscope.envelope.rule import Ctx, Edits, Rule
from turnscope.session.index import count_before
from turnscope.session.model import Edit, Span

# Our wording.
WARNING = "The output of the last command was too long. Use a command that prints less, or look at a part of it."
CUT = re.compile(r'<output_head>|^\{\s*"returncode": -?\d+,\s*"output_head": ')  # in its own log: the template of 1, or of 2


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters: the numbers of its template."""

    most: Annotated[int, "characters from which on an output is cut"] = 10_000
    head: Annotated[int, "characters of its start that stay"] = 5_000
    tail: Annotated[int, "characters of its end that stay"] = 5_000


def edits(envelope: Envelope, ctx: Ctx, params: Params) -> Edits:
    """Yield the edits of a request. An output is cut when it arrives, and stays cut."""
    results = ctx.index.results
    for at in results[count_before(results, get_previous_cut(ctx)) : count_before(results, ctx.request.cut)]:
        block = ctx.session.blocks[at]
        text = get_result_text(block)
        if text is None or len(text) < params.most or CUT.search(text) or envelope.find_piece(at).body is not None:
            continue
        gone = len(text) - params.most
        head, tail = text[: params.head], text[max(0, len(text) - params.tail) :]
        cut = (
            f"<warning>\n{WARNING}\n</warning>\n<output_head>\n{head}\n</output_head>\n"
            f"<elided_chars>\n{gone} characters elided\n</elided_chars>\n<output_tail>\n{tail}\n</output_tail>"
        )
        because = f"{len(text):,} characters of output, {params.most:,} or more: {params.head:,} and {params.tail:,} stay"
        facts = {"characters": len(text), "elided": gone}
        envelope = yield Edit("truncate", because, Span(at, at + 1), (build_result(block, cut),), facts=facts)


RULE = Rule(
    "cut_middle_of_outputs",
    "Keep only the first and last 5,000 characters of an output of 10,000 or more.",
    edits,
    Params,
    source="SWE-agent/mini-swe-agent, src/minisweagent/config/mini.yaml: action_observation_template (099497f3)",
)
