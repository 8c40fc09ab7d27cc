// The upload of a table, and its predictions.

import { parseCsv } from "./csv.js";
import {
  byId, capitalise, FIRST, formatBytes, formatNumber, formatPercent, joinWords, make, plural, show,
  showNotices, UserError,
} from "./dom.js";
import { acceptDrops, whyUnusable } from "./files.js";
import { makeLinkFiles } from "./links.js";
import { predictTable, tables, usesLinks } from "./predict.js";
import { makeTask } from "./tasks.js";

export function makeTable(model) {
  const input = byId("file");
  let running = null;
  let table = null; // the last one
  let address = null;
  byId("file-hint").textContent = tableHint(model);
  byId("drop-names").textContent = tables.names;
  input.accept = tables.suffixes.join();
  setState("idle");

  const finish = ({ predictions, rows, notices }) => {
    URL.revokeObjectURL(address);
    address = URL.createObjectURL(new Blob(predictions.texts, { type: "text/csv" }));
    byId("download").href = address;
    setState("done");
    showTable(predictions, rows, links.files.length > 0);
    showNotices(byId("table-notices"), notices);
    byId("done-words").focus();
  };
  const take = async (chosen) => {
    if (!chosen || running) return;
    table = chosen;
    const linkBytes = links.files.reduce((sum, { size }) => sum + size, 0);
    const problem = whyUnusable(table, model.limits, linkBytes);
    if (problem) {
      showFailure(new UserError(problem));
      return;
    }
    running = new AbortController();
    showRunning(table);
    try {
      finish(await predict(model, { table, links: links.files }, running.signal));
    } catch (error) {
      if (error.name === "AbortError") showCancelled();
      else showFailure(error);
    } finally {
      running = null;
    }
  };
  const links = makeLinkFiles(model, {
    onChosen: () => take(table), // again, with links, if there was a table
    onProblem: showFailure,
  });

  byId("cancel").onclick = () => running?.abort();
  input.onchange = () => {
    const [chosen] = input.files;
    input.value = ""; // so that the same file can be chosen again after a correction
    take(chosen);
  };
  acceptDrops([
    [byId("links-drop"), (files) => running || links.take(files)],
    [byId("drop"), ([chosen]) => take(chosen)],
  ]);
}

function setState(state) {
  byId("table").dataset.state = state;
  show(byId("drop"), state !== "running");
  show(byId("links-drop"), usesLinks && state !== "running");
  show(byId("running"), state === "running");
  show(byId("done"), state === "done");
  show(byId("file-error"), state === "failed");
  byId("file-error").replaceChildren();
  if (state === "failed") byId("file").setAttribute("aria-invalid", "true");
  else byId("file").removeAttribute("aria-invalid");
}

function showRunning({ name, size }) {
  setState("running");
  byId("running-name").textContent = name;
  byId("running-size").textContent = formatBytes(size);
  byId("table-said").textContent = `Uploading ${name}`;
  byId("cancel").focus();
}

function showCancelled() {
  setState("idle");
  byId("table-said").textContent = "Cancelled. No predictions were kept.";
  byId("file").focus();
}

function showFailure({ message, columns = {} }) {
  setState("failed");
  const more = Object.values(columns).filter((text) => !message.includes(text));
  byId("file-error").append(make("p", {}, message));
  if (more.length) {
    byId("file-error").append(make("ul", {}, ...more.map((text) => make("li", {}, text))));
  }
  byId("file").focus();
}

function tableHint({ columns, id, limits }) {
  const names = columns.map((column) => column.name);
  const needed = names.length > 8 ? [`the model’s ${names.length} columns`] : names;
  const all = joinWords(id ? [`${id} (the id)`, ...needed] : needed, "and");
  return `Needed columns: ${all}. Largest size: ${formatBytes(limits.file_bytes)}.`;
}

/** Predict a table and show how far it is; returns its predictions, their number and notices. */
async function predict(model, files, signal) {
  const predictions = new Predictions(makeTask(model));
  const { words } = predictions.task;
  showProgress("Uploading", 0);
  const { rows, notices } = await predictTable(files, {
    signal,
    onUpload(share) {
      if (share < 1) {
        showProgress(`Uploading, ${formatPercent(share)}`, share);
        return;
      }
      showProgress("Reading the file …", null);
      byId("table-said").textContent = `${words.busy} ${files.table.name}`;
    },
    onRows({ csv, done, total }) {
      predictions.add(csv);
      const count = total ? `${formatNumber(done)} of ${formatNumber(total)}` : formatNumber(done);
      showProgress(`${capitalise(words.done)} ${count} rows`, total ? done / total : null);
    },
  });
  return { predictions, rows, notices };
}

function showProgress(text, share) {
  byId("running-words").textContent = text;
  if (share === null) byId("progress").removeAttribute("value");
  else byId("progress").value = share;
}

/** The predictions received so far: their text, a summary, the first rows. */
class Predictions {
  texts = [];
  head = null;
  first = [];
  count = 0;

  constructor(task) {
    this.task = task;
  }

  /** The cells of a row after its id, if it has one. */
  cells(row) {
    return row.slice(-this.task.columns);
  }

  add(text) {
    this.texts.push(text);
    for (const row of parseCsv(text)) {
      if (this.head === null) this.head = row;
      else this.addRow(row);
    }
  }

  addRow(row) {
    this.task.summary.add(this.cells(row));
    this.count += 1;
    if (this.first.length < FIRST) this.first.push(row);
  }
}

function showTable(table, count, hasLinks) {
  const { words, summary, head, row: textsOf, columns } = table.task;
  const withLinks = hasLinks ? " with links" : "";
  byId("done-words").textContent = `${plural(count, "row")} ${words.done}${withLinks}`;
  byId("counts-title").textContent = words.summary;
  byId("counts").replaceChildren(...summary.show());

  const hasId = table.head?.length > columns;
  const names = [[hasId ? table.head[0] : "row", ""], ...head];
  const titles = names.map(([name, className]) => make("th", { scope: "col", className }, name));
  const rows = table.first.map((row, index) => {
    const id = make("th", { scope: "row" }, hasId ? row[0] : formatNumber(index + 1));
    const texts = textsOf(table.cells(row));
    const cells = texts.map((text, k) => make("td", { className: head[k][1] }, text));
    return make("tr", {}, id, ...cells);
  });
  byId("preview-title").textContent = count > FIRST ? `The first ${FIRST} rows` : "The rows";
  const top = make("thead", {}, make("tr", {}, ...titles));
  byId("preview").replaceChildren(top, make("tbody", {}, ...rows));
}
