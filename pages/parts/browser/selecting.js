// Text of a session that was selected: a small link next to it leads to when it left the window. Reads the selection, draws nothing
// else; the link is an ordinary one, made here alone, and its words are only ever set as text.

const TEXTS = "pre, code, .ts-closeup, .ts-text, .ts-hit"; // where the text of a session stands
const LEAST = 4;
const MOST = 200; // characters; of more the first ones are searched for
let current = null; // this function runs again on every rerun

function chosen() {
  const selection = document.getSelection();
  if (!selection || selection.isCollapsed || !selection.rangeCount) return null;
  const at = selection.getRangeAt(0).commonAncestorContainer;
  const element = at.nodeType === Node.ELEMENT_NODE ? at : at.parentElement;
  if (!element?.closest(TEXTS)) return null;
  const text = selection.toString().trim().slice(0, MOST).trim();
  return text.length < LEAST ? null : { text, box: selection.getRangeAt(0).getBoundingClientRect() };
}

function ask(link, data) {
  const found = chosen();
  link.hidden = !found;
  if (!found) return;
  const query = new URLSearchParams({ ...data, text: found.text });
  link.href = `/compare?${query}`;
  link.style.left = `${Math.max(8, Math.min(found.box.left, window.innerWidth - 230))}px`;
  link.style.top = `${Math.max(8, Math.min(found.box.bottom + 6, window.innerHeight - 40))}px`;
}

export default function ({ data: [data] }) {
  current?.();
  const link = document.createElement("a");
  link.className = "ts-ask-left";
  link.textContent = "When did this leave the window?";
  link.hidden = true;
  document.body.append(link);
  const later = () => window.setTimeout(() => ask(link, data), 0); // a click that ends a selection ends it after this
  const events = ["mouseup", "keyup"];
  events.forEach((name) => document.addEventListener(name, later));
  const hide = () => (link.hidden = true);
  document.addEventListener("scroll", hide, true);
  current = () => {
    events.forEach((name) => document.removeEventListener(name, later));
    document.removeEventListener("scroll", hide, true);
    link.remove();
    current = null;
  };
  return current;
}
