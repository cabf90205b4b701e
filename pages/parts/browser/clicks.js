// A quick click on a point of a chart counts. Plotly looks for the point under the mouse at most every 50 ms; while a button is down
// it finds none and forgets the one before, so that a button that comes up soon after the mouse stopped would have clicked nothing.
{
  let pressed = null; // the chart, and the points that were under the mouse
  const press = ({ target }) => {
    const chart = target.closest?.(".js-plotly-plot");
    pressed = chart && { chart, points: chart._hoverdata };
  };
  const release = () => {
    if (pressed && !pressed.chart._dragged) pressed.chart._hoverdata ??= pressed.points;
    pressed = null;
  };
  window.addEventListener("mousedown", press, true);
  window.addEventListener("mouseup", release, true);
}
