// The stepper: one cursor over all decisions of a session, moved by buttons, keys and the strip. Every step is drawn here at
// once; the app learns where one stopped, so quick presses are never lost. Parts: stepper_model.js (what stands
// where), stepper_film.js, stepper_draw.js, stepper_time.js (the strip), stepper_stops.js (breakpoints).

const instances = new WeakMap();
const REPORT_AFTER = 160; // ms without a further step
// ms until a report that the address does not show is made again, each time twice as long: a run under way may have lost it, and a
// report ends a run that takes longer.
const REPORT_AGAIN = 2000;
const REPORTS = 5;
const GO = "turnscope.go"; // event by which another part of the page sends the stepper to a place
const RETRY = 30; // ms between looks for the data
const GRACE = 10000; // ms that a stepper which was taken off the page hears keys, until there is another
let latest = null; // the stepper that was put on a page last

globalThis[Symbol.for("turnscope.stepper")] ??= function (component) {
  const { data, parentElement: root, setStateValue } = component;
  const self = instances.get(root) ?? { place: 0, picked: -1, seq: null, timer: null, passed: new Set() };
  instances.set(root, self);
  self.root = root;
  self.path = location.pathname;
  self.data = data;
  self.send = setStateValue;
  self.part ??= parts(root);
  self.film ??= makeFilm(self.part.film, { pick: (at) => pick(self, at), toggle: (start) => toggleFold(self, start) });
  self.colours = colours(root);
  if (!self.wired) wire(self);
  load(self);
  // Called again after each report, and this before it: a pause between the two would lose keys and stop the playing.
  return () => setTimeout(() => root.isConnected || dispose(self), GRACE);
};

function dispose(self) {
  if (latest === self) latest = null;
  stop(self);
  clearTimeout(self.search);
  clearTimeout(self.again);
  self.resize.disconnect();
  window.removeEventListener("keydown", self.pressed, true);
  window.removeEventListener(GO, self.sentTo);
  window.removeEventListener("popstate", self.wentBack);
  window.removeEventListener("click", self.followed, true);
  self.wired = false;
}

function parts(root) {
  const find = (name) => root.querySelector(name);
  const button = Object.fromEntries([...root.querySelectorAll("[data-go]")].map((found) => [found.dataset.go, found]));
  const names = {
    range: ".time input", time: ".time", axis: ".axis", chosen: ".chosen", about: ".about", stops: ".stops",
    stopsHead: ".stops summary", stopsTold: ".stops p", strip: ".strip", cursor: ".cursor", where: ".where", film: ".film", map: ".map",
    extras: ".extras", card: ".card", verb: ".verb", title: ".why b", reason: ".why p", chips: ".chips",
    saved: ".change b", sizes: ".change span", head: ".film-head b", tally: ".tally", speed: ".speed",
    scale: ".scale", ticks: ".ticks", unfold: ".unfold",
  };
  const found = Object.fromEntries(Object.entries(names).map(([name, selector]) => [name, find(selector)]));
  return { button, ...found, bars: [find(".bar.before"), find(".bar.now")], numbers: [find(".number.before"), find(".number.now")] };
}

function colours(root) {
  const style = getComputedStyle(root.host ?? root);
  const names = {
    system: "system", tools: "tools", messages: "messages", tool_results: "tool-results", thinking: "thinking",
    text: "text", faint: "faint", warn: "warn", bad: "bad", good: "good", accent: "accent", border: "border",
  };
  return Object.fromEntries(Object.entries(names).map(([key, name]) => [key, style.getPropertyValue(`--ts-${name}`).trim() || "#888"]));
}

// The data come with a component of their own, so that they cross the wire once and not with every step.
function load(self) {
  clearTimeout(self.search);
  let taken = null;
  const text = SHELF.get(self.data.steps);
  if (text === undefined) {
    self.search = setTimeout(() => load(self), RETRY);
    return;
  }
  if (self.loaded !== self.data.steps) {
    if (!self.model) taken = takeOver(self);
    const before = self.model ? self : taken;
    const grown = before?.run === self.data.run && before.model?.length ? cursorOf(before.model, before.place) : null;
    self.loaded = self.data.steps;
    self.run = self.data.run;
    self.model = modelOf(self.data.steps, text);
    const last = self.model.count - 1;
    if (grown && grown.request <= last) self.place = placeOf(self.model, grown.request, grown.step); // the same replay, more of it
    else Object.assign(self, { seq: null, own: false, zoom: null, span: null, passed: new Set() });
    self.held = "";
    self.part.range.max = Math.max(0, self.model.count);
    listTools(self);
  }
  const moved = self.seq !== self.data.seq && !overtaken(self); // else the answer to a report: the film stays as scrolled
  self.seq = self.data.seq;
  if (taken && !moved) report(self);
  if (moved) {
    self.passed.add(String(self.data.at));
    self.held = "";
    self.span = self.data.span ?? null;
    readStops(self);
    self.picked = self.data.block ?? -1;
    const [request, step] = self.data.at;
    const last = Math.max(0, Math.min(self.model.count - 1, request));
    self.place = self.model.count ? placeOf(self.model, last, Math.max(0, Math.min(step, steps(self.model, last)))) : 0;
  }
  findStops(self);
  measure(self);
  drawStrip(self);
  draw(self, moved);
  drawRange(self);
}

