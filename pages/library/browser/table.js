// The list of sessions as a table: a line opens its session, a heading sorts, a sign at the end changes tags.
// Every text is set as text content: what a session says is never read as markup.

function make(tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

export default function (component) {
  const { data: [data], parentElement: root, setStateValue } = component;
  const report = (what) => setStateValue("event", { ...what, seq: Date.now() });
  const table = make("table");
  const head = make("tr");
  const sorted = data.order === "old" ? "new" : data.order;
  for (const [name, words, order] of data.columns) {
    const cell = make("th", name);
    cell.scope = "col";
    const sort = make("button", order === sorted ? "sorted" : "", words);
    sort.type = "button";
    if (order === sorted) cell.setAttribute("aria-sort", ["title", "project", "model"].includes(order) || data.order === "old" ? "ascending" : "descending");
    sort.onclick = () => report({ sort: order });
    cell.append(sort);
    head.append(cell);
  }
  const body = make("tbody");
  for (const row of data.rows) {
    const line = make("tr");
    const cell = (name, text) => {
      const made = make("td", name, text);
      line.append(made);
      return made;
    };
    const title = cell("title").appendChild(make("div"));
    if (row.live) title.append(make("i", "live"));
    if (row.tile) {
      const tile = make("abbr", "tile", row.tile);
      tile.title = row.tool;
      title.append(tile);
    }
    const open = make("button", "open", row.title);
    open.type = "button";
    open.title = row.file;
    open.onclick = (event) => { event.stopPropagation(); report({ open: row.id }); };
    title.append(open);
    if (row.recorded) {
      const mark = make("em", "tag recorded", "recorded");
      mark.title = row.recorded;
      title.append(mark);
    }
    for (const tag of row.tags) title.append(make("em", "tag", tag));
    const add = make("button", "add");
    add.type = "button";
    add.textContent = row.tags.length ? "✎" : "+ tag";
    add.setAttribute("aria-label", `Tags of ${row.title}`);
    add.onclick = (event) => { event.stopPropagation(); report({ tag: row.id }); };
    title.append(add);
    cell("project", row.project).title = row.path;
    cell("model", row.model).title = row.model;
    cell("requests", row.requests);
    const fill = cell("fill");
    if (row.curve.length) fill.append(drawCurve(row.curve));
    fill.append(make("span", row.full ? "warn" : "", row.fill));
    cell(/\d/.test(row.cuts) ? "cuts warn" : "cuts", row.cuts);
    cell(/\d/.test(row.cost) ? "cost" : "cost faint", row.cost);
    const when = cell(row.live ? "when good" : "when", row.when);
    when.title = row.time;
    line.onclick = () => { if (!String(getSelection())) report({ open: row.id }); };
    body.append(line);
  }
  const top = make("thead");
  top.append(head);
  table.append(top, body);
  redraw(root.querySelector(".box"), [table]);
}
