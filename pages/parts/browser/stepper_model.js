// What stands at any place of a trace, from the columns that the app sent once. Nothing is drawn here, and nothing is decided:
// states, kinds and reasons come from the engine. Every frame is made from its place alone, so forwards and back are the same.

const STATE = { kept: 0, restored: 1, rewritten: 2, cleared: 3, condensed: 4, dropped: 5 };
const KIND = { look: 0, change: 1, still: 2, event: 3 };
const BUCKETS = ["system", "tools", "messages", "tool_results", "thinking"];
const HIDDEN = [
  ["prefix", "system + tools, not in the log"],
  ["earlier", "earlier conversation, not in this file"],
  ["put_back", "put back after the compaction, not in the log"],
];
const HOLE = /\u0001/g;

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

// Tokens and kinds of every place, for the strip over the whole session and for jumps.
function sums(model) {
  const { requests: r, decisions: d } = model;
  model.total = new Float64Array(model.length);
  model.kind = new Uint8Array(model.length);
  model.changes = [];
  for (let n = 0; n < model.count; n++) {
    let counted = 0;
    for (let b = 0; b < 5; b++) counted += r.before[5 * n + b];
    for (let step = 0; step <= steps(model, n); step++) {
      const number = model.first[n] + step - 1;
      if (step) for (let b = 0; b < 5; b++) counted += d.delta[5 * number + b];
      const place = model.first[n] + n + step;
      model.total[place] = expected(model, n, counted);
      model.kind[place] = step ? d.kind[number] : r.back[n] ? KIND.change : KIND.look;
      if (model.kind[place] === KIND.change || model.kind[place] === KIND.event) model.changes.push(place);
    }
  }
}

const steps = (model, request) => model.first[request + 1] - model.first[request];
const placeOf = (model, request, step) => model.first[request] + request + step;

// Counted tokens that the provider leaves out of what it is sent: the numbers of every frame are of what the model sees.
function leftOut(model, request) {
  return model.requests.left.slice(5 * request, 5 * request + 5).reduce((sum, count) => sum + count, 0);
}

// The provider's tokens for counted ones: what the log does not hold, the scale of the request, and what no part explains.
function expected(model, request, counted) {
  const r = model.requests;
  const beside = HIDDEN.reduce((sum, [name]) => sum + r[name][request], r.unattributed[request]);
  return beside + Math.round(r.scale[request] * (counted - leftOut(model, request)));
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
  return { request, step, number, last, cut: r.cut[request], before, counts, ...now, waits: model.waits };
}

// Stand-ins for several blocks, each once, in the order in which they stand.
function standIns(model, frame) {
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
