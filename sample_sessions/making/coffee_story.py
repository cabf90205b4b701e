"""Sample 4: a day with coffee, lunch and a change of model; every pause over five minutes makes the whole prompt new to the cache.

The conversation only; the code base is in `tideline`, the tools in `workshop`, the file format in `claude_code`.
"""

# ruff: noqa: E501 - what people, files and tools say is as long as it is
# ruff: noqa: S311 - the dice are seeded on purpose

from __future__ import annotations

import random
from typing import Any

from making import tideline
from making.claude_code import Recorder
from making.redis_story import text, think, use
from making.tideline import STATIONS, gauge
from making.workshop import Result, Workshop

ROOT = "/Users/tom/src/tideline"
OPUS, SONNET = "claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929"
CLOCK, CURVE, PREDICT = "src/tides/clock.ts", "src/chart/curve.ts", "src/tides/predict.ts"


class Day:
    """The session as it is told."""

    def __init__(self) -> None:
        self.rng = random.Random("coffee story")
        self.log = Recorder("coffee log", ROOT, "fix/summer-time", OPUS, "2026-03-31T08:02:44.107Z", 18_200)
        self.shop = Workshop(ROOT, tideline.files(), self.rng)

    def step(self, *blocks: dict[str, Any], got: tuple[Result, ...] = ()) -> None:
        calls = self.log.answer(blocks)
        if calls:
            self.log.results(zip(calls, got, strict=True))

    def ask(self, words: str, minutes: float) -> None:
        self.log.prompt(words, minutes * 60)

    def reply(self, words: str, thought: str = "") -> None:
        self.step(*([think(thought)] if thought else []), text(words))
        self.log.end_turn()

    def read(self, file: str, *blocks: dict[str, Any]) -> None:
        self.step(*blocks, use("Read", file_path=self.shop.path(file)), got=(self.shop.read(file),))

    def edit(self, file: str, old: str, new: str, *blocks: dict[str, Any]) -> None:
        self.step(
            *blocks,
            use("Edit", file_path=self.shop.path(file), old_string=old, new_string=new),
            got=(self.shop.edit(file, old, new),),
        )

    def bash(self, command: str, output: str, *blocks: dict[str, Any], seconds: float = 2.0, error: bool = False) -> None:
        meta = None if error else {"stdout": "", "stderr": "", "interrupted": False}
        self.step(*blocks, use("Bash", command=command), got=(Result(output, error, seconds, meta),))

    def compare(self, days: tuple[int, ...], name: str, shift: int, *blocks: dict[str, Any]) -> None:
        """Compare predictions with the tide gauge over some days."""
        rows = "\n\n".join(gauge(name, day, shift) for day in days)
        self.bash(f"npx tsx scripts/gauge.ts {name} --days {','.join(map(str, days))}", rows, *blocks, seconds=3.4)

    def vitest(self, *blocks: dict[str, Any], bad: tuple[str, ...] = ()) -> None:
        """Run the tests: a line per harbour and day, and a table of times for those that are off."""
        out = [f" RUN  v3.0.5 {ROOT}", ""]
        for name in STATIONS:
            for day in (29, 30, 31):
                mark = "×" if name in bad else "✓"
                out.append(
                    f" {mark} test/predict.test.ts > {name} > high and low waters of {day} March 2026 {self.rng.randint(3, 41)}ms"
                )
        for name in bad:
            out.append(f"\n FAIL  test/predict.test.ts > {name}\nAssertionError: expected times to agree within 4 minutes")
            for n in range(14):
                hour, minute = (n * 6 + len(name)) % 24, self.rng.randint(0, 59)
                out.append(
                    f"  - {'high' if n % 2 else 'low '} {hour:02d}:{minute:02d}  {self.rng.uniform(0.7, 5.6):.2f} m   + {(hour + 1) % 24:02d}:{minute:02d}   off by 60 min  at test/predict.test.ts:{38 + n}:9"
                )
        failed = 3 * len(bad)
        out.append(
            f"\n Tests  {f'{failed} failed | ' if failed else ''}{36 - failed} passed (36)\n Duration  {self.rng.uniform(1.2, 3.8):.2f}s"
        )
        self.bash("npx vitest run", "\n".join(out), *blocks, seconds=5.2, error=bool(bad))

    def switch(self, model: str, alias: str, minutes: float) -> None:
        """Change the model, as `/model` does. The other model's cache knows nothing of this conversation."""
        self.log.wait(minutes * 60)
        said = f"<command-name>/model</command-name>\n<command-message>model</command-message>\n<command-args>{alias}</command-args>"
        self.log.model = model
        self.local(said)
        self.local(f"<local-command-stdout>Set model to {alias} ({model})</local-command-stdout>")

    def local(self, content: str) -> None:
        """Write a line about something that happened on this side only."""
        self.log.parent = self.log.line(
            "system", self.log.parent, subtype="local_command", content=content, level="info", isMeta=False
        )


