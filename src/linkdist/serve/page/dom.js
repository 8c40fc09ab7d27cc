// Elements, texts and bars, for all parts of the page. Texts never become markup.

export const FIRST = 10; // bars and rows that are shown before "Show all"

export const byId = (id) => document.getElementById(id);

/** Make an element; properties that it does not have, such as `aria-label`, become attributes. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key in element) element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

export function show(element, isShown = true) {
  element.hidden = !isShown;
}

export const formatNumber = new Intl.NumberFormat("en").format;

export function formatPercent(share) {
  if (share > 0 && share < 0.0005) return "<0.1%";
  if (share < 1 && share >= 0.9995) return ">99.9%";
  return `${(100 * share).toFixed(1)}%`;
}

export function formatBytes(size) {
  const units = ["bytes", "KB", "MB", "GB"];
  const step = Math.min(3, Math.floor(Math.log2(Math.max(size, 1)) / 10));
  return `${Number((size / 1024 ** step).toPrecision(3))} ${units[step]}`;
}

export function plural(count, word) {
  return `${formatNumber(count)} ${word}${count === 1 ? "" : "s"}`;
}

export function joinWords(words, last) {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} ${last} ${words.at(-1)}`;
}

export function capitalise(key) {
  const words = key.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

export function formatTime(text) {
  const time = new Date(text);
  if (Number.isNaN(time.valueOf())) return text;
  return time.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

/** An error with a message for the user, and a message for each column that is wrong. */
export class UserError extends Error {
  constructor(message, columns = {}) {
    super(message);
    this.columns = columns;
  }

  static from(status, body) {
    const fallback = `The service answered with status ${status} and no message. Check its log.`;
    return new UserError(body?.error ?? fallback, body?.columns ?? {});
  }
}

/** List the columns with missing or unknown values; an answer without any has no notices. */
export function showNotices(list, notices = []) {
  list.replaceChildren(...notices.map((text) => make("li", {}, text)));
  show(list, notices.length > 0);
}

/**
 * Make horizontal bars of `[name, width from 0 to 1, text]`; a long list can be expanded. A fourth
 * entry may have the position of a `mark`, and whether the bar `isChosen`.
 */
export function makeBars(entries) {
  return makeFolded(make("ul", { className: "bars" }, ...entries.map(makeBar)));
}

/** A list and, if it is long, the button that shows all of it. */
export function makeFolded(list) {
  const count = list.childElementCount;
  if (count <= FIRST) return [list];
  const more = make("button", { type: "button", className: "quiet" });
  const collapse = (isCollapsed) => {
    for (const item of [...list.children].slice(FIRST)) show(item, !isCollapsed);
    const all = `Show all ${formatNumber(count)}`;
    more.textContent = isCollapsed ? all : `Show the first ${FIRST}`;
    more.setAttribute("aria-expanded", !isCollapsed);
  };
  more.onclick = () => collapse(more.getAttribute("aria-expanded") === "true");
  collapse(true);
  return [list, more];
}

function makeBar([name, width, text, { mark = null, isChosen = null } = {}]) {
  const bar = make("span", { className: "bar" });
  bar.style.width = `${100 * width}%`;
  const track = make("span", { className: "track", "aria-hidden": "true" }, bar);
  if (mark !== null) {
    const line = make("span", { className: "mark" });
    line.style.left = `${100 * mark}%`;
    track.append(line);
  }
  const parts = [make("span", {}, name), make("span", { className: "number" }, text), track];
  const item = make("li", {}, ...parts);
  if (isChosen !== null) item.dataset.chosen = isChosen;
  return item;
}

/** Make bars of counts; the text has the count and its share of all rows, by default the sum. */
export function makeCountBars(entries, rows = null) {
  const counts = entries.map(([, count]) => count);
  const most = Math.max(1, ...counts);
  const all = Math.max(1, rows ?? counts.reduce((sum, count) => sum + count, 0));
  return makeBars(entries.map(([name, count]) =>
    [name, count / most, `${formatNumber(count)} (${formatPercent(count / all)})`]));
}

/** Make a list of `[term, text]`. */
export function makePairs(entries) {
  const items = entries.flatMap(([term, text]) =>
    [make("dt", {}, term), make("dd", { className: "number" }, text)]);
  return make("dl", { className: "pairs" }, ...items);
}
