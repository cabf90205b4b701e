// The blocks of a request as tiles, of which only those in view exist, and a map of all of them below. Shape carries the state,
// colour the bucket. Texts are set as text content.

const ROW = 44; // px from one row of tiles to the next
const ROWS = 5; // in view at most
const GAP = 4;
const PAD = 4; // px around the tiles
const NAMED = 92; // px from which a tile has room for its name
const NUMBERED = 36;

function makeFilm(element, pick) {
  const sheet = element.querySelector(".sheet");
  const film = { element, sheet, pick, tiles: [], width: 0, top: 0, tall: -1, model: null };
  sheet.onclick = (event) => {
    const tile = event.target.closest?.(".tile");
    if (tile) pick(Number(tile.dataset.at));
  };
  return film;
}

// Where each block of the session lies. It does not move while one steps, so the eye can follow.
function layOut(film, model, width) {
  if (film.model === model && film.width === width) return;
  const scale = model.requests.scale?.at(-1) ?? 1;
  film.model = model;
  film.width = width;
  film.tall = -1;
  film.left = new Float32Array(model.blocks);
  film.wide = new Float32Array(model.blocks);
  film.row = new Int32Array(model.blocks);
  film.rows = [0]; // the first block of each row
  let x = 0;
  for (let at = 0; at < model.blocks; at++) {
    const least = model.sigma.has(at) ? 132 : 14;
    const wide = Math.max(least, Math.min(150, Math.sqrt(model.tokens[at] * scale) * 1.25));
    if (x && x + wide > width) {
      film.rows.push(at);
      x = 0;
    }
    film.left[at] = x;
    film.wide[at] = wide;
    film.row[at] = film.rows.length - 1;
    x += wide + GAP;
  }
}

// Draw the tiles in view; `focus` is brought into view first, -1 = stay. Sizes are reckoned, not read: reading them would make
// the browser lay out the page between two changes of it.
function drawFilm(film, frame, focus, picked) {
  const { element, sheet, model } = film;
  const rows = frame.cut ? film.row[frame.cut - 1] + 1 : 0;
  const room = Math.max(2, Math.min(ROWS, rows)) * ROW + 2 * PAD;
  if (film.tall !== rows) {
    film.tall = rows;
    sheet.style.height = `${rows * ROW}px`;
    element.style.height = `${room}px`;
  }
  const lowest = Math.max(0, rows * ROW + 2 * PAD - room);
  // By the place alone, not by where one came from: the same place looks the same.
  const top = focus >= 0 && focus < frame.cut ? Math.min(lowest, Math.max(0, (film.row[focus] - 2) * ROW)) : Math.min(lowest, film.top);
  if (film.top !== top) element.scrollTop = top;
  film.top = top;
  const from = film.rows[Math.max(0, Math.floor(top / ROW))] ?? frame.cut;
  const until = Math.min(frame.cut, film.rows[Math.ceil((top + room) / ROW) + 1] ?? model.blocks);
  film.view = [from, until];
  let used = 0;
  for (let at = from; at < until; at++) drawTile(film, tileOf(film, used++), frame, at, picked);
  for (let i = used; i < film.tiles.length; i++) film.tiles[i].element.style.display = "none";
  return film.view;
}

// Of a path, its last part: the rest stands in the tile's title.
const named = (label) => label.replace(/^(\S+ )?\S*\/([^/\s]+)$/, "$1$2");

function tileOf(film, number) {
  if (number < film.tiles.length) return film.tiles[number];
  const element = document.createElement("div");
  const name = document.createElement("span");
  const size = document.createElement("span");
  element.setAttribute("role", "option");
  name.className = "name";
  size.className = "size";
  element.append(name, size);
  film.sheet.append(element);
  const tile = { element, name, size, at: -1, look: "", width: -1 };
  film.tiles.push(tile);
  return tile;
}

