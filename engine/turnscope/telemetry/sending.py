"""Sends finished spans to a server of OTLP over HTTP, and says what it answered."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult

from turnscope.errors import TurnscopeError
from turnscope.telemetry.export import complete_address

MAX_SPANS = 500  # in one message, unless one trace has more
LOGGER = "opentelemetry.exporter.otlp.proto.http"


class _Heard(logging.Handler):
    """Keeps what the exporter says of a failure."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def send_spans(spans: Iterable[ReadableSpan], endpoint: str = "", headers: Mapping[str, str] | None = None) -> int:
    """Send spans to a server.

    Args:
        spans: the spans; those of a trace in a row.
        endpoint: the server's address, as a base or with `/v1/traces`; "" = that of OpenTelemetry's own variables.
        headers: headers of every message, beside those of the variables.

    Returns:
        How many were sent.

    Raises:
        TurnscopeError: the server did not take them.
    """
    exporter = OTLPSpanExporter(complete_address(endpoint) if endpoint else None, headers=dict(headers or {}) or None)
    logger, heard, count = logging.getLogger(LOGGER), _Heard(), 0
    logger.addHandler(heard)
    passed_on, logger.propagate = logger.propagate, False  # the error says it
    try:
        for batch in _iter_batches(spans):
            if exporter.export(batch) is not SpanExportResult.SUCCESS:
                hint = " ".join(heard.lines[-1:]) or "It did not say why."
                raise TurnscopeError(
                    f"{endpoint or 'the server'} did not take the spans; {count:,} were sent before", hint=hint
                )
            count += len(batch)
    finally:
        logger.removeHandler(heard)
        logger.propagate = passed_on
        exporter.shutdown()  # type: ignore[no-untyped-call]
    return count


def _iter_batches(spans: Iterable[ReadableSpan]) -> Iterator[list[ReadableSpan]]:
    """Spans in messages; a trace is never split, because servers such as MLflow read each message by itself."""
    batch: list[ReadableSpan] = []
    for _, own in groupby(spans, key=lambda span: span.context.trace_id if span.context else 0):
        trace = list(own)
        if batch and len(batch) + len(trace) > MAX_SPANS:
            yield batch
            batch = []
        batch += trace
    if batch:
        yield batch
