// The fill of a session over its requests, in percent of the window, as a small picture.

function drawCurve(points) {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  picture.setAttribute("viewBox", "0 0 100 24");
  picture.setAttribute("preserveAspectRatio", "none");
  picture.setAttribute("aria-hidden", "true");
  const top = Math.max(100, ...points);
  const shown = points.length > 1 ? points : [points[0], points[0]];
  const line = shown.map((fill, n) => `${(100 * n) / (shown.length - 1)},${24 - (23 * fill) / top}`).join(" ");
  for (const [tag, where] of [["polygon", `0,24 ${line} 100,24`], ["polyline", line]]) {
    const part = document.createElementNS(space, tag);
    part.setAttribute("points", where);
    picture.append(part);
  }
  return picture;
}
