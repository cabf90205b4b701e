"""Recorded calls of a provider's API: requests and responses as proxies, SDK loggers and HTTP cassettes write them.

The module holds what is the same for every provider: finding bodies in records, JSON strings inside JSON, cassettes (YAML),
times. It does not interpret a body's messages; `dialect` says whose they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from turnscope.reading.source import Source
from turnscope.session.content import extract_text
from turnscope.session.model import JSON, LATEST_SECONDS, Note, check_time
from turnscope.session.usage import parse_usd

REQUEST_KEYS = ("request", "request_body", "requestBody", "body", "params", "req")
RESPONSE_KEYS = ("response", "response_body", "responseBody", "res")
BODY_KEYS = ("parsed_body", "body", "json", "string", "body_raw", "data")  # keys under which HTTP records keep the body
TIME_KEYS = "timestamp sent_at created_at recorded_at time started_at logged_at request_created_at".split()
ANSWER_TIME_KEYS = ("answered_at", "response_created_at", "endTime")  # next to the body, as gateways write them
STATUS_KEYS = ("status_code", "status", "statusCode", "response_status", "response_status_code")
USD_KEYS = ("response_cost", "spend", "costUSD", "cost_usd")  # dollars that a gateway computed for a call
ROLES = frozenset({"user", "assistant", "system", "tool", "developer", "function"})
# Keys of a message in either API. Tools that store messages add their own keys: ids, times, titles.
MESSAGE_KEYS = frozenset(
    "role content name tool_calls tool_call_id function_call refusal audio annotations reasoning reasoning_content "
    "reasoning_details thinking prefix partial cache_control provider_specific_fields thinking_blocks images "
    "total_tokens".split()
)
BODY_FIELDS = frozenset(
    "model messages max_tokens max_completion_tokens system tools tool_choice temperature top_p top_k stop stop_sequences "
    "stream stream_options metadata thinking n seed user response_format functions function_call parallel_tool_calls "
    "presence_penalty frequency_penalty logit_bias logprobs top_logprobs reasoning_effort service_tier context_management "
    "cache_control betas anthropic_version output_config container mcp_servers".split()
)
OPENAI_PARTS = frozenset({"image_url", "input_audio", "refusal", "file"})
EARLIEST_SECONDS = 946_684_800.0  # the year 2000: a number below it is no time in seconds


@dataclass(slots=True)
class Exchange:
    """One call as recorded: the request body, the response as far as there is one (JSON value or text), and its times."""

    body: dict[str, JSON]
    response: JSON
    line: int
    sent_at: float | None = None
    answered_at: float | None = None
    status: int = 0
    error: str = ""  # why there is no answer; "" where there is one, or the reason is unknown
    usd: float | None = None  # dollars, as the log has them


def read_exchanges(source: Source) -> Iterator[Exchange | Note]:
    """Read every call of a file, in order. What cannot be read comes as a `Note`."""
    passed = 0
    for record, line in iter_records(source):
        if isinstance(record, Note):
            yield record
            continue
        found = find_exchange(record, line)
        if found is not None:
            yield found
        else:
            passed += 1
    if passed:
        yield Note("warning", 0, f"{passed} records hold no request body and were skipped")


def find_exchange(record: Any, line: int) -> Exchange | None:
    """Find the call in one record. None where it holds none, or no chat (counting tokens, batches).

    Args:
        record: The record.
        line: Its line number.
    """
    if not isinstance(record, Mapping):
        return None
    record = unwrap_invocation(record)
    if is_gateway_record(record):
        return _convert_gateway_record(record, line)
    if is_body(record):
        return Exchange(dict(record), None, line)
    for key in REQUEST_KEYS:
        outer = record.get(key)
        body = unwrap_body(outer)
        if is_body(body, nested=True):
            sides = [side for side in (outer, record) if isinstance(side, Mapping) and side is not body]
            if any(_is_other_endpoint(side) for side in sides):
                return None
            answer = next((record[k] for k in RESPONSE_KEYS if record.get(k) is not None), None)
            back = [answer] if isinstance(answer, Mapping) else []
            status = _find_first(_find_status(side) for side in (*back, record)) or 0
            return Exchange(
                dict(body),
                unwrap_body(answer),
                line,
                _find_first(map(_find_time, sides)),
                _find_first(_find_time(side) for side in back) or _find_answer_time(record),
                status,
                usd=_find_first(parse_usd(record.get(key)) for key in USD_KEYS),
            )
    return None


def unwrap_invocation(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Give a record of Bedrock's invocation log as request and response, with its model; any other record as it is.

    The log's form is that of Amazon's user guide ("Monitor model invocation using CloudWatch Logs and Amazon S3").

    >>> unwrap_invocation({"schemaType": "ModelInvocationLog", "modelId": "m", "input": {"inputBodyJson": {"max_tokens": 9}}})
    {'request': {'max_tokens': 9, 'model': 'm'}, 'response': None, 'timestamp': None}
    """
    if record.get("schemaType") != "ModelInvocationLog":
        return record
    sent, came = record.get("input"), record.get("output")
    body = sent.get("inputBodyJson") if isinstance(sent, Mapping) else None
    named = "model" if not isinstance(body, Mapping) or "max_tokens" in body or "anthropic_version" in body else "modelId"
    response = came.get("outputBodyJson") if isinstance(came, Mapping) else None
    known = {**body, named: record.get("modelId")} if isinstance(body, Mapping) else None
    return {"request": known, "response": response, "timestamp": record.get("timestamp")}


