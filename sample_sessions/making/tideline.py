"""A second made-up code base: a website that predicts tides for small harbours. TypeScript, and a great many numbers."""

# ruff: noqa: E501 - what people, files and tools say is as long as it is
# ruff: noqa: S311 - the dice are seeded on purpose

from __future__ import annotations

import math
import random

STATIONS = (
    "saltburn",
    "craster",
    "seahouses",
    "amble",
    "whitby",
    "staithes",
    "runswick",
    "filey",
    "bempton",
    "spurn",
    "eyemouth",
    "dunbar",
)
WAVES = (
    ("M2", 28.984),
    ("S2", 30.0),
    ("N2", 28.44),
    ("K2", 30.082),
    ("K1", 15.041),
    ("O1", 13.943),
    ("P1", 14.959),
    ("Q1", 13.399),
    ("M4", 57.968),
    ("MS4", 58.984),
    ("MN4", 57.424),
    ("M6", 86.952),
    ("L2", 29.528),
    ("T2", 29.959),
    ("NU2", 28.513),
    ("MU2", 27.968),
    ("2N2", 27.895),
    ("J1", 15.585),
    ("OO1", 16.139),
    ("S1", 15.0),
    ("SSA", 0.082),
    ("SA", 0.041),
    ("MF", 1.098),
    ("MM", 0.544),
    ("LAM2", 29.456),
    ("2SM2", 31.016),
    ("M3", 43.476),
    ("MK3", 44.025),
)


def station(name: str) -> str:
    """Write the constants of one harbour."""
    rng = random.Random(name)
    rows = [
        f'    {{ wave: "{wave}", speed: {speed:.3f}, amplitude: {rng.uniform(0.4, 160) / (1 + n * 0.9):.3f}, phase: {rng.uniform(0, 360):.2f} }},'
        for n, (wave, speed) in enumerate(WAVES)
    ]
    return (
        f'import type {{ Station }} from "../types";\n\nexport const {name}: Station = {{\n  name: "{name.title()}",\n  zone: "Europe/London",\n  datum: {rng.uniform(2, 4):.2f},\n  constants: [\n'
        + "\n".join(rows)
        + "\n  ],\n};\n"
    )


def gauge(name: str, day: int, shift: int) -> str:
    """Print a day of prediction against the tide gauge, a row per half hour; `shift` is how wrong the clock is, in minutes."""
    rng = random.Random(f"{name} {day}")
    rows = ["utc    local  predicted  gauge   diff  wind"]
    for n in range(48):
        at = n * 30
        real = 3.1 + 1.9 * math.sin((at - 140 + len(name) * 31) / 745 * 2 * math.pi)
        said = 3.1 + 1.9 * math.sin((at - shift - 140 + len(name) * 31) / 745 * 2 * math.pi)
        rows.append(
            f"{at // 60:02d}:{at % 60:02d}  {(at // 60 + 1) % 24:02d}:{at % 60:02d}  {said:8.2f}  {real + rng.uniform(-0.05, 0.05):6.2f}  {said - real:+5.2f}  {rng.choice('NSWE')}{rng.randint(1, 7)}"
        )
    return f"{name}, day {day} after the clocks changed\n" + "\n".join(rows)


