"""Traces of model calls: OpenTelemetry's GenAI conventions of every age, OpenInference, OpenLLMetry, Vercel, Langfuse, MLflow.

A span of a call holds its whole prompt, so calls become sessions as recorded API calls do. Of a call whose prompt was not
recorded, the prompt is the output of the calls before it in its trace, with the results of tools that had ended by then. The
spans of two instrumentations for one call, and the events of one call, are joined in `reading.trace_calls`.
Longer than a mapping because each convention names messages, tools and usage in its own way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from turnscope.importers import Importer, Place
from turnscope.reading.calls import as_text, parse_if_json
from turnscope.reading.content_blocks import as_mapping, as_rows, make_result
from turnscope.reading.conversations import Call, Conversations, group_calls
from turnscope.reading.messages import build_body, convert_message, convert_system_prompt, find_answers, find_messages
from turnscope.reading.shared_prompts import restore_prompts
from turnscope.reading.source import Entry, Source
from turnscope.reading.stated_sizes import StatedPrompts
from turnscope.reading.trace_calls import drop_repeats, find_doubled, join_events
from turnscope.reading.trace_spans import LISTS, TraceSpan, is_run, is_span, list_columns, read_spans
from turnscope.reading.usage import convert_usage
from turnscope.session.content import dumps
from turnscope.session.model import BUCKETS, JSON, STATED_HIDDEN, Fork, Note, Session, Usage
from turnscope.session.thread import Thread
from turnscope.session.usage import MAX_COUNT, InvalidUsage, measured, parse_applied_edits, parse_count, parse_usd
from turnscope.settings import Machine

NAME = "otel"
CALLS = ("chat", "text_completion", "generate_content", "completion", "messages.create", "anthropic.messages.create")
OTHER = ("invoke_agent", "create_agent", "execute_tool", "embeddings", "retrieval", "chain", "invoke_workflow", "rerank")
BATCHES = ("resourceSpans", "batches", "resource_spans", "observations")
# Tokens of a request: the names that the conventions give them.
USAGE = {
    "input_tokens": "gen_ai.usage.input_tokens gen_ai.usage.prompt_tokens llm.token_count.prompt llm.usage.prompt_tokens "
    "ai.usage.inputTokens ai.usage.promptTokens",
    "output_tokens": "gen_ai.usage.output_tokens gen_ai.usage.completion_tokens llm.token_count.completion "
    "llm.usage.completion_tokens ai.usage.outputTokens ai.usage.completionTokens",
    "total_tokens": "gen_ai.usage.total_tokens llm.usage.total_tokens llm.token_count.total ai.usage.totalTokens",
    "cache_read_tokens": "gen_ai.usage.cache_read.input_tokens gen_ai.usage.cache_read_input_tokens "
    "gen_ai.usage.input_tokens.cached llm.token_count.prompt_details.cache_read ai.usage.cachedInputTokens "
    "gen_ai.usage.details.cache_read_input_tokens gen_ai.usage.details.cache_read_tokens",
    "cache_write_tokens": "gen_ai.usage.cache_write.input_tokens gen_ai.usage.cache_creation.input_tokens "
    "gen_ai.usage.cache_creation_input_tokens llm.token_count.prompt_details.cache_write "
    "gen_ai.usage.details.cache_creation_input_tokens gen_ai.usage.details.cache_write_tokens",
}
MODEL = (
    "gen_ai.response.model llm.response.model ai.response.model langfuse.model gen_ai.request.model llm.model_name ai.model.id"
).split()
REASONS = ("anthropic.message.stop_reason", "gen_ai.response.finish_reasons", "ai.response.finishReason", "llm.finish_reason")
COST = ("gen_ai.usage.cost", "llm.cost.total", "langfuse.totalCost", "langfuse.calculatedTotalCost", "operation.cost")
GROUP = ("gen_ai.conversation.id", "session.id", "langfuse.sessionId", "traceloop.association.properties.session_id")
OURS, ASK, UNTIMED = "turnscope.request", "turnscope.ask", "turnscope.untimed"  # see `telemetry.names`
BRANCH_OF, SUBAGENT_OF = "turnscope.branch_of", "turnscope.subagent_of"
WRITTEN_1H, ESTIMATED = "turnscope.usage.cache_write_1h.input_tokens", "turnscope.usage.output_tokens.estimated"
EXPECTED_USAGE = "turnscope.usage.expected"
EXPECTED, PARTS, TURN = "turnscope.expected_input_tokens", "turnscope.input_tokens.", "turnscope.turn"
EVENTS = ("gen_ai.system.message", "gen_ai.user.message", "gen_ai.assistant.message", "gen_ai.tool.message")


def sniff(source: Source) -> int:
    if source.kind != "file":
        columns = list_columns(source)
        return 90 if {"content", "start_time_unix_nano"} <= columns or {"trace_rowid", "attributes"} <= columns else 0
    document = source.document
    head = (document[:5] if isinstance(document, list) else [document]) if document is not None else source.first[:5]
    for value in head:
        fields = as_mapping(value)
        traced = any(isinstance(fields.get(key), list) for key in BATCHES) or as_mapping(fields.get("trace")).keys() & {
            *BATCHES
        }
        listed = any("traceID" in row or is_span(row) for row in as_rows(fields.get("data"))[:2])
        answered = [row for key in LISTS[1:] for row in as_rows(fields.get(key))[:3]]
        several = any(is_run(row) or as_rows(as_mapping(row.get("data")).get("spans")) for row in answered)
        inner = as_rows(fields.get("spans")) or as_rows(as_mapping(fields.get("data")).get("spans"))
        grouped = any(is_span(row) for row in inner[:3])
        nested = any(is_span(row) for row in as_rows(value)[:3])
        if any((traced, listed, grouped, several, nested, is_span(fields), is_run(fields))):
            return 85
    return 0


def find_places(machine: Machine) -> Iterator[Place]:
    yield Place(machine.find_folder("PHOENIX_WORKING_DIR", machine.home / ".phoenix"), "phoenix.db")


def _group_conversations(source: Source) -> dict[str, tuple[Conversations, str]]:
    """The conversations of each group of calls, by the ids of their entries, those with the most calls first."""
    if "found" not in source.cache:
        notes: list[Note] = []
        spans: list[TraceSpan] = []
        for span in read_spans(source):
            (notes if isinstance(span, Note) else spans).append(span)  # type: ignore[arg-type]
        held, spans = len(spans), drop_repeats(spans)
        if repeated := held - len(spans):
            notes.append(Note("info", 0, f"{repeated} spans are in the file once more: each counts once"))
        if lacking := restore_prompts(spans):
            notes.append(Note("warning", 0, f"{lacking} calls lack messages that other spans hold, which are not in the file"))
        groups: dict[str, list[Call]] = {}
        passed = len(spans)
        ours = {as_text(span.attributes[GROUP[0]]) for span in spans if OURS in span.attributes}
        for group, calls, whole in _iter_calls(spans):
            groups.setdefault(group, []).extend(calls)
            passed -= len(calls)
            ours |= set() if whole else {group}
        stated = [span for span in spans if _is_call(span) and _states_sizes(span, _find_prompt(span))]
        source.cache["hidden"] = {_get_id(span): _count_stated(span, "hidden") for span in stated}
        if stated:
            what = "no prompts: their sizes, and how they split, are those that Turnscope stated when it wrote the spans"
            notes.append(Note("info", 0, f"{len(stated)} calls have {what}"))
        if passed:
            notes.append(Note("info", 0, f"{passed} spans are no call of a model of their own"))
        if blank := sum(call.answer == {"content": []} for of in groups.values() for call in of):
            notes.append(Note("warning", 0, f"{blank} calls have no answer in the trace, only what they took"))
        found = [group_calls(calls, source.path.stem, one_conversation=group in ours) for group, calls in groups.items()]
        named = {as_text(span.attributes.get(key)) for span in spans for key in GROUP} - {""}
        source.cache["named"] = {id(one): group for one, group in zip(found, groups, strict=True) if group in named}
        above = {as_text(span.attributes[GROUP[0]]): of for span in spans if (of := _find_above(span))[1]}
        belongs = [above.get(group, ("", "")) for group in groups]
        below = [n for n, (_, of) in enumerate(belongs) if of and of in groups and of not in above]
        source.cache["below"] = [(*belongs[n], one) for n, one in enumerate(found) if n in below]
        own = [(n, one) for n, one in enumerate(found) if n not in below]
        listed = [(f"{n}.{e.id}", (one, e.id), e.requests) for n, one in own for e in one.list_entries()]
        listed.sort(key=lambda row: -row[2])
        if listed:
            listed[0][1][0].notes[:0] = notes
        source.cache["found"] = {id: place for id, place, _ in listed}
    conversations: dict[str, tuple[Conversations, str]] = source.cache["found"]
    return conversations


def list_entries(source: Source) -> Iterator[Entry]:
    for id, (one, inner) in _group_conversations(source).items():
        yield structs.replace(next(entry for entry in one.list_entries() if entry.id == inner), id=id)


def read(source: Source, entry: Entry) -> Thread:
    one, inner = _group_conversations(source)[entry.id]
    session = one.build_session(inner, NAME)
    number = list(_group_conversations(source)).index(entry.id)
    called = f"{source.path.stem}~{number}" if number else source.path.stem
    named = source.cache["named"].get(id(one))
    about = {**session.about, **({"conversation": named} if named else {}), **_list_hidden(source, session)}
    session = structs.replace(session, id=called, about=about)
    below = [(kind, _read_below(source, session, each)) for kind, of, each in source.cache["below"] if of and of == named]
    agents = tuple(each for kind, each in below if kind == SUBAGENT_OF)
    return Thread(structs.replace(session, subagents=agents, forks=tuple(Fork(own) for k, own in below if k == BRANCH_OF)))


def _find_above(span: TraceSpan) -> tuple[str, str]:
    """What a conversation that we wrote is to another one, and that one; "" where it stands alone."""
    return next(((key, of) for key in (BRANCH_OF, SUBAGENT_OF) if (of := as_text(span.attributes.get(key)))), ("", ""))


def _read_below(source: Source, session: Session, calls: Conversations) -> Session:
    """A branch or a subagent of a session."""
    own = calls.build_session("", NAME)
    about = {**own.about, **_list_hidden(source, own)}
    return structs.replace(own, id=source.cache["named"][id(calls)], parent=session.id, about=about)


def _embeds(span: TraceSpan) -> bool:
    return "embed" in as_text(span.get_first(*MODEL)).lower() or span.attributes.get("langfuse.type") == "EMBEDDING"


def _is_call(span: TraceSpan) -> bool:
    kind = as_text(span.attributes.get("langfuse.type")) or as_text(span.attributes.get("openinference.span.kind")).upper()
    if _embeds(span):
        return False
    if kind:
        return kind in ("LLM", "GENERATION")
    operation = as_text(span.attributes.get("gen_ai.operation.name"))
    inner = as_text(span.attributes.get("ai.operationId"))
    if (
        operation in OTHER
        or ASK in span.attributes
        or (inner and not inner.rpartition(".")[2].startswith("do"))
        or "count_tokens" in span.name
    ):
        return False
    model = span.get_first("gen_ai.request.model", "gen_ai.response.model", "llm.request.type", "gen_ai.prompt.0.role")
    return operation in CALLS or inner.rpartition(".")[2].startswith("do") or model is not None


def _iter_calls(spans: Sequence[TraceSpan]) -> Iterator[tuple[str, list[Call], bool]]:
    """The calls of the spans, by what they belong to, in order, and whether each holds its prompt.

    A call that several spans report is one.
    """
    listed = join_events(spans, _is_call)
    reported = {id(span): _find_prompt(span) for span in listed if _is_call(span)}
    doubled = find_doubled(listed, reported, _make_answer, _get_usage)
    sized: dict[str, StatedPrompts] = {}
    alone: dict[str, str] = {}  # what a trace as a whole belongs to
    for span in listed:
        if (named := next((as_text(span.attributes[key]) for key in GROUP if span.attributes.get(key)), "")) and span.trace:
            alone.setdefault(span.trace, named)
    _continue_responses(listed, reported)
    for trace in _list_traces(listed):
        calls = [span for span in trace if id(span) in reported and id(span) not in doubled]
        whole = all(reported[id(span)] for span in calls)
        group = alone.get(trace[0].trace, "" if whole else trace[0].trace)
        made = [_is_whole(span, reported[id(span)]) for span in calls] if whole else _join_calls(calls, trace, reported)
        if calls and all(_states_sizes(span, reported[id(span)]) for span in calls):
            prompts = sized.setdefault(group, StatedPrompts())
            made = [_build_sized_call(span, prompts) for span in calls]
        yield group, list(made), whole


def _list_traces(spans: Sequence[TraceSpan]) -> list[list[TraceSpan]]:
    """The spans by trace, in order: by time, and those of a conversation that we wrote by the numbers of its requests."""
    ours = {id(span): number for span in spans if isinstance(number := span.attributes.get(OURS), int)}
    begun: dict[str, float] = {}
    for span in spans:
        if id(span) in ours:
            named, at = as_text(span.attributes.get(GROUP[0])), span.started or 0
            begun[named] = min(at, begun.get(named, at))

    def rank(span: TraceSpan) -> tuple[float, int]:
        if id(span) in ours:
            return begun[as_text(span.attributes.get(GROUP[0]))], ours[id(span)]
        return span.started or 0, 0

    by_trace: dict[str, list[TraceSpan]] = {}
    for span in sorted(spans, key=rank):
        by_trace.setdefault(span.trace, []).append(span)
    firsts = {trace: min(map(rank, [span for span in own if id(span) in ours] or own)) for trace, own in by_trace.items()}
    return sorted(by_trace.values(), key=lambda own: firsts[own[0].trace])


def _states_sizes(span: TraceSpan, prompt: Sequence[JSON]) -> bool:
    """Whether a span that we wrote has no prompt, and states how many tokens each part of it has."""
    return not prompt and OURS in span.attributes and isinstance(span.attributes.get(EXPECTED), int)


def _build_sized_call(span: TraceSpan, prompts: StatedPrompts) -> Call:
    """A call whose prompt is not in the trace, with the sizes that its span states."""
    sizes = {bucket: _count_stated(span, bucket) for bucket in BUCKETS}
    call = _is_whole(span, [])
    return replace(call, body=prompts.build_body(sizes, span.attributes.get(TURN)), answer={"content": prompts.make_answer()})


def _count_stated(span: TraceSpan, part: str) -> int:
    """Tokens that a span states of a part of its prompt."""
    tokens = span.attributes.get(PARTS + part)
    return tokens if isinstance(tokens, int) and 0 <= tokens < MAX_COUNT else 0


def _get_id(span: TraceSpan) -> str:
    return as_text(span.get_first("gen_ai.response.id", "ai.response.id")) or span.id


def _list_hidden(source: Source, session: Session) -> dict[str, JSON]:
    """What is to be said of a session of whose prompts the trace states only the sizes."""
    hidden = [source.cache["hidden"].get(request.id) for request in session.requests]
    return {STATED_HIDDEN: hidden} if hidden and None not in hidden else {}


def _continue_responses(spans: Sequence[TraceSpan], reported: dict[int, list[JSON]]) -> None:
    """Put the conversation up to a previous response before the prompt that names it."""
    known: dict[str, list[JSON]] = {}
    for span in sorted((span for span in spans if id(span) in reported), key=lambda span: span.started or 0):
        before = as_text(as_mapping(_make_body(span)).get("previous_response_id"))
        before = before or as_text(
            span.get_first("gen_ai.request.previous_response_id", "gen_ai.openai.request.previous_response_id")
        )
        reported[id(span)] = [*known.get(before, ()), *reported[id(span)]] if before else reported[id(span)]
        response = as_mapping(_get_value(span, "langfuse.output", "output.value"))
        if name := as_text(span.get_first("gen_ai.response.id")) or as_text(response.get("id")):
            known[name] = [*reported[id(span)], *_make_answer(span)]


def _join_calls(calls: Sequence[TraceSpan], trace: Sequence[TraceSpan], reported: Mapping[int, list[JSON]]) -> Iterator[Call]:
    """Calls of a trace that does not hold every prompt."""
    above = (span for span in trace if not _is_call(span) and not _embeds(span))
    request = next((span.get_first("langfuse.input", "input.value") for span in above), None)
    root = as_mapping(request)
    messages: list[JSON] = [{"role": "system", "content": root["system"]}] if root.get("system") else []
    prompt = root.get("prompt") or request
    first = [{"role": "user", "content": prompt}] if isinstance(prompt, str) and prompt else find_messages(request)
    open_: list[Mapping[str, Any]] = []
    tools = [span for span in trace if _is_tool(span)]
    for span in calls:
        known = [dumps([*convert_message(as_mapping(message))]) for message in messages]
        for tool in [tool for tool in tools if (tool.ended or tool.started or 0) <= (span.started or 0)]:
            use = next((use for use in open_ if _find_answers(tool, use)), None)
            if use is not None:
                tools.remove(tool)
                open_.remove(use)
                messages.append({"role": "user", "content": [make_result(use["id"], _find_output(tool), bool(tool.error))]})
        messages += [message for message in reported[id(span)] if dumps([*convert_message(as_mapping(message))]) not in known]
        if not any(as_mapping(message).get("role") == "user" for message in messages):
            messages += first
        found = _is_whole(span, messages)
        yield found
        content = (found.answer or {}).get("content") or []
        messages.append({"role": "assistant", "content": content})
        open_ += [block for block in content if block.get("type") == "tool_use"]


def _is_tool(span: TraceSpan) -> bool:
    kinds = ("langfuse.type", "openinference.span.kind", "traceloop.span.kind")
    kind = next((as_text(span.attributes[key]).upper() for key in kinds if span.attributes.get(key)), "")
    return kind == "TOOL" or span.attributes.get("gen_ai.operation.name") == "execute_tool"


def _find_answers(tool: TraceSpan, use: Mapping[str, Any]) -> bool:
    """Whether a tool's span is the run of a call."""
    if id := _find_run(tool):
        return bool(id == use["id"])
    arguments = _get_value(tool, "gen_ai.tool.call.arguments", "langfuse.input", "input.value")
    arguments = as_mapping(arguments).get("input", arguments)
    named = as_text(tool.get_first("gen_ai.tool.name", "tool.name")) or tool.name.removeprefix("execute_tool ")
    return named == use["name"] and arguments in (use["input"], None)


