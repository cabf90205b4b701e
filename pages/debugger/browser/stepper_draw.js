// What stands at the cursor, drawn: where one is, the bars, the decision, placeholders, and the strip over the whole session.
// Texts are set as text content: what a session says is never read as markup.

function draw(self, follow, at = -1) {
  const { model, part } = self;
  if (!model.length) return;
  const { request, step } = cursorOf(model, self.place);
  self.frame = frameAt(model, request, step);
  drawCursor(self);
  drawWhere(self);
  drawBars(self);
  drawCard(self);
  drawExtras(self);
  drawBlocks(self, follow ? (self.picked >= 0 ? self.picked : focusOf(self)) : at);
}

function focusOf(self) {
  const { frame, model } = self;
  const number = frame.number;
  if (number >= 0 && model.decisions.summary[number] >= 0) return Math.min(frame.cut - 1, model.decisions.summary[number]);
  if (number >= 0 && model.decisions.stop[number] > model.decisions.start[number]) return Math.min(frame.cut - 1, model.decisions.focus[number]);
  return frame.cut - 1;
}

function drawWhere(self) {
  const { part, model, frame } = self;
  const { request, step } = frame;
  const verdict = model.verdicts[model.requests.verdict[request]];
  const shown = [make("span", "", "request "), make("em", "", `of ${model.count.toLocaleString("en")}`)];
  shown[0].append(make("b", "", ordinal(request)));
  shown.push(make("span", "", `step ${step} of ${steps(model, request)}`), make("em", "", `turn ${ordinal(model.requests.turn[request])}`));
  if (verdict !== "send") shown.push(make("span", `pill ${verdict}`, verdict));
  const sure = model.requests.sure[request];
  const off = typeof self.data.off === "number" ? ` ±${self.data.off < 0.0995 ? (100 * self.data.off).toFixed(1) : Math.round(100 * self.data.off)} %` : "";
  const uncut = sure ? 0 : model.requests.uncut[request];
  const less = uncut ? `, or ${short(uncut)} less` : "";
  const pill = make("span", "pill", sure ? (frame.last ? "recorded" : "between two recorded requests") : `estimated${off}${less}`);
  pill.title = sure ? "Tokens of the request as its provider billed it." : "Tokens as counted, scaled to what the provider billed for what was really sent. The error is that of what was recorded, at the median.";
  if (uncut) pill.title += ` The tool had cut about ${uncut.toLocaleString("en")} tokens here that its log does not name: they are in the estimate, and were not in what it sent.`;
  shown.push(pill);
  const { planned, missed, size, limit } = model.requests;
  if (!sure || verdict === "overflow") {
    const over = size[request] > limit[request];
    const numbers = [planned, size, limit].map((row) => row[request].toLocaleString("en"));
    const fit = make("span", over ? "pill overflow" : "pill", `planned ${short(planned[request])} ±${Math.round(100 * missed[request])} % · ${short(size[request])} sent of ${short(limit[request])}`);
    fit.title = `${numbers[0]} tokens were expected when the request was planned, ${numbers[1]} ${sure ? "were" : "would be"} sent, the limit is ${numbers[2]}.`;
    shown.push(fit);
  }
  if (self.held) shown.push(make("span", "pill refuse", self.held));
  part.where.replaceChildren(...shown);
  part.where.dataset.request = request;
  part.where.dataset.step = step;
  const { button } = part;
  button.first.disabled = button.back.disabled = button.requestBack.disabled = self.place <= 0;
  button.last.disabled = button.forward.disabled = button.requestForward.disabled = self.place >= model.length - 1;
  button.change.disabled = changeFrom(model, self.place, 1) === self.place;
  button.changeBack.disabled = changeFrom(model, self.place, -1) === self.place;
}

