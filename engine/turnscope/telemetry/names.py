"""Attribute names of OpenTelemetry's conventions for generative AI as of November 2026, and our own, below `turnscope.`.

The conventions have no package of constants; a test compares these with what `opentelemetry-util-genai` writes.
"""

from __future__ import annotations

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
CONVERSATION = "gen_ai.conversation.id"
COMPACTED = "gen_ai.conversation.compacted"
AGENT = "gen_ai.agent.name"
MODEL = "gen_ai.request.model"
MAX_TOKENS = "gen_ai.request.max_tokens"
TEMPERATURE = "gen_ai.request.temperature"
ANSWER_ID = "gen_ai.response.id"
ANSWER_MODEL = "gen_ai.response.model"
REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"  # includes tokens read from the cache and written to it
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE = "gen_ai.usage.cache_write.input_tokens"
CACHE_CREATION = "gen_ai.usage.cache_creation.input_tokens"  # the older name of the same, which most servers read
CACHE_WRITE_1H = "turnscope.usage.cache_write_1h.input_tokens"  # of those into the cache, the ones written for one hour
ESTIMATED_OUTPUT = "turnscope.usage.output_tokens.estimated"  # counted, where the recorded output cannot be true
INPUT = "gen_ai.input.messages"
OUTPUT = "gen_ai.output.messages"
SYSTEM = "gen_ai.system_instructions"
TOOLS = "gen_ai.tool.definitions"
TOOL_NAME = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
TOOL_CALL = "gen_ai.tool.call.id"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
ERROR = "error.type"

# What servers read where the conventions have no name, or where a server does not read theirs.
SESSION = "session.id"  # Phoenix, MLflow and Langfuse group by it; a subagent's spans have that of the session above
KIND = "openinference.span.kind"
VALUE_IN, VALUE_OUT = "input.value", "output.value"
COST = "gen_ai.usage.cost"  # USD
COST_PARTS = ("llm.cost.total", "llm.cost.prompt", "llm.cost.completion")  # Phoenix; USD
COST_MLFLOW = "mlflow.llm.cost"  # JSON
COST_LANGFUSE = "langfuse.observation.cost_details"  # JSON

# The names that the provider's SDK has for a server's compaction.
COMPACTION_READ = "anthropic.usage.compaction.input_tokens"
COMPACTION_WRITTEN = "anthropic.usage.compaction.output_tokens"
STOP_REASON = "anthropic.message.stop_reason"

BRANCH_OF = "turnscope.branch_of"  # the conversation that a branch left
SUBAGENT_OF = "turnscope.subagent_of"  # the conversation that a subagent worked for
TURN = "turnscope.turn"
REQUEST = "turnscope.request"
POLICY = "turnscope.policy"
STATUS = "turnscope.status"  # complete | interrupted | refused | failed | replayed
VERDICT = "turnscope.verdict"
WINDOW = "turnscope.window"  # tokens
EXPECTED = "turnscope.expected_input_tokens"  # prompt tokens as expected before the request was sent
BUCKETS = "turnscope.input_tokens."  # and a bucket, or `hidden` for what the log does not hold; they sum to `EXPECTED`
USD = "turnscope.usd"
UNTIMED = "turnscope.untimed"  # no time is recorded: the span has its place in the order, and the time of nothing
EXPECTED_USAGE = "turnscope.usage.expected"  # the span's usage and cost are what Turnscope expects: nothing was billed
RECORD = "turnscope.record"  # the conversation that this one replays
ATTEMPTS = "turnscope.attempts"
ASK = "turnscope.ask"  # kind of a rule query that called a model; its span is no request of the conversation

# A message is written once in a conversation, by the first request that sends it. They are numbered as they are written: those
# of a span from `PROMPT_START` on, then its answer.
PROMPT_RUN = "turnscope.prompt.run"  # sets the numbers apart where a conversation was told more than once
PROMPT_START = "turnscope.prompt.start"
PROMPT_MESSAGES = "turnscope.prompt.messages"  # numbers of all messages of the prompt, such as `0-5,8`
PROMPT_SYSTEM = "turnscope.prompt.system"  # the request whose span holds the system prompt of this one
PROMPT_TOOLS = "turnscope.prompt.tools"  # and its tools
PROMPT_MARKS = "turnscope.prompt.marks"  # marks for the cache, which move: [message of this prompt, part, mark] as JSON

# Events of a request's span. Tokens are the provider's, as expected.
EDIT = "turnscope.edit"
COMPACTION = "turnscope.compaction"
FALLBACK = "turnscope.fallback"
REFUSAL = "turnscope.refusal"
APPLIED = "turnscope.applied"  # a context edit that the provider reports
DECISION = "turnscope.decision"  # number in the trace
BY = "turnscope.by"  # policy | server
RULE = "turnscope.rule"
ACTION = "turnscope.action"
BECAUSE = "turnscope.because"
BEFORE = "turnscope.tokens.before"
AFTER = "turnscope.tokens.after"

COMPACTIONS = "turnscope.compactions"  # a counter: condensations of requests that were sent
PROVIDERS = {
    "offline": "turnscope",
    "openai": "openai",
    "openai-chat": "openai",
    "openrouter": "openrouter",
    "azure": "azure.ai.openai",
    "gemini": "gcp.gemini",
    "chat": "openai",
}
"""Values of `PROVIDER` by kind of destination; of others `anthropic`. A server has the name of the API that it speaks."""
