// Predict with onnxruntime-node alone.
//
// npm install --ignore-scripts onnxruntime-node
// node onnx_predict.mjs model.onnx nodes.csv
//
// The file is one that `linkdist export` wrote: its inputs are the columns of the table. For each row
// the program prints the class and its probability; a number and its prediction interval; or the
// labels with their probabilities. Numbers must have a decimal point, and dates the form 2004-05-31.

import { readFileSync } from "node:fs";
import ort from "onnxruntime-node";

const MISSING = new Set(["", "#n/a", "-nan", "n/a", "na", "nan", "none", "null"]);
const DATE = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?))?(Z|[+-]\d\d:\d\d)?$/;
const ROWS = 1000; // a batch, so that a table of any size needs little memory

// The rows of a CSV file as lists of texts; quoted texts may contain commas, quotes and new lines.
function parse(csv) {
  const rows = [[]];
  const cell = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/gy;
  for (let part = cell.exec(csv); part; part = cell.exec(csv)) {
    rows.at(-1).push(part[1] === undefined ? part[2] : part[1].replaceAll('""', '"'));
    if (cell.lastIndex >= csv.length) break;
    if (part[3] !== ",") rows.push([]);
  }
  return rows.filter((row) => row.length > 1 || row[0] !== "");
}

// A number, or a date as seconds since 1970; NaN if it is missing or cannot be read.
function number(name, text) {
  const value = text.trim();
  if (MISSING.has(value.toLowerCase())) return NaN;
  const truth = ["false", "true"].indexOf(value.toLowerCase());
  if (truth >= 0) return truth;
  const date = DATE.exec(value);
  const found = date ? Date.parse(`${date[1]}T${date[2] ?? "00:00"}${date[3] ?? "Z"}`) / 1000 : Number(value);
  if (Number.isNaN(found)) console.error(`column '${name}': '${value}' is read as missing.`);
  return found;
}

function tensor({ name, type, shape }, texts) {
  if (type === "string") return new ort.Tensor("string", texts, [texts.length]);
  if (shape.length === 1) return new ort.Tensor(type, texts.map((text) => number(name, text)), [texts.length]);
  return stop(`column '${name}' contains vectors, which CSV cannot store.`);
}

function stop(reason) {
  console.error(reason);
  process.exit(1);
}

const percent = (p) => `${(100 * p).toFixed(1)}%`;

function line(outputs, i) {
  const { label, labels, probabilities, value, low, high } = outputs;
  if (value) {
    const ends = low ? `, ${low.data[i].toPrecision(5)} to ${high.data[i].toPrecision(5)}` : "";
    return `${value.data[i].toPrecision(5)}${ends}`;
  }
  const C = probabilities.dims[1];
  const p = probabilities.data.slice(i * C, (i + 1) * C);
  if (label) return `${label.data[i]}, ${percent(Math.max(...p))}`;
  const found = labels.data.slice(i * C, (i + 1) * C).map((name, k) => name && `${name} ${percent(p[k])}`);
  return found.filter(Boolean).join(", ") || "no label";
}

const [model, table] = process.argv.slice(2);
const session = await ort.InferenceSession.create(model);
if (session.inputNames.join() === "features") {
  stop(`${model} takes features, not columns; \`linkdist export\` says why.`);
}
const [header, ...nodes] = parse(readFileSync(table, "utf8").replace(/^\ufeff/, ""));
const missing = session.inputNames.filter((name) => !header.includes(name));
if (missing.length) stop(`${table} lacks columns that the model takes: ${missing.join(", ")}.`);
for (let start = 0; start < nodes.length; start += ROWS) {
  const rows = nodes.slice(start, start + ROWS);
  const inputs = {};
  for (const input of session.inputMetadata) {
    const place = header.indexOf(input.name);
    inputs[input.name] = tensor(input, rows.map((row) => row[place]));
  }
  const outputs = await session.run(inputs);
  console.log(rows.map((_, i) => line(outputs, i)).join("\n"));
}