// Streamlit may take the stepper off a page and put another there: that one goes on where somebody had gone with the first, as the
// first would with what this one is told (`overtaken`).
function takeOver(self) {
  const { before } = self;
  self.before = null;
  if (!before) return null;
  dispose(before);
  if (!before.own || before.run !== self.data.run) return null;
  const { seq, own, passed, zoom, span, waiting } = before;
  Object.assign(self, { seq, own, passed, zoom, span, waiting });
  return before;
}

// A run of the app that began before it had the newest steps takes the place from an address that the browser has
// left since, and may write that one again. Its answer is late: one goes on from where one stands, and says so again.
function overtaken(self) {
  if (!self.own || !self.data.linked) return false;
  if (!self.waiting && isShown(...self.data.at) && !self.passed.has(String(self.data.at))) return false;
  report(self);
  return true;
}

// Whether the address shows a place: the app has heard of it.
function isShown(request, step) {
  const now = new URLSearchParams(location.search);
  return now.get("request") === String(request) && now.get("step") === String(step);
}

// --- moves ----------------------------------------------------------------------------------------------------------------

function go(self, place) {
  const { model } = self;
  if (!model?.length) return;
  const target = Math.max(0, Math.min(model.length - 1, Math.round(place)));
  if (!Number.isFinite(target) || (target === self.place && self.picked < 0)) return;
  self.place = target;
  self.picked = -1;
  self.own = true;
  self.held = "";
  draw(self, true);
  report(self);
}

function pick(self, at) {
  self.picked = self.picked === at ? -1 : at;
  draw(self, false, at);
  report(self);
}

// Show the blocks of a fold, or fold them again. A block that is chosen is not left inside.
function toggleFold(self, start) {
  const { film } = self;
  const fold = film.folds.get(start);
  const open = film.heads.get(start).open;
  if (film.unfolded) for (const other of film.folds.values()) film.opened.add(other.by);
  film.unfolded = false;
  film.opened[open ? "delete" : "add"](fold.by);
  if (open && self.picked >= fold.start && self.picked < fold.stop) self.picked = -1;
  drawBlocks(self, start);
}

function report(self, left = REPORTS) {
  clearTimeout(self.waiting);
  clearTimeout(self.again);
  self.waiting = setTimeout(() => {
    self.waiting = 0;
    if (!self.root.isConnected) return; // another takes over, or the page was left
    const { request, step } = cursorOf(self.model, self.place);
    const pause = REPORT_AGAIN * 2 ** (REPORTS - left);
    self.again = setTimeout(() => left > 1 && !isShown(request, step) && report(self, left - 1), pause);
    self.passed.add(String([request, step]));
    self.send("at", { request, step, block: self.picked < 0 ? null : self.picked, range: self.span ?? null, stops: writeStops(self.wanted), seq: Date.now() });
  }, REPORT_AFTER);
}

// Back and forward of the browser, and links: the address leads again, and what was to be reported is past.
function forgetReport(self) {
  clearTimeout(self.waiting);
  clearTimeout(self.again);
  self.waiting = 0;
  self.own = false;
  self.passed.clear();
}

const moves = {
  first: (self) => go(self, 0),
  last: (self) => go(self, self.model.length - 1),
  back: (self) => go(self, self.place - 1),
  forward: (self) => go(self, self.place + 1),
  requestBack: (self) => byRequest(self, -1),
  requestForward: (self) => byRequest(self, 1),
  change: (self) => go(self, changeFrom(self.model, self.place, 1)),
  changeBack: (self) => go(self, changeFrom(self.model, self.place, -1)),
  stop: (self) => nextStop(self),
  play: (self) => (self.timer ? stop(self) : play(self)),
};

function byRequest(self, by) {
  const { model } = self;
  const { request, step } = cursorOf(model, self.place);
  if (by < 0) return go(self, placeOf(model, Math.max(0, step ? request : request - 1), 0));
  return go(self, request + 1 < model.count ? placeOf(model, request + 1, 0) : model.length - 1);
}

