// What the page asks for, computed in the browser by ONNX Runtime: it replaces the file with the
// same name in a page without a service. `linkdist` is the object in model.js and runtime.js.

import { findSeparator, parseCsv } from "./csv.js";
import { UserError } from "./dom.js";
import { Formulas } from "./formulas.js";
import { readColumn, Tally } from "./values.js";

const ROWS = 1000; // a batch, after which the page can react

/** There is no service, so there is nothing to link to but the files beside the page. */
export const addresses = linkdist.addresses;

export const usesLinks = false;
export const tables = {
  names: "CSV or JSON lines", suffixes: [".csv", ".tsv", ".jsonl", ".ndjson"],
};

let session = null;

export async function modelInfo() {
  session = await open();
  return linkdist.info;
}

async function open() {
  const glue = new Blob([await unpack(linkdist.glue)], { type: "text/javascript" });
  ort.env.wasm.numThreads = 1; // threads need headers that a file on disk does not have
  ort.env.wasm.wasmBinary = await unpack(linkdist.wasm);
  ort.env.wasm.wasmPaths = { mjs: URL.createObjectURL(glue) };
  return ort.InferenceSession.create(await unpack(linkdist.onnx));
}

/** The bytes of a file that was compressed and written as text. */
async function unpack(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export async function predictRows({ rows }) {
  const tallies = linkdist.columns.map((column) => new Tally(column));
  const outputs = await run(rows.length, (name) => rows.map((row) => row[name]), tallies);
  for (const tally of tallies) tally.check();
  const predictions = rows.map((_, row) => ({ ...predictionOf(outputs, row), mode: "features" }));
  return { version: linkdist.info.version, predictions, notices: noticesOf(tallies) };
}

/** An explanation takes hundreds of predictions, which only the service computes. */
export const explainRows = null;

export async function predictTable({ table }, { signal, onUpload, onRows }) {
  onUpload(1);
  const { head, rows } = await readTable(table);
  const { id } = linkdist.info;
  const names = [...(id ? [id] : []), ...linkdist.columns.map(({ name }) => name)];
  const absent = names.filter((name) => !head.includes(name));
  if (absent.length) {
    throw new UserError(`${table.name} lacks the columns ${absent.join(", ")}. ` +
      `It has ${head.join(", ")}.`);
  }
  if (!rows.length) throw new UserError(`${table.name} has no rows.`);
  const tallies = linkdist.columns.map((column) => new Tally(column));
  const formulas = new Formulas([...(id ? [id] : []), ...linkdist.names]);
  const total = rows.length;
  for (let start = 0; start < total; start += ROWS) {
    if (signal?.aborted) throw new DOMException("The prediction was cancelled.", "AbortError");
    const batch = rows.slice(start, start + ROWS);
    const outputs = await run(batch.length, (name) => {
      const place = head.indexOf(name);
      return batch.map((row) => row[place]);
    }, tallies);
    const lines = batch.map((row, index) =>
      formulas.row([...(id ? [row[head.indexOf(id)]] : []), ...cellsOf(outputs, index)]));
    const csv = [...(start ? [] : [formulas.header()]), ...lines].map(formatLine).join("");
    onRows({ csv, done: start + batch.length, total });
    await new Promise((resolve) => { setTimeout(resolve); });
  }
  for (const tally of tallies) tally.check();
  return { rows: total, notices: [...noticesOf(tallies), ...formulas.notices()] };
}

async function readTable(file) {
  const name = file.name.toLowerCase();
  const text = (await file.text()).replace(/^\ufeff/, "");
  if (/\.(jsonl|ndjson)$/.test(name)) return readLines(file.name, text);
  const separator = name.endsWith(".tsv") ? "\t" : findSeparator(text.split("\n", 1)[0]);
  const [head = [], ...rows] = [...parseCsv(text, separator)].filter((row) =>
    row.length > 1 || row[0] !== "");
  const wrong = rows.findIndex((row) => row.length !== head.length);
  if (wrong >= 0) {
    throw new UserError(`${file.name}: row ${wrong + 1} has ${rows[wrong].length} cells, but the ` +
      `header has ${head.length}.`);
  }
  return { head, rows };
}

function readLines(name, text) {
  const lines = text.split("\n").filter((line) => line.trim());
  const objects = lines.map((line, index) => {
    try {
      return JSON.parse(line);
    } catch {
      throw new UserError(`${name}: line ${index + 1} is not JSON.`);
    }
  });
  const head = [...new Set(objects.flatMap((object) => Object.keys(object)))];
  return { head, rows: objects.map((object) => head.map((key) => object[key] ?? null)) };
}

/** Run the model on rows whose values `valuesOf(name)` returns, by column. */
async function run(count, valuesOf, tallies) {
  const feed = {};
  linkdist.columns.forEach((column, index) => {
    const { name, kind, width } = column;
    const values = readColumn(column, valuesOf(name), tallies[index]);
    const type = { numeric: "float64", date: "float64", vector: "float32" }[kind] ?? "string";
    feed[name] = new ort.Tensor(type, values, kind === "vector" ? [count, width] : [count]);
  });
  return session.run(feed);
}

const noticesOf = (tallies) => tallies.map((tally) => tally.notice()).filter(Boolean);

/** The shortest number that is the same in single precision. */
function short(value) {
  for (let digits = 6; digits < 9; digits += 1) {
    const found = Number(value.toPrecision(digits));
    if (Math.fround(found) === value) return found;
  }
  return value;
}

function predictionOf({ label, labels, probabilities, value, low, high }, row) {
  if (value) {
    const [predicted, ...ends] = [value, low, high].map((part) => part && short(part.data[row]));
    return { predicted, low: ends[0] ?? null, high: ends[1] ?? null };
  }
  const { classes } = linkdist.info;
  const shares = Array.from(classes, (_, k) => short(probabilities.data[row * classes.length + k]));
  const byClass = Object.fromEntries(classes.map((name, k) => [name, shares[k]]));
  if (label) {
    const name = label.data[row];
    return { label: name, confidence: byClass[name], probabilities: byClass };
  }
  const found = classes.filter((_, k) => labels.data[row * classes.length + k] !== "");
  return { labels: found, probabilities: byClass };
}

/** The cells of a row in a table of predictions, as `linkdist predict` writes them. */
function cellsOf(outputs, row) {
  const found = predictionOf(outputs, row);
  const { classes, separator, task } = linkdist.info;
  if (task === "regression") return [found.predicted, found.low, found.high];
  const shares = classes.map((name) => found.probabilities[name]);
  if (task === "classification") return [found.label, found.confidence, ...shares];
  const isFound = classes.map((name) => (found.labels.includes(name) ? 1 : 0));
  return [...(separator === null ? isFound : [found.labels.join(separator)]), ...shares];
}

function formatLine(cells) {
  const quote = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return `${cells.map((cell) => quote(String(cell ?? ""))).join(",")}\n`;
}
