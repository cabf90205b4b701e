"""Reads the spans of a trace, however they were exported: OTLP, Tempo, Jaeger, an SDK's console, Phoenix, Vercel, Langfuse,
MLflow, and runs of LangChain and LangSmith.

Each span becomes one flat value. What its attributes mean is an importer's business; those of MLflow are given OpenInference's
names. Spans also come from the databases of Phoenix and MLflow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from turnscope.reading.calls import as_text, parse_if_json, parse_time
from turnscope.reading.content_blocks import as_mapping, as_rows
from turnscope.reading.source import Source
from turnscope.session.model import JSON, LATEST_SECONDS, Note

MLFLOW_KEYS = {  # MLflow's attributes, which are JSON texts, by OpenInference's names
    "mlflow.spanType": "openinference.span.kind",
    "mlflow.spanInputs": "input.value",
    "mlflow.spanOutputs": "output.value",
    "mlflow.llm.model": "llm.model_name",
    "mlflow.chat.tools": "llm.tools",
    "mlflow.chat.tokenUsage.input_tokens": "llm.token_count.prompt",
    "mlflow.chat.tokenUsage.output_tokens": "llm.token_count.completion",
    "mlflow.chat.tokenUsage.total_tokens": "llm.token_count.total",
    "mlflow.chat.tokenUsage.cache_read_input_tokens": "llm.token_count.prompt_details.cache_read",
    "mlflow.chat.tokenUsage.cache_creation_input_tokens": "llm.token_count.prompt_details.cache_write",
    "mlflow.llm.cost.total_cost": "llm.cost.total",
}
MLFLOW_UNPACKED = ("mlflow.chat.tokenUsage", "mlflow.llm.cost")  # objects
OTLP_TIMES = {"startTimeUnixNano", "start_time_unix_nano", "start_time_ns"}
MLFLOW_SESSION = "mlflow.trace.session"
LISTS = ("data", "runs", "traces")  # under which servers answer: Jaeger and Phoenix, LangSmith, MLflow
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
    """Read every span of a file or of a database. What cannot be read comes as a `Note`."""
    if source.kind == "sqlite":
        yield from map(_convert_span, _read_database(source))
        return
    passed = 0
    for value, line in source.iter_values():
        if isinstance(value, Note):
            yield value
            continue
        for each in value if isinstance(value, list) else [value]:
            found = list(find_spans(each))
            passed += not found
            for span in found:
                span.line = line
                yield span
    if passed:
        yield Note("warning", 0, f"{passed} records hold no span and were skipped")


def list_columns(source: Source) -> set[str]:
    """List the columns of a database's table of spans; none where it has no such table."""
    if source.kind != "sqlite" or "spans" not in source.list_tables():
        return set()
    return {as_text(row.get("name")) for row in source.query("pragma table_info(spans)")}


def _read_database(source: Source) -> Iterator[dict[str, Any]]:
    """Read the rows of spans as a platform's own export has them. Phoenix's times are UTC and do not say so."""
    if "content" in list_columns(source):  # MLflow
        sql = "select request_id, value from trace_request_metadata where key = ?"
        known = "trace_request_metadata" in source.list_tables()
        sessions = {row.get("request_id"): row.get("value") for row in source.query(sql, (MLFLOW_SESSION,))} if known else {}
        for row in source.query("select trace_id, content from spans order by start_time_unix_nano"):
            span = dict(as_mapping(parse_if_json(as_text(row.get("content")))))
            yield {**span, "session.id": sessions.get(row.get("trace_id"))}
        return
    sql = "select spans.*, traces.trace_id from spans left join traces on traces.id = spans.trace_rowid order by start_time"
    for row in source.query(sql):
        parsed = {key: parse_if_json(as_text(row.get(key))) for key in ("attributes", "events")}
        times = {key: f"{row.get(key)}+00:00" for key in ("start_time", "end_time")}
        yield {**row, **parsed, **times, "id": None}


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
    if is_run(value):
        yield _convert_run(value)
        yield from find_spans(value.get("child_runs"), depth)
    elif "observations" in value or isinstance(as_mapping(value.get("trace")).get("observations"), list):
        yield from _convert_langfuse(value)
    elif depth and (listed := next((value[key] for key in LISTS if isinstance(value.get(key), list)), None)) is not None:
        yield from find_spans(listed, depth - 1)
    elif isinstance(as_mapping(value.get("data")).get("spans"), list):  # MLflow
        named = as_mapping(as_mapping(value.get("info")).get("trace_metadata")).get(MLFLOW_SESSION)
        yield from (_convert_span({**span, "session.id": named}) for span in as_rows(value["data"]["spans"]))
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
    timed = value.keys() & {"start_time", "startTime", "start_timestamp", "timestamp", *OTLP_TIMES}
    return bool((marks and named and timed) or _is_observation(value))


def is_run(value: Value) -> bool:
    """Whether a value is a run of LangChain, as its tracers and LangSmith's export have them."""
    return {"run_type", "inputs", "start_time"} <= value.keys()