def _find_run(tool: TraceSpan) -> str:
    """The id of the call that a tool's span is the run of."""
    return as_text(tool.get_first("gen_ai.tool.call.id", "tool_call.id", "ai.toolCall.id"))


def _get_value(span: TraceSpan, *keys: str) -> Any:
    """The first of some attributes, as a value."""
    value = span.get_first(*keys)
    return parse_if_json(value) if isinstance(value, str) else value


def _find_output(tool: TraceSpan) -> Any:
    output = _get_value(tool, "gen_ai.tool.call.result", "langfuse.output", "output.value", "ai.toolCall.result")
    return as_mapping(output).get("content", output)


def _find_model(span: TraceSpan) -> str:
    """The model that a response names, or the body; older traces have it nowhere else."""
    sides = (
        as_mapping(_get_value(span, *keys)) for keys in (("langfuse.output", "output.value"), ("langfuse.input", "input.value"))
    )
    return next((name for side in sides if (name := as_text(side.get("model")))), "")


def _is_whole(span: TraceSpan, messages: Sequence[JSON]) -> Call:
    """A call with the prompt that it was sent with."""
    about: dict[str, Any] = {
        "model": as_text(span.get_first(*MODEL)) or _find_model(span),
        "sent_at": None if UNTIMED in span.attributes else span.started,
        "answered_at": None if UNTIMED in span.attributes else span.ended,
        "id": _get_id(span),
        "usage": _get_usage(span),
        "logged_usd": next((found for key in COST if (found := parse_usd(span.attributes.get(key))) is not None), None),
    }
    if OURS in span.attributes or about["usage"] != _get_platform_usage(span):
        about["logged_usd"] = None  # computed by Turnscope, or a cost of tokens that were not used
    reason = span.get_first(*REASONS)
    reason = parse_if_json(reason) if isinstance(reason, str) and reason[:1] == "[" else reason
    about["stop_reason"] = as_text(reason[0] if isinstance(reason, list) and reason else reason) or None
    about["usage"] = _complete_usage(span, about["usage"])
    if isinstance(estimated := span.get_first(ESTIMATED), int):
        about |= {"output_stub": True, "estimate": Usage(output_tokens=estimated)}
    response = _get_value(span, "response_data", "gen_ai.response.body", "langfuse.output", "output.value")
    about["applied"] = parse_applied_edits(as_mapping(response).get("context_management"))
    body = build_body(messages, _find_tools(span))
    answers = [convert_message(message) for message in _make_answer(span)]
    content = [block for _, blocks in answers for block in blocks]
    answer = {"content": content} if content or about["usage"] else None
    return Call(body, answer, about, span.error if answer is None else "", span.line)


