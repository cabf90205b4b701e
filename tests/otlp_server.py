"""A server of this machine that takes spans over OTLP's HTTP with protobuf, as Phoenix does, and refuses any other form."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass
class Received:
    """What came: messages of spans with their path and headers, and how many of metrics."""

    url: str
    messages: list[tuple[str, dict[str, str], ExportTraceServiceRequest]] = field(default_factory=list)
    metrics: int = 0

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for _, _, message in self.messages
            for resource in message.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


def read_attributes(holder: Any) -> dict[str, Any]:
    """Attributes of a span, an event or a link, each as the one value that it has."""
    found: dict[str, Any] = {}
    for each in holder.attributes:
        kind = each.value.WhichOneof("value")
        value = getattr(each.value, kind)
        found[each.key] = [one.string_value for one in value.values] if kind == "array_value" else value
    return found


@contextmanager
def serve(status: int = 200) -> Iterator[Received]:
    """A server that gives every message this status, and 415 to what is no protobuf."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            answer = status if self.headers["content-type"] == "application/x-protobuf" else 415
            if answer == 200 and self.path.endswith("/v1/metrics"):
                ExportMetricsServiceRequest.FromString(body)
                received.metrics += 1
            elif answer == 200:
                headers = {name.lower(): value for name, value in self.headers.items()}
                received.messages.append((self.path, headers, ExportTraceServiceRequest.FromString(body)))
            self.send_response(answer)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received = Received(f"http://127.0.0.1:{server.server_port}")
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield received
    finally:
        server.shutdown()
        server.server_close()