// Playing passes over cuts that only repeat those of the request before.
function play(self) {
  const { model, part } = self;
  if (self.place >= model.length - 1) go(self, 0);
  const next = () => {
    if (location.pathname !== self.path) return stop(self); // the page was left
    let place = self.place + 1;
    while (place < model.length - 1 && model.kind[place] === KIND.still && !self.why.has(place)) place++;
    go(self, place);
    if (self.why.has(place)) {
      stop(self);
      return hold(self, place);
    }
    if (self.place >= model.length - 1) return stop(self);
    self.timer = setTimeout(next, Number(part.speed.value));
  };
  self.timer = setTimeout(next, Number(part.speed.value) / 3);
  part.button.play.textContent = "Pause";
  part.card.setAttribute("aria-live", "off");
}

function stop(self) {
  clearTimeout(self.timer);
  self.timer = null;
  self.part.button.play.textContent = "Play";
  self.part.card.setAttribute("aria-live", "polite");
}

function wire(self) {
  const { part } = self;
  self.wired = true;
  self.before = latest;
  latest = self;
  for (const [name, button] of Object.entries(part.button)) {
    button.onclick = (event) => {
      if (event.detail) button.blur(); // a mouse leaves the keys to the page
      if (self.model) moves[name](self);
    };
  }
  part.range.oninput = () => go(self, placeAt(self.model, Number(part.range.value)));
  wireTime(self);
  wireStops(self);
  self.sentTo = ({ detail }) => detail.steps === self.loaded && go(self, placeOf(self.model, detail.request, detail.step));
  window.addEventListener(GO, self.sentTo);
  self.wentBack = () => forgetReport(self);
  window.addEventListener("popstate", self.wentBack);
  self.followed = (event) => event.composedPath().some((part) => part.tagName === "A") && forgetReport(self);
  window.addEventListener("click", self.followed, true);
  part.unfold.onclick = () => {
    self.film.unfolded = !self.film.unfolded;
    self.film.opened.clear();
    drawBlocks(self, -1);
  };
  part.map.onclick = (event) => lookAt(self, event);
  part.film.onscroll = () => scrolled(self);
  part.film.onkeydown = (event) => choose(self, event);
  self.pressed = (event) => pressed(self, event);
  window.addEventListener("keydown", self.pressed, true);
  self.resize = new ResizeObserver(() => {
    if (!self.model || !measure(self)) return;
    drawStrip(self);
    draw(self, true);
  });
  self.resize.observe(part.film);
}

// The width that there is; whether it is another than before.
function measure(self) {
  const { film, map, strip } = self.part;
  const width = Math.max(120, film.clientWidth - 2 * PAD);
  if (width === self.width) return false;
  self.width = width;
  fit(map);
  fit(strip);
  return true;
}

function scrolled(self) {
  const top = self.part.film.scrollTop;
  if (!self.frame || top === self.film.top) return; // the stepper's own doing
  self.film.top = top;
  requestAnimationFrame(() => drawBlocks(self, -1));
}

function pressed(self, event) {
  const target = event.composedPath()[0];
  if (/^(INPUT|TEXTAREA|SELECT)$/.test(target?.tagName) && target !== self.part.range) return;
  if (target?.isContentEditable || event.ctrlKey || event.metaKey || event.altKey) return;
  if (!self.model || location.pathname !== self.path || document.querySelector("[role=dialog]")) return;
  if (event.key === " " && target?.closest?.("button, summary, [role=button], [role=tab], [role=radio], a")) return;
  const shifted = { ArrowLeft: "requestBack", ArrowRight: "requestForward" };
  const plain = { ArrowLeft: "back", ArrowRight: "forward", Home: "first", End: "last", n: "change", p: "changeBack", b: "stop", " ": "play" };
  const move = (event.shiftKey && shifted[event.key]) || plain[event.key.length > 1 ? event.key : event.key.toLowerCase()];
  if (!move) return;
  event.preventDefault();
  if (move !== "stop" || self.stops.length) moves[move](self);
}

// Up and down choose a block of the film, for those who use no mouse.
function choose(self, event) {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!by || !self.frame?.cut) return;
  event.preventDefault();
  let at = (self.picked >= 0 ? self.picked : focusOf(self) - by) + by;
  while (self.film.inside[at]) at += by; // what is folded is passed over
  if (at < 0 || at >= self.frame.cut) return;
  self.picked = at;
  drawBlocks(self, self.picked);
  report(self);
}

function lookAt(self, event) {
  const { map, film } = self.part;
  if (!self.frame?.cut) return;
  const at = Math.floor((event.offsetX / map.clientWidth) * self.model.blocks);
  const row = self.film.row[Math.max(0, Math.min(self.frame.cut - 1, at))];
  film.scrollTop = Math.max(0, (row - 2) * ROW);
}
