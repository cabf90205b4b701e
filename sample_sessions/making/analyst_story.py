"""Sample 3: an analyst looks for the reason why members leave, and thinks longer every time.

An Anthropic Messages log: a line per request with the whole body as sent, the whole answer, and a time. The model is
of a family that keeps the thinking of past turns, so every thought is paid again with each later request.
"""

# ruff: noqa: E501 - what people, files and tools say is as long as it is
# ruff: noqa: PLR0911 - one way to look per case
# ruff: noqa: S311 - the dice are seeded on purpose
# ruff: noqa: S608 - made-up SQL inside made-up files

from __future__ import annotations

import json
import random
from datetime import datetime
from typing import Any

from making.bikes import DATA, MONTHS, PLANS, WARDS, by_plan, grid, reasons
from making.billing import PER_MESSAGE, Cache, billed, readable
from making.claude_code import name, signature, stamp

MODEL = "claude-opus-4-5-20251101"
LAST_THOUGHT = 52  # looks at the data in the longest thought
SYSTEM = (
    "You are the data analyst of Spoke & Tide, a bike-sharing company with eight wards and four plans. You answer questions of the management with "
    "numbers from the warehouse. Look before you conclude, test the obvious explanation against its consequences, say how sure you are, and say what "
    "would change your mind. Tables: memberships(member_id, ward, plan, started, ended), rides(ride_id, member_id, dock_id, at, minutes), "
    "docks(dock_id, ward, size), dock_minutes(dock_id, day, empty, full), exits(member_id, reason, at), prices(plan, valid_from, eur)."
)
TOOLS: list[dict[str, Any]] = [
    {
        "name": "run_sql",
        "description": "Run one read-only PostgreSQL query against the warehouse. At most 400 rows come back.",
        "input_schema": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
    },
    {
        "name": "note",
        "description": "Add a line to the analysis notebook that the management reads afterwards.",
        "input_schema": {
            "type": "object",
            "properties": {"finding": {"type": "string"}, "sure": {"type": "string", "enum": ["low", "medium", "high"]}},
            "required": ["finding", "sure"],
        },
    },
]

PROMPTS = (
    "We lost far more members this year than last. The board is convinced that it was the price rise in June. I have to say yes or no on Thursday. What happened? - Hedda",
    "Interesting. But the rise hit annual plans only. Doesn't that fit the annual plans leaving in Dockside?",
    "Ok. Our operations chief says the docks are fine, 'thirty minutes empty at most'. Is he right?",
    "He now says it is the weather. And that people who complain about docks would have left anyway. Please be fair to him, and thorough.",
    "What would it have cost us to keep Dockside stocked, compared with what we lost? A rough number with a range.",
    "The board will ask: what if you're wrong? Give me the strongest case against your own conclusion, then your final answer.",
)


def queries() -> list[tuple[str, str]]:
    """List what is asked of the warehouse, in order, with what comes back."""
    sql = "SELECT ward, month, {what} FROM churn_by_month WHERE plan = '{plan}' ORDER BY ward, month"
    asked = [
        (sql.format(what=what, plan=plan), grid(column, plan))
        for what, column, plan in (
            ("rate", "rate", "annual"),
            ("left_count", "left", "annual"),
            ("rate", "rate", "monthly"),
            ("empty_minutes", "empty", "annual"),
            ("rate", "rate", "company"),
            ("rides", "rides", "annual"),
            ("rate", "rate", "student"),
            ("members", "members", "annual"),
        )
    ]
    for ward in WARDS:
        asked.append(
            (
                f"SELECT plan, month, members, left_count, rate, rides, empty_min FROM churn_detail WHERE ward = '{ward}'",
                by_plan(ward, range(2, 9)),
            )
        )
    asked.append(
        (
            "SELECT ward, reason, count(*) AS n FROM exits JOIN memberships USING (member_id) GROUP BY 1, 2 ORDER BY 1",
            reasons("all"),
        )
    )
    asked.append(
        (
            "SELECT ward, reason, count(*) AS n FROM exits JOIN memberships USING (member_id) WHERE ended >= '2025-04-01' GROUP BY 1, 2",
            reasons("since April"),
        )
    )
    for plan, column in (
        ("monthly", "rides"),
        ("student", "empty"),
        ("company", "left"),
        ("monthly", "members"),
        ("student", "left"),
        ("company", "rides"),
    ):
        asked.append((sql.format(what=column, plan=plan), grid(column, plan)))
    for ward in ("Dockside", "Station", "University", "Old Mint", "Harbour Hill"):
        asked.append(
            (
                f"SELECT plan, month, members, left_count, rate, rides, empty_min FROM churn_detail WHERE ward = '{ward}' AND month IN (1, 2, 10, 11, 12)",
                by_plan(ward, range(9, 12)),
            )
        )
    return asked


