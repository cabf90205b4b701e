// Policies in groups, found by typing. Names and sentences are set as text content: a policy may be somebody's own file.

const instances = new WeakMap();

function make(tag, name, text) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  if (text !== undefined) element.textContent = text;
  return element;
}

export default function (component) {
  const { data: [data], parentElement: root, setTriggerValue } = component;
  const self = instances.get(root) ?? { at: -1 };
  instances.set(root, self);
  self.data = data;
  self.choose = (name) => setTriggerValue("chosen", name);
  self.input = root.querySelector("input");
  self.groups = root.querySelector(".groups");
  self.input.oninput = () => {
    self.at = -1;
    draw(self);
  };
  self.input.onkeydown = (event) => pressed(self, event);
  draw(self);
  if (!self.opened) requestAnimationFrame(() => self.input.focus({ preventScroll: true }));
  self.opened = true;
}

function draw(self) {
  const words = self.input.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = [];
  const shown = [];
  for (const group of self.data.groups) {
    const meets = group.policies.filter((one) => {
      const text = `${group.title} ${one.title} ${one.name} ${one.source} ${one.sure} ${one.doc}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    if (!meets.length) continue;
    shown.push(make("h4", "", group.title));
    for (const one of meets) {
      const row = make("button", one.name === self.data.now ? "now" : "");
      row.type = "button";
      row.setAttribute("role", "option");
      row.setAttribute("aria-selected", String(one.name === self.data.now));
      row.dataset.name = one.name;
      if (found.length === self.at) row.classList.add("at");
      row.append(make("b", "", one.title), make("i", "", one.sure), make("span", "", one.doc));
      if (one.source) row.title = one.source;
      row.onclick = () => self.choose(one.name);
      shown.push(row);
      found.push(row);
    }
  }
  if (!found.length) shown.push(make("p", "", "No policy of that name. A policy of your own is a file in the folder that As text names."));
  self.rows = found;
  self.groups.replaceChildren(...shown);
}

function pressed(self, event) {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (event.key === "Enter" && self.rows.length) self.choose(self.rows[Math.max(0, self.at)].dataset.name);
  if (!by || !self.rows.length) return;
  event.preventDefault();
  self.rows[self.at]?.classList.remove("at");
  self.at = Math.max(0, Math.min(self.rows.length - 1, self.at + by));
  self.rows[self.at].classList.add("at");
  self.rows[self.at].scrollIntoView({ block: "nearest" });
}
