// The transcript: one line per block, a click chooses it. Every text is set as text content: session text is never markup.

function cell(name, text, title) {
  const element = document.createElement("span");
  element.className = name;
  element.textContent = text;
  if (title) element.title = title;
  return element;
}

const scrolled = new WeakMap(); // which list was brought to its chosen line: this function runs again on every rerun

// Once for each reason. The page is drawn above it for a while: it is brought back as often as that moves it, and not where
// somebody scrolled.
function go(list, why) {
  const main = document.querySelector("[data-testid=stMain]");
  if (!main || !why || why === document.body.dataset.sought) return;
  document.body.dataset.sought = why;
  let looks = 30;
  let place = -1;
  for (const name of ["wheel", "touchmove", "pointerdown", "keydown"]) addEventListener(name, () => (looks = 0), { once: true, passive: true });
  const look = () => {
    if (looks-- <= 0 || !list.isConnected) return;
    const at = list.getBoundingClientRect().top + main.scrollTop;
    if (Math.abs(at - place) > 4) list.scrollIntoView({ block: "center" });
    place = at;
    setTimeout(look, 100);
  };
  look();
}

export default function (component) {
  const { data: [data], parentElement: root, setStateValue } = component;
  const list = root.querySelector(".list");
  let chosen = null;
  list.style.setProperty("--warn", data.warn);
  redraw(
    list,
    data.items.map((item) => {
      const row = document.createElement("button");
      row.type = "button";
      row.dataset.at = item.at;
      row.dataset.state = item.state;
      row.setAttribute("aria-pressed", String(item.at === data.at));
      if (item.at === data.at) chosen = row;
      const swatch = document.createElement("i");
      swatch.style.background = item.colour;
      const text = item.label ? `${item.label}  ${item.text}` : item.text;
      const state = cell("state", item.word, item.why);
      row.append(
        swatch,
        cell("at", `#${item.at}`, `turn ${ordinal(item.turn)}`),
        cell("who", item.role === "tool" ? "tool" : item.role, item.kind),
        cell("text", text || `(${item.kind})`, text),
        cell("size", item.tokens),
        state,
      );
      if (item.why) row.title = item.why;
      row.onclick = () => {
        for (const other of list.children) other.setAttribute("aria-pressed", String(other === row));
        setStateValue("choose", { at: item.at, seq: Date.now() });
      };
      return row;
    }),
  );
  const page = `${data.items[0]?.at}-${data.items.at(-1)?.at}`;
  if (scrolled.get(root) !== page) {
    scrolled.set(root, page);
    list.scrollTop = chosen ? chosen.offsetTop - list.clientHeight / 2 : 0;
  }
  go(list, data.sought);
}
