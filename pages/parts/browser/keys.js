// Two keys of the whole page: "/" goes to the search box, "?" opens the help. And one entry of the browser's history for each
// thing that somebody went to, none for what the app adds to the address by itself.

let current = null; // this function runs again on every rerun

const COMPLETE = ["session", "request"]; // what an address names once the app has filled it in

function once() {
  // Streamlit pushes every change of the address. A page that is opened by its plain name gets its session, then its request:
  // with an entry for each, "Back" would lead to an address that is filled in again at once, and nobody would get away.
  if (window.turnscopePush) return;
  const push = window.history.pushState;
  window.turnscopePush = push;
  window.history.pushState = function (state, unused, url) {
    const [from, to] = [new URL(window.location), new URL(url ?? "", window.location)];
    const same = from.pathname === to.pathname;
    const filled = same && COMPLETE.some((name) => to.searchParams.has(name) && !from.searchParams.has(name));
    if (from.href === to.href || filled) return window.history.replaceState(state, unused, url);
    return push.call(window.history, state, unused, url);
  };
}

export default function () {
  once();
  function pressed(event) {
    const target = event.composedPath()[0];
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(target?.tagName) || target?.isContentEditable) return;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const wanted = { "/": ".st-key-header-search input", "?": ".st-key-header-help button" }[event.key];
    const element = wanted && document.querySelector(wanted);
    if (!element) return;
    event.preventDefault();
    if (event.key === "/") element.focus();
    else element.click();
  }
  if (current) window.removeEventListener("keydown", current, true);
  current = pressed;
  window.addEventListener("keydown", pressed, true);
  return () => window.removeEventListener("keydown", pressed, true);
}
