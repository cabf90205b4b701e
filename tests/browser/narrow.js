() => {
  // What a narrow window cuts off, as a list: text beyond the window's edge or beyond a box that hides it, without an ellipsis
  // and without a way to scroll to it. Looks into components as well. A label that a full line moved out of sight is no fault.
  const faults = [];
  const wide = window.innerWidth + 1;
  const up = (e) => e.parentElement ?? e.getRootNode().host;
  const text = (e) => (e.innerText ?? e.textContent ?? "").trim().slice(0, 60);
  const sized = (e) => {
    const style = getComputedStyle(e), box = e.getBoundingClientRect();
    return style.visibility !== "hidden" && Number(style.opacity) > 0 && box.width > 2 && box.height > 2;
  };
  const find = (e, test) => {
    for (let at = up(e); at && at !== document.body; at = up(at)) if (test(at, getComputedStyle(at))) return at;
  };
  const scrolled = (e) => find(e, (at, style) =>
    at.dataset.testid !== "stMain" && ["auto", "scroll"].includes(style.overflowX) && at.scrollWidth > at.clientWidth);
  const hider = (e) => find(e, (at, style) => ["hidden", "clip"].includes(style.overflowX));
  const look = (root) => {
    for (const e of root.querySelectorAll("*")) {
      if (e.shadowRoot) look(e.shadowRoot);
      if (e.closest(".js-plotly-plot, svg, [data-testid=stHeader]") || !sized(e)) continue;
      const says = [...e.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
      if (!says && !["BUTTON", "INPUT", "SELECT"].includes(e.tagName)) continue;
      const box = e.getBoundingClientRect(), style = getComputedStyle(e), by = hider(e);
      if (by && box.top >= by.getBoundingClientRect().bottom - 1) continue;
      if ((box.right > wide || box.left < -1) && !scrolled(e)) faults.push(`outside: ${text(e)}`);
      else if (!says || style.textOverflow === "ellipsis") continue;
      else if (["hidden", "clip"].includes(style.overflowX) && e.scrollWidth > e.clientWidth + 1) faults.push(`cut off: ${text(e)}`);
      else if (by && getComputedStyle(by).textOverflow !== "ellipsis" && !scrolled(e)) {
        const range = document.createRange();
        range.selectNodeContents(e);
        if (range.getBoundingClientRect().right > by.getBoundingClientRect().right + 2) faults.push(`hidden in part: ${text(e)}`);
      }
    }
  };
  look(document);
  for (const e of [document.documentElement, document.querySelector("[data-testid=stMain]")])
    if (e.scrollWidth > e.clientWidth + 1) faults.push(`scrolls sideways: ${e.scrollWidth} of ${e.clientWidth} pixels`);
  return faults;
}
