// Tells the app what stands in the message box, a moment after the last key, so that the next request can be weighed.

const PAUSE = 350; // milliseconds
const MOST = 2000000; // characters that are sent; of a longer text its length is told

let stop = null; // this function runs again on every rerun

export default function ({ setStateValue }) {
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
  stop = () => {
    clearTimeout(timer);
    document.removeEventListener("input", typed, true);
    document.removeEventListener("keyup", typed, true);
  };
  return stop;
}
