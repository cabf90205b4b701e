// All decisions of a replay as rows: filtered and ordered here, from the data that the stepper has already. Only the rows in view
// exist, so their number does not matter. Every text is set as text content: what a session says is never read as markup.

const SHELF = (globalThis[Symbol.for("turnscope.steps")] ??= new Map());
const instances = new WeakMap();
const kept = (globalThis[Symbol.for("turnscope.filters")] ??= {}); // what was typed, while other panes are looked at
const GO = "turnscope.go";
const TALL = 30; // px of a row
const SHOWN = 13; // rows in view
const RETRY = 30;

export default function (component) {
  const { data: [data], parentElement: root } = component;
  const self = instances.get(root) ?? { rows: [], at: -1 };
  instances.set(root, self);
  self.data = data;
  if (!self.wired) wire(self, root);
  load(self);
  return () => setTimeout(() => root.isConnected || clearTimeout(self.search), 0);
}

function wire(self, root) {
  self.wired = true;
  self.view = root.querySelector(".view");
  self.sheet = root.querySelector(".sheet");
  self.many = root.querySelector(".many");
  self.field = Object.fromEntries([...root.querySelectorAll("[name]")].map((found) => [found.name, found]));
  root.querySelector(".filters").oninput = () => {
    for (const [name, field] of Object.entries(self.field)) kept[name] = field.value;
    filter(self);
  };
  root.querySelector(".none").onclick = () => {
    for (const [name, field] of Object.entries(self.field)) kept[name] = field.value = "";
    filter(self);
  };
  self.view.onscroll = () => requestAnimationFrame(() => draw(self));
  self.view.onclick = (event) => {
    const row = event.target.closest?.(".row");
    if (row) go(self, Number(row.dataset.number));
  };
  self.view.onkeydown = (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: SHOWN, PageUp: -SHOWN }[event.key];
    if (event.key === "Enter" && self.rows[self.at] !== undefined) go(self, self.rows[self.at]);
    if (!by || !self.rows.length) return;
    event.preventDefault();
    event.stopPropagation();
    self.at = Math.max(0, Math.min(self.rows.length - 1, self.at + by));
    show(self, self.at);
  };
}

function load(self) {
  clearTimeout(self.search);
  const text = SHELF.get(self.data.steps);
  if (text === undefined) {
    self.search = setTimeout(() => load(self), RETRY);
    return;
  }
  const fresh = self.loaded !== self.data.steps;
  if (fresh) {
    self.loaded = self.data.steps;
    self.model = modelOf(self.data.steps, text);
    list(self, "rule", "every rule");
    list(self, "action", "every action");
    for (const [name, field] of Object.entries(self.field)) field.value = kept[name] ?? "";
    for (const name of ["rule", "action"]) if (self.field[name].selectedIndex < 0) self.field[name].value = "";
    self.lower = null;
    filter(self);
  }
  const [request, step] = self.data.at;
  const here = step && request < self.model.count ? self.model.first[request] + step - 1 : -1;
  if (fresh || here !== self.here) {
    self.here = here;
    const row = self.rows.indexOf(here);
    if (row >= 0) show(self, row);
    else draw(self);
  }
}

function list(self, name, all) {
  const { model } = self;
  const found = new Map();
  for (const text of model.decisions[name] ?? []) found.set(text, (found.get(text) ?? 0) + 1);
  const options = [...found].sort((a, b) => b[1] - a[1]).map(([text, many]) => {
    const word = name === "action" ? (ACTION_WORDS[model.table[text]] ?? model.table[text]) : model.table[text].replaceAll("_", " ");
    const option = make("option", "", `${word} (${many.toLocaleString("en")})`);
    option.value = model.table[text];
    return option;
  });
  const first = make("option", "", all);
  first.value = "";
  self.field[name].replaceChildren(first, ...options);
}

// What is searched in: a decision's reason, blocks, rule and action in words.
function texts(self) {
  const { model } = self;
  self.lower ??= Array.from({ length: model.many }, (_, n) =>
    `${sentence(model, n)}\n${subject(model, n)}\n${model.table[model.decisions.rule[n]].replaceAll("_", " ")}\n${ACTION_WORDS[model.table[model.decisions.action[n]]]}`.toLowerCase());
  return self.lower;
}

