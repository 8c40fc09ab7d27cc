// The button "Why?" below the result of the form: what speaks for and against the prediction.

import {
  byId, formatPercent, joinWords, make, makeFolded, makePairs, show, UserError,
} from "./dom.js";
import { explainRows } from "./predict.js";

const NAMED = 3; // parts of each side that a screen reader announces

/**
 * Make the button and its place. `offer(request, version)` shows the button for a new result, and
 * `hide()` removes it with what it has shown.
 */
export function makeExplanation(model) {
  const button = byId("why");
  const isPossible = explainRows !== null && model.columns !== null;
  let asked = null;
  let running = null;

  const hide = () => {
    running?.abort();
    running = null;
    setBusy(button, false);
    showError("");
    showExplanations([]);
    expand(button, false);
    show(byId("reasons"), false);
  };
  const ask = async ({ request, version }, { signal }) => {
    const answer = await explainRows(request, { signal });
    if (answer.version !== version) {
      throw new UserError("The service uses a new model now. Predict the node again first.");
    }
    showExplanations(answer.explanations);
    expand(button, true);
  };
  button.onclick = async () => {
    if (running) return;
    const isExpanded = button.getAttribute("aria-expanded") === "true";
    if (isExpanded || byId("explanation").childElementCount) {
      expand(button, !isExpanded);
      return;
    }
    const own = (running = new AbortController());
    showError("");
    setBusy(button, true);
    try {
      await ask(asked, own);
    } catch (error) {
      if (error.name !== "AbortError") showError(error.message);
    } finally {
      if (running === own) {
        running = null;
        setBusy(button, false);
      }
    }
  };
  return {
    hide,
    offer(request, version) {
      hide();
      asked = { request, version };
      show(byId("reasons"), isPossible);
    },
  };
}

function expand(button, isExpanded) {
  button.setAttribute("aria-expanded", isExpanded);
  show(byId("explanation"), isExpanded);
}

function setBusy(button, isBusy) {
  button.classList.toggle("busy", isBusy);
  button.setAttribute("aria-disabled", isBusy);
}

function showError(text) {
  byId("why-error").textContent = text;
  show(byId("why-error"), text !== "");
}

/** Show explanations; several labels can be opened and closed one by one. */
function showExplanations(all) {
  const contents = all.map(makeExplained);
  const boxes = all.length < 2 ? contents : contents.map((content, index) => {
    const { label, probability } = all[index];
    const title = make("summary", {}, `${label} ${formatPercent(probability)}`);
    return make("details", { open: index === 0 }, title, content);
  });
  byId("explanation").replaceChildren(...boxes);
  byId("why-said").textContent = all.map(saidOf).join(" ");
}

const isNumber = ({ probability }) => probability === null;

function makeExplained(one) {
  const { parts, label } = one;
  const rule = isNumber(one)
    ? `The numbers are in the unit of ${label}.`
    : `The numbers are log-odds: +0.69 doubles the odds of ${label}, -0.69 halves them.`;
  const base = "The base is the prediction for a node without any values and links; the base and " +
    "all contributions sum to the result.";
  const rest = parts.some(({ kind }) => kind === "together")
    ? " “Together” is what words, tags or neighbours contribute jointly, beyond their single numbers."
    : "";
  const none = "None of the values changes the prediction, so the result is the base.";
  return make("div", { className: "explained" },
    ...(parts.length ? [makeSides(one), ...makeSidedBars(one)] : [make("p", {}, none)]),
    makeSum(one), make("p", { className: "hint" }, `${rule} ${base}${rest}`));
}

/** What a bar to the left and a bar to the right mean. */
function makeSides(one) {
  const [left, right] = isNumber(one)
    ? [`lowers ${one.label}`, `raises ${one.label}`]
    : [`against ${one.label}`, `for ${one.label}`];
  const sides = [make("span", {}, `◂ ${left}`), make("span", {}, `${right} ▸`)];
  return make("p", { className: "sides hint" }, ...sides);
}

function makeSidedBars(one) {
  const format = formatOf(one);
  const most = Math.max(...one.parts.map(({ contribution }) => Math.abs(contribution))) || 1;
  const items = one.parts.map(({ contribution, ...part }) => {
    const bar = make("span", { className: "bar" });
    bar.style.width = `${(50 * Math.abs(contribution)) / most}%`;
    const [column, value] = wordsOf(part);
    const item = make("li", {},
      make("span", {}, make("span", { className: "hint" }, column), ` ${value}`),
      make("span", { className: "number" }, format(contribution)),
      make("span", { className: "track", "aria-hidden": "true" }, bar));
    item.dataset.side = contribution < 0 ? "against" : "for";
    return item;
  });
  return makeFolded(make("ul", { className: "bars sided" }, ...items));
}

/** The column and the value of a part. The node is row 0, so neighbours are counted from 1. */
function wordsOf({ kind, column, value }) {
  return [column, kind === "neighbour" ? `neighbour ${value}` : value];
}

function makeSum(one) {
  const format = formatOf(one);
  const share = (p) => (p === null ? "" : ` (${formatPercent(p)})`);
  return makePairs([
    ["Base", format(one.base) + share(one.base_probability)],
    ["Contributions", format(one.score - one.base)],
    ["Result", format(one.score) + share(one.probability)],
  ]);
}

/** Numbers with a sign and the same decimals: two for log-odds, else five digits of the largest. */
function formatOf({ probability, base, score, parts }) {
  const all = [base, score, ...parts.map(({ contribution }) => contribution)].map(Math.abs);
  const size = Math.floor(Math.log10(Math.max(...all) || 1));
  const digits = probability === null ? Math.min(20, Math.max(0, 4 - size)) : 2;
  const options = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return new Intl.NumberFormat("en", { ...options, signDisplay: "exceptZero" }).format;
}

/** The strongest parts of both sides as sentences. */
function saidOf(one) {
  const { label, parts } = one;
  const [raises, lowers] = isNumber(one)
    ? [`Raises ${label}`, `Lowers ${label}`] : [`For ${label}`, `Against ${label}`];
  const listed = (sign) => {
    const found = parts.filter(({ contribution }) => sign * contribution > 0).slice(0, NAMED);
    return joinWords(found.map((part) => wordsOf(part).join(" ")), "and") || "nothing";
  };
  return `${raises}: ${listed(1)}. ${lowers}: ${listed(-1)}.`;
}
