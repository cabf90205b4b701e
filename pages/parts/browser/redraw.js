// Puts other elements into a list, and leaves the keyboard's focus on the button or box that has the same name as before.
function redraw(list, elements) {
  const name = (each) => each?.getAttribute("aria-label") ?? each?.textContent;
  const find = () => [...list.querySelectorAll("button, input")];
  const focused = list.getRootNode().activeElement;
  const place = find().indexOf(focused);
  list.replaceChildren(...elements);
  if (place < 0) return;
  const here = find();
  const same = (each) => name(each) === name(focused);
  (same(here[place]) ? here[place] : here.find(same))?.focus({ preventScroll: true });
}
