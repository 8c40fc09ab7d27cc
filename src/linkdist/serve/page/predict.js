// What the page asks the service for. A page without a service replaces this file, and only this.
//
// modelInfo()                          the description of the model, as in GET /v1/model
// predictRows(request, options)        the predictions of rows, as in POST /v1/predict
// explainRows(request, options)        what speaks for them, as in POST /v1/explain; may be null
// predictTable(files, options)         the predictions of a table, as CSV text in parts
//
// What is wrong with a request or with the connection is thrown as a UserError. An `AbortSignal` in
// `options.signal` ends a request with an error that is called AbortError.

import { UserError } from "./dom.js";

const NO_ANSWER =
  "The service does not answer. It may have stopped, or the connection may be lost. " +
  "Check that it runs, then try again.";

/** What the page links to; an address that is left out is not shown. */
export const addresses = {
  docs: "docs",
  openapi: "openapi.json",
  curve: "v1/model/curve.svg",
  report: "v1/model/report.html",
};

/** Whether predictions can use links, and which files can be tables. */
export const usesLinks = true;
export const tables = {
  names: "CSV, JSON lines or Parquet",
  suffixes: [".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".pq"],
};

export const modelInfo = () => fetchJson("v1/model");

export const openapi = () => fetchJson(addresses.openapi);

/** Predict `{ rows, neighbours, links }`; returns `{ version, predictions, notices }`. */
export const predictRows = (request, options) => postJson("v1/predict", request, options);

/** Explain the same request; returns `{ version, explanations, notices }`. */
export const explainRows = (request, options) => postJson("v1/explain", request, options);

function postJson(path, request, { signal } = {}) {
  const headers = { "Content-Type": "application/json" };
  const body = JSON.stringify(request);
  return fetchJson(path, { method: "POST", headers, body, signal });
}

/**
 * Predict a table, with the links between its rows if there are files of them.
 *
 * `onUpload(share)` is called with numbers from 0 to 1, and `onRows({ csv, done, total })` for each
 * part of the predictions; the first has the CSV header. `total` is null if it is not known.
 * Returns `{ rows, notices }`. Only XMLHttpRequest reports the progress of an upload.
 */
export function predictTable({ table, links = [] }, { signal, onUpload, onRows }) {
  const request = new XMLHttpRequest();
  const answer = new Lines();
  return new Promise((resolve, reject) => {
    const receive = () => {
      for (const line of answer.read(request.responseText)) {
        if (line.error !== undefined) reject(UserError.from(request.status, line));
        if (line.csv !== undefined) onRows({ ...line, total: answer.total });
        if (line.end !== undefined) resolve({ rows: line.end, notices: line.notices });
      }
    };
    request.upload.onprogress = ({ loaded, total }) => onUpload(loaded / total);
    request.upload.onload = () => onUpload(1);
    request.onprogress = () => {
      if (request.status === 200) receive();
    };
    request.onload = () => {
      if (request.status === 200) receive();
      else reject(UserError.from(request.status, parseJson(request.responseText)));
      const rows = `${answer.done} ${answer.done === 1 ? "row" : "rows"}`;
      reject(new UserError(`The connection was lost after ${rows}. Try again.`));
    };
    request.onerror = () => reject(new UserError(NO_ANSWER));
    request.onabort = () => reject(new DOMException("The request was cancelled.", "AbortError"));
    signal?.addEventListener("abort", () => request.abort());
    upload(request, table, links);
  });
}

function upload(request, table, links) {
  const path = "v1/predict/table";
  const query = `?name=${encodeURIComponent(table.name)}`;
  request.open("POST", links.length ? path : path + query);
  request.setRequestHeader("Accept", "application/x-ndjson");
  if (!links.length) {
    request.send(table);
    return;
  }
  const form = new FormData();
  form.append("file", table);
  for (const file of links) form.append("links", file);
  request.send(form);
}

/** The lines of JSON in an answer that is still arriving. */
class Lines {
  total = null;
  done = 0;
  #read = 0;

  *read(text) {
    for (let stop; (stop = text.indexOf("\n", this.#read)) >= 0; this.#read = stop + 1) {
      if (stop === this.#read) continue;
      const line = JSON.parse(text.slice(this.#read, stop));
      this.total = line.total ?? this.total;
      this.done = line.done ?? this.done;
      yield line;
    }
  }
}

function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Send any request; returns `{ status, kind, text }`. Only the reference uses it. */
export async function sendRequest(path, options) {
  const response = await ask(path, options);
  const kind = (response.headers.get("Content-Type") ?? "").split(";")[0];
  return { status: response.status, kind, text: await response.text() };
}

async function ask(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    throw error.name === "AbortError" ? error : new UserError(NO_ANSWER);
  }
}

async function fetchJson(path, options = {}) {
  const response = await ask(path, options);
  const body = await response.json().catch(() => null);
  if (!response.ok || body === null) throw UserError.from(response.status, body);
  return body;
}