// Parts of a bar that sum to its total: what the log does not hold, buckets, what nothing explains. Where the parts overshoot the
// total, what is inferred gives way first, the prefix last of it. The last two of `unlogged` are scales: of system and tools, of the rest.
function partsOf(model, request, counts, total, [...unlogged]) {
  const [fixed, scale] = unlogged.splice(-2);
  const left = model.requests.left.slice(5 * request, 5 * request + 5);
  const tokens = counts.map((count, b) => Math.max(0, count - left[b]) * (b < STATIC ? fixed : scale));
  const spoken = sum(tokens);
  const fits = spoken > total ? total / spoken : 1;
  let room = Math.max(0, total - spoken);
  const inferred = unlogged.map((part) => {
    const kept = Math.min(Math.max(0, part), room);
    room -= kept;
    return kept;
  });
  return [...inferred, ...tokens.map((part) => part * fits), room];
}

function drawBars(self) {
  const { part, model, frame } = self;
  const { request, step } = frame;
  const r = model.requests;
  const place = placeOf(model, request, step);
  const late = model.late[request];
  const less = (counts) => counts.map((count, b) => count - late[b]);
  const counts = [late ? less(frame.before) : frame.before, frame.early ? less(frame.counts) : frame.counts];
  const sizes = [model.total[placeOf(model, request, 0)], model.total[place]];
  const own = [...HIDDEN.map(([name]) => r[name][request]), r.static[request], r.scale[request]];
  const unlogged = [r.was[request], model.share[place] || step === steps(model, request) ? own : r.was[request]];
  const whole = Math.max(r.window[request], r.limit[request], sizes[0], sizes[1], 1);
  sizes.forEach((size, i) => {
    const bar = part.bars[i];
    if (!bar.firstChild) {
      const hatched = [...HIDDEN, REST].map(([name]) => make("i", `hatched ${name}`));
      bar.append(...hatched.slice(0, 3), ...BUCKETS.map((name) => make("i", name)), hatched[3], make("u", "limit"), make("u", "window"));
      for (const name of BUCKETS) bar.querySelector(`i.${name}`).style.cssText = "background:var(--c);color:var(--ink)";
    }
    partsOf(model, request, counts[i], size, unlogged[i]).forEach((tokens, n) => {
      const piece = bar.children[n];
      const share = (100 * tokens) / whole;
      const known = n > 2 && n < 8;
      piece.style.width = `${share}%`;
      piece.style.display = share < 0.02 ? "none" : "";
      const name = known ? BUCKETS[n - 3].replace("_", " ") : n < 3 ? HIDDEN[n][1] : REST[1];
      piece.title = `${name}: ${Math.round(tokens).toLocaleString("en")} tokens`;
      const room = ((self.width - 190) * share) / 100; // px
      const text = [`${name} ${short(tokens)}`, short(tokens)].find((text) => room > 7 * text.length + 6);
      piece.textContent = (known && text) || "";
    });
    bar.querySelector(".limit").style.left = `calc(${(100 * Math.max(0, r.limit[request])) / whole}% - 2px)`;
    bar.querySelector(".window").style.left = `calc(${(100 * r.window[request]) / whole}% - 2px)`;
    const share = r.limit[request] > 0 ? `${Math.round((100 * size) / r.limit[request])} % of limit` : "";
    part.numbers[i].replaceChildren(make("span", "", short(size)), make("small", "", share));
    const how = r.sure[request] && (i === 0 ? !steps(model, request) : frame.last) ? "recorded" : "expected";
    part.numbers[i].title = `${Math.round(size).toLocaleString("en")} tokens ${how}; the limit is ${r.limit[request].toLocaleString("en")}`;
  });
  drawScale(self, whole);
}

