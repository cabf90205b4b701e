// Tells the app what stands in the message box, a moment after the last key, so that the next request can be weighed.
// Copies the block of code whose button is pressed.

const PAUSE = 350; // milliseconds
const MOST = 2000000; // characters that are sent; of a longer text its length is told

let stop = null; // this function runs again on every rerun

let gone = ""; // the place that was gone to last

function go(place) {
  if (!place || place === gone) return;
  gone = place;
  const show = () => document.querySelector(".chat-msg.sought")?.scrollIntoView({ block: "center" });
  for (const wait of [150, 700]) setTimeout(show, wait); // the second time after the box has moved to its end
}

async function copy(event) {
  const button = event.target?.closest?.(".md-copy");
  const code = button?.closest(".md-code")?.querySelector("pre");
  if (!code) return;
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch {
    getSelection().selectAllChildren(code); // a page that may not write there: the keys copy what is marked
    if (!document.execCommand("copy")) return;
  }
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), 1500);
}

export default function ({ data, setStateValue }) {
  go(data?.go);
  let timer = 0;
  let told = null;
  const box = () => document.querySelector("[data-testid=stChatInputTextArea]");
  function tell() {
    const whole = box()?.value ?? "";
    if (whole === told) return;
    told = whole;
    setStateValue("text", { said: whole.slice(0, MOST), length: whole.length });
  }
  function typed(event) {
    if (event.target?.dataset?.testid !== "stChatInputTextArea") return;
    clearTimeout(timer);
    timer = setTimeout(tell, PAUSE);
  }
  stop?.();
  document.addEventListener("input", typed, true);
  document.addEventListener("keyup", typed, true);
  document.addEventListener("click", copy);
  stop = () => {
    clearTimeout(timer);
    document.removeEventListener("input", typed, true);
    document.removeEventListener("keyup", typed, true);
    document.removeEventListener("click", copy);
  };
  return stop;
}