def _convert_run(value: Value) -> TraceSpan:
    """Convert a run. Its messages are LangChain's, dumped, or those of the API that was wrapped.

    Exports in bulk have objects as JSON texts. Times are UTC and do not say so.
    """
    extra, inputs, outputs = (as_mapping(_unpack_json(value.get(key))) for key in ("extra", "inputs", "outputs"))
    about, params = as_mapping(extra.get("metadata")), as_mapping(extra.get("invocation_params"))
    message = _find_message(outputs)
    details = as_mapping(message.get("response_metadata"))
    used = as_mapping(message.get("usage_metadata")) or as_mapping(outputs.get("usage_metadata"))
    inner = as_mapping(used.get("input_token_details"))
    counts = {"prompt": used.get("input_tokens"), "completion": used.get("output_tokens"), "total": used.get("total_tokens")}
    counts = counts if used else {key: value.get(f"{key}_tokens") for key in counts}
    attributes: dict[str, Any] = {f"llm.token_count.{key}": count for key, count in counts.items()}
    attributes |= {f"llm.token_count.prompt_details.{key}": inner.get(key) for key in ("cache_read",)}
    attributes["llm.token_count.prompt_details.cache_write"] = inner.get("cache_creation")
    kind, prompts = as_text(value.get("run_type")).upper(), inputs.get("prompts")
    attributes |= {"openinference.span.kind": "LLM" if kind == "LLM" else kind, "tool.name": value.get("name")}
    attributes |= {"input.value": _unwrap_dumps(inputs), "output.value": _unwrap_dumps(outputs)}
    if isinstance(prompts, list):  # older tracers keep the messages as one text
        attributes["llm.prompts"] = [{"role": "user", "content": one} for one in prompts if isinstance(one, str)]
    models = (
        details.get("model_name"),
        details.get("model"),
        about.get("ls_model_name"),
        params.get("model"),
        inputs.get("model"),
    )
    attributes |= {"llm.model_name": next(filter(None, map(as_text, models)), ""), "llm.tools": params.get("tools")}
    attributes |= {"llm.finish_reason": details.get("finish_reason") or details.get("stop_reason")}
    attributes |= {"llm.cost.total": _to_number(value.get("total_cost"))}
    sessions = (as_text(about.get(key)) for key in ("thread_id", "session_id", "conversation_id"))
    attributes["session.id"] = next(filter(None, sessions), "")
    id, parent, trace = (_find_text(value, key) for key in ("id", "parent_run_id", "trace_id"))
    started, ended = (_parse_utc(value.get(key)) for key in ("start_time", "end_time"))
    name, error = _find_text(value, "name"), _find_text(value, "error")
    return TraceSpan(id, parent, trace or id, name, started, ended, attributes, [], error)


def _parse_utc(value: Any) -> float | None:
    named = isinstance(value, str) and re.search(r"(Z|[+-]\d\d:?\d\d)$", value)
    return _parse_time(f"{value}+00:00" if isinstance(value, str) and not named and not value.isdecimal() else value)


def _to_number(value: Any) -> Any:
    """A number that LangSmith's export writes as a text."""
    return parse_if_json(value) if isinstance(value, str) and len(value) < 25 else value


def _find_message(outputs: Value) -> Value:
    """Find the message that a model gave."""
    found: Any = outputs.get("generations") or outputs.get("output") or outputs.get("message")
    while isinstance(found, list) and found:
        found = found[0]
    message = as_mapping(as_mapping(found).get("message")) or as_mapping(found)
    return as_mapping(message.get("kwargs")) or message


def _unwrap_dumps(value: Any, depth: int = 12) -> Any:
    """Replace each dump of a LangChain message by its fields."""
    if isinstance(value, list) and depth:
        return [_unwrap_dumps(one, depth - 1) for one in value]
    if not isinstance(value, Mapping) or not depth:
        return value
    if "lc" in value and isinstance(value.get("kwargs"), Mapping):
        named = value.get("id")
        kind = as_text(named[-1]) if isinstance(named, list) and named else ""
        return {"type": kind, **value["kwargs"]}
    return {key: _unwrap_dumps(one, depth - 1) for key, one in value.items()}


def _is_observation(value: Value) -> bool:
    kinds = "GENERATION SPAN EVENT TOOL AGENT CHAIN RETRIEVER EMBEDDING EVALUATOR GUARDRAIL".split()
    marked = value.keys() & {"parentObservationId", "usageDetails", "modelParameters"} or value.get("type") in kinds
    return "traceId" in value and bool(marked)


def _convert_span(value: Value) -> TraceSpan:
    """Convert a span. Its shape shows which exporter wrote it."""
    if _is_observation(value):
        return _convert_observation(value)
    if isinstance(value.get("tags"), list) and "attributes" not in value:
        return _convert_jaeger(value)
    if isinstance(value.get("attributes"), list) or value.keys() & OTLP_TIMES:
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
    attributes = _rename_mlflow(attributes, value)
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
        _find_time(value, "startTimeUnixNano", "start_time_unix_nano", "start_time_ns"),
        _find_time(value, "endTimeUnixNano", "end_time_unix_nano", "end_time_ns"),
        _rename_mlflow(_read_pairs(value.get("attributes")), value),
        events,
        _describe_error(status.get("code"), as_text(status.get("message"))),
    )


def _rename_mlflow(attributes: dict[str, Any], value: Value) -> dict[str, Any]:
    """Give MLflow's attributes the names of OpenInference, and the session that their trace belongs to."""
    if not any(key.startswith("mlflow.") for key in attributes):
        return attributes
    unpacked = {key: _unpack_json(one) for key, one in attributes.items()}
    unpacked |= _flatten({key: unpacked[key] for key in MLFLOW_UNPACKED if key in unpacked})
    found = {**attributes, **{MLFLOW_KEYS[key]: one for key, one in unpacked.items() if key in MLFLOW_KEYS}}
    if found.get("openinference.span.kind") == "CHAT_MODEL":
        found["openinference.span.kind"] = "LLM"
    session = as_text(value.get("session.id"))
    return {**found, **({"session.id": session} if session else {})}


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
        if one is None:  # Phoenix names every type, with a value for one of them
            continue
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