MODULES = {
    "src/types.ts": 'export interface Constant { wave: string; speed: number; amplitude: number; phase: number }\nexport interface Station { name: string; zone: string; datum: number; constants: Constant[] }\nexport interface Tide { at: Date; height: number; kind: "high" | "low" }\n',
    "src/tides/predict.ts": 'import type { Station, Tide } from "../types";\nimport { hoursSince, localMidnight } from "./clock";\nimport { nodal } from "./nodal";\n\n/** Height in metres above chart datum. */\nexport function height(station: Station, at: Date): number {\n  const hours = hoursSince(at);\n  let sum = station.datum;\n  for (const c of station.constants) {\n    const { f, u } = nodal(c.wave, at);\n    sum += (f * c.amplitude * Math.cos(((c.speed * hours + u - c.phase) * Math.PI) / 180)) / 100;\n  }\n  return sum;\n}\n\n/** High and low waters of one local day, found by walking in steps and bisecting. */\nexport function tidesOf(station: Station, day: Date): Tide[] {\n  const start = localMidnight(day, station.zone);\n  const found: Tide[] = [];\n  let before = height(station, start);\n  let rising: boolean | null = null;\n  for (let minute = 6; minute <= 24 * 60; minute += 6) {\n    const at = new Date(start.getTime() + minute * 60_000);\n    const now = height(station, at);\n    const up = now > before;\n    if (rising !== null && up !== rising) found.push(refine(station, at, rising ? "high" : "low"));\n    rising = up;\n    before = now;\n  }\n  return found;\n}\n\nfunction refine(station: Station, around: Date, kind: "high" | "low"): Tide {\n  let left = around.getTime() - 12 * 60_000;\n  let right = around.getTime();\n  while (right - left > 1_000) {\n    const a = left + (right - left) / 3;\n    const b = right - (right - left) / 3;\n    const better = height(station, new Date(a)) > height(station, new Date(b));\n    if (better === (kind === "high")) right = b;\n    else left = a;\n  }\n  const at = new Date((left + right) / 2);\n  return { at, height: height(station, at), kind };\n}\n',
    "src/tides/clock.ts": 'const EPOCH = Date.UTC(2000, 0, 1);\nconst offsets = new Map<string, number>();\n\n/** Hours since the epoch of the constants. */\nexport function hoursSince(at: Date): number {\n  return (at.getTime() - EPOCH) / 3_600_000;\n}\n\n/** Midnight of a local day as an instant. */\nexport function localMidnight(day: Date, zone: string): Date {\n  const utc = Date.UTC(day.getFullYear(), day.getMonth(), day.getDate());\n  return new Date(utc - offsetOf(zone) * 60_000);\n}\n\n/** Minutes that a zone is ahead of UTC. */\nexport function offsetOf(zone: string): number {\n  const known = offsets.get(zone);\n  if (known !== undefined) return known;\n  const shown = new Intl.DateTimeFormat("en-GB", { timeZone: zone, timeZoneName: "longOffset" }).format(new Date());\n  const found = /GMT([+-])(\\d\\d):(\\d\\d)/.exec(shown);\n  const minutes = found ? (found[1] === "-" ? -1 : 1) * (Number(found[2]) * 60 + Number(found[3])) : 0;\n  offsets.set(zone, minutes);\n  return minutes;\n}\n',
    "src/tides/nodal.ts": 'const CYCLE = 18.613;\n\n/** Slow corrections for the regression of the lunar nodes. */\nexport function nodal(wave: string, at: Date): { f: number; u: number } {\n  const years = at.getTime() / 31_556_952_000 - 30;\n  const n = ((259.16 - (360 / CYCLE) * years) * Math.PI) / 180;\n  if (wave.startsWith("M") || wave.startsWith("N")) return { f: 1 - 0.037 * Math.cos(n), u: -2.1 * Math.sin(n) };\n  if (wave === "K1") return { f: 1.006 + 0.115 * Math.cos(n), u: -8.9 * Math.sin(n) };\n  if (wave === "O1") return { f: 1.009 + 0.187 * Math.cos(n), u: 10.8 * Math.sin(n) };\n  return { f: 1, u: 0 };\n}\n',
    "src/chart/curve.ts": 'import type { Station } from "../types";\nimport { height } from "../tides/predict";\n\nexport interface Point { x: number; y: number }\n\n/** The day as a line, one point per pixel column. */\nexport function curve(station: Station, start: Date, width: number, tall: number): Point[] {\n  const out: Point[] = [];\n  for (let x = 0; x < width; x++) {\n    const at = new Date(start.getTime() + (x / width) * 86_400_000);\n    out.push({ x, y: tall - (height(station, at) / 7) * tall });\n  }\n  return out;\n}\n\n/** Redraws on every frame while the pointer moves. */\nexport function follow(canvas: HTMLCanvasElement, points: Point[], draw: (p: Point) => void): void {\n  canvas.addEventListener("pointermove", (event) => {\n    canvas.width = canvas.width;\n    const nearest = points.find((p) => p.x >= event.offsetX) ?? points[points.length - 1];\n    draw(nearest);\n  });\n}\n',
    "src/api/day.ts": 'import { tidesOf } from "../tides/predict";\nimport { stations } from "../stations";\n\nexport function day(name: string, iso: string): Response {\n  const station = stations[name];\n  if (!station) return new Response("no such harbour", { status: 404 });\n  const tides = tidesOf(station, new Date(iso));\n  return Response.json(tides.map((t) => ({ ...t, height: Number(t.height.toFixed(2)) })), { headers: { "cache-control": "max-age=86400" } });\n}\n',
}


def files() -> dict[str, str]:
    """Give every file of the repository as it is before the work begins."""
    made = dict(MODULES)
    for name in STATIONS:
        made[f"src/stations/{name}.ts"] = station(name)
    made["src/stations/index.ts"] = (
        "".join(f'import {{ {n} }} from "./{n}";\n' for n in STATIONS)
        + "\nexport const stations = { "
        + ", ".join(STATIONS)
        + " };\n"
    )
    return made