// One scale for both bars: tokens from 0 on, where the policy's limit lies on it, and the model's window.
function drawScale(self, whole) {
  const { request } = self.frame;
  const r = self.model.requests;
  const far = (tokens) => (100 * Math.max(0, tokens)) / whole;
  const [limit, window] = [far(r.limit[request]), far(r.window[request])];
  const sure = r.known[request] ? "" : " (assumed)";
  const same = r.limit[request] === r.window[request];
  const room = ((self.width - 170) * Math.abs(window - limit)) / 100; // px between the two
  const label = (name, at, text, end) => {
    const made = make("span", name, text);
    made.style.cssText = end ? `right:${100 - at}%` : `left:${at}%`;
    return made;
  };
  const labels = [label("window", window, `${same ? "limit = " : ""}window ${short(r.window[request])}${sure}`, true)];
  if (!same) {
    const text = `policy's limit ${short(r.limit[request])}`;
    if (limit > window || room > 150) labels.push(label("limit", limit, text, limit > 30));
    else labels[0].prepend(make("span", "limit", text), " · ");
  }
  const by = [1, 2, 5, 10, 20, 50].map((step) => step * 10 ** Math.floor(Math.log10(whole / 10))).find((step) => whole / step <= Math.min(10, (self.width - 190) / 58));
  const ticks = [];
  for (let tokens = 0; tokens <= whole; tokens += by) ticks.push(label("tick", far(tokens), tokens ? short(tokens).replace(".0k", "k") : "0", far(tokens) > 96));
  self.part.scale.replaceChildren(...labels);
  self.part.ticks.replaceChildren(...ticks);
}

function drawCard(self) {
  const { part, model, frame } = self;
  const card = frame.number >= 0 ? decisionCard(model, frame) : arrivalCard(model, frame);
  const unseen = frame.last ? unseenOf(model, frame) : "";
  part.card.style.setProperty("--tone", card.tone ? `var(--ts-${card.tone})` : "");
  part.verb.textContent = card.verb;
  part.title.textContent = card.title;
  part.reason.textContent = card.reason;
  part.chips.replaceChildren(...card.chips, ...(unseen ? [make("span", "mark", unseen)] : []));
  part.saved.textContent = card.change ? `${card.change > 0 ? "+" : "−"}${short(Math.abs(card.change))} tokens` : "±0";
  part.saved.className = card.worse ? "worse" : card.change < 0 ? "less" : card.change > 0 && frame.number >= 0 ? "more" : "";
  part.sizes.textContent = card.worse ? `costs more than it saves · ${card.sizes}` : card.sizes;
}

function decisionCard(model, frame) {
  const { decisions: d, table } = model;
  const { number, request } = frame;
  const { change, before, after } = effect(model, number, request);
  const action = table[d.action[number]];
  const worse = costsMore(model, number, change);
  const still = d.kind[number] === KIND.still;
  const chips = [make("span", "rule", table[d.rule[number]])];
  if (still) chips.push(make("span", "mark", `still, as in request ${ordinal(request - 1)}`));
  if (!d.lasts[number]) chips.push(make("span", "", "decided anew for each request"));
  if (d.offline[number]) chips.push(make("span", "mark", "offline summary: no model was called"));
  const cached = cachePrice(model, number);
  if (cached) {
    chips.push(make("span", d.pays[number] ? "" : "mark", cached));
    chips.at(-1).title = "Simulated: tokens that the prompt cache held after what this decision changed. It breaks even once reading fewer tokens has saved what writing them again costs.";
  }
  const [names, ...values] = model.facts[d.facts[number]] ?? [];
  values.forEach((value, i) => {
    const name = table[names].split("|")[i];
    const text = typeof value === "number" ? value.toLocaleString("en") : value;
    chips.push(make("span", "", d.summary[number] >= 0 && name === "summary" ? `its summary is block #${d.summary[number]}` : `${worded(name)} ${text}`));
  });
  const came = number === model.joins[request] ? model.requests.size[request] - model.requests.start[request] - change - (sum(model.late[request]) - d.size[number]) * model.requests.scale[request] : 0;
  if (model.requests.sure[request] && came > 1500) chips.push(make("span", "mark", `${short(came)} tokens not in the log came with it`));
  const spanned = d.stop[number] > d.start[number];
  return {
    verb: ACTION_WORDS[action] ?? action,
    tone: worse ? "bad" : still ? "faint" : (TONES[action] ?? ""),
    title: subject(model, number),
    reason: sentence(model, number),
    change,
    worse,
    chips,
    sizes: spanned && change ? `${short(before)} → ${short(after)}` : spanned ? "no change in tokens" : "",
  };
}

// Names of facts as words: preTokens reads "pre tokens".
const worded = (name) => name.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();

