// Steps through requests in the browser and sends the app the place where it stopped. Also joins a Plotly chart on the page: draws the
// cursor on it, turns every click into a step, the same cell clicked twice included, and every drag into a range. Session text never comes here.

const instances = new WeakMap();
const newest = new Map(); // by chart: the instance that was drawn last, the only one that draws on it and takes keys
const REPORT_AFTER = 140; // ms without a further step, so that ten quick presses become one report; a click is one at once
const DRAG = 6; // pixels; less is a click with an unsteady hand
const WATCH = 80; // ms between looks for the chart
const nearest = (all, distance) => all.reduce((best, one) => (distance(one) < distance(best) ? one : best));

export default function (component) {
  const { data: [data], parentElement: root, setStateValue } = component;
  const self = instances.get(root) ?? { at: data.at, waiting: null };
  instances.set(root, self);
  Object.assign(self, { root, data });
  newest.set(data.chart, self);
  self.send = (name, value) => setStateValue(name, { ...value, session: data.session, seq: Date.now() });
  if (self.session !== data.session) { // where somebody was about to go in another session is nothing in this one
    clearTimeout(self.timer);
    clearInterval(self.playing);
    Object.assign(self, { session: data.session, waiting: null, playing: undefined });
  }
  if (self.waiting === null || self.waiting === data.at) {
    self.at = data.at;
    self.waiting = null;
  }
  // Streamlit may draw one again that it is about to take off the page, after the one that is put in its place.
  const isNewest = () => {
    if (!newest.get(self.data.chart)?.root.isConnected) newest.set(self.data.chart, self);
    return newest.get(self.data.chart) === self;
  };
  const find = (name) => root.querySelector(`[data-go="${name}"]`);
  const input = root.querySelector("input");

  function go(to, after = REPORT_AFTER) {
    const target = Math.max(0, Math.min(self.data.count - 1, Math.round(to)));
    if (!Number.isFinite(target)) return;
    clearInterval(self.playing);
    self.playing = undefined;
    self.at = target;
    paint();
    clearTimeout(self.timer);
    self.waiting = target;
    self.timer = setTimeout(() => self.send("go", { request: target }), after);
  }

  // Playing moves the cursor alone; the app gets the request at which it stops.
  function play() {
    if (self.playing) return stop();
    if (self.at >= self.data.count - 1) self.at = 0;
    const step = () => {
      self.at = Math.min(self.data.count - 1, self.at + 1);
      self.waiting = self.at;
      paint();
      if (self.at >= self.data.count - 1) stop();
    };
    self.playing = setInterval(step, 1000 / Number(root.querySelector("select").value));
    paint();
  }

  function stop() {
    if (!self.playing) return;
    clearInterval(self.playing);
    self.playing = undefined;
    go(self.at, 0);
  }

  const marks = () => self.data.marks;
  const moves = {
    first: () => go(0),
    previous: () => go(self.at - 1),
    next: () => go(self.at + 1),
    last: () => go(self.data.count - 1),
    earlier: () => go(marks().findLast((mark) => mark < self.at) ?? self.at),
    play,
    later: () => go(marks().find((mark) => mark > self.at) ?? self.at),
  };

  function paint() {
    if (root.activeElement !== input && document.activeElement?.shadowRoot?.activeElement !== input) input.value = numberOf(self.at);
    input.max = self.data.count;
    root.querySelector(".of").textContent = `of ${self.data.count.toLocaleString("en")}`;
    find("first").disabled = find("previous").disabled = self.at <= 0;
    find("last").disabled = find("next").disabled = self.at >= self.data.count - 1;
    find("earlier").disabled = !marks().some((mark) => mark < self.at);
    find("later").disabled = !marks().some((mark) => mark > self.at);
    find("play").textContent = self.playing ? "❚❚ Stop" : "▶ Play";
    find("play").disabled = self.data.count < 2;
    cursor();
  }

  const viewOf = (axis) => String([self.at, axis.range, axis._offset, axis._length]);

  function cursor() {
    const axis = self.chart?._fullLayout?.xaxis;
    if (!axis || !isNewest()) return;
    const starts = self.chart.layout?.meta?.starts;
    const place = starts ? starts.findLastIndex((start) => start <= self.at) : self.at;
    const left = axis._offset + axis.l2p(place);
    const upper = self.chart._fullLayout.yaxis;
    const lower = self.chart._fullLayout.yaxis2 ?? upper;
    let line = self.chart.querySelector(".ts-cursor");
    if (!line) {
      line = document.createElement("div");
      line.className = "ts-cursor";
      line.style.cssText = "position:absolute;pointer-events:none;width:0;border-left:2px solid;z-index:5";
      const tag = document.createElement("span");
      tag.style.cssText = "position:absolute;top:-20px;font:600 11px var(--st-font,sans-serif);padding:1px 7px;border-radius:5px;white-space:nowrap";
      line.append(tag);
      self.chart.style.position = "relative";
      self.chart.append(line);
    }
    line.dataset.view = viewOf(axis);
    const { colour, ink } = self.data;
    line.hidden = place < axis.range[0] || place > axis.range[1];
    line.style.display = line.hidden ? "none" : "";
    line.style.left = `${left - 1}px`;
    line.style.top = `${upper._offset}px`;
    line.style.height = `${lower._offset + lower._length - upper._offset}px`;
    line.style.borderColor = colour;
    const tag = line.firstChild;
    tag.textContent = `request ${ordinal(self.at)} · ${self.data.sizes[self.at]?.toLocaleString("en") ?? "?"} tokens`;
    tag.style.background = colour;
    tag.style.color = ink;
    const room = self.chart.clientWidth - left - tag.offsetWidth - 4; // right of the line; it slides over it where there is less
    tag.style.left = `${Math.max(-left, Math.min(5, room))}px`;
  }

  // The request that a place of the chart stands for. Plotly's own click would be lost, or name the point before, where it comes
  // soon after the mouse stopped (clicks.js).
  function requestAt(event) {
    const traces = self.chart._fullData;
    const cells = self.chart._fullLayout.yaxis2;
    const x = place(event);
    const y = cells?.p2l(event.clientY - self.chart.getBoundingClientRect().top - cells._offset);
    if (cells && y <= cells.range[1]) {
      const row = nearest(traces.filter((trace) => trace.type === "heatmap"), (trace) => Math.abs(trace.y0 - y) - trace.dy / 2);
      const column = Math.round((x - row.x0) / row.dx);
      return row.customdata[0][Math.max(0, Math.min(row.customdata[0].length - 1, column))][0];
    }
    const line = traces.find((trace) => trace.mode === "lines" && trace.customdata);
    return line.customdata[nearest([...line.x.keys()], (i) => Math.abs(line.x[i] - x))][0];
  }

  // A line of the page that leads to a request: anything with the class, so that a sentence can hold its own way there.
  function followed(event) {
    const link = event.target.closest?.(".ts-go");
    if (link?.dataset.request) go(Number(link.dataset.request), 0);
  }

  // Dragging over the chart marks requests, whether columns are requests or turns; the app sums them up.
  function place(event) {
    const axis = self.chart._fullLayout.xaxis;
    const x = event.clientX - self.chart.getBoundingClientRect().left - axis._offset;
    return Math.max(axis.range[0], Math.min(axis.range[1], axis.p2l(x)));
  }

  function requests(from, to) {
    const starts = self.chart.layout?.meta?.starts;
    const [low, high] = [Math.round(Math.min(from, to)), Math.round(Math.max(from, to))];
    if (!starts) return [Math.max(0, low), Math.min(self.data.count, high + 1)];
    return [starts[Math.max(0, low)], starts[high + 1] ?? self.data.count];
  }

  function shade(from, to) {
    let area = self.chart.querySelector(".ts-drawn");
    if (from === null) return area?.remove();
    const axis = self.chart._fullLayout.xaxis;
    const upper = self.chart._fullLayout.yaxis;
    const lower = self.chart._fullLayout.yaxis2 ?? upper;
    if (!area) {
      area = document.createElement("div");
      area.className = "ts-drawn";
      area.style.cssText = "position:absolute;pointer-events:none;z-index:4;opacity:0.16";
      self.chart.append(area);
    }
    const [left, right] = [axis.l2p(Math.min(from, to)), axis.l2p(Math.max(from, to))];
    area.style.background = self.data.colour;
    area.style.left = `${axis._offset + left}px`;
    area.style.width = `${Math.max(1, right - left)}px`;
    area.style.top = `${upper._offset}px`;
    area.style.height = `${lower._offset + lower._length - upper._offset}px`;
  }

  function marked() {
    const range = self.data.range;
    if (!self.chart?._fullLayout?.xaxis || self.from !== undefined) return;
    if (!range) return shade(null);
    const starts = self.chart.layout?.meta?.starts;
    const at = (n) => (starts ? starts.findLastIndex((start) => start <= n) : n);
    const [low, high] = self.chart._fullLayout.xaxis.range;
    const [from, to] = [Math.max(low, at(range[0]) - 0.5), Math.min(high, at(range[1] - 1) + 0.5)];
    if (from >= to || (from === low && to === high)) return shade(null); // out of view, or all of what is zoomed into
    shade(from, to);
  }

  function grabbed(event) {
    join();
    if (event.button !== 0 || !self.chart?.contains(event.target) || !event.target.closest(".draglayer")) return;
    self.from = place(event);
    self.grabbedAt = event.clientX;
    self.dragging = false;
  }

  function pulled(event) {
    if (self.from === undefined || !self.chart?._fullLayout) return;
    if (Math.abs(event.clientX - self.grabbedAt) > DRAG) self.dragging = true;
    if (self.dragging) shade(self.from, place(event));
  }

  function released(event) {
    const from = self.from;
    self.from = undefined;
    if (from === undefined || !self.chart?._fullLayout) return; // a chart that was taken off the page meanwhile has none
    if (!self.dragging) return go(requestAt(event), 0);
    const [start, stop] = requests(from, place(event));
    self.data.range = [start, stop];
    marked();
    self.send("range", { start, stop });
  }

  // The app may draw another chart in the place of the one that is joined, and drawing anew removes what was hung on it. A chart
  // that was only moved or zoomed need not say so.
  function join() {
    const chart = document.querySelector(`.st-key-${self.data.chart} .js-plotly-plot`);
    const axis = chart?._fullLayout?.xaxis;
    if (!axis || !chart.on) return;
    const drawn = chart.querySelector(".ts-cursor")?.dataset.view === viewOf(axis);
    if (chart === self.chart && chart._ev === self.events && drawn) return;
    Object.assign(self, { chart, events: chart._ev });
    for (const [event, handler] of Object.entries(self.handlers)) {
      chart.removeListener(event, handler);
      chart.on(event, handler);
    }
    self.cursor();
    self.marked();
  }

  function pressed(event) {
    const target = event.composedPath()[0];
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(target?.tagName) || target?.isContentEditable) return;
    if (event.key === " " && target?.closest?.("button, a, summary, label, [role]")) return; // it presses what has the focus
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const keys = { ArrowLeft: "previous", ArrowRight: "next", Home: "first", End: "last", n: "later", p: "earlier", " ": "play" };
    const move = moves[keys[event.key]];
    if (!move || !isNewest() || document.querySelector("[role=dialog]")) return;
    event.preventDefault();
    move();
  }

  for (const button of root.querySelectorAll("button")) button.onclick = moves[button.dataset.go];
  input.onchange = () => go(indexFrom(Number(input.value)));
  input.onkeydown = (event) => {
    if (event.key === "Enter") input.blur();
  };
  if (self.pressed) window.removeEventListener("keydown", self.pressed, true); // this function runs again on every rerun
  self.pressed = pressed;
  window.addEventListener("keydown", pressed, true);
  for (const [event, handler] of Object.entries(self.mouse ?? {})) window.removeEventListener(event, handler, true);
  self.mouse = { click: followed, mousedown: grabbed, mousemove: pulled, mouseup: released };
  for (const [event, handler] of Object.entries(self.mouse)) window.addEventListener(event, handler, true);
  Object.assign(self, { cursor, join, marked });
  const drawn = () => (self.cursor(), self.marked());
  self.handlers ??= { plotly_afterplot: drawn };
  self.watch ??= setInterval(() => self.join(), WATCH);
  join();
  paint();
  marked();
  return () => {
    if (self.pressed !== pressed) return; // this function ran again before: what is there is the newer one's
    clearInterval(self.watch);
    clearInterval(self.playing);
    self.watch = self.playing = undefined;
    window.removeEventListener("keydown", self.pressed, true);
    for (const [event, handler] of Object.entries(self.mouse)) window.removeEventListener(event, handler, true);
  };
}
