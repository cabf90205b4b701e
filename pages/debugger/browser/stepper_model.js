// What stands at any place of a trace, from the columns that the app sent once. Nothing is drawn here, and nothing is decided:
// states, kinds and reasons come from the engine. Every frame is made from its place alone, so forwards and back are the same.

const STATE = { kept: 0, restored: 1, rewritten: 2, cleared: 3, condensed: 4, dropped: 5, summed: 6 };
const KIND = { look: 0, change: 1, still: 2, event: 3 };
const BUCKETS = ["system", "tools", "messages", "tool_results", "thinking"];
const STATIC = 2; // the first buckets, which have a scale of their own where a log holds whole requests
const HIDDEN = [
  ["prefix", "system + tools, not in the log"],
  ["earlier", "earlier conversation, not in this file"],
  ["reinjected", "injected by the tool, not in the log"],
];
const REST = ["unattributed", "unattributed: nothing in the log explains it"];
const HOLE = /\u0001/g;

// One model for all parts of the page that read the same steps.
const MODELS = (globalThis[Symbol.for("turnscope.models")] ??= new Map());
function modelOf(key, text) {
  if (!MODELS.has(key)) {
    for (const old of [...MODELS.keys()].slice(0, -1)) MODELS.delete(old);
    MODELS.set(key, readSteps(text));
  }
  return MODELS.get(key);
}

// Columns as typed arrays, with sums that any place is read from.
function readSteps(text) {
  const { blocks, requests, decisions, carried, facts, verdicts, states, table } = JSON.parse(text);
  const count = requests.cut?.length ?? 0;
  const many = decisions.rule?.length ?? 0;
  const model = { requests, decisions, carried, facts, verdicts, states, table, count, many };
  model.blocks = blocks.label.length;
  model.label = blocks.label;
  model.turn = blocks.turn;
  model.bucket = Uint8Array.from(blocks.bucket, Number);
  model.tokens = Float64Array.from(blocks.tokens);
  model.first = Int32Array.from([0, ...(requests.first ?? [])]); // number of the first decision of each request
  model.length = count + many; // places: each request before its decisions, and after each of them
  model.paced = Math.max(64, Math.ceil(count / 64)); // requests from one kept beginning to the next: 64 of them at most
  model.kept = [];
  model.at = -1; // the request whose beginning stands in `begin`
  model.begin = blank(model.blocks);
  model.now = blank(model.blocks);
  model.waits = new Uint8Array(model.blocks);
  model.looks = states.map((name) => (name === "summed" ? "condensed" : name)); // the same to the eye
  model.calls = blocks.calls ?? {};
  summaries(model);
  sums(model);
  return model;
}

function blank(size) {
  return { state: new Uint8Array(size), by: new Int32Array(size).fill(-1), hidden: new Uint8Array(size), slots: new Set() };
}

function copied(from, to) {
  to.state.set(from.state);
  to.by.set(from.by);
  to.hidden.set(from.hidden);
  to.slots = new Set(from.slots);
}

// Summaries that are messages of their own: which decision each came with, and what did not exist before it.
function summaries(model) {
  const { requests: r, decisions: d } = model;
  model.joins = new Int32Array(model.count).fill(-1); // the decision of a request with which its summary came
  model.late = []; // counted tokens by bucket that came with it
  model.sigma = new Map(); // block that holds a summary -> the decision that it stands for
  for (let n = 0; n < model.count; n++) {
    if (r.later[n] < 0) continue;
    for (let number = model.first[n + 1] - 1; number >= model.first[n]; number--) {
      if (d.summary[number] < 0) continue;
      model.joins[n] = number;
      if (d.size[number]) model.sigma.set(d.summary[number], number);
    }
    model.late[n] = [0, 0, 0, 0, 0];
    for (let at = r.later[n]; at < r.cut[n]; at++) model.late[n][model.bucket[at]] += model.tokens[at];
  }
}