def tell() -> dict[str, str]:
    """Tell the day; give the session file by its path."""
    d = Day()
    morning(d)
    coffee(d)
    cheaper(d)
    lunch(d)
    tea(d)
    return {"cache-goes-cold.jsonl": d.log.titled("High water an hour late since Sunday")}


def morning(d: Day) -> None:
    d.ask(
        "since the clocks went forward on sunday, high water is an hour late on the site. only for some people?? the harbour master of Saltburn rang me at 6. find it pls",
        0.01,
    )
    d.step(
        think(
            "An hour since the change to summer time: a zone offset used on the wrong side of the switch, or cached. 'Only for some people' hints at a cache or at the process start time."
        ),
        text("I'll start where local time is turned into instants."),
        use("Glob", pattern="src/**/*.ts"),
        got=(d.shop.glob("src/", ".ts"),),
    )
    for file in (CLOCK, PREDICT, "src/api/day.ts"):
        d.read(
            file,
            *(
                [
                    think(
                        "offsetOf keeps a Map for the life of the process, and asks for the offset of *now*, not of the day in question. Two faults in one function. A worker started on Saturday keeps +00:00 for ever."
                    )
                ]
                if file == PREDICT
                else []
            ),
        )
    d.vitest(text("What do the tests say today?"), bad=("saltburn", "whitby"))
    for name in STATIONS[:4]:
        d.read(
            f"src/stations/{name}.ts",
            *([text("I want to rule out the constants before I blame the clock.")] if name == "saltburn" else []),
        )
    d.compare(
        (0, 1, 2, 3, 4),
        "saltburn",
        60,
        think("Constants look sane. Against the gauge I should see a pure shift of sixty minutes, not a change of height."),
    )
    d.compare((0, 1, 2), "craster", 0, text("And a harbour that nobody complained about:"))
    d.read(
        "src/tides/nodal.ts",
        think(
            "Craster is right, Saltburn is shifted by exactly an hour: same code, different worker. That is the cache of offsets."
        ),
    )
    old = "  const utc = Date.UTC(day.getFullYear(), day.getMonth(), day.getDate());\n  return new Date(utc - offsetOf(zone) * 60_000);"
    new = "  const utc = Date.UTC(day.getUTCFullYear(), day.getUTCMonth(), day.getUTCDate());\n  return new Date(utc - offsetOf(zone, new Date(utc)) * 60_000);"
    d.edit(CLOCK, old, new, text("The offset has to be asked for the day itself."))
    d.edit(
        CLOCK,
        "export function offsetOf(zone: string): number {\n  const known = offsets.get(zone);\n  if (known !== undefined) return known;\n",
        "export function offsetOf(zone: string, at: Date): number {\n",
    )
    d.edit(CLOCK, ".format(new Date());", ".format(at);")
    d.edit(CLOCK, "  offsets.set(zone, minutes);\n", "")
    d.edit(
        CLOCK,
        "const offsets = new Map<string, number>();\n",
        "",
        think(
            "Without the Map every call formats a date. That costs a few microseconds, and it is called once per day and harbour. Fine."
        ),
    )
    d.vitest()
    d.reply(
        "Found it. `offsetOf` remembered the first offset it saw for as long as the process lived, and it asked for today's offset rather than that of the day in question. Workers that "
        "started on Saturday were an hour off, newer ones were right; that's why only some people saw it. Fixed, all 36 tests pass."
    )
    d.ask("you're a star. are the other harbours ok? check them against the gauges", 2.2)
    for n, name in enumerate(STATIONS[4:8]):
        d.compare(
            (0, 1, 2),
            name,
            0,
            *(
                [
                    think(
                        f"{name.title()} next. I look at the diff column only: anything constant is datum, anything that follows the slope is time."
                    )
                ]
                if n % 2
                else [text(f"{name.title()}:")]
            ),
        )
    d.reply(
        "These four agree with their gauges within five centimetres, before and after the change of clocks. Four more to go, if you like."
    )


