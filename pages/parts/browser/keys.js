// Two keys of the whole page: "/" goes to the search box, "?" opens the help.

let current = null; // this function runs again on every rerun

export default function () {
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
