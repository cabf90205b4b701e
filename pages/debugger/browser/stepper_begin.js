// What crosses the wire with every step: it hands over to the stepper, whose code came once with the data (stepper.js).

const turns = new WeakMap();

export default function (component) {
  const root = component.parentElement;
  const turn = (turns.get(root) ?? 0) + 1;
  let end = () => {};
  turns.set(root, turn);
  const begin = () => {
    if (turns.get(root) !== turn) return; // a newer one has come
    const stepper = globalThis[Symbol.for("turnscope.stepper")];
    if (stepper) end = stepper({ ...component, data: component.data[0] });
    else setTimeout(begin, 30);
  };
  begin();
  return () => end();
}
