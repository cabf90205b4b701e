() => {
  // What is wrong with the boxes on a page, as a list: text wider than its box without an ellipsis, boxes outside the window,
  // empty cards, a bar that overflows, and texts of a chart that stand on one another.
  const faults = [];
  const wide = window.innerWidth + 1;
  const name = (e) => `${e.className?.baseVal ?? e.className}: ${(e.textContent ?? "").trim().slice(0, 40)}`;
  const texts = ".ts-title h1, .ts-chip, .ts-headline span, .ts-card h3, .ts-card p, .value, .ts-legend span, .ts-scale span";
  for (const e of document.querySelectorAll(texts)) {
    const box = e.getBoundingClientRect();
    const style = getComputedStyle(e);
    if (!box.width || !box.height) faults.push(`empty ${name(e)}`);
    if (box.right > wide || box.left < -1) faults.push(`outside ${name(e)}`);
    const cut = e.scrollWidth > e.clientWidth + 1 && style.overflow !== "visible" && style.textOverflow !== "ellipsis";
    if (cut) faults.push(`cut off ${name(e)}`);
  }
  for (const e of document.querySelectorAll(".ts-seg span")) {
    const inside = e.parentElement.getBoundingClientRect();
    const box = e.getBoundingClientRect(); // a label without room stands below the bar's edge, out of sight
    if (e.textContent && box.top < inside.bottom - 1 && box.right > inside.right + 1) faults.push(`cut off in the bar ${name(e)}`);
  }
  for (const bar of document.querySelectorAll(".ts-bar")) {
    const last = [...bar.querySelectorAll(".ts-seg")].at(-1).getBoundingClientRect();
    if (last.right > bar.getBoundingClientRect().right + 8) faults.push("the bar overflows");
  }
  const labels = [".xtick text", ".x2tick text", ".ytick text", ".y2tick text", "[class*=title] text"];
  const boxes = [...document.querySelectorAll(labels.map((label) => `.js-plotly-plot ${label}`).join(", "))]
    .map((e) => [e, e.getBoundingClientRect()])
    .filter(([, box]) => box.width);
  for (const [e, a] of boxes) {
    if (a.right > wide || a.left < -1) faults.push(`outside ${name(e)}`);
    for (const [f, b] of boxes) {
      const across = a.left < b.right - 1 && b.left < a.right - 1;
      const down = a.top < b.bottom - 2 && b.top < a.bottom - 2;
      if (e !== f && across && down) faults.push(`${name(e)} stands on ${name(f)}`);
    }
  }
  return faults;
}
