"""Sends finished spans to a server of OTLP over HTTP, and says what it answered."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from requests import RequestException

from turnscope.errors import TurnscopeError
from turnscope.settings import hide_user
from turnscope.telemetry.export import complete_address, name_server

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
            if not _export(exporter, batch, heard):
                hint = hide_user(" ".join(heard.lines[-1:])) or "It did not say why."
                if "@" in hide_user(endpoint):  # what was heard may hold a part of it
                    hint = "Its address is no URL: in a name or password write / as %2F, and @ as %40."
                raise TurnscopeError(f"{name_server(endpoint)} did not take the spans; {count:,} were sent before", hint=hint)
            count += len(batch)
    finally:
        logger.removeHandler(heard)
        logger.propagate = passed_on
        exporter.shutdown()  # type: ignore[no-untyped-call]
    return count


def _export(exporter: OTLPSpanExporter, batch: list[ReadableSpan], heard: _Heard) -> bool:
    """Whether the server took them. What the exporter raises, as it does for an address that is none, is heard as well."""
    try:
        return exporter.export(batch) is SpanExportResult.SUCCESS
    except (RequestException, ValueError) as error:
        heard.lines.append(str(error))
        return False


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