def _get_usage(span: TraceSpan) -> Usage | None:
    """Usage as in the provider's response where that was recorded whole, else as the trace does.

    A platform counts for itself where no usage was reported.
    """
    if EXPECTED_USAGE in span.attributes:
        return None
    response = as_mapping(_get_value(span, "langfuse.output", "output.value"))
    found = convert_usage(response.get("usage")) if "choices" in response else None
    return found or _get_platform_usage(span)


def _get_platform_usage(span: TraceSpan) -> Usage | None:
    details = span.attributes.get("langfuse.usageDetails") or span.attributes.get("langfuse.usage")
    return convert_usage(details or _convert_usage(span))


def _convert_usage(span: TraceSpan) -> dict[str, Any]:
    found = {name: span.get_first(*keys.split()) for name, keys in USAGE.items()}
    texts = {name: value for name, value in found.items() if isinstance(value, str) and len(value) < 25 and value.isdecimal()}
    return {**found, **{name: int(value) for name, value in texts.items()}}


@measured
def _complete_usage(span: TraceSpan, found: Usage | None) -> Usage | None:
    """Usage with what was written for an hour, and with what the provider's compactions were billed, all of them together."""
    if found is None or isinstance(found, InvalidUsage):
        return found
    hour = min(parse_count(span.get_first(WRITTEN_1H), WRITTEN_1H), found.cache_creation_input_tokens)
    names = (f"anthropic.usage.compaction.{side}_tokens" for side in ("input", "output"))
    read, written = (parse_count(span.get_first(name), name) for name in names)
    passes = (Usage(read, output_tokens=written, kind="compaction"),) if read or written else ()
    return structs.replace(found, iterations=passes, cache_creation_1h_input_tokens=hour)


