// The bar of the demo: where it is, its sentence, and the buttons. Playing is kept here alone: whatever somebody does on the page
// stops it at once, without a word to the app. What a stop is about gets an outline, and is scrolled to once.

const LOOK = 400; // ms between looks for what the stop is about: pages are drawn bit by bit
const PATIENCE = 40_000; // ms that a stop may take longer than it is shown for
const STOPS_PLAYING = ["pointerdown", "keydown", "wheel", "touchstart"];
const state = (window.turnscopeDemo ??= { playing: false, stop: 0, focus: false, seen: false });
const still = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

function mark(selector) {
  const target = selector && [...document.querySelectorAll(selector)].find((element) => element.offsetParent);
  for (const old of document.querySelectorAll(".ts-demo-here")) if (old !== target) old.classList.remove("ts-demo-here");
  if (!target) return;
  target.classList.add("ts-demo-here");
  if (state.seen) return;
  state.seen = true;
  const box = target.getBoundingClientRect();
  if (box.top < 220 || box.bottom > window.innerHeight)
    target.scrollIntoView({ block: box.height > window.innerHeight / 2 ? "nearest" : "center", behavior: still() ? "auto" : "smooth" });
}

export default function ({ data: [data], parentElement: root, setTriggerValue }) {
  const find = (name) => root.querySelector(`[data-go="${name}"]`);
  const box = root.querySelector(".demo");
  const count = data.titles.length;
  state.waits = data.waits;

  function paint() {
    box.classList.toggle("playing", state.playing);
    box.style.setProperty("--seconds", `${data.seconds}s`);
    root.querySelector(".title b").textContent = `Demo, stop ${data.stop} of ${count}.`;
    root.querySelector(".title span").textContent = data.titles[data.stop - 1];
    const sentence = root.querySelector(".sentence");
    if (sentence.textContent !== data.sentence) sentence.textContent = data.sentence;
    find("back").disabled = data.stop === 1;
    find("play").textContent = state.playing ? "Pause" : "Play";
    find("play").setAttribute("aria-pressed", String(state.playing));
    find("next").textContent = !data.here ? `Return to stop ${data.stop}` : data.stop === count ? "Finish" : "Next";
    root.querySelector(".dots").replaceChildren(
      ...data.titles.map((_, n) => {
        const dot = document.createElement("i");
        dot.className = n + 1 < data.stop ? "done" : n + 1 === data.stop ? "now" : "";
        return dot;
      }),
    );
  }

  function go(stop) {
    clearTimeout(state.timer);
    state.seen = false;
    setTriggerValue("go", { stop });
  }

  // A chat is waited for, but not for ever.
  function advance(waited = 0) {
    if (state.waits && waited < PATIENCE) state.timer = setTimeout(() => advance(waited + LOOK), LOOK);
    else if (data.stop < count) go(data.stop + 1);
    else play(false);
  }

  function play(on) {
    clearTimeout(state.timer);
    state.playing = on;
    if (on) state.timer = setTimeout(() => advance(), data.seconds * 1000);
    paint();
  }

  find("back").onclick = () => ((state.focus = "back"), go(data.stop - 1));
  find("next").onclick = () => ((state.focus = "next"), go(!data.here ? data.stop : data.stop < count ? data.stop + 1 : 0));
  find("leave").onclick = () => (play(false), go(0));
  find("play").onclick = () => {
    if (!state.playing && data.stop === count) go(1), (state.resume = true);
    else play(!state.playing);
  };

  function pause(event) {
    if (state.playing && !event.composedPath().includes(box)) play(false);
  }
  if (state.pause) for (const kind of STOPS_PLAYING) document.removeEventListener(kind, state.pause, true);
  state.pause = pause;
  for (const kind of STOPS_PLAYING) document.addEventListener(kind, pause, { capture: true, passive: true });

  clearInterval(state.looking);
  if (data.here) state.looking = setInterval(() => mark(data.focus), LOOK);
  else mark("");
  const arrived = state.stop !== data.stop;
  if (arrived) {
    state.stop = data.stop;
    state.seen = false;
    const wanted = state.playing || state.resume || (data.play && !state.begun && !still());
    state.resume = false;
    state.begun = true;
    play(wanted);
  } else paint();
  if (state.focus && !find(state.focus).disabled) find(state.focus).focus({ preventScroll: true });
  state.focus = "";

  return () => {
    clearInterval(state.looking);
    clearTimeout(state.timer);
    mark("");
    if (state.pause === pause) for (const kind of STOPS_PLAYING) document.removeEventListener(kind, pause, true);
  };
}