def is_gateway_record(record: Mapping[str, Any]) -> bool:
    """Whether a record is LiteLLM's of a call: messages and parameters apart, its response next to them."""
    return {"messages", "response", "startTime"} <= record.keys() and bool(record.keys() & {"model_parameters", "call_type"})


def _convert_gateway_record(record: Mapping[str, Any], line: int) -> Exchange | None:
    sent = unwrap_body(record.get("proxy_server_request"))
    messages, parameters = unwrap_body(record.get("messages")), record.get("model_parameters")
    about = parameters if isinstance(parameters, Mapping) else {}
    body = sent if is_body(sent, nested=True) else {**about, "model": record.get("model"), "messages": messages}
    if not is_body(body, nested=True):
        return None
    answer = unwrap_body(record.get("response"))
    failed = record.get("status") == "failure"
    response = answer if isinstance(answer, (Mapping, str)) and answer and not failed else None
    error = (as_text(record.get("error_str")) or "error") if failed else ""
    usd = _find_first(parse_usd(record.get(key)) for key in USD_KEYS)
    started, ended = (parse_time(record.get(key)) for key in ("startTime", "endTime"))
    return Exchange(dict(body), response, line, started, ended, error=error, usd=usd)


def is_body(value: Any, *, nested: bool = False) -> bool:
    """Whether a value is a request body with messages, and no file in which a tool stores messages.

    A body has the keys of an API. Other keys are accepted where the rest asks for something as only a request does; other keys
    of a message, where the body names a model and has no key of another kind, but more than a tool's store would.

    Args:
        value: The value.
        nested: It stands under a key that says that it was sent.
    """
    if not isinstance(value, Mapping) or not isinstance(value.get("messages"), list) or not value["messages"]:
        return False
    if not all(map(_is_message, value["messages"][:8])):
        return False
    if not all(m.keys() <= MESSAGE_KEYS for m in value["messages"][:8]):
        return isinstance(value.get("model"), str) and value.keys() <= BODY_FIELDS and (nested or len(value) > 2)
    return value.keys() <= BODY_FIELDS or (isinstance(value.get("model"), str) and len(value.keys() & BODY_FIELDS) > 2)


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("role"), str) and value["role"] in ROLES


def unwrap_body(value: Any, depth: int = 4) -> JSON:
    """Get a body out of HTTP records and JSON strings. Text that is no JSON (a stream) stays text.

    Args:
        value: What the record holds.
        depth: How many layers to unwrap.
    """
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str):
        return unwrap_body(parse_if_json(value), depth - 1) if value.lstrip()[:1] in ("{", "[") and depth else value
    if isinstance(value, Mapping) and depth and "messages" not in value and "choices" not in value and "content" not in value:
        for key in BODY_KEYS:
            if value.get(key) is not None:
                return unwrap_body(value[key], depth - 1)
    return value


def parse_if_json(text: str) -> JSON:
    """Parse JSON text. Gives the text itself where it is no JSON.

    >>> parse_if_json('{"path": "a.py"}'), parse_if_json("no JSON")
    ({'path': 'a.py'}, 'no JSON')
    """
    try:
        return orjson.loads(text)
    except ValueError:
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text


def as_text(value: Any) -> str:
    """Give a text; "" for anything else.

    >>> as_text("so"), as_text(None), as_text(5)
    ('so', '', '')
    """
    return value if isinstance(value, str) else ""


def describe_failure(found: Exchange) -> str:
    """Describe why a call failed, from its response or status; "" where it did not fail."""
    value = found.response
    if isinstance(value, Mapping) and (value.get("type") == "error" or (value.get("error") and not value.get("choices"))):
        error = value.get("error")
        what = error.get("message") or error.get("type") if isinstance(error, Mapping) else error
        return str(what or "error")
    return f"status {found.status}" if found.status >= 400 else ""