def coffee(d: Day) -> None:
    """Eleven minutes at the coffee machine: the first request afterwards writes everything again."""
    d.ask("sorry, coffee queue. yes the other four too please", 11.3)
    for n, name in enumerate(STATIONS[8:]):
        d.compare((0, 1, 2, 3), name, 0, text(f"{name.title()}:"))
        if n == 1:
            d.read(
                f"src/stations/{name}.ts",
                think(
                    "A slope in the difference here, about three minutes late at every high water. That isn't the clock; a phase of M2 that is off by a degree and a half would do it. Worth telling, not worth touching without the hydrographic office."
                ),
            )
    d.reply(
        "All four are right on time. Spurn drifts by about three minutes at high water, probably an old M2 phase; that is a question for the hydrographic office, not for us."
    )
    d.ask("noted. second thing: the chart flickers when you move the finger over it. on my old ipad it's a strobe light", 1.4)
    d.read(
        CURVE,
        think(
            "follow() resets the canvas width on every pointer event; that clears and reallocates the bitmap. On an old tablet that is exactly a strobe."
        ),
    )
    d.bash(
        "npx tsx scripts/trace.ts --page saltburn --move 400",
        "\n".join(
            f"frame {n:>3}  {d.rng.uniform(4, 61):6.1f} ms  clear {d.rng.uniform(2, 30):5.1f}  curve {d.rng.uniform(1, 9):4.1f}  layout {d.rng.uniform(0, 4):4.1f}  {d.rng.choice(('', '', 'DROPPED'))}"
            for n in range(1, 181)
        ),
        text("A trace while the pointer moves:"),
        seconds=8.8,
    )
    d.edit(
        CURVE,
        "    canvas.width = canvas.width;\n",
        '    requestAnimationFrame(() => canvas.getContext("2d")?.clearRect(0, 0, canvas.width, canvas.height));\n',
        text("Clear once a frame, without a new bitmap."),
    )
    d.bash(
        "npx tsx scripts/trace.ts --page saltburn --move 400",
        "\n".join(
            f"frame {n:>3}  {d.rng.uniform(2, 13):6.1f} ms  clear {d.rng.uniform(0.1, 1.2):5.1f}  curve {d.rng.uniform(1, 7):4.1f}  layout {d.rng.uniform(0, 3):4.1f}"
            for n in range(1, 181)
        ),
        seconds=8.1,
    )
    d.vitest()
    d.reply("No more strobe: from up to 61 ms a frame down to 13. Setting `canvas.width` threw the bitmap away at every event.")


