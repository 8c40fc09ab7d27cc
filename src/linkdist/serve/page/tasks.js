// What differs between the tasks: the words of the page, the result of a node, and of a table.

import {
  capitalise, FIRST, formatNumber, formatPercent, joinWords, make, makeBars, makeCountBars,
  makePairs,
} from "./dom.js";

/** A number in the unit of the training table. */
const formatValue = new Intl.NumberFormat("en", { maximumSignificantDigits: 5 }).format;

const byProbability = (probabilities) =>
  Object.entries(probabilities).sort(([, a], [, b]) => b - a);

const makeShares = (entries) => makeBars(entries.map(([name, p]) => [name, p, formatPercent(p)]));

/** What is predicted, as a name: a label column, or a word for several or none. */
function targetOf({ label }, word) {
  if (Array.isArray(label)) return label.length === 1 ? label[0] : word;
  return label ?? word;
}

const listOf = (classes, word, last) =>
  classes.length <= 6 ? joinWords(classes, last) : `${formatNumber(classes.length)} ${word}`;

function makeClassTask(model) {
  const target = targetOf(model, "class");
  return {
    words: {
      action: "Classify", busy: "Classifying", done: "classified", summary: "Rows of each class",
      what: [
        "Predicts a node’s ", make("b", {}, target),
        ` (${model.classes.length > 6 ? "one of " : ""}${listOf(model.classes, "classes", "or")})`,
      ],
      empty: "The probability of each class will appear here.",
    },
    empty: () => makeBars(model.classes.map((name) => [name, 0, ""])),
    result({ label, confidence, probabilities }) {
      const sorted = byProbability(probabilities);
      const share = make("span", { className: "number" }, formatPercent(confidence));
      const others = sorted.slice(1, 3).map(([name, p]) => `${name} ${formatPercent(p)}`);
      const next = others.join(", ") || "none";
      return {
        target,
        verdict: [label, share],
        bars: makeShares(sorted),
        said: `${target}: ${label}, confidence ${formatPercent(confidence)}. Next: ${next}.`,
      };
    },
    columns: model.classes.length + 2, // label, confidence and the probabilities
    summary: new Counts(model.classes, ([label]) => [label]),
    head: [[targetOf(model, "label"), ""], ["confidence", "number"]],
    row: ([label, confidence]) => [label, formatPercent(Number(confidence))],
  };
}

function makeNumberTask(model) {
  const target = targetOf(model, "number");
  const share = model.coverage === null ? "" : ` ${Number((100 * model.coverage).toFixed(1))}%`;
  return {
    words: {
      action: "Predict", busy: "Predicting", done: "predicted", summary: "Predicted numbers",
      what: ["Predicts a node’s ", make("b", {}, target), ", a number,"],
      empty: "The number and its prediction interval will appear here.",
    },
    empty: () => [],
    result({ predicted, low, high }) {
      const has = low !== null && high !== null;
      const ends = has ? [low, high].map(formatValue) : [];
      const rule = has
        ? `The${share} prediction interval is ${ends[0]} to ${ends[1]}.`
        : "The model has no prediction intervals: its training had too few validation rows.";
      return {
        target,
        verdict: [make("span", {}, formatValue(predicted))],
        bars: [...(has ? [makeInterval(predicted, low, high)] : []),
          make("p", { className: "hint" }, rule)],
        said: `${target}: ${formatValue(predicted)}. ${rule}`,
      };
    },
    columns: 3, // predicted, low and high
    summary: new Extremes(),
    head: [[target, "number"], ["low", "number"], ["high", "number"]],
    row: (cells) => cells.map((cell) => (cell === "" ? "–" : formatValue(Number(cell)))),
  };
}

