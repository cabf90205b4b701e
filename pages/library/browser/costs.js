// What sessions cost by project, tool, model, day or tag: a line each with its bar; a click filters the list by it.
// Every text is set as text content: what a session says is never read as markup.

function make(tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

export default function (component) {
  const { data: [data], parentElement: root, setStateValue } = component;
  const lines = data.rows.map((row) => {
    const line = make(row.name ? "button" : "div", "row");
    if (row.name) {
      line.type = "button";
      line.title = `Only ${row.full}`;
      line.onclick = () => setStateValue("event", { name: row.name, seq: Date.now() });
    }
    const bar = make("i");
    bar.style.width = `${row.share}%`;
    line.append(make("span", "label", row.label), make("span", "requests", row.requests), make("span", "cost", row.cost), bar);
    return line;
  });
  redraw(root.querySelector(".list"), lines);
}
