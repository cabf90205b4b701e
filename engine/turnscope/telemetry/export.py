"""Exports spans to a file of OTLP's JSON lines, and to a server of OTLP over HTTP (protobuf), each only if it is set.

Headers, time limits and certificates for a server are those of OpenTelemetry's own variables, `OTEL_EXPORTER_OTLP_*`.

A file is written at once. A server that does not answer delays nothing: spans wait in a queue of 2,048, and the SDK logs what
does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from secrets import token_hex
from threading import Lock

from opentelemetry.exporter.otlp.json.file import FileMetricExporter, FileSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from turnscope.errors import TurnscopeError
from turnscope.settings import Telemetry, hide_user
from turnscope.telemetry import names
from turnscope.telemetry.prompts import WrittenPrompts
from turnscope.telemetry.spans import RESOURCE

DELAY = 1_000  # milliseconds that spans wait for others before they are sent
EVERY = 15_000  # milliseconds between two exports of the counters
TRACES = "/v1/traces"
CONVERSATIONS = 64  # of which is known what was told; those that were not told of for longest are told anew


class PromptRuns:
    """What spans of live chats hold so far, by conversation: each message is told once, not once per request."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, WrittenPrompts]] = {}  # with the number of the last request
        self._lock = Lock()

    def find(self, conversation: str, n: int) -> WrittenPrompts:
        """What was told of a conversation. Where it went back to an earlier request, it is told anew.

        Args:
            conversation: its id.
            n: number of the request that is told next.
        """
        with self._lock:
            last, written = self._known.pop(conversation, (-1, None))
            if written is None or n <= last:
                written = WrittenPrompts(run=token_hex(8))
            self._known[conversation] = n, written
            while len(self._known) > CONVERSATIONS:
                del self._known[next(iter(self._known))]
            return written

    def forget(self) -> None:
        """Tell everything anew: what was told before is lost."""
        with self._lock:
            self._known.clear()


class _Watched(SpanExporter):
    """An exporter that says when spans are lost, because the server did not take them."""

    def __init__(self, exporter: SpanExporter, lost: Callable[[], None]) -> None:
        self._exporter, self._lost = exporter, lost

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        if result is not SpanExportResult.SUCCESS:
            self._lost()
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)


class Exporter:
    """Exports spans and counters as `telemetry` says. TurnscopeError: its file is not writable."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._file = FileSpanExporter(_check_writable(telemetry.file)) if telemetry.file else None
        metrics: list[MetricExporter] = []
        self.prompts = PromptRuns()
        if telemetry.file:
            metrics.append(FileMetricExporter(_check_writable(telemetry.file.with_suffix(".metrics.jsonl"))))
        self._server: BatchSpanProcessor | None = None
        if telemetry.endpoint:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # only who sends waits for it
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            traces = complete_address(telemetry.endpoint)
            sending = _Watched(OTLPSpanExporter(traces), self.prompts.forget)
            self._server = BatchSpanProcessor(sending, schedule_delay_millis=DELAY)
            metrics.append(OTLPMetricExporter(f"{traces.removesuffix(TRACES)}/v1/metrics"))
        readers = [PeriodicExportingMetricReader(exporter, export_interval_millis=EVERY) for exporter in metrics]
        self._meters = MeterProvider(readers, RESOURCE)
        self._compactions = self._meters.get_meter("turnscope").create_counter(
            names.COMPACTIONS, "{compaction}", "condensations of requests that were sent"
        )

    def export_spans(self, spans: Iterable[ReadableSpan]) -> None:
        """Export spans. TurnscopeError: the file does not take them."""
        listed = tuple(spans)
        if self._file and self._file.export(listed) is not SpanExportResult.SUCCESS:
            raise TurnscopeError("the trace file was not written", hint="Check whether its disk is full; the log says why.")
        for span in listed if self._server else ():
            self._server.on_end(span)  # type: ignore[union-attr]

    def count_compaction(self, conversation: str, by: str, rule: str) -> None:
        """Count a condensation.

        Args:
            conversation: id of the session.
            by: policy or server.
            rule: name of the rule.
        """
        self._compactions.add(1, {names.CONVERSATION: conversation, names.BY: by, names.RULE: rule})

    def close(self) -> None:
        """Export what waits, and close file and server."""
        self._meters.shutdown()
        for end in (self._file, self._server):
            if end:
                end.shutdown()


def write_spans(path: Path, spans: Iterable[ReadableSpan]) -> int:
    """Append spans to a file of OTLP's JSON lines, one a line.

    Args:
        path: the file.
        spans: the spans.

    Returns:
        How many were written.

    Raises:
        TurnscopeError: the file cannot be written.
    """
    count = 0
    exporter = FileSpanExporter(path)
    try:
        for span in spans:
            if exporter.export((span,)) is not SpanExportResult.SUCCESS:
                raise TurnscopeError(f"{path} was not written", hint="Check whether its disk is full; the log says why.")
            count += 1
    finally:
        exporter.shutdown()
    return count


def complete_address(endpoint: str) -> str:
    """The address that takes spans, of a server's base address or of itself."""
    base = endpoint.rstrip("/")
    return base if base.endswith(TRACES) else f"{base}{TRACES}"


def name_server(endpoint: str) -> str:
    """A server's address without name and password; "the server" where there is none, or it is no address."""
    shown = hide_user(endpoint)
    return shown if shown and "@" not in shown else "the server"


def _check_writable(path: Path) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a", encoding="utf-8").close()
    except OSError as error:
        raise TurnscopeError(f"{path} cannot be written: {error.strerror}", hint="Name another file for the trace.") from error
    return path