def cheaper(d: Day) -> None:
    """A cheaper model for a simple job: its cache is empty, so the first request costs more than it saves."""
    d.switch(SONNET, "sonnet", 0.6)
    d.ask("quick boring one so I switched to the cheap model: rename `constants` to `harmonics` in all the station files", 0.5)
    for name in STATIONS:
        d.edit(
            f"src/stations/{name}.ts",
            "  constants: [",
            "  harmonics: [",
            *([text("Twelve files, one word each.")] if name == STATIONS[0] else []),
        )
    d.edit("src/types.ts", "constants: Constant[]", "harmonics: Constant[]")
    d.edit(PREDICT, "of station.constants", "of station.harmonics", think("The loop in height() is the only reader."))
    d.vitest()
    d.step(use("Bash", command="git diff --stat"), got=(d.shop.stat(),))
    d.reply("Renamed in twelve station files, the type and the predictor. Tests pass.")
    d.ask("and write a changelog entry, plain english, two lines", 2.9)
    log = "# Changes\n\n- Times after a change of clocks are right again on every server.\n- The chart no longer flickers under a finger.\n"
    d.step(use("Write", file_path=d.shop.path("CHANGELOG.md"), content=log), got=(d.shop.write("CHANGELOG.md", log),))
    d.reply("Two lines are in CHANGELOG.md.")
    d.switch(OPUS, "opus", 1.5)
    d.ask("back to opus. is there anything else in this repo that takes the offset of now instead of the day?", 0.7)
    d.step(
        think("The same mistake elsewhere would look like new Date() without an argument, or getHours() on a server."),
        use("Grep", pattern="new Date\\(\\)|getHours|getDate\\(", path=ROOT),
        got=(d.shop.grep("new Date\\(\\)|getHours|getDate\\(", "src/"),),
    )
    for name in ("saltburn", "eyemouth", "dunbar"):
        d.compare((0, 1, 2, 3), name, 0, text(f"A last look at {name.title()} with everything in place."))
    d.reply(
        "Nothing else. One thing to know: the API sends `max-age=86400`, so browsers may show Sunday's wrong times until tomorrow morning."
    )