function drawTile(film, tile, frame, at, picked) {
  const { model } = film;
  const { element } = tile;
  if (element.style.display) element.style.display = "";
  const scale = model.requests.scale[frame.request];
  if (tile.at !== at || tile.width !== film.width || tile.model !== model || tile.scale !== scale) {
    tile.at = at;
    tile.scale = scale;
    tile.width = film.width;
    tile.model = model;
    const wide = film.wide[at];
    const tokens = Math.round(model.tokens[at] * scale);
    element.style.transform = `translate(${film.left[at]}px, ${film.row[at] * ROW}px)`;
    element.style.width = `${wide}px`;
    element.dataset.at = at;
    element.title = `#${at} · ${model.table[model.label[at]]} · turn ${model.turn[at]} · ${tokens.toLocaleString("en")} tokens`;
    const of = model.sigma.has(at) ? model.decisions.stop[model.sigma.get(at)] - model.decisions.start[model.sigma.get(at)] : 0;
    tile.name.textContent = of ? `Σ summary of ${of.toLocaleString("en")}` : wide > NAMED ? named(model.table[model.label[at]]) : wide > NUMBERED ? `t${model.turn[at]}` : "";
    tile.size.textContent = wide > NUMBERED ? short(tokens) : "";
  }
  const look = lookOf(film, frame, at, picked);
  if (tile.look !== look) {
    tile.look = look;
    element.className = look;
    element.dataset.state = frame.hidden[at] && frame.last && frame.state[at] < STATE.dropped ? "unseen" : model.looks[frame.state[at]];
    element.setAttribute("aria-selected", String(at === picked));
  }
}

function lookOf(film, frame, at, picked) {
  const { model } = film;
  const gone = frame.state[at] === STATE.dropped || frame.state[at] === STATE.summed;
  let look = `tile ${BUCKETS[model.bucket[at]]} ${model.looks[frame.state[at]]}`;
  if (model.sigma.has(at)) look += frame.number >= 0 && model.sigma.get(at) === frame.number ? " sigma current" : " sigma";
  if (frame.waits[at]) look += " waits";
  if (frame.number >= 0 && frame.by[at] === frame.number && frame.state[at] !== STATE.summed) look += " current";
  if (frame.hidden[at] && frame.last && !gone) look += " unseen";
  if (at === picked) look += " picked";
  return look;
}

// All blocks of the session from left to right: full height what stands, faint what does not, in their buckets' colours.
function drawMap(canvas, film, frame, colours) {
  const { model } = film;
  const context = canvas.getContext("2d");
  const { width, height } = canvas;
  const share = width / Math.max(1, model.blocks);
  context.clearRect(0, 0, width, height);
  let at = 0;
  for (let x = 0; x < width && at < frame.cut; ) {
    const next = Math.max(x + 1, Math.round((at + 1) * share));
    const stop = Math.min(frame.cut, Math.max(at + 1, Math.floor(next / share)));
    const sums = [0, 0, 0, 0, 0];
    let stands = 0;
    let all = 0;
    for (; at < stop; at++) {
      const tokens = model.tokens[at] + 1;
      const state = frame.state[at];
      sums[model.bucket[at]] += tokens;
      all += tokens;
      if (state <= STATE.rewritten && !(frame.hidden[at] && frame.last)) stands += tokens;
    }
    const high = Math.round((height * stands) / all);
    context.fillStyle = colours[BUCKETS[sums.indexOf(Math.max(...sums))]];
    context.globalAlpha = 0.22;
    context.fillRect(x, 0, Math.max(1, next - x - (share > 3 ? 1 : 0)), height - high);
    context.globalAlpha = 0.95;
    context.fillRect(x, height - high, Math.max(1, next - x - (share > 3 ? 1 : 0)), high);
    x = next;
  }
  context.globalAlpha = 1;
  context.strokeStyle = colours.text;
  context.lineWidth = Math.max(1, window.devicePixelRatio || 1);
  const [from, until] = film.view;
  context.strokeRect(from * share + 0.5, 0.5, Math.max(3, (until - from) * share - 1), height - 1);
}

// As many pixels as the screen has for it. Called when the width of the page changes, not with every step.
function fit(canvas) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(canvas.clientWidth * ratio));
  canvas.height = Math.max(1, Math.round(canvas.clientHeight * ratio));
}