function filter(self) {
  const { model, field } = self;
  const { decisions: d, table } = model;
  const text = field.text.value.trim().toLowerCase();
  const least = Number(field.tokens.value) || 0;
  const from = field.from.value === "" ? 0 : indexFrom(Number(field.from.value));
  const to = field.to.value === "" ? model.count - 1 : Math.min(model.count - 1, indexFrom(Number(field.to.value)));
  const words = text ? texts(self) : null;
  const rows = [];
  const saved = new Map();
  for (let request = Math.max(0, from); request <= to; request++) {
    for (let number = model.first[request]; number < model.first[request + 1]; number++) {
      if (field.rule.value && table[d.rule[number]] !== field.rule.value) continue;
      if (field.action.value && table[d.action[number]] !== field.action.value) continue;
      if (words && !words[number].includes(text)) continue;
      const { change } = effect(model, number, request);
      if (Math.abs(change) < least) continue;
      if (field.kind.value === "change" && d.kind[number] !== KIND.change) continue;
      if (field.kind.value === "worse" && !costsMore(model, number, change)) continue;
      saved.set(number, change);
      rows.push(number);
    }
  }
  if (field.order.value === "saved") rows.sort((a, b) => saved.get(a) - saved.get(b) || a - b);
  if (field.order.value === "again") rows.sort((a, b) => d.again[b] - d.again[a] || a - b);
  if (field.order.value === "costs") rows.sort((a, b) => saved.get(b) - saved.get(a) || a - b);
  self.rows = rows;
  self.at = -1;
  const whole = sum([...saved.values()]);
  const change = whole ? `, ${whole < 0 ? "−" : "+"}${short(Math.abs(whole))} tokens in all` : "";
  self.many.textContent = `${rows.length.toLocaleString("en")} of ${model.many.toLocaleString("en")}${change}`;
  self.sheet.style.height = `${rows.length * TALL}px`;
  self.view.style.height = `${Math.max(2, Math.min(SHOWN, rows.length)) * TALL + 2}px`;
  self.view.scrollTop = 0;
  draw(self);
}

function show(self, row) {
  const { view } = self;
  const [top, low] = [row * TALL, (row + 1) * TALL - view.clientHeight];
  if (view.scrollTop > top || view.scrollTop < low) view.scrollTop = Math.max(0, top - view.clientHeight / 2);
  draw(self);
}

function draw(self) {
  const { rows, view } = self;
  if (!rows.length) {
    self.sheet.replaceChildren(make("div", "empty", self.model.many ? "No decision meets this." : "No rule decided anything in this replay."));
    return;
  }
  const from = Math.max(0, Math.floor(view.scrollTop / TALL) - 4);
  const until = Math.min(rows.length, from + Math.ceil((view.clientHeight || SHOWN * TALL) / TALL) + 9);
  self.sheet.replaceChildren(...rows.slice(from, until).map((number, i) => row(self, number, from + i)));
}

function row(self, number, place) {
  const { model } = self;
  const { decisions: d, table } = model;
  const request = requestOf(model, number);
  const { change, before, after } = effect(model, number, request);
  const action = table[d.action[number]];
  const worse = costsMore(model, number, change);
  const still = d.kind[number] === KIND.still;
  const made = make("div", `row${number === self.here ? " here" : ""}${place === self.at ? " at" : ""}`);
  made.setAttribute("role", "option");
  made.setAttribute("aria-selected", String(number === self.here));
  made.style.top = `${place * TALL}px`;
  made.dataset.number = number;
  const spanned = d.stop[number] > d.start[number];
  const reason = sentence(model, number);
  const cached = cachePrice(model, number);
  made.title = `${subject(model, number)}\n${reason}${cached ? `\n${cached}` : ""}${worse ? "\nIt costs more tokens than it saves." : ""}`;
  made.append(
    make("span", "", ordinal(request)),
    make("span", "", `${number - model.first[request] + 1}`),
    make("span", `did ${still ? "faint" : (TONES[action] ?? "")}`, `${ACTION_WORDS[action] ?? action}${still ? ", still" : ""}`),
    make("span", "rule", table[d.rule[number]]),
    make("span", "", subject(model, number)),
    make("span", "n", spanned && change ? `${short(before)} → ${short(after)}` : "–"),
    make("span", `n less ${worse ? "bad" : change < 0 ? "good" : ""}`, change ? `${change < 0 ? "−" : "+"}${short(Math.abs(change))}` : "0"),
    make("span", "n", d.again[number] ? short(d.again[number]) : "–"),
    make("span", `n ${d.again[number] && !d.pays[number] ? "bad" : ""}`, !d.again[number] ? "–" : d.pays[number] > 0 ? `${d.pays[number].toLocaleString("en")} req.` : d.pays[number] ? "no price" : "never"),
    make("span", "why", reason),
  );
  return made;
}

function go(self, number) {
  const request = requestOf(self.model, number);
  const detail = { steps: self.loaded, request, step: number - self.model.first[request] + 1 };
  self.here = number;
  draw(self);
  window.dispatchEvent(new CustomEvent(GO, { detail }));
}