// Tokens and kinds of every place, for the strip over the whole session and for jumps.
function sums(model) {
  const { requests: r, decisions: d } = model;
  model.total = new Float64Array(model.length);
  model.kind = new Uint8Array(model.length);
  model.share = new Float64Array(model.length); // how much of a request's change is done at a place
  model.changes = [];
  for (let n = 0; n < model.count; n++) {
    const by = [];
    for (let number = model.first[n]; number < model.first[n + 1]; number++) {
      let delta = number === model.joins[n] ? sum(model.late[n]) : 0;
      for (let b = 0; b < 5; b++) delta += d.delta[5 * number + b];
      by.push(delta);
    }
    const all = by.reduce((a, b) => a + Math.abs(b), 0);
    const scale = r.was[n].at(-1);
    const rest = r.size[n] - r.start[n] - scale * sum(by); // what was billed besides what was counted
    let counted = 0;
    let walked = 0;
    for (let step = 0; step <= by.length; step++) {
      if (step) {
        counted += by[step - 1];
        walked += Math.abs(by[step - 1]);
      }
      const place = model.first[n] + n + step;
      const share = all ? walked / all : step === by.length ? 1 : 0;
      model.share[place] = share;
      model.total[place] = step === by.length ? r.size[n] : Math.max(0, r.start[n] + scale * counted + rest * share);
      model.kind[place] = step ? d.kind[model.first[n] + step - 1] : r.back[n] ? KIND.change : KIND.look;
      if (model.kind[place] === KIND.change || model.kind[place] === KIND.event) model.changes.push(place);
    }
  }
}

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);
const steps = (model, request) => model.first[request + 1] - model.first[request];
const placeOf = (model, request, step) => model.first[request] + request + step;

// Counted tokens that the provider leaves out of what it is sent: the numbers of every frame are of what the model sees.
function leftOut(model, request) {
  return sum(model.requests.left.slice(5 * request, 5 * request + 5));
}

// The place at a point of the axis, whose unit is requests: decisions lie inside their request.
function placeAt(model, point) {
  const request = Math.max(0, Math.min(model.count - 1, Math.floor(point)));
  const within = Math.max(0, Math.min(0.999999, point - request));
  return placeOf(model, request, Math.floor(within * (steps(model, request) + 1)));
}

function pointOf(model, place) {
  const { request, step } = cursorOf(model, place);
  return request + (step + 0.5) / (steps(model, request) + 1);
}

function cursorOf(model, place) {
  let low = 0;
  let high = model.count - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (placeOf(model, middle, 0) <= place) low = middle;
    else high = middle - 1;
  }
  return { request: low, step: place - placeOf(model, low, 0) };
}

// The first change after `place` (by > 0), or the last one before it.
function changeFrom(model, place, by) {
  const found = by > 0 ? model.changes.find((at) => at > place) : model.changes.findLast((at) => at < place);
  return found ?? place;
}

function paint(target, start, stop, state, by) {
  target.state.fill(state, start, stop);
  target.by.fill(by, start, stop);
}

function carry(model, into, request) {
  const { paint: runs, until, hide, hidden, come, gone } = model.carried;
  for (let i = until[request]; i < until[request + 1]; i++) {
    paint(into, runs[4 * i], runs[4 * i + 1], runs[4 * i + 2], runs[4 * i + 3]);
  }
  for (let i = hidden[request]; i < hidden[request + 1]; i++) into.hidden.fill(hide[3 * i + 2], hide[3 * i], hide[3 * i + 1]);
  for (const number of gone[request]) into.slots.delete(number);
  for (const number of come[request]) into.slots.add(number);
}

// The beginning of a request: from the nearest one that was kept, request by request.
function begin(model, request) {
  let from = model.at;
  if (from < 0 || from > request || request - from > model.paced) {
    const nearest = Math.min(Math.floor(request / model.paced), model.kept.length - 1);
    if (nearest >= 0) copied(model.kept[nearest], model.begin);
    from = nearest * model.paced;
    if (nearest < 0) {
      model.begin = blank(model.blocks);
      carry(model, model.begin, 0);
      keep(model, 0);
      from = 0;
    }
  }
  for (let n = from + 1; n <= request; n++) {
    carry(model, model.begin, n);
    keep(model, n);
  }
  model.at = request;
}

function keep(model, request) {
  if (request % model.paced || model.kept.length > request / model.paced) return;
  const copy = blank(model.blocks);
  copied(model.begin, copy);
  model.kept.push(copy);
}

// Everything that stands at (request, step). The arrays are the model's own and change with the next call.
function frameAt(model, request, step) {
  const { requests: r, decisions: d } = model;
  begin(model, request);
  const now = model.now;
  copied(model.begin, now);
  const before = r.before.slice(5 * request, 5 * request + 5);
  const counts = [...before];
  const first = model.first[request];
  for (let number = first; number < first + step; number++) {
    for (let b = 0; b < 5; b++) counts[b] += d.delta[5 * number + b];
    if (d.removes[number]) for (const gone of d.removes[number]) now.slots.delete(gone);
    if (d.state[number] >= 0) paint(now, d.start[number], d.stop[number], d.state[number], number);
    else if (d.slot[number] >= 0 && d.size[number]) now.slots.add(number);
  }
  model.waits.fill(0);
  for (let number = first + step; number < model.first[request + 1]; number++) {
    if (d.state[number] >= 0 && d.kind[number] !== KIND.look) model.waits.fill(1, d.start[number], d.stop[number]);
  }
  const last = step === steps(model, request);
  const number = step ? first + step - 1 : -1;
  const early = model.joins[request] >= first + step; // the summary was not made yet
  const cut = early ? r.later[request] : r.cut[request];
  return { request, step, number, last, early, cut, before, counts, ...now, waits: model.waits };
}