def lunch(d: Day) -> None:
    """Seventy-one minutes: cold again, and by now there is a lot to write. Then the user condenses by hand."""
    d.ask("back from lunch. purge the CDN for me? the command is in scripts/purge.sh", 71.0)
    d.bash(
        "scripts/purge.sh --all-harbours",
        "\n".join(
            f"purged /api/day/{n}/2026-{m:02d}-{k:02d}  {d.rng.choice(('HIT', 'HIT', 'MISS'))} {d.rng.choice(('lhr', 'man', 'edi', 'dub'))}-{d.rng.randint(1, 40)}"
            for n in STATIONS
            for m, k in ((3, 29), (3, 30), (3, 31), (4, 1), (4, 2))
        ),
        text("Purging every harbour from Sunday on."),
        seconds=6.0,
    )
    d.reply("Purged: 60 pages, Sunday to Thursday, all harbours.")
    d.ask("huh, nearly a dollar for ONE purge?! this conversation is too long. compacting", 1.1)
    d.reply(
        "Yes: after lunch the provider's cache of our conversation had expired, so the whole of it was written again for one small command. Compacting now is sensible, and before a break would have been better."
    )
    d.local("<command-name>/compact</command-name>\n<command-message>compact</command-message>\n<command-args></command-args>")
    d.log.compact(
        "This session continues an earlier conversation that was condensed on request. What happened so far:\n\n"
        "1. Request: high water was an hour late since the change to summer time, for some visitors only. Cause: `offsetOf` in `src/tides/clock.ts` cached the zone offset for the life of the "
        "process and used today's offset. It now takes the day and keeps nothing.\n"
        "2. All twelve harbours were compared with their gauges. Eleven agree; Spurn is about three minutes late at high water, probably an old M2 phase. Tom knows; leave it.\n"
        "3. The chart flickered because `follow` in `src/chart/curve.ts` reset the canvas width on every event. It clears once a frame now.\n"
        "4. `constants` was renamed to `harmonics` in all station files, `src/types.ts` and `src/tides/predict.ts`.\n"
        "5. CHANGELOG.md has two lines. The CDN was purged from 29 March to 2 April.\n6. Tests: `npx vitest run`, 36 passing. Branch `fix/summer-time`, nothing committed yet.\n\n"
        "Next: whatever Tom asks. He writes short messages and likes short answers.",
        "manual",
    )
    d.ask("ok. now a test so this can't come back: both days around the switch, spring and autumn, for every harbour", 1.2)
    d.read(CLOCK, think("I have the summary, not the file. Read it again before I write a test against it."))
    d.read(PREDICT)
    test = 'import { describe, expect, it } from "vitest";\nimport { stations } from "../src/stations";\nimport { tidesOf } from "../src/tides/predict";\n\nconst days = ["2026-03-28", "2026-03-29", "2026-10-24", "2026-10-25"];\n\ndescribe.each(Object.values(stations))("$name", (station) => {\n  it.each(days)("has no jump on %s", (iso) => {\n    const tides = tidesOf(station, new Date(iso));\n    const gaps = tides.slice(1).map((t, n) => t.at.getTime() - tides[n].at.getTime());\n    for (const gap of gaps) expect(gap / 3_600_000).toBeGreaterThan(4.5);\n    for (const gap of gaps) expect(gap / 3_600_000).toBeLessThan(8);\n  });\n});\n'
    d.step(
        use("Write", file_path=d.shop.path("test/switch.test.ts"), content=test),
        got=(d.shop.write("test/switch.test.ts", test),),
    )
    d.vitest(text("Old and new together:"), bad=("filey",))
    d.read(
        "src/stations/filey.ts",
        think(
            "Only Filey, and its times are off by an hour in the expectation, not in the prediction: somebody recorded the expected times in local time by hand."
        ),
    )
    d.bash(
        "git log --oneline -3 -- test/expected/filey.json",
        "4be1f02 Filey: times from the printed tide table\n91cc7d3 Add Filey\n0aa2e6e Expected times for all harbours",
        text("Where do Filey's expected times come from?"),
    )
    d.bash(
        "npx tsx scripts/expect.ts filey --utc",
        "\n".join(f"{k} {h:02d}:{d.rng.randint(0, 59):02d}Z" for k in ("low", "high") for h in range(1, 24, 3)),
    )
    d.vitest()
    d.reply(
        "Forty-eight new cases, all green. Filey's expected times had been copied from a printed table in local time; they are in UTC now."
    )
    d.ask("while we're at it: the gauge archive has last october. check the switch back for all twelve, one day each", 3.1)
    for n, name in enumerate(STATIONS):
        d.compare(
            (25,),
            name,
            0,
            *(
                [text(f"{name.title()} in October:")]
                if n % 3
                else [
                    think(
                        f"An hour exists twice that night. If {name.title()} shows a step at 01:00 UTC, the fix is only half a fix."
                    )
                ]
            ),
        )
    d.reply("No step anywhere in October. Spurn is three minutes late there too, which fits an old phase and not a clock.")


def tea(d: Day) -> None:
    """Six and a half minutes: cold once more, but the prompt is short now, so it hardly matters."""
    d.ask("tea acquired. commit it and give me a text for the harbour master, he does not care about offsets", 6.6)
    d.bash(
        "git add -A && git commit -m 'Ask for the offset of the day, not of today'",
        "[fix/summer-time 5d01c7e] Ask for the offset of the day, not of today\n 18 files changed, 61 insertions(+), 27 deletions(-)",
        text("Committing."),
    )
    d.bash(
        "git push -u origin fix/summer-time",
        "remote: Create a pull request for 'fix/summer-time'\nbranch 'fix/summer-time' set up to track 'origin/fix/summer-time'.",
        seconds=3.0,
    )
    d.reply(
        "Pushed. For the harbour master:\n\n> The times on our page were an hour late for some visitors since Sunday. They are right again everywhere, and we now test every harbour around the change of clocks. Thank you for ringing us. - Tom"
    )
