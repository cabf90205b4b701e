// The colours of charts and texts come from the app: where they are not those of the theme that is shown, because the system's
// or the one chosen in the menu changed, the app is asked for them again. Streamlit gives its outermost element another class
// then, on a large page a second later. Its `color-scheme` is the new one at once, where a background may still fade. What the app
// is asked may reach it before it has heard of the theme: then it answers with the old one, and is asked again.

const SETTLE = 150; // milliseconds until the style that belongs to a class is there
const LOOK_AGAIN = 1500; // milliseconds between looks; each time twice as long while the colours stay wrong
const MOST = 4; // times that it is asked, until the colours are right
let asked = 0;
let stop = null; // this function runs again on every rerun

export default function ({ data: [data], setTriggerValue }) {
  stop?.();
  const app = document.querySelector("[data-testid=stApp]");
  const themeShown = () => getComputedStyle(app).colorScheme;
  let timer = 0;
  function check() {
    if (themeShown() === data.theme) asked = 0;
    else if (asked++ < MOST) setTriggerValue("changed", themeShown());
    timer = setTimeout(check, LOOK_AGAIN * 2 ** Math.min(asked, MOST));
  }
  function settle() {
    clearTimeout(timer);
    timer = setTimeout(check, SETTLE);
  }
  const watch = new MutationObserver(settle);
  stop = () => {
    clearTimeout(timer);
    watch.disconnect();
  };
  watch.observe(app, { attributes: true, attributeFilter: ["class"] });
  settle();
}