def look(rng: random.Random) -> str:
    """Think one piece of a thought: a comparison that is really in the data."""
    ward, plan, month = rng.choice(WARDS), rng.choice(PLANS), rng.randint(3, 11)
    other = rng.choice([w for w in WARDS if w != ward])
    here, there, before = DATA[ward, plan, month], DATA[other, plan, month], DATA[ward, plan, rng.randint(0, 2)]
    when, starved, gap = MONTHS[month], ward in STARVED, here.rate - there.rate
    around = [DATA[ward, plan, m].rate for m in range(max(0, month - 2), min(12, month + 2))]
    saved = round(here.left - here.members * there.rate / 100)
    verdict = rng.choice(ALIKE if abs(gap) < 1 else APART if starved and gap > 0 else RISES if other in STARVED else SMALL)
    match rng.randrange(9 if saved > 2 else 8):
        case 0:
            fits = "which the docks explain and the price does not" if starved else "and its docks were hardly ever empty"
            return f"{ward}, {plan}, {when}: {here.left} of {here.members} left, {here.rate:.1f} %, {fits}."
        case 1:
            side = "more" if gap > 0 else "less"
            return f"Compare {ward} with {other} in {when}, both {plan}: {here.rate:.1f} against {there.rate:.1f} %, {abs(gap):.1f} points {side}. {verdict}"
        case 2:
            grown = here.rate - before.rate
            return f"Before April the {plan} plan in {ward} lost {before.rate:.1f} % a month; in {when} it is {here.rate:.1f} %. {rng.choice(GROWN if grown > 1.5 else FLAT)}"
        case 3:
            return f"Empty minutes per dock and day in {ward} in {when}: {here.empty}, in {other}: {there.empty}. Leavers: {here.rate:.1f} and {there.rate:.1f} %. {verdict}"
        case 4:
            return f"Hold the plan fixed: {plan} members paid the same in {ward} and {other}, and in {when} {here.left} of {here.members} and {there.left} of {there.members} left. {verdict}"
        case 5:
            return f"Rides per member, {plan}, {when}: {here.rides / here.members:.1f} in {ward}, {there.rides / there.members:.1f} in {other}. {rng.choice(RIDES)}"
        case 6:
            return f"Could {when} be special in {ward}? The {plan} figures around it run from {min(around):.1f} to {max(around):.1f} %, {'a wide range, so careful' if max(around) - min(around) > 1.5 else 'so it is no outlier'}."
        case 7:
            return f"The weather is the same on both sides of the river: {other} lost {there.rate:.1f} % of its {plan} members in {when}, {ward} {here.rate:.1f} %. {verdict}"
    return f"Suppose {ward} had left at the rate of {other} in {when}: then {saved} {plan} members would still be with us. {rng.choice(SAVED)}"


