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
CACHE_WRITE_1H = "turnscope.usage.cache_write_1h.input_tokens"  # of those into the cache, the ones written for one hour
ESTIMATED_OUTPUT = "turnscope.usage.output_tokens.estimated"  # counted, where the recorded output cannot be true
INPUT = "gen_ai.input.messages"
OUTPUT = "gen_ai.output.messages"
SYSTEM = "gen_ai.system_instructions"
TOOLS = "gen_ai.tool.definitions"
ERROR = "error.type"

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
UNTIMED = "turnscope.untimed"  # no time is recorded, so the span has its place in the order as its time
ATTEMPTS = "turnscope.attempts"
ASK = "turnscope.ask"  # kind of a rule query that called a model; its span is no request of the conversation

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
