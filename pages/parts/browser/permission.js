// The button that requests desktop notifications from the browser: on a click, never by itself.

export default function (component) {
  const button = component.parentElement.querySelector("button");
  const note = component.parentElement.querySelector("p");
  function draw() {
    const state = "Notification" in window ? Notification.permission : "denied";
    button.hidden = state !== "default";
    button.textContent = "Allow desktop notifications";
    note.textContent = {
      granted: "You get a desktop notification, also while another window is in front.",
      denied: "This browser allows no desktop notifications here: the page alone shows it.",
      default: "Until then the page alone shows it.",
    }[state];
  }
  button.onclick = async () => { await Notification.requestPermission(); draw(); };
  draw();
}