// Placeholders of several blocks, each once, in the order in which they stand.
function placeholders(model, frame) {
  const found = [];
  const { decisions: d } = model;
  for (let at = 0; at < frame.cut; at++) {
    const by = frame.by[at];
    if (by < 0 || (at && frame.by[at - 1] === by)) continue;
    if (d.size[by] && d.stop[by] - d.start[by] > 1) found.push(by);
  }
  return found;
}

function sentence(model, number) {
  const numbers = model.decisions.numbers[number].split("|");
  let next = 0;
  return model.table[model.decisions.why[number]].replace(HOLE, () => numbers[next++] ?? "");
}

// What a decision did to the blocks that it touched, in the provider's tokens.
function effect(model, number, request) {
  const { decisions: d } = model;
  const scale = model.requests.scale[request];
  const joined = d.summary[number] >= 0 ? d.size[number] : 0; // its summary stands elsewhere, and came with it
  let change = joined;
  for (let b = 0; b < 5; b++) change += d.delta[5 * number + b];
  const size = d.state[number] >= 0 && d.size[number] ? d.size[number] : 0;
  const stands = d.state[number] === STATE.kept || d.state[number] === STATE.restored;
  const after = stands ? Math.max(0, change) : size;
  const before = (after - change) * model.requests.was[request].at(-1); // as it was sent before
  return { change: Math.round(after * scale - before), before, after: after * scale };
}

// A change that was to save tokens, and costs some.
const SAVES = new Set(["drop", "clear", "strip", "truncate", "condense"]);
// What a decision does to the prompt cache, in words; "" where nothing is written again because of it.
function cachePrice(model, number) {
  const { again, pays } = model.decisions;
  if (!again[number]) return "";
  const many = pays[number];
  return `${short(again[number])} written to the cache again` + (many < 0 ? "" : many ? `, breaks even after ${many.toLocaleString("en")} request${many === 1 ? "" : "s"}` : ", never breaks even");
}

const costsMore = (model, number, change) => change > 0 && SAVES.has(model.table[model.decisions.action[number]]);

function requestOf(model, number) {
  let low = 0;
  let high = model.count - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (model.first[middle] <= number) low = middle;
    else high = middle - 1;
  }
  return low;
}

const ACTION_WORDS = {
  keep: "kept", drop: "dropped", clear: "cleared", strip: "stripped", truncate: "shortened",
  condense: "condensed", insert: "inserted", restore: "restored", repair: "repaired", retrieve: "retrieved",
  warn: "warning", fallback: "fallback", refuse: "refused",
};
const TONES = {
  drop: "bad", clear: "warn", strip: "warn", truncate: "warn", condense: "accent", restore: "good",
  retrieve: "good", insert: "accent", repair: "accent", warn: "warn", fallback: "warn", refuse: "bad",
};

const short = (n) => {
  const size = Math.abs(n);
  if (size < 1000) return `${Math.round(n)}`;
  if (size < 999500) return size < 99950 ? `${(n / 1000).toFixed(1)}k` : `${Math.round(n / 1000)}k`;
  return `${(n / 1e6).toFixed(1)}M`;
};

// Which blocks a decision is about: one by name, several by their range and turns.
function subject(model, number) {
  const { decisions: d, table } = model;
  const [start, stop] = [d.start[number], d.stop[number]];
  if (stop === start) return d.slot[number] >= 0 ? `${table[d.slot[number]]} at #${start}` : "The request as a whole";
  const turns = [model.turn[start], model.turn[stop - 1]];
  if (stop - start === 1) return `#${start} · ${table[model.label[start]]} · turn ${ordinal(turns[0])}`;
  const when = turns[0] === turns[1] ? `turn ${ordinal(turns[0])}` : `turns ${ordinal(turns[0])} – ${ordinal(turns[1])}`;
  return `${(stop - start).toLocaleString("en")} blocks · #${start} – #${stop - 1} · ${when}`;
}

function make(tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}
