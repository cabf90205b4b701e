// The strip over the session: its axis is requests, and decisions lie inside theirs. It can be zoomed (wheel), and a range of
// requests chosen on it (drag), whose summary the app makes. The cursor is dragged by its handle.

const GRIP = 9; // px around the cursor that take hold of it
const MOVED = 4; // px from which a press is a drag
const NEAR = 2.5; // times the largest request: a limit above that is not drawn, else the requests would be flat
const CLOSEST = 4; // requests in view at most zoom

const viewOf = (self) => self.zoom ?? [0, Math.max(1, self.model.count)];
const shareOf = (self, point) => (point - viewOf(self)[0]) / (viewOf(self)[1] - viewOf(self)[0]);

function pointAt(self, event) {
  const box = self.part.time.getBoundingClientRect();
  const [from, until] = viewOf(self);
  const share = Math.max(0, Math.min(1, (event.clientX - box.left) / Math.max(1, box.width)));
  return Math.min(self.model.count - 1e-6, from + share * (until - from));
}

function zoomTo(self, from, until) {
  const count = Math.max(1, self.model.count);
  const wide = Math.max(Math.min(CLOSEST, count), until - from);
  const start = Math.max(0, Math.min(count - wide, from));
  self.zoom = wide >= count ? null : [start, start + wide];
  drawStrip(self);
  drawCursor(self);
  drawRange(self);
}

// The cursor, brought into a zoomed view if it left it.
function drawCursor(self) {
  const { part, model } = self;
  const point = pointOf(model, self.place);
  const [from, until] = viewOf(self);
  if (self.zoom && (point < from || point > until)) return zoomTo(self, point - (until - from) / 2, point + (until - from) / 2);
  part.range.value = point;
  part.range.setAttribute("aria-valuetext", `request ${ordinal(Math.floor(point))}`);
  part.cursor.style.left = `${100 * shareOf(self, point)}%`;
}

// The size of the request over the axis, with a tick at every change and a mark at every breakpoint.
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
  const lines = ["limit", "window"].map((name) => model.requests[name]);
  for (const line of lines) top = Math.max(top, ...[Math.max(...line)].filter((tokens) => tokens < NEAR * top));
  const tall = (tokens) => (floor - 3 * ratio) * (tokens / (top * 1.06));
  const [from, until] = viewOf(self);
  context.fillStyle = c.accent;
  for (let x = 0; x < width; x++) {
    const first = placeAt(model, from + (x * (until - from)) / width);
    const last = Math.max(first + 1, placeAt(model, from + ((x + 1) * (until - from)) / width));
    let high = 0;
    let low = Infinity;
    for (let place = first; place < last; place++) {
      high = Math.max(high, model.total[place]);
      low = Math.min(low, model.total[place]);
    }
    context.globalAlpha = 0.2;
    context.fillRect(x, floor - tall(high), 1, tall(high));
    context.globalAlpha = 0.85;
    context.fillRect(x, floor - tall(high), 1, Math.max(1.5 * ratio, tall(high) - tall(low)));
  }
  context.globalAlpha = 1;
  lines.forEach((line, i) => drawLimit(self, context, { line, tall, floor, top, colour: [c.warn, c.bad][i], dash: i ? [] : [5, 4] }));
  drawTicks(self, context, ratio);
  drawAxis(self);
}

// A line over the requests, on their scale: the policy's limit, or the window. Not where it is far above all of them.
function drawLimit(self, context, { line, tall, floor, top, colour, dash }) {
  const { width } = context.canvas;
  const ratio = window.devicePixelRatio || 1;
  context.strokeStyle = colour;
  context.lineWidth = ratio;
  context.setLineDash(dash.map((px) => px * ratio));
  context.beginPath();
  let before = NaN;
  for (let x = 0; x < width; x++) {
    const [from, until] = viewOf(self);
    const tokens = line[Math.max(0, Math.min(self.model.count - 1, Math.floor(from + (x * (until - from)) / width)))];
    const y = floor - tall(tokens);
    if (tokens > top) before = NaN;
    else if (y === before) context.lineTo(x, y);
    else context[Number.isNaN(before) ? "moveTo" : "lineTo"](x, y);
    if (tokens <= top) before = y;
  }
  context.stroke();
  context.setLineDash([]);
}

function drawTicks(self, context, ratio) {
  const { model, colours: c } = self;
  const { width, height } = context.canvas;
  const at = (place) => Math.round(width * shareOf(self, pointOf(model, place)));
  let last = -9;
  for (const place of model.changes) {
    const x = at(place);
    if (x < 0 || x > width || x - last < 2) continue; // ticks closer than two pixels are one
    last = x;
    const { step, request } = cursorOf(model, place);
    const action = step ? model.table[model.decisions.action[model.first[request] + step - 1]] : "restore";
    context.fillStyle = c[TONES[action]] ?? c.text;
    context.fillRect(x - ratio, height - 8 * ratio, 2 * ratio, 8 * ratio);
  }
  context.fillStyle = c.bad;
  for (const place of self.stops ?? []) {
    const x = at(place);
    if (x >= 0 && x <= width) context.fillRect(x - 1.5 * ratio, 0, 3 * ratio, 4 * ratio);
  }
}