STARVED = ("Dockside", "Station")
ALIKE = (
    "Practically the same.",
    "No difference worth a name.",
    "So these two behave alike.",
    "That is within what chance does.",
    "Which is what a control should look like.",
)
APART = (
    "A tariff cannot do that.",
    "The direction is the same as everywhere in this ward.",
    "This is the cell I would show to the board.",
    "It cuts against the board's reading.",
    "Weather cannot do that either.",
    "One month proves little, but it joins the others.",
)
SMALL = (
    "A small group, so perhaps only chance.",
    "Both are low; I would not build on it.",
    "Worth remembering as the size of ordinary scatter.",
)
RISES = (
    "The other ward is the odd one, not this one.",
    "So the quiet ward is my control.",
    "That gap belongs to the empty docks, I think.",
    "Same city, same price, different docks.",
)
GROWN = (
    "It more than doubled.",
    "That began before the price moved.",
    "Nothing seasonal does that in this warehouse.",
    "And it kept climbing.",
)
FLAT = (
    "Hardly a change.",
    "Winter takes a little, no more.",
    "The price rise should be visible here and is not.",
    "Flat, within the noise.",
)
RIDES = (
    "Use by itself says little; people ride less in winter everywhere.",
    "I cannot separate season from supply with this.",
    "Leave rides aside, they answer to the weather first.",
    "Fewer rides could come before leaving, but the order is not in this table.",
    "Not decisive.",
)
SAVED = (
    "Adding such cells up gives the size of the damage.",
    "That is the number that operations should see.",
    "Multiply by the margin later.",
    "A careful opponent would pick another pair, so average over all of them.",
)


OPENERS = (
    "Let me read this table properly.",
    "So what does this say?",
    "Slowly now.",
    "Before I answer, does this hold up?",
    "The obvious reading first, then the attempts to break it.",
    "I want to be fair to the other explanation.",
)
TURNS_OF_THOUGHT = (
    "Wait, that assumes the groups are alike.",
    "Let me try to break that.",
    "Hmm, seasons again.",
    "Now the other side of the argument.",
    "Is there a ward that contradicts me?",
    "Numbers of that size could be luck; how often would it happen?",
    "Back to the price for a moment.",
)
CLOSERS = (
    "Next I want the same figure for another plan.",
    "One more cut before I say anything.",
    "Enough for this point; look at the next table.",
    "I am surer than before, but not done.",
    "That survives. Go on.",
    "So the docks stay my first explanation.",
)


def thought(rng: random.Random, share: float) -> str:
    """Think; `share` (0 to 1) is how far the analysis has come, and thoughts grow faster than it."""
    pieces, out = 1 + round(LAST_THOUGHT * share**2.3), [rng.choice(OPENERS)]
    for n in range(pieces):
        if n and n % 5 == 0:
            out.append("\n\n" + rng.choice(TURNS_OF_THOUGHT))
        out.append(look(rng))
    return " ".join([*out, rng.choice(CLOSERS)]).replace(" \n\n", "\n\n")


FINDINGS = (
    (
        "Leaving rose in two wards, not in eight. In Dockside and Station it has climbed every month since April; the other six are where they were.",
        "medium",
    ),
    (
        "The price rise of June adds about 0.7 points for annual plans, for two months, everywhere. It is real and small.",
        "high",
    ),
    ("Docks in Dockside and Station were empty for 90 to 190 minutes a day since April, elsewhere for 4 to 31.", "high"),
    ("All four plans rise in the two wards, also those whose price did not change.", "high"),
    ("Leavers in the two wards name empty or full docks several times as often as price.", "medium"),
)
ANSWERS = (
    "Short answer: no, not mainly. Leaving rose in **two of eight wards**, Dockside and Station, and it began in **April**, two months before the price changed. A rise that everybody paid cannot explain what happened in two places.",
    "Partly. Annual plans lose about 0.7 points more in June and July, in every ward. But in Dockside the monthly, student and company plans rise as well, and their price did not change. So the price is a ripple on top of something else.",
    "Not for these two wards. Since April the docks in Dockside and Station stood empty for 90 to 190 minutes a day. For the other six wards he is right: 4 to 31 minutes.",
    "I tried to make his case. Weather hits all wards, and six of them did not move. People who complain might have left anyway, but then complaints would not cluster in the two wards, and members there would not ride less before they leave. I cannot exclude a share of it; I would put it at a fifth at most.",
    "Roughly 3,200 to 3,900 members more left than at the rate of the other wards. At 60 to 75 euros of margin a year that is 190,000 to 290,000 euros. Two more night vans cost about 110,000. The range is wide because I know the margin only roughly.",
    "Strongest case against me: the two wards may have changed in another way in April (a new tram, a closed bridge), and empty docks would then be a symptom. I see no sign of it in the rides, but I did not look outside the warehouse. Final answer for Thursday: **no, the price rise explains a small part; empty docks in Dockside and Station explain most of it.** Sureness: about 85 %.",
)


