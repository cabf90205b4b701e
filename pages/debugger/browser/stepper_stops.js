// Breakpoints: places at which playing stops and to which one can jump. The address holds them, as `tokens:150000;usd:0.5;bad;
// tool:Read`, so that a link brings them along.

function writeStops({ tokens, usd, tool, bad }) {
  return [tokens && `tokens:${tokens}`, usd && `usd:${usd}`, bad && "bad", tool && `tool:${tool}`].filter(Boolean).join(";");
}

function parseStops(text) {
  const [rules, tool] = text.split(/(?:^|;)tool:(.*)/s);
  const found = Object.fromEntries(rules.split(";").map((rule) => rule.split(":")));
  const number = (name) => Math.max(0, Number(found[name]) || 0);
  return { tokens: number("tokens"), usd: number("usd"), tool: tool ?? "", bad: "bad" in found };
}

// Take the breakpoints from the address into the form.
function readStops(self) {
  const wanted = parseStops(self.data.stops ?? "");
  const field = (name) => self.part.stops.querySelector(`[name=${name}]`);
  self.wanted = wanted;
  for (const name of ["tokens", "usd"]) field(name).value = wanted[name] || "";
  field("bad").checked = wanted.bad;
  field("tool").value = self.model.calls[wanted.tool] ? wanted.tool : "";
}

// Why a request is stopped at; "" = it is not. `wanted`: tokens, usd, tool, bad.
function stopReason(model, n, wanted) {
  const { requests: r } = model;
  if (wanted.bad && ["refuse", "overflow"].includes(model.verdicts[r.verdict[n]])) return model.verdicts[r.verdict[n]] === "refuse" ? "refused" : "over the limit";
  if (wanted.tokens && r.size[n] > wanted.tokens) return `over ${short(wanted.tokens)} tokens`;
  if (wanted.usd && r.usd[n] !== null && r.usd[n] > wanted.usd) return `over $${wanted.usd}${r.sure[n] ? "" : ", simulated"}`;
  if (wanted.tool) {
    const calls = model.calls[wanted.tool] ?? [];
    const since = n ? r.cut[n - 1] : 0;
    if (calls.some((at) => at >= since && at < r.cut[n])) return `a call of ${wanted.tool}`;
  }
  return "";
}

// Where it stops: at a refusal, else when the request is complete; a tool's call came before the first decision.
function stopPlaces(model, wanted) {
  const places = [];
  const why = new Map();
  for (let n = 0; n < model.count; n++) {
    const reason = stopReason(model, n, wanted);
    if (!reason) continue;
    const step = reason.startsWith("a call") ? 0 : steps(model, n);
    const place = placeOf(model, n, step);
    places.push(place);
    why.set(place, reason);
  }
  return [places, why];
}

function findStops(self) {
  [self.stops, self.why] = stopPlaces(self.model, self.wanted);
  const set = Object.values(self.wanted).some(Boolean);
  const { button, stopsHead, stopsTold } = self.part;
  const many = self.stops.length;
  stopsHead.textContent = set ? `Breakpoints (${many.toLocaleString("en")})` : "Breakpoints";
  stopsTold.textContent = set ? (many ? `${many.toLocaleString("en")} request${many === 1 ? "" : "s"} of ${self.model.count.toLocaleString("en")}.` : "No request of this replay meets this.") : "Play and Next breakpoint stop at the requests that meet any of these.";
  button.stop.disabled = !many;
}

function nextStop(self) {
  const next = self.stops.find((place) => place > self.place) ?? self.stops[0];
  if (next === undefined) return;
  go(self, next);
  hold(self, next);
}

// Say why it stands here, until it moves on.
function hold(self, place) {
  self.held = self.why.get(place) ?? "";
  drawWhere(self);
}

function wireStops(self) {
  const { stops } = self.part;
  const field = (name) => stops.querySelector(`[name=${name}]`);
  self.wanted = parseStops("");
  const read = () => {
    const number = (name) => Math.max(0, Number(field(name).value) || 0);
    self.wanted = { tokens: number("tokens"), usd: number("usd"), tool: field("tool").value, bad: field("bad").checked };
    if (!self.model) return;
    findStops(self);
    drawStrip(self);
  };
  stops.oninput = read;
  stops.onchange = () => {
    read();
    if (self.model?.length) report(self);
  };
  stops.onkeydown = (event) => event.key === "Escape" && (stops.open = false);
  stops.querySelector(".none").onclick = () => {
    for (const name of ["tokens", "usd", "tool"]) field(name).value = "";
    field("bad").checked = false;
    stops.onchange();
  };
}

// The tools that this session calls.
function listTools(self) {
  const select = self.part.stops.querySelector("[name=tool]");
  select.replaceChildren(...["", ...Object.keys(self.model.calls).sort()].map((name) => {
    const option = make("option", "", name || "no tool");
    option.value = name;
    return option;
  }));
  select.value = self.model.calls[self.wanted.tool] ? self.wanted.tool : "";
}
