"""Exports spans to a file of OTLP's JSON lines, and to a server of OTLP over HTTP (protobuf), each only if it is set.

Headers, time limits and certificates for a server are those of OpenTelemetry's own variables, `OTEL_EXPORTER_OTLP_*`.

A file is written at once. A server that does not answer delays nothing: spans wait in a queue of 2,048, and the SDK logs what
does not fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from opentelemetry.exporter.otlp.json.file import FileMetricExporter, FileSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

from turnscope.errors import TurnscopeError
from turnscope.settings import Telemetry
from turnscope.telemetry import names
from turnscope.telemetry.spans import RESOURCE

DELAY = 1_000  # milliseconds that spans wait for others before they are sent
EVERY = 15_000  # milliseconds between two exports of the counters
TRACES = "/v1/traces"


class Exporter:
    """Exports spans and counters as `telemetry` says. TurnscopeError: its file is not writable."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._file = FileSpanExporter(_check_writable(telemetry.file)) if telemetry.file else None
        metrics: list[MetricExporter] = []
        if telemetry.file:
            metrics.append(FileMetricExporter(_check_writable(telemetry.file.with_suffix(".metrics.jsonl"))))
        self._server: BatchSpanProcessor | None = None
        if telemetry.endpoint:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # only who sends waits for it
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            traces = complete_address(telemetry.endpoint)
            self._server = BatchSpanProcessor(OTLPSpanExporter(traces), schedule_delay_millis=DELAY)
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


def _check_writable(path: Path) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a", encoding="utf-8").close()
    except OSError as error:
        raise TurnscopeError(f"{path} cannot be written: {error.strerror}", hint="Name another file for the trace.") from error
    return path