function makeLabelsTask(model) {
  const { classes, separator } = model;
  const target = targetOf(model, "labels");
  const decided = separator === null
    ? (cells) => classes.filter((_, index) => cells[index] === "1")
    : ([text]) => (text === "" ? [] : text.split(separator));
  return {
    words: {
      action: "Predict", busy: "Predicting", done: "predicted", summary: "Rows with each label",
      what: [
        "Predicts a node’s ", make("b", {}, target),
        ` (any of ${listOf(classes, "labels", "and")})`,
      ],
      empty: "The labels and the probability of each will appear here.",
    },
    empty: () => makeBars(classes.map((name) => [name, 0, ""])),
    result({ labels, probabilities, mode }) {
      const chips = labels.map((name) => makeChip(name, probabilities[name]));
      const sorted = byProbability(probabilities);
      const least = new Map(classes.map((name, k) => [name, model.thresholds?.[mode]?.[k] ?? 0.5]));
      const bars = makeBars(sorted.map(([name, p]) =>
        [name, p, formatPercent(p), { mark: least.get(name), isChosen: labels.includes(name) }]));
      const rule = "A label is predicted if its probability reaches the mark.";
      const shares = labels.map((name) => `${name} ${formatPercent(probabilities[name])}`);
      return {
        target,
        verdict: chips.length ? chips : ["No label"],
        bars: [...bars, make("p", { className: "hint" }, rule)],
        said: `${target}: ${shares.join(", ") || "no label"}.`,
      };
    },
    columns: (separator === null ? classes.length : 1) + classes.length, // and the probabilities
    summary: new Counts(classes, decided),
    head: [[target, ""]],
    row: (cells) => [decided(cells).join(", ") || "–"],
  };
}

function makeChip(name, p) {
  const share = make("span", { className: "number" }, formatPercent(p));
  return make("span", { className: "chip" }, name, " ", share);
}

/** A line from the low to the high end, with the number on it. */
function makeInterval(value, low, high) {
  const dot = make("span", { className: "dot" });
  dot.style.left = `${high > low ? (100 * (value - low)) / (high - low) : 50}%`;
  const line = make("div", { className: "line" }, dot);
  const ends = [low, high].map((end) => make("span", { className: "number" }, formatValue(end)));
  return make("div", { className: "interval", "aria-hidden": "true" }, line, ...ends);
}

/** How many rows of a table have each class or label. */
class Counts {
  rows = 0;

  constructor(classes, labelsOf) {
    this.counts = new Map(classes.map((name) => [name, 0]));
    this.labelsOf = labelsOf;
  }

  add(cells) {
    this.rows += 1;
    for (const text of this.labelsOf(cells)) {
      // In a CSV file, a label that looks like a formula has a leading apostrophe.
      const label = this.counts.has(text) ? text : text.replace(/^'/, "");
      this.counts.set(label, (this.counts.get(label) ?? 0) + 1);
    }
  }

  show() {
    return makeCountBars([...this.counts].sort(([, a], [, b]) => b - a), this.rows);
  }
}

/** The mean and the extremes of predicted numbers. */
class Extremes {
  rows = 0;
  sum = 0;
  low = Infinity;
  high = -Infinity;

  add([cell]) {
    const value = Number(cell);
    this.rows += 1;
    this.sum += value;
    this.low = Math.min(this.low, value);
    this.high = Math.max(this.high, value);
  }

  show() {
    const facts = { smallest: this.low, mean: this.sum / this.rows, largest: this.high };
    const pairs = Object.entries(facts).map(([key, value]) => [capitalise(key), formatValue(value)]);
    return [makePairs(pairs)];
  }
}

const TASKS = {
  classification: makeClassTask, regression: makeNumberTask, multilabel: makeLabelsTask,
};

/** The words, results and summaries of a model; summaries count one table. */
export const makeTask = (model) => TASKS[model.task ?? "classification"](model);

/** The scores of a model, the share of a hundred as a percentage. */
export function formatScores(scores) {
  const isNumber = (key) => /^(R²|mean absolute error)/i.test(key);
  return Object.entries(scores)
    .filter(([key, value]) => key !== "validation nodes" && typeof value === "number")
    .map(([key, value]) => [key, isNumber(key) ? formatValue(value) : formatPercent(value)])
    .slice(0, FIRST);
}
