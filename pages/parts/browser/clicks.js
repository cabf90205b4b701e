// A quick click on a point of a chart counts. Plotly looks for the point under the mouse at most every 50 ms; while a button is down
// it finds none and forgets the one before, so that a button that comes up soon after the mouse stopped would have clicked nothing.
{
  const NEAR = 20; // pixels, as far as Plotly looks itself; farther is the point where the mouse was before
  let pressed = null; // the chart, and the points that were under the mouse
  const stands = (axis, value, at) => Math.abs(axis._offset + axis.d2p(value) - at) <= NEAR;
  const press = ({ target, clientX, clientY }) => {
    const chart = target.closest?.(".js-plotly-plot");
    const box = chart?.getBoundingClientRect();
    const isNear = ({ xaxis, yaxis, x, y }) => stands(xaxis, x, clientX - box.left) && stands(yaxis, y, clientY - box.top);
    const points = chart?._hoverdata;
    pressed = points?.every((point) => point.xaxis && isNear(point)) ? { chart, points } : null;
  };
  const release = () => {
    if (pressed && !pressed.chart._dragged) pressed.chart._hoverdata ??= pressed.points;
    pressed = null;
  };
  window.addEventListener("mousedown", press, true);
  window.addEventListener("mouseup", release, true);
}
