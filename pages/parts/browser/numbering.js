// Numbers of requests and turns as people read them: counted from 1. Data, addresses and events count from 0. What
// turnscope.numbering is to Python; prepended to components that show such numbers.
const FIRST = 1;
const numberOf = (n) => n + FIRST;
const indexFrom = (number) => number - FIRST;
const ordinal = (n) => numberOf(n).toLocaleString("en");
