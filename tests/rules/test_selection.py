"""Selective injection on a small labelled set made for it: recall at the same budget, against recency alone."""

from __future__ import annotations

import json
from collections.abc import Mapping

from turnscope.counting.ledger import build_ledger
from turnscope.counting.tokens import CHARS
from turnscope.envelope.relevance import extract_terms
from turnscope.planning.answers import Answers
from turnscope.planning.assemble import replay
from turnscope.planning.policy import parse
from turnscope.session.builder import Builder
from turnscope.session.model import Answer, Ask

# What was said, one exchange a line, and further down which of them each later question is about (counted from 0).
SAID = """\
Where does the app read its configuration? | loadConfig in src/config_loader.py reads settings.toml, then the environment.
Which port does the gateway listen on? | The gateway listens on 8443; health checks answer on 9090.
Our customers in Osaka see wrong dates. | format_date ignored the timezone; I pass Asia/Tokyo through now.
Rename the main colour to teal. | Done: the palette's primary is teal in theme.css.
What broke the login last week? | The session cookie lost its SameSite attribute when the proxy was upgraded.
Add a retry to the payment call. | chargeCard retries three times with a backoff of 200 ms.
How large may an upload be? | 25 MB, set as MAX_UPLOAD in limits.py; nginx allows 30.
Why is the nightly backup slow? | pg_dump ran without parallel jobs; with -j 4 it takes eleven minutes.
Please shorten the greeting. | It now says Hello and the first name.
Which license do we ship under? | Apache-2.0, with a notice for the bundled fonts.
Explain the cache in front of the search. | SearchCache keeps 500 queries for ten minutes and is emptied on every index rebuild.
The invoice PDF cuts off long names. | InvoiceRenderer truncated at 40 characters; it wraps lines now.
Set up linting. | ruff and mypy run in pre-commit, configured in pyproject.toml.
What did we decide about the queue? | We chose Postgres LISTEN/NOTIFY instead of RabbitMQ, since one service less is worth more.
Who may delete a project? | Only owners; admins can archive. It is checked in canDeleteProject.
Make the footer sticky. | The footer sticks to the bottom of short pages.
Why did the test for parse_csv fail? | A byte order mark stood before the first header; it is skipped now.
Write release notes for 2.4. | Drafted in CHANGELOG.md under 2.4.0.
Which regions run in production? | eu-central-1 and ap-northeast-1; us-east-1 is a standby.
Move the avatar to the left. | The avatar is on the left now.
How do we rotate the signing keys? | rotate_signing_keys runs monthly; old keys verify for 30 days.
Memory of the worker grows. | The thumbnailer kept decoded images; it frees them after each job.
Translate the menu into French. | All twelve entries are translated in fr.json.
What is the limit of requests per minute? | 120 per API token, counted by RateLimiter in a sliding window.
Sort the table by name. | It sorts by name, case-insensitively.
Is the webhook signed? | Yes: HMAC-SHA256 in the X-Signature header, with the shared secret of the tenant.
Drop support for Python 3.9. | requires-python is 3.11 now, and the old shims are gone.
Add a dark mode switch. | A switch in the header toggles dark mode.
"""
ASKED = """\
0 | In load_config, does the environment win over settings.toml?
1 | What port must the firewall open for the gateway?
2 | A customer in Tokyo reports a timezone problem again, what did format_date do?
4 | Could the proxy upgrade break the cookie of the session again?
5 | How often does charge_card retry?
6 | Raise the maximum upload to 50 MB.
7 | How long does the backup take with parallel jobs?
10 | When is the SearchCache emptied?
11 | Names are wrapped in the invoice, aren't they?
13 | Remind me why we did not take RabbitMQ.
14 | Can an admin delete a project?
16 | Does parse_csv skip the byte order mark?
18 | Is us-east-1 in production?
20 | For how long do old signing keys verify?
21 | Did the thumbnailer free its images?
23 | A client hits the rate limiter, how many requests are allowed per minute?
25 | Which header carries the webhook signature?
9 | Which licence do the bundled fonts need a notice for?
"""
LIMIT = 220  # tokens: some seven of the exchanges


def recall(rule: str) -> float:
    """Share of the questions whose exchange stands in full in the request that asks them."""
    said = [line.split(" | ") for line in SAID.splitlines()]
    asked = [line.split(" | ") for line in ASKED.splitlines()]
    policy = parse("set", f'[budget]\nformula = "fixed"\ntokens = {LIMIT}\n[[rules]]\nrule = "{rule}"\n')
    found = 0
    for number, question in asked:
        builder = Builder("set", "test")
        for prompt, answer in said:
            builder.add_message("user", prompt)
            builder.set_request(builder.add_message("assistant", answer))
        builder.add_message("user", question)
        builder.add_unanswered()
        session = builder.build()
        plan = [*replay(session, policy, build_ledger(session, CHARS))][-1]
        assert plan.after.tokens <= LIMIT
        found += all(plan.after.find_piece(2 * int(number) + place).body is None for place in (0, 1))
    return found / len(asked)


def test_what_was_asked_about_is_found_again_where_recency_alone_has_lost_it() -> None:
    ours, recency = recall("keep_relevant_messages"), recall("keep_newest_within_budget")
    assert recency == 3 / 18, "only three of them are among the newest"
    assert ours >= 17 / 18


def test_identifiers_are_found_as_a_whole_and_by_their_parts() -> None:
    assert extract_terms("loadConfig in config_loader.py") == [
        "loadconfig",
        "load",
        "config",
        "config_loader",
        "config",
        "load",
        "py",
    ]
    assert set(extract_terms("caching the caches")) == {"cach"}


def test_a_model_orders_the_best_anew_where_there_is_one_and_is_missed_with_a_word_where_there_is_none() -> None:
    builder = Builder("set", "test")
    for prompt, answer in (line.split(" | ") for line in SAID.splitlines()):
        builder.add_message("user", prompt)
        builder.set_request(builder.add_message("assistant", answer))
    builder.add_message("user", "The session cookie, the SearchCache, and names on the invoice: which port?")
    builder.add_unanswered()
    session = builder.build()
    policy = (
        f'[budget]\nformula = "fixed"\ntokens = {LIMIT}\n[[rules]]\nrule = "keep_relevant_messages"\nrerank = "none-such"\n'
    )

    def first(answers: Answers | None) -> tuple[str, Mapping[str, object]]:
        plan = [*replay(session, parse("set", policy), build_ledger(session, CHARS), answers=answers)][-1]
        facts = next(d.edit.facts for d in plan.decisions if "newest" in d.edit.facts)
        return str(facts["scores"]).split(" ")[0], facts

    def backwards(ask: Ask) -> Answer:
        texts = json.loads(ask.content)[1:]
        return Answer(items=tuple(str(n / len(texts)) for n in range(len(texts))))

    best, facts = first(None)
    assert "not_reranked" in facts
    turned, facts = first(backwards)
    assert "not_reranked" not in facts
    assert turned != best
