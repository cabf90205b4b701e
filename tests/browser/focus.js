async () => {
  // The element that has the focus: its name, whether it or what it stands in looks otherwise without the focus, and whether it is
  // in sight. null = nothing has the focus.
  let e = document.activeElement;
  while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;
  if (!e || e === document.body) return null;
  if (e.closest("canvas")) return { name: "CANVAS", shows: true, seen: true }; // a table paints its own focus, also that of a cell
  const near = [e, ...e.querySelectorAll("*")].slice(0, 6);
  for (let at = e.parentElement ?? e.getRootNode().host; at && near.length < 12; at = at.parentElement ?? at.getRootNode().host) near.push(at);
  const describe = () => near.flatMap((at) => ["", "::before", "::after"].map((part) => {
    const style = getComputedStyle(at, part || null), outlined = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0;
    return [outlined ? style.outline : "", style.boxShadow, style.borderColor, style.backgroundColor, style.textDecoration, style.opacity].join();
  })).join();
  const settle = () => new Promise((done) => setTimeout(() => requestAnimationFrame(done), 40));
  await settle();
  const box = e.getBoundingClientRect(), focused = describe();
  const label = [e.ariaLabel, e.title, e.innerText, e.labels?.[0]?.innerText].filter(Boolean).join(" ").trim().slice(0, 50);
  e.blur();
  await settle();
  const without = describe();
  e.focus({ preventScroll: true, focusVisible: true });
  return {
    name: `${e.tagName} ${label}`.replace(/\s+/g, " "),
    shows: focused !== without,
    seen: box.width > 1 && box.height > 1 && box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
  };
}
