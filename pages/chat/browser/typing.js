// Sends the app the text of the message box, a moment after the last key, so that the next request can be weighed.
// Copies the block of code whose button is pressed.

const PAUSE = 350; // milliseconds
const MOST = 2000000; // characters that are sent; of a longer text the length is sent
const FILE = 1000001; // bytes of a file that are looked at: one more than can be attached

const chosen = new Map(); // files that somebody chose, by name; the message box shows which of them are still there
const looked = new WeakMap(); // what was found in a file

let stop = null; // this function runs again on every rerun

let sent = ""; // what the app knows of the box

let gone = ""; // the place that was gone to last

// The box follows its end while the page is drawn, for as long as that takes: the message is brought back until it stays.
function go(place) {
  if (place === gone) return;
  gone = place;
  if (!place) return;
  let looks = 80;
  let stays = 0;
  for (const name of ["wheel", "touchmove"]) addEventListener(name, () => (looks = 0), { once: true, passive: true });
  const look = () => {
    const found = document.querySelector(".chat-msg.sought");
    const box = document.querySelector(".st-key-chat-box")?.getBoundingClientRect();
    if (found && box) {
      const { top, bottom } = found.getBoundingClientRect();
      const there = top < box.bottom - 30 && bottom > box.top + 30;
      stays = there ? stays + 1 : 0;
      if (!there) found.scrollIntoView({ block: "center" });
    }
    if (stays < 12 && looks-- > 0) setTimeout(look, 100);
  };
  look();
}

function choose(event) {
  const from = event.dataTransfer ?? event.clipboardData ?? event.target;
  for (const file of from.files ?? []) chosen.set(file.name, file);
}

async function look(file) {
  const found = { name: file.name, size: file.size };
  try {
    const { width, height } = await createImageBitmap(file);
    if (!file.type.includes("svg")) return { ...found, width, height };
  } catch {} // no image: is it text?
  const bytes = new Uint8Array(await file.slice(0, FILE).arrayBuffer());
  const other = { "255,254": "utf-16le", "254,255": "utf-16be" }[bytes.slice(0, 2).join()];
  try {
    return { ...found, text: new TextDecoder(other ?? "utf-8", { fatal: true }).decode(bytes, { stream: true }) };
  } catch {
    return { ...found, text: null };
  }
}

async function files() {
  const names = [...document.querySelectorAll("[data-testid=stFileChip]:not([aria-invalid=true]) [data-testid=stFileChipName]")];
  const there = names.map((name) => chosen.get(name.title)).filter(Boolean);
  for (const [name, file] of chosen) if (looked.has(file) && !there.includes(file)) chosen.delete(name); // it was shown once
  for (const file of there) if (!looked.has(file)) looked.set(file, look(file));
  return Promise.all(there.map((file) => looked.get(file)));
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

export default function ({ data: [data], setStateValue }) {
  go(data?.go);
  let timer = 0;
  const box = () => document.querySelector("[data-testid=stChatInputTextArea]");
  async function send() {
    const whole = box()?.value ?? "";
    const attached = await files();
    const now = [whole, ...attached.map((file) => `${file.name}:${file.size}`)].join("\n");
    if (now === sent) return;
    sent = now;
    setStateValue("text", { text: whole.slice(0, MOST), length: whole.length, files: attached });
  }
  function soon() {
    clearTimeout(timer);
    timer = setTimeout(send, PAUSE);
  }
  const changes = new MutationObserver(soon); // a chosen file is shown some time after it was chosen
  function watch(holder) {
    changes.observe(holder, { childList: true, subtree: true });
    soon();
  }
  function typed(event) {
    const holder = event.target?.closest?.("[data-testid=stChatInput]");
    if (!holder) return;
    if (event.type !== "keyup") choose(event);
    watch(holder);
  }
  stop?.();
  const events = ["input", "keyup", "change", "drop", "paste", "click"]; // a click takes a file away, or sends
  for (const name of events) document.addEventListener(name, typed, true);
  document.addEventListener("click", copy);
  stop = () => {
    clearTimeout(timer);
    changes.disconnect();
    for (const name of events) document.removeEventListener(name, typed, true);
    document.removeEventListener("click", copy);
  };
  const there = document.querySelector("[data-testid=stChatInput]");
  if (there) watch(there); // a rerun may have cut short what was about to be sent
  return stop;
}