def _find_tools(span: TraceSpan) -> Sequence[JSON]:
    keys = ("gen_ai.tool.definitions", "llm.tools", "llm.request.functions", "gen_ai.request.tools", "ai.prompt.tools")
    for key in keys:
        tools = span.get_nested(key)
        if isinstance(tools, list) and tools:
            return [
                as_mapping(row).get("tool", row)
                for row in (parse_if_json(one) if isinstance(one, str) else one for one in tools)
            ]
    listed = as_mapping(_make_body(span)).get("tools")
    return listed if isinstance(listed, list) else ()


def _make_body(span: TraceSpan) -> JSON:
    """A request body that was recorded as it was sent."""
    return _get_value(span, "langfuse.input", "input.value", "request_data", "gen_ai.request.body", "gen_ai.prompt")


def _find_prompt(span: TraceSpan) -> list[JSON]:
    """The messages of a call's prompt, the system's first; none where they were not recorded."""
    lead = convert_system_prompt(span.get_nested("gen_ai.system_instructions"))
    for key in ("gen_ai.input.messages", "llm.input_messages", "gen_ai.prompt", "ai.prompt.messages", "llm.prompts"):
        if found := find_messages(span.get_nested(key)):
            sent = find_messages(_make_body(span))  # some instrumentations leave messages out of their attributes
            return [*lead, *found] if len(sent) <= len(found) + len(lead) else sent
    reported: list[JSON] = []
    for name, fields in _find_events(span):
        if name in EVENTS:
            reported.append(_convert_event(name, fields))
        elif found := find_messages(fields.get("gen_ai.input.messages") or fields.get("gen_ai.prompt")):
            return [*(convert_system_prompt(fields.get("gen_ai.system_instructions")) or lead), *found]
    body = _make_body(span)
    found = reported or find_messages(body) or ([{"role": "user", "content": body}] if isinstance(body, str) and body else [])
    return [*lead, *found] if found else []


