// The colours of charts and texts come from the app: where they are not those of the theme that is shown, because the system
// changed its own, the app is asked for them again.

const dark = window.matchMedia("(prefers-color-scheme: dark)");
const SETTLE = 150; // milliseconds: Streamlit takes on the theme first
const MOST = 3; // times that it is asked, until the colours are right
let asked = 0;
let stop = null; // this function runs again on every rerun

function themeShown() {
  const ground = getComputedStyle(document.querySelector("[data-testid=stApp]")).backgroundColor;
  return Number(ground.match(/\d+/)?.[0]) > 127 ? "light" : "dark";
}

export default function ({ data, setTriggerValue }) {
  stop?.();
  let timer = 0;
  function check() {
    if (themeShown() === data.theme) asked = 0;
    else if (asked++ < MOST) setTriggerValue("changed", themeShown());
  }
  function settle() {
    clearTimeout(timer);
    timer = setTimeout(check, SETTLE);
  }
  stop = () => {
    clearTimeout(timer);
    dark.removeEventListener("change", settle);
  };
  dark.addEventListener("change", settle);
  settle();
}
