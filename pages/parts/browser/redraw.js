// Draws a list anew where its data changed, and leaves the focus on what is called the same: a component is called again by
// each run of the page, also while somebody presses a key or a button of the mouse.
// `draw` gets the data, and what sends an event to the app, by name; it gives the elements of the list.
function redraw(list, { data: [data], setStateValue }, draw) {
  list.send = setStateValue; // of the newest call: an older one may speak for a part of the page that is gone
  const now = JSON.stringify(data);
  if (list.drawn === now) return;
  list.drawn = now;
  const name = (each) => each?.getAttribute("aria-label") ?? each?.textContent;
  const find = () => [...list.querySelectorAll("button, input")];
  const focused = list.getRootNode().activeElement;
  const place = find().indexOf(focused);
  list.replaceChildren(...draw(data, (event, value) => list.send(event, { ...value, seq: Date.now() })));
  if (place < 0) return;
  const here = find();
  const same = (each) => name(each) === name(focused);
  (same(here[place]) ? here[place] : here.find(same))?.focus({ preventScroll: true });
}
