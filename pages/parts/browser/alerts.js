// A desktop notification for each alert, once. The browser shows it only where the user allowed that: see permission.js.

const shown = new Set();

export default function (component) {
  const alert = component.data?.[0];
  if (!alert || shown.has(alert.id)) return;
  shown.add(alert.id);
  if ("Notification" in window && Notification.permission === "granted") {
    const note = new Notification(alert.text, { body: alert.title, tag: `turnscope-${alert.id}` });
    note.onclick = () => { window.focus(); note.close(); };
  }
}