def iter_records(source: Source) -> Iterator[tuple[Any, int]]:
    """Iterate over records that may hold one call each, with their numbers.

    They are the records of a cassette, a list or JSON lines, or the one value.
    """
    head = source.head[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    if head[:1] not in (b"{", b"["):
        if is_cassette(head):
            if "cassette" not in source.cache:
                source.cache["cassette"] = _load_yaml(source.data)
            yield from _iter_interactions(source.cache["cassette"])
        return
    document = source.document
    if isinstance(document, list):
        if is_bare_list(document):
            yield {"messages": document}, 1
        else:
            yield from ((value, number) for number, value in enumerate(document, 1))
    elif isinstance(document, dict):
        recorded = document.get("interactions") or document.get("http_interactions")
        listed = document.get("data")  # a gateway's answer to a query for its log
        if isinstance(recorded, list):
            yield from _iter_interactions(document)
        elif isinstance(listed, list) and not document.keys() & {"messages", *REQUEST_KEYS}:
            yield from ((value, number) for number, value in enumerate(listed, 1))
        else:
            yield document, 1
    else:
        yield from source.iter_records()


def is_bare_list(document: list[Any]) -> bool:
    """Whether a value is a list of plain chat messages, of no particular tool."""
    if not all(_is_message(m) and "content" in m and m.keys() <= MESSAGE_KEYS for m in document):
        return False
    contents = [m["content"] for m in document if isinstance(m["content"], list)]
    if contents and contents[0] and str(extract_text(contents[0][0])).startswith("<task>"):  # Cline and Roo open a task so
        return False
    return bool(document) and all(
        isinstance(p, dict) and str(p.get("type")) in (OPENAI_PARTS | {"text"}) for c in contents for p in c
    )


def is_cassette(head: bytes) -> bool:
    """Whether a file begins like an HTTP cassette in YAML."""
    return any(line.startswith((b"interactions:", b"http_interactions:")) for line in head[:2000].splitlines())


def _load_yaml(data: bytes) -> JSON:
    """Load a cassette's YAML. Times stay text, as in JSON."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    times = "tag:yaml.org,2002:timestamp"
    resolvers = {key: [r for r in found if r[0] != times] for key, found in base.yaml_implicit_resolvers.items()}
    loader = type("Loader", (base,), {"yaml_implicit_resolvers": resolvers})
    try:
        return yaml.load(data, Loader=loader)  # noqa: S506 - a subclass of the safe loader
    except (yaml.YAMLError, RecursionError, ValueError):
        return None


def _iter_interactions(document: Any) -> Iterator[tuple[Any, int]]:
    """Iterate over the calls of an HTTP cassette."""
    found = (document.get("interactions") or document.get("http_interactions")) if isinstance(document, Mapping) else None
    if not isinstance(found, list):
        yield Note("error", 0, "the cassette is not readable as YAML"), 0
        return
    for number, record in enumerate(found, 1):
        yield record, number


def _is_other_endpoint(side: Mapping[str, Any]) -> bool:
    """Whether an HTTP record names an address that is no chat."""
    url, method = side.get("uri") or side.get("url"), side.get("method")
    path = url.split("?")[0].rstrip("/") if isinstance(url, str) else ""
    other = path.startswith("http") and not path.endswith(("/messages", "/chat/completions"))
    return (
        other or "/batches" in path or path.endswith("/count_tokens") or (isinstance(method, str) and method.upper() != "POST")
    )


def _find_status(side: Mapping[str, Any]) -> int | None:
    for key in STATUS_KEYS:
        code = side.get(key)
        code = code.get("code") if isinstance(code, Mapping) else code
        if isinstance(code, int) and not isinstance(code, bool):
            return code
    return None


def _find_time(side: Mapping[str, Any]) -> float | None:
    return next((at for key in TIME_KEYS if (at := parse_time(side.get(key))) is not None), None)


def _find_answer_time(record: Mapping[str, Any]) -> float | None:
    return next((at for key in ANSWER_TIME_KEYS if (at := parse_time(record.get(key))) is not None), None)


def parse_time(value: Any) -> float | None:
    """Parse ISO text, or seconds or milliseconds since the Unix epoch. Gives seconds; None where it is no time.

    >>> parse_time("2026-01-01T00:00:00+00:00"), parse_time(1_767_225_600_000), parse_time("0001-01-01T00:00:00Z")
    (1767225600.0, 1767225600.0, None)
    """
    if isinstance(value, str):
        try:
            return check_time(datetime.fromisoformat(value).timestamp())
        except (ValueError, OverflowError):
            return None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = value / 1000 if value > LATEST_SECONDS else float(value)
        return check_time(seconds) if seconds > EARLIEST_SECONDS else None
    return None


def _find_first(values: Iterable[Any]) -> Any:
    return next((value for value in values if value is not None), None)
