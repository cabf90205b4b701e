// What stands at the cursor, drawn: where one is, the bars, the decision, stand-ins, and the strip over the whole session.
// Texts are set as text content: what a session says is never read as markup.

const TONES = {
  drop: "bad", clear: "warn", strip: "warn", truncate: "warn", condense: "accent", restore: "good",
  retrieve: "good", insert: "accent", repair: "accent", warn: "warn", fallback: "warn", refuse: "bad",
};
const SAID = {
  keep: "kept", drop: "dropped", clear: "cleared", strip: "stripped", truncate: "shortened",
  condense: "condensed", insert: "inserted", restore: "restored", repair: "repaired", retrieve: "retrieved",
  warn: "warning", fallback: "fallback", refuse: "refused",
};

function make(tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

function draw(self, follow, at = -1) {
  const { model, part } = self;
  if (!model.length) return;
  const { request, step } = cursorOf(model, self.place);
  self.frame = frameAt(model, request, step);
  part.range.value = self.place;
  part.cursor.style.left = `${(100 * (self.place + 0.5)) / model.length}%`;
  drawWhere(self);
  drawBars(self);
  drawCard(self);
  drawExtras(self);
  drawBlocks(self, follow ? (self.picked >= 0 ? self.picked : focusOf(self)) : at);
}

function focusOf(self) {
  const { frame, model } = self;
  const number = frame.number;
  if (number >= 0 && model.decisions.stop[number] > model.decisions.start[number]) return Math.min(frame.cut - 1, model.decisions.focus[number]);
  return frame.cut - 1;
}

function drawWhere(self) {
  const { part, model, frame } = self;
  const { request, step } = frame;
  const verdict = model.verdicts[model.requests.verdict[request]];
  const shown = [make("span", "", "request "), make("em", "", `of 0 – ${(model.count - 1).toLocaleString("en")}`)];
  shown[0].append(make("b", "", request.toLocaleString("en")));
  shown.push(make("span", "", `step ${step} of ${steps(model, request)}`), make("em", "", `turn ${model.requests.turn[request]}`));
  if (verdict !== "send") shown.push(make("span", `pill ${verdict}`, verdict));
  part.where.replaceChildren(...shown);
  part.where.dataset.request = request;
  part.where.dataset.step = step;
  const { button } = part;
  button.first.disabled = button.back.disabled = button.requestBack.disabled = self.place <= 0;
  button.last.disabled = button.forward.disabled = button.requestForward.disabled = self.place >= model.length - 1;
  button.change.disabled = changeFrom(model, self.place, 1) === self.place;
  button.changeBack.disabled = changeFrom(model, self.place, -1) === self.place;
}

function drawBars(self) {
  const { part, model, frame } = self;
  const { request } = frame;
  const r = model.requests;
  const scale = r.scale[request];
  const beside = [...HIDDEN, ["unattributed", "unattributed"]]; // drawn before the buckets, and behind them
  const sum = (counts) => expected(model, request, counts.reduce((a, b) => a + b, 0));
  const sizes = [sum(frame.before), sum(frame.counts)];
  const whole = Math.max(r.window[request], sizes[0], sizes[1], 1);
  [frame.before, frame.counts].forEach((counts, i) => {
    const bar = part.bars[i];
    if (!bar.firstChild) {
      const hatched = beside.map(([name]) => make("i", `hatched ${name}`));
      bar.append(...hatched.slice(0, 3), ...BUCKETS.map((name) => make("i", name)), hatched[3], make("u", "limit"), make("u", "window"));
      bar.querySelectorAll("i:not(.hatched)").forEach((piece) => (piece.style.cssText = "background:var(--c);color:var(--ink)"));
    }
    const hidden = beside.map(([name]) => r[name][request]);
    [...hidden.slice(0, 3), ...counts.map((count, b) => Math.max(0, count - r.left[5 * request + b]) * scale), hidden[3]].forEach((tokens, n) => {
      const piece = bar.children[n];
      const share = (100 * tokens) / whole;
      piece.style.width = `${share}%`;
      piece.style.display = share < 0.02 ? "none" : "";
      const own = n > 2 && n < 8;
      const name = own ? BUCKETS[n - 3].replace("_", " ") : beside[Math.min(n, 3)][1];
      piece.title = `${name}: ${Math.round(tokens).toLocaleString("en")} tokens`;
      piece.textContent = share > 7 && own ? `${name} ${short(tokens)}` : share > 4 && own ? short(tokens) : "";
    });
    bar.querySelector(".limit").style.left = `${(100 * Math.max(0, r.limit[request])) / whole}%`;
    bar.querySelector(".window").style.left = `calc(${(100 * r.window[request]) / whole}% - 2px)`;
    const share = r.limit[request] > 0 ? `${Math.round((100 * sizes[i]) / r.limit[request])} %` : "";
    part.numbers[i].replaceChildren(make("span", "", short(sizes[i])), make("small", "", share));
    part.numbers[i].title = `${sizes[i].toLocaleString("en")} tokens expected, ${share} of the limit of ${r.limit[request].toLocaleString("en")}`;
  });
  drawScale(self, whole);
}

function drawScale(self, whole) {
  const { request } = self.frame;
  const r = self.model.requests;
  const far = (tokens) => (100 * Math.max(0, tokens)) / whole;
  const [limit, window] = [far(r.limit[request]), far(r.window[request])];
  const room = ((self.width - 170) * (window - limit)) / 100; // px between the two
  const labels = [make("span", "", `window ${short(r.window[request])}${r.known[request] ? "" : " (assumed)"}`)];
  labels[0].style.cssText = `right:${100 - window}%;color:var(--ts-bad)`;
  if (r.limit[request] !== r.window[request]) {
    const label = make("span", "", `limit ${short(r.limit[request])}`);
    label.style.cssText = limit > 30 ? `right:${100 - limit}%;color:var(--ts-warn)` : `left:${limit}%;color:var(--ts-warn)`;
    labels.splice(0, room < 110 ? 1 : 0, label);
  }
  self.part.scale.replaceChildren(...labels);
}

function drawCard(self) {
  const { part, model, frame } = self;
  const told = frame.number >= 0 ? decisionCard(model, frame) : arrivalCard(model, frame);
  const unseen = frame.last ? unseenOf(model, frame) : "";
  part.card.style.setProperty("--tone", told.tone ? `var(--ts-${told.tone})` : "");
  part.verb.textContent = told.verb;
  part.title.textContent = told.title;
  part.reason.textContent = told.reason;
  part.chips.replaceChildren(...told.chips, ...(unseen ? [make("span", "mark", unseen)] : []));
  part.saved.textContent = told.change ? `${told.change > 0 ? "+" : "−"}${short(Math.abs(told.change))} tok` : "±0";
  part.saved.className = told.change < 0 ? "less" : told.change > 0 && frame.number >= 0 ? "more" : "";
  part.sizes.textContent = told.sizes;
}

function decisionCard(model, frame) {
  const { decisions: d, table, requests: r } = model;
  const { number, request } = frame;
  const scale = r.scale[request];
  let change = 0;
  for (let b = 0; b < 5; b++) change += d.delta[5 * number + b];
  const size = d.state[number] >= 0 && d.size[number] ? d.size[number] : 0;
  const action = table[d.action[number]];
  const chips = [make("span", "rule", table[d.rule[number]])];
  if (d.kind[number] === KIND.still) chips.push(make("span", "mark", `still, as in request ${request - 1}`));
  if (!d.lasts[number]) chips.push(make("span", "", "decided anew for each request"));
  if (d.offline[number]) chips.push(make("span", "mark", "stand-in summary: made offline, no model was asked"));
  const [names, ...values] = model.facts[d.facts[number]] ?? [];
  values.forEach((value, i) => {
    const told = typeof value === "number" ? value.toLocaleString("en") : value;
    chips.push(make("span", "", `${table[names].split("|")[i]} ${told}`));
  });
  const after = d.state[number] === STATE.kept || d.state[number] === STATE.restored ? Math.max(0, change) : size;
  const spanned = d.stop[number] > d.start[number];
  const sizes = spanned && change ? `${short((after - change) * scale)} → ${short(after * scale)}` : spanned ? "no change in tokens" : "";
  const still = d.kind[number] === KIND.still;
  return {
    verb: SAID[action] ?? action,
    tone: still ? "faint" : (TONES[action] ?? ""),
    title: subject(model, number),
    reason: sentence(model, number),
    change: Math.round(change * scale),
    chips,
    sizes,
  };
}

// Which blocks a decision is about: one by name, several by their range and turns.
function subject(model, number) {
  const { decisions: d, table } = model;
  const [start, stop] = [d.start[number], d.stop[number]];
  if (stop === start) return d.slot[number] >= 0 ? `${table[d.slot[number]]} at #${start}` : "The request as a whole";
  const turns = [model.turn[start], model.turn[stop - 1]];
  if (stop - start === 1) return `#${start} · ${table[model.label[start]]} · turn ${turns[0]}`;
  const when = turns[0] === turns[1] ? `turn ${turns[0]}` : `turns ${turns[0]} – ${turns[1]}`;
  return `${(stop - start).toLocaleString("en")} blocks · #${start} – #${stop - 1} · ${when}`;
}

function arrivalCard(model, frame) {
  const { requests: r, table } = model;
  const { request } = frame;
  const since = request ? r.cut[request - 1] : 0;
  const grown = expected(model, request, frame.before.reduce((a, b) => a + b, 0));
  const before = request ? model.total[placeOf(model, request, 0) - 1] : 0;
  const many = steps(model, request);
  const told = (many, word) => `${many.toLocaleString("en")} ${word}${many === 1 ? "" : "s"}`;
  const came = `${told(r.cut[request] - since, "block")} came${request ? ` since request ${request - 1}` : ""}. `;
  const then = many ? `${told(many, "decision")} follow${many === 1 ? "s" : ""}.` : "No rule has anything to say about it.";
  const returned = r.back[request]
    ? `${told(r.back[request][2], "block")} from #${r.back[request][0]} on stand otherwise than before though no decision ` +
      "touched them: what had changed them held for one request, or for one limit, only. "
    : "";
  const anew = begunAnew(model, request)
    ? `What request ${request - 1} left out for itself alone stands here again until the rules have decided. `
    : "";
  const chips = [make("span", "rule", table[r.model[request]] || "model not named")];
  if (r.recorded[request]) chips.push(make("span", "", `in the log: ${r.recorded[request].toLocaleString("en")} tokens`));
  return {
    verb: "request",
    tone: returned ? "warn" : "",
    title: `Request ${request.toLocaleString("en")} · turn ${r.turn[request]}`,
    reason: returned + came + anew + then,
    change: Math.round(grown - before),
    sizes: request ? `${short(before)} → ${short(grown)}` : "",
    chips,
  };
}

// Whether the request before was cut by rules that decide anew for each request.
function begunAnew(model, request) {
  const { state, lasts, stop, start } = model.decisions;
  for (let number = model.first[Math.max(0, request - 1)]; request && number < model.first[request]; number++) {
    if (!lasts[number] && state[number] >= STATE.rewritten && stop[number] > start[number]) return true;
  }
  return false;
}

function unseenOf(model, frame) {
  const { request } = frame;
  const counted = leftOut(model, request);
  const reason = model.requests.server.findLast((told, n) => n <= request && told >= 0);
  if (counted <= 0 || reason === undefined) return "";
  return `the model does not see ${short(counted * model.requests.scale[request])} tokens of what is sent: ${model.table[reason]}`;
}

function drawExtras(self) {
  const { part, model, frame } = self;
  const { decisions: d, table } = model;
  const scale = model.requests.scale[frame.request];
  const groups = standIns(model, frame);
  const shown = [...groups, ...[...frame.slots].sort((a, b) => d.start[a] - d.start[b])];
  const most = 24;
  part.extras.replaceChildren(...shown.slice(-most).map((number, i) => {
    const many = d.stop[number] - d.start[number];
    const place = shown.length > most ? shown.length - most + i : i;
    const button = make("button", many ? "" : "insert", many ? `Σ${place + 1} · ${many.toLocaleString("en")} blocks` : table[d.slot[number]]);
    button.append(make("small", "", `${short(d.size[number] * scale)} tok${d.offline[number] ? " · stand-in" : ""}`));
    if (number === frame.number) button.classList.add("now");
    button.type = "button";
    button.title = `${SAID[table[d.action[number]]] ?? ""} by ${table[d.rule[number]]}: go to that decision`;
    button.onclick = () => go(self, placeOfDecision(model, number));
    return button;
  }));
}

function placeOfDecision(model, number) {
  let request = 0;
  let high = model.count - 1;
  while (request < high) {
    const middle = (request + high + 1) >> 1;
    if (model.first[middle] <= number) request = middle;
    else high = middle - 1;
  }
  return number + request + 1;
}

function drawBlocks(self, focus) {
  const { part, model, frame, film } = self;
  layOut(film, model, self.width);
  drawFilm(film, frame, focus, self.picked);
  drawMap(part.map, film, frame, self.colours);
  const tally = new Int32Array(6);
  for (let at = 0; at < frame.cut; at++) tally[frame.state[at]]++;
  const words = { 0: "kept", 1: "restored", 2: "shortened", 3: "cleared", 4: "condensed", 5: "dropped" };
  part.head.textContent = `${frame.cut.toLocaleString("en")} blocks so far`;
  part.tally.textContent = [...tally].map((many, state) => (many ? `${many.toLocaleString("en")} ${words[state]}` : "")).filter(Boolean).join(" · ");
}

// The size of the request over all places, with a tick at every change.
function drawStrip(self) {
  const { model, part, colours: c } = self;
  const context = part.strip.getContext("2d");
  const { width, height } = part.strip;
  const ratio = window.devicePixelRatio || 1;
  context.clearRect(0, 0, width, height);
  if (!model.length) return;
  const floor = height - 9 * ratio;
  let top = 1;
  for (const tokens of model.total) top = Math.max(top, tokens);
  const tall = (tokens) => (floor - 3 * ratio) * (tokens / (top * 1.06));
  context.fillStyle = c.accent;
  for (let x = 0; x < width; x++) {
    const from = Math.floor((x * model.length) / width);
    const until = Math.max(from + 1, Math.floor(((x + 1) * model.length) / width));
    let high = 0;
    let low = Infinity;
    for (let place = from; place < until; place++) {
      high = Math.max(high, model.total[place]);
      low = Math.min(low, model.total[place]);
    }
    context.globalAlpha = 0.2;
    context.fillRect(x, floor - tall(high), 1, tall(high));
    context.globalAlpha = 0.85;
    context.fillRect(x, floor - tall(high), 1, Math.max(1.5 * ratio, tall(high) - tall(low)));
  }
  context.globalAlpha = 1;
  drawTicks(context, model, c, ratio);
}

function drawTicks(context, model, c, ratio) {
  const { width, height } = context.canvas;
  let last = -9;
  for (const place of model.changes) {
    const x = Math.round(((place + 0.5) * width) / model.length);
    if (x - last < 2) continue; // ticks closer than two pixels are one
    last = x;
    const { step, request } = cursorOf(model, place);
    const action = step ? model.table[model.decisions.action[model.first[request] + step - 1]] : "restore";
    context.fillStyle = c[TONES[action]] ?? c.text;
    context.fillRect(x - ratio, height - 8 * ratio, 2 * ratio, 8 * ratio);
  }
}