function arrivalCard(model, frame) {
  const { requests: r, table } = model;
  const { request } = frame;
  const since = request ? r.cut[request - 1] : 0;
  const grown = model.total[placeOf(model, request, 0)];
  const before = request ? model.total[placeOf(model, request, 0) - 1] : 0;
  const many = steps(model, request);
  const count = (many, word) => `${many.toLocaleString("en")} ${word}${many === 1 ? "" : "s"}`;
  const came = `${count(Math.max(0, frame.cut - since), "block")} came${request ? ` since request ${ordinal(request - 1)}` : ""}. `;
  const then = many ? `${count(many, "decision")} follow${many === 1 ? "s" : ""}.` : "No rule applied.";
  const returned = r.back[request]
    ? `${count(r.back[request][2], "block")} from #${r.back[request][0]} on changed though no decision ` +
      "touched them: what had changed them held for one request, or for one limit, only. "
    : "";
  const anew = begunAnew(model, request)
    ? `What request ${ordinal(request - 1)} left out for itself alone stands here again until the rules have decided. `
    : "";
  const chips = [make("span", "rule", table[r.model[request]] || "model not named")];
  if (r.recorded[request] && !r.sure[request]) chips.push(make("span", "", `in the log: ${r.recorded[request].toLocaleString("en")} tokens`));
  return {
    verb: "request",
    tone: returned ? "warn" : "",
    title: `Request ${ordinal(request)} · turn ${ordinal(r.turn[request])}`,
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
  const reason = model.requests.server.findLast((cause, n) => n <= request && cause >= 0);
  if (counted <= 0 || reason === undefined) return "";
  return `the model does not see ${short(counted * model.requests.scale[request])} tokens of what is sent: ${model.table[reason]}`;
}

function drawExtras(self) {
  const { part, model, frame } = self;
  const { decisions: d, table } = model;
  const scale = model.requests.scale[frame.request];
  const groups = placeholders(model, frame);
  const shown = [...groups, ...[...frame.slots].sort((a, b) => d.start[a] - d.start[b])];
  const most = 24;
  part.extras.replaceChildren(...shown.slice(-most).map((number, i) => {
    const many = d.stop[number] - d.start[number];
    const place = shown.length > most ? shown.length - most + i : i;
    const button = make("button", many ? "" : "insert", many ? `Σ${place + 1} · ${many.toLocaleString("en")} blocks` : table[d.slot[number]]);
    button.append(make("small", "", `${short(d.size[number] * scale)} tokens${d.offline[number] ? " · offline" : ""}`));
    if (number === frame.number) button.classList.add("now");
    button.type = "button";
    button.title = `${ACTION_WORDS[table[d.action[number]]] ?? ""} by ${table[d.rule[number]]}: go to that decision`;
    button.onclick = () => go(self, placeOfDecision(model, number));
    return button;
  }));
}

const placeOfDecision = (model, number) => number + requestOf(model, number) + 1;

function drawBlocks(self, focus) {
  const { part, model, frame, film } = self;
  layOut(film, model, self.width, frame);
  if (self.picked >= 0 && film.inside[self.picked]) {
    film.opened.add(frame.by[self.picked]);
    layOut(film, model, self.width, frame);
  }
  part.unfold.hidden = !film.folds.size;
  part.unfold.textContent = film.unfolded ? "Fold condensed blocks" : "Show condensed blocks";
  drawFilm(film, frame, focus, self.picked);
  drawMap(part.map, film, frame, self.colours);
  const tally = new Int32Array(7);
  for (let at = 0; at < frame.cut; at++) tally[frame.state[at]]++;
  tally[STATE.condensed] += tally[STATE.summed];
  tally[STATE.summed] = 0;
  const words = { 0: "kept", 1: "restored", 2: "shortened", 3: "cleared", 4: "condensed", 5: "dropped" };
  part.head.textContent = `${frame.cut.toLocaleString("en")} blocks so far`;
  part.tally.textContent = [...tally].map((many, state) => (many ? `${many.toLocaleString("en")} ${words[state]}` : "")).filter(Boolean).join(" · ");
}
