// A card for each session that is worth a look: what stands out, by how much, and which session it is.
// Every text is set as text content: what a session says is never read as markup.

function make(tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

export default function (component) {
  const { data: [data], parentElement: root, setStateValue } = component;
  const cards = data.rows.map((row) => {
    const card = make("button", `card ${row.kind}`);
    card.type = "button";
    const which = make("span", "which");
    if (row.tile) which.append(make("span", "tile", row.tile));
    which.append(make("span", "title", row.title), make("span", "go", "→"));
    const head = make("span", "head");
    head.append(make("b", "", row.head));
    if (row.curve.length) head.append(drawCurve(row.curve));
    card.append(head, make("span", "reason", row.reason), which);
    card.title = row.title;
    card.onclick = () => setStateValue("event", { open: row.id, seq: Date.now() });
    return card;
  });
  redraw(root.querySelector(".cards"), cards);
}
