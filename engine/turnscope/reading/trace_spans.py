"""Reads the spans of a trace, however they were exported: OTLP, Tempo, Jaeger, an SDK's console, Phoenix, Vercel, Langfuse.

Each span becomes one flat value. What its attributes mean is an importer's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from turnscope.reading.calls import LATEST_SECONDS, as_text, parse_if_json, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows
from turnscope.reading.source import Source
from turnscope.session.model import JSON, Note

DEPTH = 60  # values that are nested deeper are taken as they are
Value = Mapping[str, Any]


@dataclass(slots=True)
class TraceSpan:
    """One span. `attributes` has dotted keys. `events` are (name, attributes). Times in seconds since the Unix epoch."""

    id: str
    parent: str
    trace: str
    name: str
    started: float | None = None
    ended: float | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    error: str = ""
    line: int = 0

    def get_nested(self, prefix: str) -> Any:
        """Get the value of a key, or the lists and objects that longer keys with this prefix spell."""
        value = self.attributes.get(prefix)
        if value is not None and value != "":
            return parse_if_json(value) if isinstance(value, str) else value
        tree: dict[str, Any] = {}
        for key, value in self.attributes.items():
            if key.startswith(prefix + "."):
                *path, last = key[len(prefix) + 1 :].split(".")
                at = tree
                for part in path[:DEPTH]:
                    inner = at.setdefault(part, {})
                    at = inner if isinstance(inner, dict) else at
                at[last] = value
        return _restore_lists(tree) if tree else None

    def get_first(self, *keys: str) -> Any:
        """Get the first of some attributes that has a value."""
        return next((self.attributes[key] for key in keys if self.attributes.get(key) not in (None, "")), None)


def _restore_lists(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    if tree and all(key.isdecimal() for key in tree):
        return [_restore_lists(tree[key]) for key in sorted(tree, key=lambda key: (len(key), key))]
    return {key: _restore_lists(value) for key, value in tree.items()}


def read_spans(source: Source) -> Iterator[TraceSpan | Note]:
    """Read every span of a file. What cannot be read comes as a `Note`."""
    for value, line in source.iter_values():
        if isinstance(value, Note):
            yield value
            continue
        for span in find_spans(value):
            span.line = line
            yield span


def find_spans(value: Any, depth: int = 4) -> Iterator[TraceSpan]:
    """Find the spans in one exported value.

    Args:
        value: The value.
        depth: How many layers of lists to search.
    """
    if isinstance(value, list) and depth:
        for each in value:
            yield from find_spans(each, depth - 1)
    if not isinstance(value, Mapping):
        return
    if "observations" in value or isinstance(as_mapping(value.get("trace")).get("observations"), list):
        yield from _convert_langfuse(value)
    elif isinstance(value.get("data"), list) and depth:  # Jaeger
        yield from find_spans(value["data"], depth - 1)
    elif exported := value.get("resourceSpans") or value.get("batches") or value.get("resource_spans"):
        for one in as_rows(exported):
            for scope in as_rows(
                next((one[k] for k in ("scopeSpans", "instrumentationLibrarySpans", "scope_spans") if k in one), ())
            ):
                yield from map(_convert_otlp, as_rows(scope.get("spans")))
    elif isinstance(value.get("trace"), Mapping) and depth:  # Tempo's answer to a query
        yield from find_spans(value["trace"], depth - 1)
    elif isinstance(value.get("spans"), list):
        yield from map(_convert_span, as_rows(value["spans"]))
    elif is_span(value):
        yield _convert_span(value)


def is_span(value: Value) -> bool:
    """Whether a value is one span: it has attributes (or tags), an id and a time."""
    marks = value.keys() & {"attributes", "tags"} or any(key.startswith("attributes.") for key in list(value)[:60])
    named = value.keys() & {"context", "spanId", "span_id", "spanID", "spanContext", "context.span_id"} or "traceId" in value
    timed = value.keys() & {"start_time", "startTime", "startTimeUnixNano", "start_timestamp", "timestamp"}
    return bool((marks and named and timed) or _is_observation(value))


def _is_observation(value: Value) -> bool:
    return "traceId" in value and bool(value.keys() & {"parentObservationId", "usageDetails", "modelParameters"})


def _convert_span(value: Value) -> TraceSpan:
    """Convert a span. Its shape shows which exporter wrote it."""
    if _is_observation(value):
        return _convert_observation(value)
    if isinstance(value.get("tags"), list) and "attributes" not in value:
        return _convert_jaeger(value)
    if isinstance(value.get("attributes"), list) or "startTimeUnixNano" in value:
        return _convert_otlp(value)
    context = as_mapping(value.get("context")) or as_mapping(value.get("spanContext"))
    id = _find_text(value, "spanId", "span_id", "context.span_id", "id") or _find_text(context, "span_id", "spanId")
    trace = _find_text(value, "traceId", "trace_id", "context.trace_id") or _find_text(context, "trace_id", "traceId")
    parent = _find_text(value, "parent_id", "parentSpanId", "parentId", "parent_span_id")
    parent = parent or _find_text(as_mapping(value.get("parentSpanContext")), "spanId")
    attributes = _flatten(value.get("attributes"))
    attributes |= _flatten({key[11:]: one for key, one in value.items() if key.startswith("attributes.")})
    kind = _find_text(value, "span_kind")
    if kind:
        attributes.setdefault("openinference.span.kind", kind)
    events = [(as_text(e.get("name")), _flatten(e.get("attributes"))) for e in as_rows(value.get("events"))]
    started = _find_time(value, "start_time", "startTime", "start_timestamp", "timestamp")
    ended = _find_time(value, "end_time", "endTime", "end_timestamp")
    status = (
        value.get("status_code")
        or as_mapping(value.get("status")).get("status_code")
        or as_mapping(value.get("status")).get("code")
    )
    reported = _find_text(value, "status_message") or _find_text(as_mapping(value.get("status")), "description", "message")
    return TraceSpan(
        id, parent, trace, _find_text(value, "name"), started, ended, attributes, events, _describe_error(status, reported)
    )


def _convert_otlp(value: Value) -> TraceSpan:
    events = [(as_text(e.get("name")), _read_pairs(e.get("attributes"))) for e in as_rows(value.get("events"))]
    status = as_mapping(value.get("status"))
    return TraceSpan(
        _find_text(value, "spanId", "span_id"),
        _find_text(value, "parentSpanId", "parent_span_id"),
        _find_text(value, "traceId", "trace_id"),
        _find_text(value, "name"),
        _parse_time(value.get("startTimeUnixNano", value.get("start_time_unix_nano"))),
        _parse_time(value.get("endTimeUnixNano", value.get("end_time_unix_nano"))),
        _read_pairs(value.get("attributes")),
        events,
        _describe_error(status.get("code"), as_text(status.get("message"))),
    )


def _convert_jaeger(value: Value) -> TraceSpan:
    tags = _flatten({as_text(row.get("key")): row.get("value") for row in as_rows(value.get("tags"))})
    events = []
    for log in as_rows(value.get("logs")):
        fields = _flatten({as_text(row.get("key")): row.get("value") for row in as_rows(log.get("fields"))})
        events.append((as_text(fields.get("event")), fields))
    parents = [row for row in as_rows(value.get("references")) if row.get("refType") in ("CHILD_OF", None)]
    started, lasted = _parse_time(value.get("startTime")), value.get("duration")
    ended = started + lasted / 1e6 if started and isinstance(lasted, int) and not isinstance(lasted, bool) else None
    status = "ERROR" if tags.get("error") in (True, "true") else tags.get("otel.status_code")
    parent = _find_text(parents[0], "spanID") if parents else _find_text(value, "parentSpanID")
    reported = as_text(tags.get("otel.status_description"))
    name = _find_text(value, "operationName")
    return TraceSpan(
        _find_text(value, "spanID"),
        parent,
        _find_text(value, "traceID"),
        name,
        started,
        ended,
        tags,
        events,
        _describe_error(status, reported),
    )


def _convert_langfuse(value: Value) -> Iterator[TraceSpan]:
    """Convert the observations of a trace. The trace itself is the span above them."""
    trace = as_mapping(value.get("trace")) or value
    attributes = {
        f"langfuse.{key}": _unpack_json(trace.get(key)) for key in ("input", "output", "sessionId", "userId") if trace.get(key)
    }
    yield TraceSpan(
        "", "", _find_text(trace, "id"), _find_text(trace, "name"), parse_time(trace.get("timestamp")), None, attributes
    )
    yield from map(_convert_observation, as_rows(value.get("observations")) or as_rows(trace.get("observations")))


def _convert_observation(value: Value) -> TraceSpan:
    about = as_mapping(_unpack_json(value.get("metadata")))
    inner = about.get("attributes")
    attributes = _flatten(parse_if_json(inner) if isinstance(inner, str) else inner)
    kind = as_text(value.get("type")).upper()
    attributes["langfuse.type"] = kind
    for key in ("input", "output", "model", "usageDetails", "usage", "totalCost", "calculatedTotalCost", "modelParameters"):
        if value.get(key) is not None:
            attributes[f"langfuse.{key}"] = _unpack_json(value[key])
    error = (as_text(value.get("statusMessage")) or "error") if value.get("level") == "ERROR" else ""
    started, ended = (parse_time(value.get(key)) for key in ("startTime", "endTime"))
    id, parent, trace, name = (_find_text(value, key) for key in ("id", "parentObservationId", "traceId", "name"))
    return TraceSpan(id, parent, trace, name, started, ended, attributes, [], error)


def _unpack_json(value: Any) -> JSON:
    """Parse JSON text, which may hold JSON text again."""
    for _ in range(3):
        if not (isinstance(value, str) and value[:1] in ('"', "{", "[")):
            break
        value = parse_if_json(value) if parse_if_json(value) != value else value
    return value


def _read_pairs(attributes: Any) -> dict[str, Any]:
    """Read OTLP's list of keys with typed values."""
    if isinstance(attributes, Mapping):
        return _flatten(attributes)
    return _flatten({as_text(row.get("key")): _read_value(row.get("value")) for row in as_rows(attributes)})


