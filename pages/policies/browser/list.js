// The list of policies: a line each with what is left of a full window, cost and losses on the samples, and a checkbox.
// Every text is set as text content.

function make(tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

function strip(parts, name = "strip") {
  const line = make("span", name);
  for (const [bucket, state, share] of parts) {
    const part = make("i", state);
    part.style.width = `${Math.min(100, 100 * share)}%`;
    part.style.setProperty("--part", `var(--ts-${bucket.replace("_", "-")})`);
    line.append(part);
  }
  return line;
}

function range(words, places, base) {
  const cell = make("span", "range");
  cell.append(make("span", "", words));
  if (!places) return cell;
  const line = make("i", "axis");
  if (base !== undefined) {
    const mark = make("i", "base");
    mark.style.left = `${base}%`;
    line.append(mark);
  }
  const bar = make("i", "bar");
  bar.style.left = `${places[0]}%`;
  bar.style.width = `${Math.max(1, places[2] - places[0])}%`;
  const dot = make("i", "dot");
  dot.style.left = `${places[1]}%`;
  line.append(bar, dot);
  cell.append(line);
  return cell;
}

export default function (component) {
  const { data: [data], parentElement: root, setStateValue } = component;
  const list = root.querySelector(".list");
  const picked = new Set(data.picked);
  const report = (open) => setStateValue("event", { open, picked: [...picked], seq: Date.now() });
  const scrolled = list.scrollTop;
  const rows = [];
  for (const group of data.groups) {
    const head = make("h2", "", group.title);
    head.append(make("small", "", group.rows.length));
    rows.push(head);
    for (const each of group.rows) {
      const row = make("div", each.name === data.open ? "row open" : "row");
      const box = make("input");
      box.type = "checkbox";
      box.checked = picked.has(each.name);
      box.setAttribute("aria-label", `Compare ${each.title}`);
      box.onchange = () => {
        if (box.checked) picked.add(each.name);
        else picked.delete(each.name);
        report("");
      };
      const open = make("button");
      open.type = "button";
      open.onclick = () => report(each.name);
      const text = make("span", "text");
      const title = make("b", "", each.title);
      title.append(make("em", each.proof, each.sure));
      text.append(title, make("small", "", each.line));
      open.title = each.doc;
      const window = make("span", "window");
      if (each.strip.length) window.append(strip(data.before, "strip before"), strip(each.strip));
      open.append(window, text, range(each.cost, each.costs, data.base), range(each.lost, each.losses));
      row.append(box, open);
      rows.push(row);
    }
  }
  if (!rows.length) rows.push(make("p", "", "No policy is like this."));
  redraw(list, rows);
  list.scrollTop = scrolled;
}
