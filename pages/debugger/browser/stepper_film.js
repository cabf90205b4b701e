// The blocks of a request as tiles, of which only those in view exist, and a map of all of them below. Shape carries the state,
// colour the bucket. Texts are set as text content.

const ROW = 44; // px from one row of tiles to the next
const ROWS = 5; // in view at most
const GAP = 4;
const PAD = 4; // px around the tiles
const NAMED = 92; // px from which a tile has room for its name
const NUMBERED = 36;
const FOLDED = 8; // condensed blocks in a row from which they fold into one tile
const FOLD = 196; // px of that tile

function makeFilm(element, { pick, toggle }) {
  const sheet = element.querySelector(".sheet");
  const film = { element, sheet, tiles: [], width: 0, top: 0, tall: -1, model: null, opened: new Set(), unfolded: false };
  sheet.onclick = (event) => {
    const tile = event.target.closest?.(".tile");
    if (tile?.dataset.fold) toggle(Number(tile.dataset.fold));
    else if (tile) pick(Number(tile.dataset.at));
  };
  return film;
}

// Runs of blocks that one decision condensed, by their first block.
function foldsOf(frame) {
  const folds = new Map();
  const inSummary = (at) => frame.state[at] === STATE.condensed || frame.state[at] === STATE.summed;
  for (let at = 0; at < frame.cut; ) {
    let stop = at + 1;
    if (inSummary(at)) {
      while (stop < frame.cut && inSummary(stop) && frame.by[stop] === frame.by[at]) stop++;
      if (stop - at >= FOLDED) folds.set(at, { start: at, stop, by: frame.by[at] });
    }
    at = stop;
  }
  return folds;
}

// Where each block of the session lies. It moves only where blocks fold into their summary, so the eye can follow. Blocks inside
// a fold that is closed lie where its tile does.
function layOut(film, model, width, frame) {
  if (film.model !== model) film.opened.clear();
  const folds = foldsOf(frame);
  const isOpen = (fold) => film.unfolded || film.opened.has(fold.by);
  const key = [...folds.values()].map((fold) => `${fold.start}-${fold.stop}${isOpen(fold) ? "+" : ""}`).join();
  film.folds = folds;
  if (film.model === model && film.width === width && film.key === key) return;
  const scale = model.requests.scale?.at(-1) ?? 1;
  Object.assign(film, { model, width, key, tall: -1, laid: (film.laid ?? 0) + 1 });
  film.left = new Float32Array(model.blocks);
  film.wide = new Float32Array(model.blocks);
  film.row = new Int32Array(model.blocks);
  film.inside = new Uint8Array(model.blocks); // of a fold that is closed
  film.rows = [0]; // the first block of each row
  film.heads = new Map(); // where the tile of each fold lies, by its first block
  let x = 0;
  const place = (at, wide) => {
    if (x && x + wide > width) {
      film.rows.push(at);
      x = 0;
    }
    const left = x;
    x += wide + GAP;
    return { left, row: film.rows.length - 1 };
  };
  for (let at = 0; at < model.blocks; at++) {
    const fold = folds.get(at);
    if (fold) {
      const head = { ...place(at, Math.min(FOLD, width)), open: isOpen(fold) };
      film.heads.set(at, head);
      if (!head.open) {
        film.left.fill(head.left, at, fold.stop);
        film.row.fill(head.row, at, fold.stop);
        film.inside.fill(1, at, fold.stop);
        at = fold.stop - 1;
        continue;
      }
    }
    const least = model.sigma.has(at) ? 132 : 14;
    film.wide[at] = Math.max(least, Math.min(150, Math.sqrt(model.tokens[at] * scale) * 1.25));
    const lies = place(at, film.wide[at]);
    film.left[at] = lies.left;
    film.row[at] = lies.row;
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
  for (let at = from; at < until; at++) {
    const fold = film.folds.get(at);
    if (fold) drawFold(film, tileOf(film, used++), frame, fold);
    if (film.inside[at]) at = fold.stop - 1;
    else drawTile(film, tileOf(film, used++), frame, at, picked);
  }
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
  const tile = { element, name, size, at: -1, look: "", laid: -1 };
  film.tiles.push(tile);
  return tile;
}

// The tile of a fold: how many blocks became what. A click shows them, and folds them again.
function drawFold(film, tile, frame, fold) {
  const { model } = film;
  const { decisions: d, requests: r } = model;
  const { element } = tile;
  const head = film.heads.get(fold.start);
  const many = (fold.stop - fold.start).toLocaleString("en");
  const size = d.size[fold.by] * r.scale[frame.request];
  element.style.display = "";
  element.style.transform = `translate(${head.left}px, ${head.row * ROW}px)`;
  element.style.width = `${Math.min(FOLD, film.width)}px`;
  delete element.dataset.at;
  element.dataset.fold = fold.start;
  element.dataset.state = "fold";
  element.title = `#${fold.start} – #${fold.stop - 1}, condensed: a click ${head.open ? "folds them" : "shows them"}`;
  element.setAttribute("aria-selected", "false");
  tile.name.textContent = `${head.open ? "▾" : "▸"} ${many} blocks condensed`;
  tile.size.textContent = size ? `into ${short(size)} tokens${d.offline[fold.by] ? ", offline" : ""}` : "";
  tile.at = -1;
  tile.look = `tile fold${fold.by === frame.number ? " current" : ""}`;
  element.className = tile.look;
}

function drawTile(film, tile, frame, at, picked) {
  const { model } = film;
  const { element } = tile;
  if (element.style.display) element.style.display = "";
  const scale = model.requests[model.bucket[at] < STATIC ? "static" : "scale"][frame.request];
  if (tile.at !== at || tile.laid !== film.laid || tile.model !== model || tile.scale !== scale) {
    tile.at = at;
    tile.scale = scale;
    tile.laid = film.laid;
    delete element.dataset.fold;
    tile.model = model;
    const wide = film.wide[at];
    const tokens = Math.round(model.tokens[at] * scale);
    element.style.transform = `translate(${film.left[at]}px, ${film.row[at] * ROW}px)`;
    element.style.width = `${wide}px`;
    element.dataset.at = at;
    element.title = `#${at} · ${model.table[model.label[at]]} · turn ${ordinal(model.turn[at])} · ${tokens.toLocaleString("en")} tokens`;
    const of = model.sigma.has(at) ? model.decisions.stop[model.sigma.get(at)] - model.decisions.start[model.sigma.get(at)] : 0;
    tile.name.textContent = of ? `Σ summary of ${of.toLocaleString("en")}` : wide > NAMED ? named(model.table[model.label[at]]) : wide > NUMBERED ? `t${ordinal(model.turn[at])}` : "";
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