def _find_events(span: TraceSpan) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The events of a span, those that stand in an attribute as well."""
    yield from span.events
    for row in as_rows(_get_value(span, "events")):
        yield as_text(row.get("event.name")), row


def _convert_event(name: str, fields: Mapping[str, Any]) -> dict[str, JSON]:
    body = as_mapping(parse_if_json(as_text(fields.get("event_body"))) or fields.get("event_body")) or fields
    role = as_text(body.get("role")) or name.split(".")[1]
    calls = body.get("tool_calls")
    return {**body, "role": role, "tool_calls": parse_if_json(calls) if isinstance(calls, str) else calls}


def _make_answer(span: TraceSpan) -> list[Any]:
    """The messages of a call's answer."""
    for key in ("gen_ai.output.messages", "llm.output_messages", "gen_ai.completion", "llm.completions"):
        if found := find_answers(span.get_nested(key)):
            return found
    words, calls = span.get_first("ai.response.text"), _get_value(span, "ai.response.toolCalls")
    if words or calls:
        return [{"role": "assistant", "content": words, "tool_calls": calls}]
    reported: list[Any] = []
    for name, fields in _find_events(span):
        body = as_mapping(parse_if_json(as_text(fields.get("event_body"))) or fields.get("event_body")) or fields
        if name == "gen_ai.choice":
            inner = body.get("message", body)
            reported += find_answers(inner if isinstance(inner, (Mapping, list)) else parse_if_json(as_text(inner)))
        elif messages := fields.get("gen_ai.output.messages") or fields.get("gen_ai.completion"):
            reported += find_answers(messages)
    return reported or find_answers(
        _get_value(span, "langfuse.output", "output.value", "response_data", "gen_ai.response.body")
    )


IMPORTER = Importer(
    NAME,
    "Trace of model calls (OpenTelemetry, OpenInference, Phoenix, Langfuse, MLflow, LangSmith)",
    sniff,
    read,
    list_entries,
    find_places,
    suffixes=(".json", ".jsonl", ".db"),
    version=10,
    wants="span of a model call",
    right="spans of every convention's age; a call that two spans report is one",
)
