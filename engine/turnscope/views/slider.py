"""A session as HTML for a notebook: one request at a time, and a slider over all of them. Nothing is loaded, no server runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnscope import notebook
from turnscope.envelope.plan import Plan
from turnscope.numbering import format_request
from turnscope.planning.assemble import AS_RECORDED
from turnscope.planning.trace import Trace
from turnscope.views.detail import build_detail
from turnscope.views.events import CUT_KINDS
from turnscope.views.overview import Overview, build_overview
from turnscope.views.phrases import format_usd
from turnscope.views.request_contents import SessionContents, build_contents, list_contents
from turnscope.views.request_summary import summarize_request

MAX_FRAMES = 40  # requests that a slider holds: about 5 kB each
MAX_PARTS = 3  # parts of each group


@dataclass(frozen=True, slots=True)
class EnvelopeSlider:
    """What filled each request of a session; under another policy than the record, each plan of it.

    >>> turnscope.show(turnscope.load("sample_sessions/cache-goes-cold.jsonl"))
    <EnvelopeSlider over 40 of 88 requests, as-recorded>
    """

    trace: Trace

    @property
    def requests(self) -> tuple[int, ...]:
        """The requests on the slider: all, or the first, the last, the largest, the first that were cut, and some between."""
        many = len(self.trace.plans)
        if many <= MAX_FRAMES:
            return tuple(range(many))
        sizes = [self.trace.count_tokens(n) for n in range(many)]
        changed = [n for n, plan in enumerate(self.trace.outlines) if plan.is_changed][: MAX_FRAMES // 4]
        chosen = {0, many - 1, max(range(many), key=sizes.__getitem__), *changed}
        rest, room = sorted({*range(many)} - chosen), MAX_FRAMES - len(chosen)
        evenly = (rest[round(at * (len(rest) - 1) / (room - 1))] for at in range(room))
        return tuple(sorted({*chosen, *evenly}))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} over {self._count()}, {self.trace.policy.name}>"

    def _count(self) -> str:
        shown, many = len(self.requests), len(self.trace.plans)
        return f"{many:,} request{'s' * (many != 1)}" if shown == many else f"{shown:,} of {many:,} requests"

    def _repr_html_(self) -> str:
        """The slider, with the largest request seen first."""
        session, numbers = self.trace.session, self.requests
        title, note = session.title or session.id, f"{session.source} · {self.trace.policy.name} · {self._count()}"
        if not numbers:
            return notebook.render_card(title, notebook.render_line("No request."), note=note)
        start = max(range(len(numbers)), key=lambda at: self.trace.count_tokens(numbers[at]))
        frames = [*self._iter_frames(numbers)]
        return notebook.render_card(title, notebook.render_slider(frames, start), note=note)

    def _mime_(self) -> tuple[str, str]:
        """What marimo shows: the same in a frame, because marimo takes handlers out of a page of its own."""
        return "text/html", notebook.render_frame(self._repr_html_())

    def _iter_frames(self, numbers: tuple[int, ...]) -> Iterator[notebook.Markup]:
        if self.trace.policy.name != AS_RECORDED:
            for n in numbers:
                yield _draw_plan(self.trace, self.trace.plans[n])
            return
        view = build_overview(self.trace)
        contents = build_contents(self.trace, view)
        for n in numbers:
            yield _draw_request(self.trace, view, contents, n)


def _draw_request(trace: Trace, view: Overview, contents: SessionContents, n: int) -> notebook.Markup:
    now = summarize_request(view, trace, n)
    window = f" of {now.window:,} ({now.fill:.0%})" if now.window else ", window unknown"
    size = f"{now.prompt:,} tokens{window}, {'measured' if now.recorded else 'estimated'}, {format_usd(now.total)}"
    buckets = {segment.name: segment.tokens for segment in now.segments}
    groups = list_contents(contents, n, build_detail(trace, view, n).items, most=MAX_PARTS)
    rows = [(group.title, part.label, part.tokens, part.note) for group in groups for part in group.parts if part.tokens]
    cuts = [text for kind, text in now.events if kind in CUT_KINDS]
    return notebook.Markup(
        notebook.render_line(f"Request {format_request(n)} of {len(view):,}, turn {now.turn + 1}, {now.model}: {size}")
        + notebook.render_bar(buckets, now.window)
        + "".join(map(notebook.render_line, cuts))
        + notebook.render_table(("group", "part", "tokens", ""), rows)
    )


def _draw_plan(trace: Trace, plan: Plan) -> notebook.Markup:
    n = plan.request.n
    head = f"Request {format_request(n)} of {len(trace.plans):,}: {trace.count_tokens(n):,} tokens expected"
    return notebook.Markup(notebook.render_line(head) + plan._repr_html_())
