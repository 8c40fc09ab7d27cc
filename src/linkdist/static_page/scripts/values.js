// Values of a table or a form as the inputs of an ONNX file. The rules are those of
// linkdist.tables.parsing: tables are read alike in the browser and by `linkdist predict`.

import { plural, UserError } from "./dom.js";

const MISSING = new Set(["", "#n/a", "-nan", "n/a", "na", "nan", "none", "null"]);
const TRUTH = new Map([["true", 1], ["false", 0]]);
const CURRENCY = "(?:[$€£¥₹]|USD|EUR|GBP|CHF|JPY|INR|CNY)";
const MONEY = new RegExp(
  `^([-+]?)\\s*${CURRENCY}?\\s*([-+]?)(\\d[\\d.,'’\\s]*?)\\s*(?:%|${CURRENCY})?$`);
const PLAIN = /^[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?$/i;
const GROUPS = [".", ",", "'", "’", " ", "\u00a0", "\u202f"];
const MONTHS = [
  "january", "february", "march", "april", "may", "june", "july", "august", "september", "october",
  "november", "december",
];
const ISO = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d)(?::?(\d\d)(?::?(\d\d)(\.\d+)?)?)?(Z|[+-]\d\d:?\d\d)?)?$/;
const FAR = 3.4028234663852886e38; // a number that float32 cannot represent counts as missing
const TOLERATED = 0.1; // the share of values that may be unreadable and count as missing

/** The inputs of a column for rows; problems are counted in `tally`. */
export function readColumn(column, values, tally) {
  const { kind, width, separator } = column;
  tally.rows += values.length;
  if (kind === "numeric" || kind === "date") {
    return Float64Array.from(values, (value) => readOne(column, value, tally));
  }
  if (kind === "vector") return readVectors(values, width, tally);
  return values.map((value) => {
    const text = Array.isArray(value) ? value.join(separator ?? " ") : String(value ?? "");
    if (text === "") tally.missing += 1;
    return text;
  });
}

/** What was found in the values of a column. */
export class Tally {
  rows = 0;
  missing = 0;
  unreadable = 0;
  examples = [];

  constructor(column) {
    this.column = column;
  }

  wrong(value) {
    this.unreadable += 1;
    if (this.examples.length < 3) this.examples.push(String(value));
    return NaN;
  }

  /** Throw an error if too many values are unreadable. */
  check() {
    if (this.unreadable <= TOLERATED * (this.rows - this.missing)) return;
    const { name, kind } = this.column;
    const rule = { numeric: "numbers", date: "dates", vector: "lists of numbers" }[kind];
    const found = this.examples.map((text) => `“${text}”`).join(", ");
    const text = `Column ${name} must contain ${rule}; found ${found}.`;
    throw new UserError(text, { [name]: text });
  }

  notice() {
    const parts = [];
    if (this.missing) parts.push(`${this.missing} ${this.missing === 1 ? "is" : "are"} missing`);
    if (this.unreadable) {
      const such = this.examples.map((text) => `“${text}”`).join(", ");
      parts.push(`${this.unreadable} cannot be read, such as ${such}, and count as missing`);
    }
    return parts.length
      ? `Column ${this.column.name}: of ${plural(this.rows, "value")}, ${parts.join(", and ")}.`
      : "";
  }
}

function readOne({ kind, decimal, format }, value, tally) {
  if (typeof value === "number" && kind === "numeric") return near(value, tally);
  const text = String(value ?? "").trim();
  if (MISSING.has(text.toLowerCase())) {
    tally.missing += 1;
    return NaN;
  }
  const found = kind === "numeric" ? parseNumber(text, decimal) : parseDate(text, format);
  return found === null ? tally.wrong(text) : near(found, tally);
}

const near = (value, tally) => (Math.abs(value) > FAR ? tally.wrong(value) : value);

function readVectors(values, width, tally) {
  const inputs = new Float32Array(values.length * width).fill(NaN);
  values.forEach((value, row) => {
    const list = typeof value === "string" && value.trim() ? parseList(value) : value;
    if (list === null || list === undefined || list === "" || list.length === 0) tally.missing += 1;
    else if (!Array.isArray(list) || list.length !== width) tally.wrong(value);
    else inputs.set(list, row * width);
  });
  return inputs;
}

function parseList(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** A number, an amount of money, a percentage or a truth value; null if it is none of them. */
export function parseNumber(text, decimal = ".") {
  if (decimal === "." && PLAIN.test(text)) return Number(text);
  const truth = TRUTH.get(text.toLowerCase());
  if (truth !== undefined) return truth;
  const amount = MONEY.exec(text);
  if (!amount || (amount[1] && amount[2])) return null;
  const [, before, after, digits] = amount;
  for (const group of GROUPS.filter((mark) => mark !== decimal)) {
    const [point, comma] = [decimal, group].map((mark) => mark.replace(/[.']/g, "\\$&"));
    if (new RegExp(`^(?:\\d+|\\d{1,3}(?:${comma}\\d{3})+)(?:${point}\\d*)?$`).test(digits)) {
      const plain = digits.replaceAll(group, "").replace(decimal, ".");
      return Number(`${before}${after}${plain}`);
    }
  }
  return null;
}

/** Seconds since 1970 of a date in a format or in ISO form; null if it is neither. */
export function parseDate(text, format = "ISO") {
  return (format === "ISO" ? null : parseFormat(text, format)) ?? parseIso(text);
}

function parseIso(text) {
  const found = ISO.exec(text);
  if (!found) return null;
  const [, year, month, day, hour = 0, minute = 0, second = 0, rest = 0, zone] = found;
  const days = daysOf(Number(year), Number(month), Number(day));
  if (days === null || hour > 23 || minute > 59 || second > 59) return null;
  const seconds = 86400 * days + 3600 * hour + 60 * minute + Number(second) + Number(rest);
  if (!zone || zone === "Z") return seconds;
  const [, sign, hours, minutes] = /([+-])(\d\d):?(\d\d)/.exec(zone);
  return seconds - (sign === "-" ? -60 : 60) * (60 * hours + Number(minutes));
}

const PARTS = {
  "%Y": "(?<Y>\\d{4})", "%m": "(?<m>\\d{1,2})", "%d": "(?<d>\\d{1,2})", "%H": "(?<H>\\d{1,2})",
  "%M": "(?<M>\\d{1,2})", "%b": "(?<b>\\p{L}+)", "%B": "(?<b>\\p{L}+)", ".": "\\.",
};

function parseFormat(text, format) {
  const pattern = format.replace(/%\w|\./g, (code) => PARTS[code]);
  const found = new RegExp(`^${pattern}$`, "u").exec(text)?.groups;
  if (!found) return null;
  const name = found.b?.toLowerCase();
  const month = name ? 1 + MONTHS.findIndex((one) => one === name || one.slice(0, 3) === name)
    : Number(found.m);
  const days = daysOf(Number(found.Y), month, Number(found.d));
  const [hour, minute] = [Number(found.H ?? 0), Number(found.M ?? 0)];
  return days === null || hour > 23 || minute > 59 ? null : 86400 * days + 3600 * hour + 60 * minute;
}

/** Days since 1970; null for a day that does not exist, such as 30 February. */
function daysOf(year, month, day) {
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  const isReal = date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
  return isReal ? Math.round(date.getTime() / 86400000) : null;
}
