// A list in which each line leads to a request, with an optional strip that shows over which requests something lasted.
// Every text is set as text content: what a session says is never read as markup.

function make(tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

function strip(item, data) {
  const line = make("span", "strip");
  const share = (n) => `${(100 * n) / Math.max(1, data.count)}%`;
  for (const [start, stop] of item.spans) {
    const part = make("i");
    part.style.left = share(start);
    part.style.width = share(stop - start);
    part.style.background = item.colour;
    line.append(part);
  }
  const now = make("b");
  now.style.left = share(data.at);
  line.append(now);
  return line;
}

export default function (component) {
  const { data: [data], parentElement: root, setStateValue } = component;
  const list = root.querySelector(".list");
  redraw(
    list,
    data.items.map((item) => {
      const row = make("button");
      row.type = "button";
      const to = item.to ?? item.request;
      if (to === data.chosen) row.classList.add("now");
      if (item.spans) row.classList.add("wide");
      row.append(make("span", "title", item.title));
      row.firstChild.title = item.full ?? item.title;
      const text = make("span", "text");
      text.append(make("span", "", item.text ?? ""));
      if (item.match) text.append(make("mark", "", item.match), make("span", "", item.after));
      row.append(text);
      if (item.spans) row.append(strip(item, data));
      if (item.end) row.append(make("span", "end", item.end));
      if (item.why) row.title = item.why;
      row.onclick = () => setStateValue("go", { to, seq: Date.now() });
      return row;
    }),
  );
}