function drawAxis(self) {
  const [from, until] = viewOf(self);
  const room = Math.max(1, self.part.time.clientWidth / 64);
  const rough = (until - from) / room;
  const power = 10 ** Math.floor(Math.log10(Math.max(1, rough)));
  const by = Math.max(1, [1, 2, 5, 10].find((step) => step * power >= rough) * power);
  const labels = [];
  const first = indexFrom(Math.ceil(numberOf(from) / by) * by);
  for (let n = first; n < until && n < self.model.count; n += by) {
    const label = make("span", "", ordinal(n));
    label.style.left = `${100 * shareOf(self, n)}%`;
    if (shareOf(self, n) < 0.97) labels.push(label);
  }
  self.part.axis.replaceChildren(...labels);
}

// --- a range ---------------------------------------------------------------------------------------------------------------

function drawRange(self) {
  const { part, span, model } = self;
  const chosen = Boolean(span) && model.count > 0;
  part.chosen.hidden = !chosen;
  part.about.hidden = !chosen && !self.zoom;
  if (chosen) {
    const [left, right] = [Math.max(0, shareOf(self, span[0])), Math.min(1, shareOf(self, span[1]))];
    part.chosen.style.left = `${100 * left}%`;
    part.chosen.style.width = `${Math.max(0, 100 * (right - left))}%`;
    part.chosen.hidden = right <= left;
  }
  if (part.about.hidden) return;
  const range = self.data.range;
  const known = chosen && range && range.start === span[0] && range.stop === span[1];
  const words = !chosen ? [`requests ${ordinal(Math.floor(viewOf(self)[0]))} – ${ordinal(Math.ceil(viewOf(self)[1]) - 1)} of ${model.count.toLocaleString("en")} in view`]
    : known ? range.words : [`requests ${ordinal(span[0])} – ${ordinal(span[1] - 1)} …`];
  const button = (text, does) => {
    const made = make("button", "", text);
    made.type = "button";
    made.onclick = does;
    return made;
  };
  const buttons = [];
  if (chosen && !(self.zoom && self.zoom[0] === span[0] && self.zoom[1] <= Math.max(span[1], span[0] + CLOSEST))) buttons.push(button("Zoom in", () => zoomTo(self, ...self.span)));
  if (known && range.grew !== null) buttons.push(button("Go to biggest change", () => go(self, placeOf(model, range.grew, 0))));
  if (self.zoom) buttons.push(button("Whole session", () => zoomTo(self, 0, model.count)));
  if (chosen) buttons.push(button("Clear", () => chooseRange(self, null)));
  part.about.replaceChildren(...words.map((word, i) => make(i ? "span" : "b", "", word)), ...buttons);
}

function chooseRange(self, span) {
  self.span = span;
  drawRange(self);
  report(self);
}

function wireTime(self) {
  const { time } = self.part;
  let drag = null;
  time.onpointerdown = (event) => {
    if (event.button || !self.model?.length) return;
    const box = time.getBoundingClientRect();
    const cursor = box.left + box.width * shareOf(self, pointOf(self.model, self.place));
    drag = { x: event.clientX, from: pointAt(self, event), holds: Math.abs(event.clientX - cursor) <= GRIP, moved: false };
    time.setPointerCapture(event.pointerId);
    self.part.range.focus({ preventScroll: true });
    event.preventDefault();
  };
  time.onpointermove = (event) => {
    if (!drag) return;
    drag.moved ||= Math.abs(event.clientX - drag.x) > MOVED;
    if (!drag.moved) return;
    const point = pointAt(self, event);
    if (drag.holds) return go(self, placeAt(self.model, point));
    self.span = [Math.floor(Math.min(drag.from, point)), Math.floor(Math.max(drag.from, point)) + 1];
    drawRange(self);
  };
  time.onpointerup = (event) => {
    if (!drag) return;
    if (!drag.moved) go(self, placeAt(self.model, pointAt(self, event)));
    else if (!drag.holds) chooseRange(self, self.span);
    drag = null;
  };
  time.onpointercancel = () => (drag = null);
  time.ondblclick = () => zoomTo(self, 0, self.model.count);
  time.onwheel = (event) => {
    if (!self.model?.count || event.ctrlKey || (event.deltaY > 0 && !self.zoom)) return; // the page scrolls on
    event.preventDefault();
    const [from, until] = viewOf(self);
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const by = ((until - from) * event.deltaX) / 600;
      return zoomTo(self, from + by, until + by);
    }
    const by = 1.0022 ** Math.max(-400, Math.min(400, event.deltaY));
    const point = pointAt(self, event);
    zoomTo(self, point - (point - from) * by, point + (until - point) * by);
  };
}