class Client:
    """A program that keeps the history, marks the last message for caching, and logs what it sends and gets."""

    def __init__(self) -> None:
        self.rng = random.Random("analyst story")
        self.now = datetime.fromisoformat("2026-01-13T09:14:05+00:00").timestamp()
        self.messages: list[dict[str, Any]] = []
        self.keys: list[int] = []
        self.fixed = (
            billed(SYSTEM) + sum(billed(json.dumps(tool)) for tool in TOOLS) + 320
        )  # 320: what the API adds for tool use
        self.prompt = self.fixed
        self.cache = Cache(self.fixed)
        self.lines: list[str] = []

    def say(self, role: str, blocks: list[dict[str, Any]]) -> int:
        """Put a message into the history; give its tokens."""
        tokens = sum(billed(readable(b)) for b in blocks) + PER_MESSAGE
        self.messages.append({"role": role, "content": blocks})
        self.keys.append(len(self.keys))
        self.prompt += tokens
        return tokens

    def body(self) -> dict[str, Any]:
        """Give the request body: the cache marker stands on the system prompt and on the last block of the last message."""
        mark = {"cache_control": {"type": "ephemeral"}}
        *head, last = self.messages
        moved = {"role": last["role"], "content": [*last["content"][:-1], last["content"][-1] | mark]}
        body: dict[str, Any] = {"model": MODEL, "max_tokens": 24_000, "thinking": {"type": "enabled", "budget_tokens": 16_000}}
        return body | {"system": [{"type": "text", "text": SYSTEM} | mark], "tools": TOOLS, "messages": [*head, moved]}

    def send(self, blocks: list[dict[str, Any]], stop: str) -> None:
        """Log one request with its answer, and put the answer into the history."""
        body, usage = self.body(), self.cache.bill(MODEL, tuple(self.keys), self.prompt, self.rng.choice((3, 4, 5)), self.now)
        sent = self.now
        output = self.say("assistant", blocks)
        self.now += 2.1 + output / 58
        answer: dict[str, Any] = {
            "id": name(self.rng, "msg_01", 22),
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": blocks,
        }
        answer |= {
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage | {"output_tokens": output, "service_tier": "standard"},
        }
        self.lines.append(
            json.dumps(
                {"request": body, "response": answer, "timestamp": stamp(sent)}, ensure_ascii=False, separators=(",", ":")
            )
        )


def tell() -> dict[str, str]:
    """Write the log; give it by its path."""
    client, asked = Client(), queries()
    rng, total, done = client.rng, len(asked) + len(FINDINGS) + len(PROMPTS), 0
    share = -(-len(asked) // len(PROMPTS))
    for turn, prompt in enumerate(PROMPTS):
        client.now += rng.uniform(40, 200)
        client.say("user", [{"type": "text", "text": prompt}])
        steps: list[tuple[dict[str, Any], str]] = []
        for query, rows in asked[turn * share : (turn + 1) * share]:
            steps.append(({"name": "run_sql", "input": {"query": query}}, rows))
        if turn < len(FINDINGS):
            finding, sure = FINDINGS[turn]
            steps.append(({"name": "note", "input": {"finding": finding, "sure": sure}}, "Noted."))
        for n, (call, result) in enumerate(steps):
            blocks = [thinking(rng, done / total)]
            if n == 0:
                blocks.append({"type": "text", "text": f"I'll look at the data before I answer ({len(steps)} steps)."})
            use = {"type": "tool_use", "id": name(rng, "toolu_01", 22)} | call
            client.send([*blocks, use], "tool_use")
            done += 1
            client.now += rng.uniform(0.3, 2.5)
            client.say("user", [{"type": "tool_result", "tool_use_id": use["id"], "content": result}])
        client.send([thinking(rng, done / total), {"type": "text", "text": ANSWERS[turn]}], "end_turn")
        done += 1
    return {"thinking-grows.jsonl": "".join(line + "\n" for line in client.lines)}


def thinking(rng: random.Random, share: float) -> dict[str, Any]:
    """Make a thinking block with its signature."""
    words = thought(rng, share)
    return {"type": "thinking", "thinking": words, "signature": signature(rng, words)}