def _read_value(value: Any, depth: int = 20) -> Any:
    fields = as_mapping(value)
    for key, one in fields.items():
        match key:
            case "intValue" | "int_value":
                return (
                    int(one)
                    if isinstance(one, int) or (isinstance(one, str) and len(one) < 25 and one.lstrip("-").isdecimal())
                    else None
                )
            case "arrayValue" | "array_value":
                return [_read_value(each, depth - 1) for each in as_rows(as_mapping(one).get("values"))] if depth else None
            case "kvlistValue" | "kvlist_value":
                pairs = as_rows(as_mapping(one).get("values"))
                return {as_text(row.get("key")): _read_value(row.get("value"), depth - 1) for row in pairs} if depth else None
        return one
    return None


def _flatten(value: Any, prefix: str = "", depth: int = 12) -> dict[str, Any]:
    """Flatten objects inside objects to dotted keys, as instrumentations write them. Lists stay."""
    found: dict[str, Any] = {}
    for key, one in as_mapping(value).items():
        if isinstance(one, Mapping) and depth:
            found |= _flatten(one, f"{prefix}{key}.", depth - 1)
        else:
            found[f"{prefix}{key}"] = one
    return found


def _find_text(value: Value, *keys: str) -> str:
    return next((as_text(value[key]) for key in keys if as_text(value.get(key))), "")


def _find_time(value: Value, *keys: str) -> float | None:
    return next((at for key in keys if (at := _parse_time(value.get(key))) is not None), None)


def _parse_time(value: Any) -> float | None:
    """Parse nanoseconds, microseconds, [seconds, nanoseconds] or any other time. Gives seconds."""
    if isinstance(value, list) and len(value) == 2 and all(isinstance(n, int) and not isinstance(n, bool) for n in value):
        return parse_time(value[0] + value[1] / 1e9) if abs(value[0]) < LATEST_SECONDS else None
    if isinstance(value, str) and value.isdecimal() and len(value) < 25:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 1e14 < value < 1e25:
        return parse_time(value / 1e9 if value > 1e17 else value / 1e6)
    return parse_time(value)


def _describe_error(status: Any, reported: str) -> str:
    code = str(status).upper()
    return (reported or "error") if "ERROR" in code or code == "2" else ""
