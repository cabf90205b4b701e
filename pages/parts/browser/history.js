// One entry of the browser's history for each thing that somebody did, none for what the app adds to the address by itself.
// Streamlit pushes every change of the address: a page that is opened by its plain name gets its session, then its request, then
// a policy. With an entry for each, "Back" would lead to an address that is filled in again at once, and nobody would get away.
// So only the first change after somebody did something is an entry.
{
  const push = window.history.pushState;
  let acted = false;
  for (const act of ["pointerdown", "keydown", "drop"]) window.addEventListener(act, () => (acted = true), true);
  window.addEventListener("popstate", () => (acted = false), true);
  window.history.pushState = function (state, unused, url) {
    const there = new URL(url ?? "", window.location);
    if (there.href === window.location.href || !acted) return window.history.replaceState(state, unused, url);
    acted = false;
    return push.call(window.history, state, unused, url);
  };
}
